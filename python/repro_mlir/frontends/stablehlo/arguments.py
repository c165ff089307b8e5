# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Arguments of the functions that are captured."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of `count` positional arguments as the function has them, each once; `argument.N` where it has none."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{number}" for number in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [*names, *(f"argument.{number}" for number in range(len(names), count))][:count]
