# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The connectionist temporal classification (CTC) loss, unrolled over the time steps of the input; autograd
differentiates it."""

from collections.abc import Sequence
from typing import Any

import torch

_NEVER = -1e30
"""Represents the logarithm of 0 by a finite number, so that no difference is NaN."""


def _lengths(given: Any) -> torch.Tensor:
    if isinstance(given, torch.Tensor):
        return given.to(torch.int64).reshape(-1)
    return torch.tensor([*given] if isinstance(given, Sequence) else [given], dtype=torch.int64)


class _Normalizer(torch.autograd.Function):
    """Returns zeros [batch] that have the gradient of the sum of exp(log_probs) over the time steps of the input.

    The sum itself is not computed, because it may overflow. The arguments are log_probs [steps, batch, classes] and the
    mask [steps, batch] of the time steps that belong to the input.
    """

    @staticmethod
    def forward(context: Any, log_probs: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(log_probs, known)
        return log_probs.new_zeros([log_probs.shape[1]])

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        log_probs, known = context.saved_tensors
        # Mask the time steps beyond the input, where the exponential may be infinite.
        exponential = torch.exp(torch.where(known.unsqueeze(2), log_probs, torch.zeros([], dtype=log_probs.dtype)))
        return (gradient * known).unsqueeze(2) * exponential, None


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """Computes `torch.nn.functional.ctc_loss`; a target has at most `targets.shape[-1]` labels."""
    is_single = log_probs.dim() == 2
    if is_single:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    steps, batch, _ = log_probs.shape
    inputs, lengths = _lengths(input_lengths), _lengths(target_lengths)
    targets = targets.to(torch.int64)
    most = targets.shape[-1]
    if targets.dim() == 1:
        # The targets are concatenated; the labels after a target's end are masked below.
        begins = torch.cumsum(lengths, 0) - lengths
        places = (begins.unsqueeze(1) + torch.arange(most)).clamp(max=max(most - 1, 0))
        targets = targets[places] if most else targets.reshape(1, 0).expand(batch, 0)
    # States 2 s + 1 of the path are the target's labels; the other states are blanks.
    states = 2 * most + 1
    position = torch.arange(states)
    label = torch.full([batch, states], blank, dtype=torch.int64)
    skips = torch.zeros([batch, states], dtype=torch.bool)
    if most:
        between = torch.full([batch, most], blank, dtype=torch.int64)
        known = torch.arange(most) < lengths.unsqueeze(1)
        own = torch.where(known, targets, between)
        label = torch.cat([torch.stack([between, own], -1).reshape(batch, 2 * most), between[:, :1]], 1)
        before = torch.cat([torch.full([batch, 2], blank, dtype=torch.int64), label[:, :-2]], 1)
        skips = (label != blank) & (label != before) & (position >= 2)
    never = torch.full([batch, states + 2], _NEVER, dtype=log_probs.dtype)
    jumps = torch.stack([torch.zeros([batch, states], dtype=torch.bool)] * 2 + [~skips])
    emitted = log_probs.gather(2, label.expand(steps, batch, states)).clamp(min=_NEVER).unbind(0)
    begins = position < torch.where(lengths > 0, 2, 1).unsqueeze(1)
    alpha = torch.where(begins, emitted[0], never[:, :states])
    for step in range(1, steps):
        wide = torch.cat([never[:, :2], alpha], 1)
        terms = torch.stack([alpha, wide[:, 1:-1], wide[:, :-2]]).masked_fill(jumps, _NEVER)
        greatest = terms.detach().amax(0)
        joined = torch.log(torch.exp(terms - greatest).sum(0)) + greatest + emitted[step]
        alpha = torch.where((step < inputs).unsqueeze(1), joined, alpha)
    last = (2 * lengths).unsqueeze(1)
    inner = torch.where(last > 0, alpha.gather(1, (last - 1).clamp(min=0)), never[:, :1])
    ends = torch.cat([alpha.gather(1, last), inner], 1)
    greatest = ends.detach().amax(1, keepdim=True)
    loss = -(torch.log(torch.exp(ends - greatest).sum(1, keepdim=True)) + greatest).squeeze(1)
    # PyTorch's gradient is that of the logits whose log_softmax is `log_probs`: it has an extra term exp(log_probs).
    normalizer = _Normalizer.apply(log_probs, torch.arange(steps).unsqueeze(1) < inputs)
    impossible = loss > -_NEVER / 2
    loss = torch.where(impossible, torch.full([], torch.inf, dtype=loss.dtype), loss + normalizer)
    loss = torch.where(inputs > 0, loss, torch.where(lengths > 0, torch.inf, 0.0).to(loss.dtype))
    if zero_infinity:
        loss = torch.where(loss == torch.inf, torch.zeros([], dtype=loss.dtype), loss)
    if reduction == "mean":
        return (loss / lengths.clamp(min=1).to(loss.dtype)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if is_single else loss
