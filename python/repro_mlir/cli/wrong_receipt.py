# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The answer of the commands that read one receipt, if the receipt is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from repro_mlir.base.command_line import Status
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.base.printing import foreign, tell


def tell_wrong(report: Mapping[str, Any], wrong: ReceiptWrong, as_json: bool) -> int:
    """Prints that a receipt is wrong, and returns the status of that answer.

    Args:
      report: what the JSON object begins with, such as the path of the receipt.
    """
    found = {
        "right": False,
        "step": wrong.step,
        "is_change": wrong.is_change,
        "place": wrong.place,
        "message": str(wrong),
        "expected": wrong.expected,
        "actual": wrong.actual,
    }
    if as_json:
        tell(json.dumps({**report, **found}))
        return Status.WRONG
    tell(f"WRONG    {wrong}")
    if wrong.expected is not None:
        labels = ("given", "receipt") if wrong.is_given else ("receipt", "found")
        for label, value in zip(labels, (wrong.expected, str(wrong.actual)), strict=True):
            tell(f"{label:8} {foreign(value)}")
    return Status.WRONG
