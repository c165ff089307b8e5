# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures training steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.hooks import attach_gradient_hooks, checked_module_hooks, refuse_hooks
from repro_mlir.frontends.torch.base.source_lines import phase
from repro_mlir.frontends.torch.base.user_objects import require_loss
from repro_mlir.frontends.torch.capture.imported_steps import import_step
from repro_mlir.frontends.torch.capture.microbatch_reduction import reduce_microbatches, statistics_of
from repro_mlir.frontends.torch.capture.step_results import Results
from repro_mlir.frontends.torch.capture.steps import DEFAULTS, StepTensors
from repro_mlir.frontends.torch.capture.steps_with_loss import StepWithLoss, require_gradient
from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
from repro_mlir.frontends.torch.objects.changing_values import ChangingValues
from repro_mlir.frontends.torch.optimizers.averages import average_tensors, check_average, update_average
from repro_mlir.frontends.torch.optimizers.given_gradients import GivenGradients
from repro_mlir.frontends.torch.optimizers.loss_scaling import (
    check_scaler,
    keep_where,
    scaled,
    scaler_tensors,
    scaler_values,
    unscaled,
    update_scale,
)
from repro_mlir.frontends.torch.optimizers.optimizers import OptimizerProgram, clip_by_global_norm
from repro_mlir.frontends.torch.optimizers.state_slots import UpdateTensors
from repro_mlir.program.imported import ImportedProgram


def capture_training(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    options: CaptureOptions = DEFAULTS,
) -> ImportedProgram[TorchBindings]:
    """Captures one training step: forward, loss, backward, gradient clipping and optimizer update.

    The model's mode (`train`/`eval`) is part of the program. Model and optimizer are left unchanged.

    Args:
      model: the model; its parameters and buffers become state.
      loss_fn: `loss_fn(output, target)` returns the scalar loss, where `batch` is `(*inputs, target)` and output is
        `model(*inputs)`. If None, the model is called as `model(*batch)`, or `model(**batch)` if the batch is a dict,
        and computes the loss: the loss is the result, its entry or attribute `loss`, or its first element if it is a
        tuple.
      optimizer: an optimizer of parameters of `model`, in any state: one of torch.optim, or another whose `step` is
        written in Python. The hyper-parameters are inputs of the program; `TorchBindings` lists changes that need a new
        program.
      batch: an example; its tensors determine the shapes and element types of the inputs, other leaves are constants.
      options: `clip_norm` clips as torch.nn.utils.clip_grad_norm_ does. `average` is a
        torch.optim.swa_utils.AveragedModel; its tensors are state, which each step updates as `update_parameters` does.
        `loss_scale` is a torch.amp.GradScaler, whose rule the step follows. `autocast` acts as torch.autocast("cpu",
        autocast) around forward and loss. `exact_digits` is ignored: it applies to the canonical program.
    Returns:
      the program. Its outputs are `loss` and the requested `options.returns`: `output` with the path of each tensor in
      the model's result, `gradient_norm`, `gradients['NAME']`, `metrics['NAME']`. If `returns` is empty, the outputs
      are the loss and, if `loss_fn` is given, the tensors that the model returns.
    Raises:
      CaptureError: the step cannot be captured; nothing was changed.
    """
    excluded: set[str] = set()
    # A step computes gradients even if the caller runs under `no_grad` or `set_grad_enabled(False)`.
    with torch.enable_grad():
        while True:
            step = _TrainingStep(model, loss_fn, optimizer, batch, options, excluded)
            used = frozenset[str]()
            try:
                imported = import_step(step, options)
            except CaptureError:
                if not step.changing:
                    raise
                # The step may need the values of changing numbers during the trace, for example in NumPy code. The
                # next attempt makes these numbers constants.
                used = step.changing.names
            used = step.changing.used(step.recording.namespaces if step.recording else ()) or used
            if used:
                options = replace(options, changing=options.changing - used)
                continue
            if step.without_gradient <= excluded:
                return imported
            # torch.optim skips a parameter without a gradient and creates no optimizer state for it. The next attempt
            # excludes such parameters.
            excluded |= step.without_gradient


class _TrainingStep(StepWithLoss):
    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[[Any, Any], torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        batch: Any,
        options: CaptureOptions,
        excluded: set[str],
    ) -> None:
        super().__init__(model, loss_fn, batch, options)
        require_loss(loss_fn)
        self.clips = options.clip_norm is not None
        self.is_microbatch = options.microbatches is not None
        for name in ("outputs", "metrics") if self.is_microbatch else ():
            if name in self.returns:
                raise CaptureError(f"returns has {name!r}, which a step in microbatches does not return: leave it out")
        self.average = options.average
        if self.average is not None:
            check_average(self.average, model)
            self.extra |= {name: ("average", tensor) for name, tensor in average_tensors(self.average).items()}
        self.scaler = options.loss_scale
        if self.scaler is not None:
            check_scaler(self.scaler)
            self.extra |= {name: ("loss_scale", tensor) for name, tensor in scaler_values(self.scaler).items()}
        refuse_hooks(self.parameters, optimizer)
        self.changing = ChangingValues(options.changing, model, loss_fn, self.leaves)
        self.trained = [name for name, value in self.parameters.items() if value.requires_grad]
        if not self.trained:
            raise CaptureError("expected a model with a parameter that requires a gradient, got none")
        self.updated: set[str] = set()
        known: dict[torch.Tensor, str] = {self.parameters[name]: name for name in self.parameters}
        for index, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                if parameter not in known:
                    raise CaptureError(
                        f"parameter group {index} of the optimizer has a parameter of shape "
                        f"{list(parameter.shape)} that is not the model's{_remedy(parameter, loss_fn)}"
                    )
                self.updated.add(known[parameter])
        with_gradient = [name for name in self.trained if name not in excluded]
        self.optimizer = OptimizerProgram(optimizer, known, with_gradient, options.clip_norm)
        self.without_gradient: set[str] = set()

    def run(self, tensors: StepTensors) -> list[torch.Tensor]:
        parameters, buffers, state = tensors.parameters, tensors.buffers, tensors.state
        leaves = {name: value.detach().requires_grad_(name in self.trained) for name, value in parameters.items()}
        # The hooks of given gradients have already run.
        if not isinstance(self.model, GivenGradients):
            attach_gradient_hooks({name: self.parameters[name] for name in self.trained}, leaves)
        # The backward pass is in the block too, because checkpointing reruns parts of the forward pass.
        with (
            self.changing.tracing(tensors.changing),
            checked_module_hooks(self.model),
            self.model_with(leaves, tensors),
        ):
            loss, output = self.forward(tensors.batch)
            if any(leaf.grad is not None for leaf in leaves.values()):
                raise CaptureError(
                    "the step calls backward(), which adds to the gradients of the parameters: use "
                    "torch.autograd.grad, or return the sum of the losses"
                )
            require_gradient(loss)
            with phase("backward pass"):
                scaled_loss = loss if self.scaler is None else scaled(loss, state)
                found = torch.autograd.grad(scaled_loss, [leaves[name] for name in self.trained], allow_unused=True)
        buffers.update({name: value.detach() for name, value in buffers.items()})
        if self.is_microbatch:
            loss = reduce_microbatches(loss)
            found = tuple(
                None if g is None else reduce_microbatches(g, name) for name, g in zip(self.trained, found, strict=True)
            )
            averaged = statistics_of(self.model)
            for name, value in buffers.items():
                if name in averaged or not (value.is_floating_point() or value.is_complex()):
                    buffers[name] = reduce_microbatches(value)
        self.without_gradient = {name for name, g in zip(self.trained, found, strict=True) if g is None}
        gradients = {name: g for name, g in zip(self.trained, found, strict=True) if g is not None}
        with torch.no_grad():
            kept = *parameters.values(), *buffers.values(), *gradients.values()
            results = self.results_of(loss, output, tensors.batch, kept)
            if self.scaler is not None:
                gradients, is_left_out = unscaled(gradients, self.updated, state)
                former = {**parameters}, {**state}
            update = UpdateTensors(parameters, gradients, state, tensors.hyper_parameters)
            self._add_gradients(results, update)
            assert self.optimizer is not None
            self.optimizer.update(update)
            if self.scaler is not None:
                for before, after in zip(former, (parameters, state), strict=True):
                    keep_where(is_left_out, before, after)
                update_scale(self.scaler, is_left_out, state)
            if self.average is not None:
                update_average(self.average, parameters, buffers, state)
        return self.give(results)

    def extra_tensors(self) -> list[torch.Tensor]:
        tensors = [] if self.average is None else [*average_tensors(self.average).values()]
        return tensors if self.scaler is None else [*tensors, *scaler_tensors(self.scaler).values()]

    def _add_gradients(self, results: Results, update: UpdateTensors) -> None:
        """Adds the requested results that depend on gradients."""
        gradients = update.gradients
        if "gradient_norm" in self.returns:
            with phase("norm of the gradients"):
                results.add("gradient_norm", _global_norm(gradients))
        if "gradients" in self.returns:
            if self.clips:
                # The optimizer's update clips the gradients again; the compiler merges the duplicate operators.
                with phase("gradient clipping"):
                    gradients = clip_by_global_norm(gradients, update.numbers[-1])
            results.add("gradients", {name: g.to(update.parameters[name].dtype) for name, g in gradients.items()})


def _remedy(parameter: torch.Tensor, loss_fn: object) -> str:
    """Returns advice on how to train a parameter that does not belong to the model."""
    if isinstance(loss_fn, torch.nn.Module) and any(parameter is each for each in loss_fn.parameters()):
        return " but the loss function's: expected one module that contains both and returns the loss, and loss_fn=None"
    return (
        ": make the optimizer from model.parameters() again if a layer was replaced or load_state_dict(assign=True) "
        "was called; put modules of a list into a torch.nn.ModuleList; for f32 copies of the parameters, use a model "
        "in f32 and autocast="
    )


def _global_norm(gradients: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Returns the 2-norm of all gradients together, as torch.nn.utils.clip_grad_norm_ does."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients.values()]
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].dtype) for norm in norms]))
