# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces a function through both stages of a capture and returns the graph that is lowered."""

from collections.abc import Callable, Sequence

import torch
from repro_mlir.frontends.torch.trace.tracing import first_stage, second_stage


def trace(
    function: Callable[..., Sequence[torch.Tensor]],
    arguments: Sequence[torch.Tensor],
    attention_block: int | None = None,
) -> torch.fx.GraphModule:
    """Returns the graph of `second_stage` for a function and its arguments."""
    return second_stage(first_stage(function, arguments, attention_block))
