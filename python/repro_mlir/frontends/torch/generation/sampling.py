# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R3) Sampling of a token, written with PyTorch's operators."""

import math

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from repro_mlir.frontends.torch.compile_backend.graphs import CapturedGraph, capture_graph
from repro_mlir.program.imported import ImportedProgram


def capture_sampling(vocabulary: int) -> ImportedProgram[CapturedGraph]:
    """Captures the sampling of one of `vocabulary` tokens.

    Inputs and output are those of `generation.sampling.sampling_program`.
    """
    arguments = (torch.zeros(vocabulary), torch.ones(()), torch.ones((), dtype=torch.int64), torch.ones(()))
    return capture_graph(make_fx(_choose)(*arguments), arguments)


def _choose(
    logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> list[torch.Tensor]:
    ordered, tokens = torch.sort(logits, descending=True, stable=True)
    ranks = torch.arange(len(logits))
    scaled = torch.where(ranks < top_k, ordered / temperature, -math.inf)
    # A token is kept if the sum of the preceding weights is below top_p, so the first token is always kept.
    weights = torch.softmax(scaled, 0)
    sums = torch.cumsum(weights, 0)
    weights = torch.where(sums - weights < top_p, weights, 0.0)
    sums = torch.cumsum(weights, 0)
    below = (sums <= torch.rand(()) * sums[-1]).sum()
    last = ((weights > 0).sum() - 1).clamp(min=0)
    return [torch.gather(tokens, 0, torch.minimum(below, last)[None])[0]]
