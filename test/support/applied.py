# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A function of tensors as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Applied(torch.nn.Module):
    """Calls a function; has no parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: Any) -> Any:
        """Returns the result of the function."""
        return self.function(*values)
