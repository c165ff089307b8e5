# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Functions whose keyword arguments a TypedDict lists."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from repro_mlir.base.near_names import did_you_mean

_SYNONYMS = {
    "clip_grad_norm": "clip_norm",
    "clip_grad_norm_": "clip_norm",
    "gradient_clip_val": "clip_norm",
    "grad_clip": "clip_norm",
    "max_grad_norm": "clip_norm",
    "max_norm": "clip_norm",
    "device": "target",
    "grad_scaler": "loss_scale",
    "scaler": "loss_scale",
    "accumulate_grad_batches": "microbatches",
    "gradient_accumulation_steps": "microbatches",
}
"""Keywords of this package, by the names that other libraries use."""

F = TypeVar("F", bound=Callable[..., Any])


def accepts_keywords(keywords: type, options: type, **defaults: Any) -> Callable[[F], F]:
    """Decorates a function with `**given: Unpack[keywords]` so that it behaves as if it listed these keywords.

    The signature of the function shows each keyword with its default, and any other keyword is a TypeError.

    Args:
      keywords: a TypedDict.
      options: the dataclass that the function creates; its fields have the defaults.
      defaults: the defaults of keywords that are not fields.
    """

    def decorate(function: F) -> F:
        known = {parameter.name: parameter for parameter in inspect.signature(function).parameters.values()}
        known.popitem()
        for name, kind in keywords.__annotations__.items():
            default = defaults[name] if name in defaults else getattr(options, name)
            shown = getattr(kind, "__forward_arg__", kind)
            known[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)

        @functools.wraps(function)
        def checked(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    synonyms = {other: own for other, own in _SYNONYMS.items() if own in known}
                    near = did_you_mean(name, known, synonyms)
                    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}{near}")
            return function(*arguments, **given)

        vars(checked)["__signature__"] = inspect.signature(function).replace(parameters=[*known.values()])
        return cast(F, checked)

    return decorate
