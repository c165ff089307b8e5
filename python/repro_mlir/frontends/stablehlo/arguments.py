# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Names for the arguments of captured functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Returns unique names for `count` positional arguments: the function's parameter names, else `argument.N`."""
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
