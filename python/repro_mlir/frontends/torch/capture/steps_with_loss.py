# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps that compute a loss: the loss, the model's results and the metrics of training steps and evaluations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from repro_mlir.base.printing import kind_of
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import named_modules, phase
from repro_mlir.frontends.torch.base.value_requests import no_tensor
from repro_mlir.frontends.torch.capture.step_results import Results
from repro_mlir.frontends.torch.capture.steps import Step, called
from repro_mlir.frontends.torch.trace.random_sites import current_sites
from repro_mlir.frontends.torch.trace.recording import Recording


class StepWithLoss(Step):
    """A step whose first output is the loss."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[[Any, Any], torch.Tensor] | None,
        batch: Any,
        options: CaptureOptions,
    ) -> None:
        _check_batch(loss_fn, batch)
        super().__init__(model, batch)
        self.loss_fn = loss_fn
        self.autocast = options.autocast
        self.metrics = options.metrics or {}
        self.returns = options.returns
        self.is_microbatch = False
        self.recording = Recording()

    def forward(self, batch: Any) -> tuple[torch.Tensor, Any]:
        """Computes the loss and the model's result; checks that the loss is a float scalar."""
        with contextlib.ExitStack() as stack:
            if self.autocast is not None:
                stack.enter_context(torch.autocast("cpu", dtype=self.autocast, cache_enabled=False))
            loss, output = loss_of(self.model, self.loss_fn, batch)
        if not isinstance(loss, torch.Tensor):
            raise CaptureError(no_tensor("the loss", loss))
        if loss.dim() != 0 or not loss.is_floating_point():
            raise CaptureError(
                f"the loss has shape {list(loss.shape)} of {loss.dtype}, expected a scalar float: reduce it, as in "
                "loss.mean()"
            )
        return loss, output

    def modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        yield from super().modules()
        if isinstance(self.loss_fn, torch.nn.Module):
            yield from named_modules("loss_fn", self.loss_fn)

    def results_of(self, loss: torch.Tensor, output: Any, batch: Any, kept: Sequence[torch.Tensor]) -> Results:
        """Returns the loss and the results that do not depend on gradients; metrics must not write to the tensors in
        `kept`."""
        results = Results()
        results.append("loss", loss)
        if "outputs" in self.returns:
            results.add("outputs", output, "output")
        elif not self.returns and self.loss_fn is not None and not self.is_microbatch:
            results.append_all("output", output)
        if "metrics" in self.returns:
            target = batch if self.loss_fn is None else batch[-1]
            results.add("metrics", _computed(self.metrics, output, target, kept))
        return results


def loss_of(model: torch.nn.Module, loss_fn: Callable[[Any, Any], torch.Tensor] | None, batch: Any) -> tuple[Any, Any]:
    """Returns the loss of a batch and the model's result. Raises CaptureError if a model without a loss function
    returns no loss."""
    if loss_fn is not None:
        *inputs, target = batch
        output = model(*inputs)
        with phase("loss function"):
            loss = loss_fn(output, target)
        return loss, output
    result = output = called(model, batch)
    if isinstance(result, Mapping) and "loss" in result:
        result = result["loss"]
    elif hasattr(result, "loss"):
        result = result.loss
    elif isinstance(result, tuple | list) and result:
        result = result[0]
    if not isinstance(result, torch.Tensor):
        raise CaptureError(f"the model returns {kind_of(result)}, expected the loss: loss_fn is None")
    return result, output


def require_gradient(loss: torch.Tensor) -> None:
    """Raises CaptureError if autograd has recorded no operation from a parameter to the loss."""
    if not loss.requires_grad:
        raise CaptureError(
            "the loss depends on no parameter that requires a gradient: remove detach(), torch.no_grad() or .data "
            "between the parameters and the loss"
        )


def _computed(
    metrics: Mapping[str, Callable[[Any, Any], Any]], output: Any, target: Any, kept: Sequence[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Returns the values of the metrics, keyed by name.

    Raises:
      CaptureError: a metric is not a real scalar, draws random numbers, or writes to a tensor in `kept`.
    """
    sites, versions = current_sites(), [each._version for each in kept]
    drawn, sites.drawn = sites.drawn, False
    values = {}
    for name, function in metrics.items():
        with phase(f"metric {name}"):
            value = function(output, target)
        if not isinstance(value, torch.Tensor) or value.dim() != 0 or value.is_complex():
            found = f"shape {list(value.shape)}" if isinstance(value, torch.Tensor) else kind_of(value)
            raise CaptureError(f"metric {name} returns {found}, expected a tensor of shape [] with a real number")
        if sites.drawn:
            raise CaptureError(f"metric {name} draws random numbers, which changes the state: expected none")
        if [each._version for each in kept] != versions:
            raise CaptureError(f"metric {name} writes to a tensor of the step, which changes the state: use clone()")
        values[name] = value
    sites.drawn = drawn
    return values


def _check_batch(loss_fn: object, batch: Any) -> None:
    """Raises CaptureError unless the batch has inputs and a target for a loss function."""
    if loss_fn is None or (isinstance(batch, tuple | list) and len(batch) >= 2):
        return
    found = kind_of(batch)
    if isinstance(batch, tuple | list):
        found += f" of {len(batch)}"
        if len(batch) == 1 and isinstance(batch[0], tuple | list):
            found += f" ({kind_of(batch[0])}: step(*batch) passes its entries)"
    raise CaptureError(f"batch is {found}, expected a tuple (*inputs, target) for loss_fn")
