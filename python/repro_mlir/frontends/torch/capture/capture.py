# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures PyTorch training steps and inference as imported programs."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from repro_mlir.base.files.cache import cached
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.torch_tensors import kind_of
from repro_mlir.frontends.torch.base.batch_leaves import TENSOR_LEAF, flatten, leaf_names, named_leaves
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.hooks import attach_gradient_hooks, checked_module_hooks, refuse_hooks
from repro_mlir.frontends.torch.base.model_modes import evaluation_mode
from repro_mlir.frontends.torch.base.open_sizes import Sizes
from repro_mlir.frontends.torch.base.source_lines import module_names, named_modules, origin_of_node, phase
from repro_mlir.frontends.torch.base.torch_internals import pytree, reparametrize_module
from repro_mlir.frontends.torch.base.user_objects import require_loss, require_model
from repro_mlir.frontends.torch.base.value_requests import no_tensor
from repro_mlir.frontends.torch.capture.microbatch_reduction import origin_of_values, reduce_microbatches, statistics_of
from repro_mlir.frontends.torch.capture.step_results import Results
from repro_mlir.frontends.torch.lower.graph_hash import contents_of, frontend_identity
from repro_mlir.frontends.torch.lower.symbolic_reshapes import replace_views
from repro_mlir.frontends.torch.objects.captured_program import Captured, Role
from repro_mlir.frontends.torch.objects.changing_values import ChangingValues
from repro_mlir.frontends.torch.objects.kept_tensors import kept_tensors
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
from repro_mlir.frontends.torch.trace.random_sites import RandomSites, current_sites
from repro_mlir.frontends.torch.trace.recording import Recording
from repro_mlir.frontends.torch.trace.representation import represented
from repro_mlir.frontends.torch.trace.tracing import first_stage, second_stage
from repro_mlir.frontends.torch.trace.unsigned import is_unsigned
from repro_mlir.frontends.torch.trace.written_tensors import refuse_new_entries, refuse_writes
from repro_mlir.gradient_compression.apply import compress_gradients
from repro_mlir.gradient_compression.methods import GradientCompression
from repro_mlir.program.imported import ImportedProgram, SymbolicImport

_DEFAULTS = CaptureOptions()


def capture_training(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    options: CaptureOptions = _DEFAULTS,
) -> ImportedProgram[Captured]:
    """Captures one training step: forward, loss, backward, gradient clipping and optimizer update.

    The model's mode (`train`/`eval`) is part of the program. Model and optimizer are left unchanged.

    Args:
      model: the model; its parameters and buffers become state.
      loss_fn: `loss_fn(output, target)` returns the scalar loss, where `batch` is `(*inputs, target)` and output is
        `model(*inputs)`. If None, the model computes the loss, called as `model(*batch)`, or `model(**batch)` for a
        dict; the loss is the result, the result's entry or attribute `loss`, or the first element of a tuple.
      optimizer: an optimizer of torch.optim or another whose `step` is written in Python, over parameters of `model`,
        in any state. Its hyper-parameters are inputs of the program; `Captured` lists changes that need a new program.
      batch: an example; its tensors determine the shapes and element types of the inputs, other leaves are constants.
      options: `clip_norm` clips as torch.nn.utils.clip_grad_norm_ does. `average` is a
        torch.optim.swa_utils.AveragedModel; its tensors are state, updated in each step as by `update_parameters`.
        `loss_scale` is a torch.amp.GradScaler, whose rule the step follows. `autocast` acts as torch.autocast("cpu",
        autocast) around forward and loss. `exact_digits` is ignored: it applies to the canonical program.
    Returns:
      the program. Its outputs are `loss` and the requested `options.returns`: `output` with the path of each tensor in
      the model's result, `gradient_norm`, `gradients['NAME']`, `metrics['NAME']`. If `returns` is empty, the outputs
      are the loss and, if `loss_fn` is given, the tensors that the model returns.
    Raises:
      CaptureError: the step cannot be captured for the reason in the message; nothing was changed.
    """
    _check_batch(loss_fn, batch)
    excluded: set[str] = set()
    # A step computes gradients even if the caller runs under `no_grad` or `set_grad_enabled(False)`.
    with torch.enable_grad():
        while True:
            step = _TrainingStep(model, loss_fn, optimizer, batch, options, excluded)
            used = frozenset[str]()
            try:
                imported = _capture(step, options)
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
            # torch.optim skips a parameter without a gradient and creates no optimizer state for it.
            excluded |= step.without_gradient


def capture_evaluation(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor] | None,
    batch: Any,
    options: CaptureOptions = _DEFAULTS,
) -> ImportedProgram[Captured]:
    """Captures the loss of a model in evaluation mode, without gradients. The model keeps its mode.

    Args:
      model, loss_fn, batch: as for `capture_training`.
      options: only `autocast`, `attention_block`, `returns` without gradients, and `metrics` are used.
    Returns:
      the program, whose outputs are as for `capture_training`; its state, the model's tensors, does not change.
    Raises:
      CaptureError: the model writes a buffer, draws random numbers, or cannot be captured for another reason.
    """
    _check_batch(loss_fn, batch)
    with evaluation_mode(model):
        imported = _capture(_Evaluation(model, loss_fn, batch, options), options)
    if imported.random is not None:
        raise CaptureError("the model draws random numbers in evaluation mode, expected none, as for dropout there")
    for name in sorted(imported.bindings.written):
        raise CaptureError(f"the model writes {name} in evaluation mode: an evaluation leaves the state as it is")
    return imported


def capture_inference(
    model: torch.nn.Module, example_inputs: Any, options: CaptureOptions = _DEFAULTS
) -> ImportedProgram[Captured]:
    """Captures `model(*example_inputs)` without gradients.

    Args:
      model: its parameters and buffers become state; buffers that the model writes change in the program.
      example_inputs: a tensor, a tuple of arguments, or a dict of keyword arguments.
      options: only `attention_block` is used.
    Returns:
      the program; its outputs are the tensors of the model's result.
    Raises:
      CaptureError: the model cannot be captured for the reason in the message.
    """
    return _capture(_Inference(model, example_inputs), options)


def capture_function(
    function: Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], Mapping[str, torch.Tensor]],
    state: Mapping[str, torch.Tensor],
    inputs: Mapping[str, torch.Tensor],
    origins: Mapping[int, str],
    options: CaptureOptions = _DEFAULTS,
) -> ImportedProgram[Captured]:
    """Captures a function of named tensors, without gradients: a model that is not a torch.nn.Module, or a step.

    Args:
      function: `function(state, inputs)` returns the outputs and must not write to these tensors. An entry of `state`
        that it replaces is the tensor's new value after the step.
      state: the state tensors.
      inputs: examples of the inputs; only the shapes and element types matter.
      origins: by an object's id, the name in messages and locations for operators that the object's methods call.
      options: as for `capture_inference`.
    Returns:
      the program; its state contains the floats first, then the integers.
    Raises:
      CaptureError: the function cannot be captured for the reason in the message.
    """
    return _capture(_Function(function, state, inputs, origins), options)


def capture_symbolic(
    model: torch.nn.Module,
    example_inputs: Any,
    make_sizes: Callable[[bool], Sizes],
    options: CaptureOptions = _DEFAULTS,
) -> SymbolicImport:
    """Captures inference as `capture_inference` does, with dynamic sizes.

    Args:
      model, example_inputs: as for `capture_inference`.
      make_sizes: `make_sizes(of_examples)` returns the sizes for a trace. The first trace uses sizes other than the
        examples'. If its conditions do not hold for the examples, a second trace uses the examples' sizes.
      options: as for `capture_inference`, without `attention_block`.
    Raises:
      CaptureError: as for `capture_inference`; `attention_block` is set; an extent is not an expression of the sizes.
    """
    if options.attention_block is not None:
        raise CaptureError("attention_block divides attention by its sizes: expected none of them to be dynamic")
    step = _Inference(model, example_inputs)
    sizes = make_sizes(False)
    try:
        traced = _trace(step, options, sizes)
        is_done = sizes.hold_for_examples()
    except CaptureError:
        is_done = False
    if not is_done:
        sizes = make_sizes(True)
        traced = _trace(step, options, sizes)
    graph, draws = traced.second
    _require_known_extents(graph.graph, sizes)
    replace_views(graph.graph)
    entries = traced.entries(draws)
    try:
        text = _text(step, graph, entries, sizes)
    except CaptureError as error:
        if not str(error).endswith("is not supported"):
            raise
        raise CaptureError(f"{error} where sizes are dynamic") from None
    output = next(node for node in traced.first.graph.nodes if node.op == "output")
    results = [node.meta["val"] for node in output.args[0][len(traced.own) + len(traced.random) :]]
    roles = (
        ("state", [entry.name for entry in entries], [entry.initial for entry in entries]),
        ("input", step.batch_names, step.batch),
        ("output", step.output_names, results),
    )
    tensors = [
        ((role, name), tensor) for role, names, found in roles for name, tensor in zip(names, found, strict=True)
    ]
    return SymbolicImport(
        text=text,
        initial=_initial_values(entries),
        unsigned=frozenset(place for place, tensor in tensors if is_unsigned(tensor)),
        complex=frozenset(place for place, tensor in tensors if tensor.is_complex()),
    )


def _require_known_extents(graph: torch.fx.Graph, sizes: Sizes) -> None:
    """Raises CaptureError if an extent is neither a number nor an expression of the dynamic sizes."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for each in value if isinstance(value, tuple | list) else [value]:
            for extent in each.shape if isinstance(each, torch.Tensor) else ():
                if isinstance(extent, torch.SymInt) and not extent.node.expr.free_symbols <= {*sizes.variables}:
                    raise located(origin_of_node(node), "a shape depends on tensor values")


class _Step:
    """A function of state, hyper-parameters and batch tensors, all with names; `_capture` traces it."""

    def __init__(self, model: torch.nn.Module, batch: Any) -> None:
        require_model(model)
        self.model = model
        self.origins: Mapping[int, str] = module_names(model)
        self.parameters = dict(model.named_parameters())
        self.buffers = dict(model.named_buffers())
        leaves, self.batch_spec = flatten(batch)
        self.constants = [TENSOR_LEAF if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        tensors = (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
        # Autograd does not accept tensors that were created in inference mode.
        self.batch = [leaf.clone() if leaf.is_inference() else leaf.detach() for leaf in tensors]
        self.leaves = [*zip(leaf_names(batch), leaves, strict=True)]
        self.batch_names = [name for name, leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        self.changing = ChangingValues((), model, None, ())
        self.output_names: list[str] = []
        self.results: dict[str, Any] = {}
        self.extra: dict[str, tuple[Role, torch.Tensor]] = {}
        self.optimizer: OptimizerProgram | None = None
        self.recording: Recording | None = None

    @property
    def input_names(self) -> list[str]:
        """The names of the hyper-parameters, of the changing numbers, and of the batch tensors."""
        hyper_parameters = self.optimizer.hyper_parameters if self.optimizer else []
        return [*(kind.name for kind in hyper_parameters), *self.changing.inputs, *self.batch_names]

    def extra_tensors(self) -> list[torch.Tensor]:
        """Returns the tensors of the user's objects that correspond to `extra`."""
        return []

    def modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yields the modules of the step's functions with their names."""
        return named_modules("model", self.model)

    def rebuild_batch(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Returns a batch with these tensors and the constants of the captured batch."""
        remaining = iter(tensors)
        leaves = [next(remaining) if constant is TENSOR_LEAF else constant for constant in self.constants]
        return pytree.tree_unflatten(self.changing.replaced(leaves), self.batch_spec)

    def run(
        self,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
        batch: Any,
    ) -> list[torch.Tensor]:
        """Computes the step: replaces the entries of the three dicts by the new state and returns the outputs."""
        raise NotImplementedError

    def give(self, results: Results) -> list[torch.Tensor]:
        """Returns the output tensors, and stores their names and structure in the step."""
        self.output_names, self.results = results.names, results.structure
        return [value.detach() for value in results.tensors]


class _WithLoss(_Step):
    """A step whose first output is the loss."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[[Any, Any], torch.Tensor] | None,
        batch: Any,
        options: CaptureOptions,
    ) -> None:
        super().__init__(model, batch)
        self.loss_fn = loss_fn
        self.autocast = options.autocast
        self.metrics = options.metrics or {}
        self.returns: tuple[str, ...] = ()
        self.is_microbatch = False
        self.recording = Recording()

    def forward(self, batch: Any) -> tuple[torch.Tensor, Any]:
        """Computes the loss and the model's result; checks that the loss is a float scalar."""
        with contextlib.ExitStack() as stack:
            if self.autocast is not None:
                stack.enter_context(torch.autocast("cpu", dtype=self.autocast, cache_enabled=False))
            loss, output = self._loss(batch)
        if not isinstance(loss, torch.Tensor):
            raise CaptureError(no_tensor("the loss", loss))
        if loss.dim() != 0 or not loss.is_floating_point():
            raise CaptureError(f"the loss has shape {list(loss.shape)} of {loss.dtype}, expected a scalar float")
        return loss, output

    def _loss(self, batch: Any) -> tuple[torch.Tensor, Any]:
        """Computes the loss and the model's result."""
        if self.loss_fn is not None:
            *inputs, target = batch
            output = self.model(*inputs)
            with phase("loss function"):
                loss = self.loss_fn(output, target)
            return loss, output
        result = output = _call(self.model, batch)
        if isinstance(result, Mapping) and "loss" in result:
            result = result["loss"]
        elif hasattr(result, "loss"):
            result = result.loss
        elif isinstance(result, tuple | list) and result:
            result = result[0]
        if not isinstance(result, torch.Tensor):
            raise CaptureError(f"the model returns a {type(result).__name__}, expected the loss as loss_fn is None")
        return result, output

    def modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        yield from super().modules()
        if isinstance(self.loss_fn, torch.nn.Module):
            yield from named_modules("loss_fn", self.loss_fn)

    def results_of(self, loss: torch.Tensor, output: Any, batch: Any, kept: Sequence[torch.Tensor]) -> Results:
        """Returns the requested results of forward and loss; metrics must not write to the tensors in `kept`."""
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


class _TrainingStep(_WithLoss):
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
        self.returns = options.returns
        self.clips = options.clip_norm is not None
        self.is_microbatch = options.microbatches is not None
        for name in ("outputs", "metrics") if self.is_microbatch else ():
            if name in self.returns:
                raise CaptureError(f"returns has {name!r}, which a step in microbatches does not give")
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
            raise CaptureError("the model has no parameter that requires a gradient")
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

    def run(
        self,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
        batch: Any,
    ) -> list[torch.Tensor]:
        leaves = {name: value.detach().requires_grad_(name in self.trained) for name, value in parameters.items()}
        # The hooks of given gradients have already run.
        if not isinstance(self.model, GivenGradients):
            attach_gradient_hooks({name: self.parameters[name] for name in self.trained}, leaves)
        swapped = {**leaves, **buffers}
        count = len(hyper_parameters) - len(self.changing.inputs)
        hyper_parameters, numbers = hyper_parameters[:count], hyper_parameters[count:]
        # The backward pass is in the block too, because checkpointing reruns parts of the forward pass.
        with (
            self.changing.tracing(numbers),
            checked_module_hooks(self.model),
            reparametrize_module(self.model, swapped, tie_weights=True),
        ):
            loss, output = self.forward(batch)
            with phase("backward pass"):
                scaled_loss = loss if self.scaler is None else scaled(loss, state)
                found = torch.autograd.grad(scaled_loss, [leaves[name] for name in self.trained], allow_unused=True)
        buffers.update({name: swapped[name].detach() for name in buffers})
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
            results = self.results_of(loss, output, batch, kept)
            if self.scaler is not None:
                gradients, is_left_out = unscaled(gradients, self.updated, state)
                former = {**parameters}, {**state}
            self._add_gradients(results, parameters, gradients, hyper_parameters)
            assert self.optimizer is not None
            self.optimizer.update(parameters, gradients, state, hyper_parameters)
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

    def _add_gradients(
        self,
        results: Results,
        parameters: Mapping[str, torch.Tensor],
        gradients: Mapping[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
    ) -> None:
        """Adds the requested results that depend on gradients."""
        if "gradient_norm" in self.returns:
            with phase("norm of the gradients"):
                results.add("gradient_norm", _global_norm(gradients))
        if "gradients" in self.returns:
            if self.clips:
                # The optimizer clips again; the compiler merges the duplicate operators.
                with phase("gradient clipping"):
                    gradients = clip_by_global_norm(gradients, hyper_parameters[-1])
            results.add("gradients", {name: g.to(parameters[name].dtype) for name, g in gradients.items()})


class _Evaluation(_WithLoss):
    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[[Any, Any], torch.Tensor] | None,
        batch: Any,
        options: CaptureOptions,
    ) -> None:
        super().__init__(model, loss_fn, batch, options)
        self.returns = options.returns
        refuse_hooks({}, None)

    def run(
        self,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
        batch: Any,
    ) -> list[torch.Tensor]:
        swapped = {**parameters, **buffers}
        with (
            torch.no_grad(),
            checked_module_hooks(self.model),
            reparametrize_module(self.model, swapped, tie_weights=True),
        ):
            loss, output = self.forward(batch)
            results = self.results_of(loss, output, batch, [*swapped.values()])
        buffers.update({name: swapped[name] for name in buffers})
        return self.give(results)


class _Inference(_Step):
    def run(
        self,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
        batch: Any,
    ) -> list[torch.Tensor]:
        swapped = {**parameters, **buffers}
        with torch.no_grad(), reparametrize_module(self.model, swapped, tie_weights=True):
            result = _call(self.model, batch)
        buffers.update({name: swapped[name] for name in buffers})
        results = Results()
        results.append_all("output", result)
        if not results.tensors:
            raise CaptureError(f"the model returns a {type(result).__name__} without tensors")
        return self.give(results)


class _Function(_Step):
    """A function without a module: `function(state, inputs)` maps named tensors to named tensors."""

    def __init__(
        self,
        function: Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], Mapping[str, torch.Tensor]],
        state: Mapping[str, torch.Tensor],
        inputs: Mapping[str, torch.Tensor],
        origins: Mapping[int, str],
    ) -> None:
        super().__init__(torch.nn.Module(), dict(inputs))
        self.function = function
        for name, value in state.items():
            if value.is_floating_point():
                self.parameters[name] = torch.nn.Parameter(value, requires_grad=False)
            else:
                self.buffers[name] = value
        self.batch_names = [*inputs]
        self.origins = origins

    def run(
        self,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
        batch: Any,
    ) -> list[torch.Tensor]:
        results = Results()
        values = {**parameters, **buffers}
        with torch.no_grad():
            for name, value in self.function(values, batch).items():
                results.append(name, value)
        for own in (parameters, buffers):
            own.update({name: values[name] for name in own})
        return self.give(results)


def _computed(
    metrics: Mapping[str, Callable[[Any, Any], Any]], output: Any, target: Any, kept: Sequence[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Computes the metrics.

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
            found = f"shape {list(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
            raise CaptureError(f"metric {name} gives {found}, expected a tensor of shape [] with a real number")
        if sites.drawn:
            raise CaptureError(f"metric {name} draws random numbers: the state of the run would depend on it")
        if [each._version for each in kept] != versions:
            raise CaptureError(f"metric {name} writes to a tensor of the step: the state of the run would depend on it")
        values[name] = value
    sites.drawn = drawn
    return values


def _call(model: torch.nn.Module, batch: Any) -> Any:
    return model(**batch) if isinstance(batch, dict) else model(*batch)


def _remedy(parameter: torch.Tensor, loss_fn: object) -> str:
    """Returns advice on how to train a parameter that does not belong to the model."""
    if isinstance(loss_fn, torch.nn.Module) and any(parameter is each for each in loss_fn.parameters()):
        return " but the loss function's: expected one module that has both and gives the loss, and loss_fn=None"
    return ": expected parameters of the model alone; for copies in f32 of others, a model in f32 and autocast="


def _global_norm(gradients: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Computes the 2-norm of all gradients together, as torch.nn.utils.clip_grad_norm_ returns it."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients.values()]
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].dtype) for norm in norms]))


def _check_batch(loss_fn: object, batch: Any) -> None:
    if loss_fn is None or (isinstance(batch, tuple | list) and len(batch) >= 2):
        return
    found = f"a {type(batch).__name__}"
    if isinstance(batch, tuple | list):
        found += f" of {len(batch)}"
        if len(batch) == 1 and isinstance(batch[0], tuple | list):
            found += f" (a {type(batch[0]).__name__}: step(*batch) gives its entries)"
    raise CaptureError(f"batch is {found}, expected a tuple (*inputs, target) as loss_fn is given")


@dataclass(frozen=True)
class _StateTensor:
    """A state tensor with a copy of its value."""

    name: str
    role: Role
    initial: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Traced:
    """The graph of a step and the state tensors that are its first arguments.

    Attributes:
      first: the graph of the first stage, with seed and step after the state of the model and the optimizer.
      own: the state of the model and the optimizer.
      random: seed and step.
      keeps_random: whether the program keeps seed and step even if the step draws no random numbers, because a chosen
        precision or gradient compression rounds stochastically.
    """

    first: torch.fx.GraphModule
    own: list[_StateTensor]
    random: list[_StateTensor]
    keeps_random: bool = False

    @functools.cached_property
    def second(self) -> tuple[torch.fx.GraphModule, bool]:
        """The graph to lower, and whether its program draws random numbers; if not, the graph lacks seed and step."""
        graph = second_stage(self.first)
        seed = [node for node in graph.graph.nodes if node.op == "placeholder"][len(self.own)]
        draws = self.keeps_random or any(user.op != "output" for user in seed.users)
        if not draws:
            _drop_random_state(graph, len(self.own))
        return graph, draws

    def graph(self) -> torch.fx.GraphModule:
        """Returns the graph to lower."""
        return self.second[0]

    def entries(self, draws: bool) -> list[_StateTensor]:
        """Returns the state of the program: with seed and step if it draws random numbers.

        Raises:
          CaptureError: a state tensor of the model has the name of one of these.
        """
        if not draws:
            return self.own
        for entry in self.own:
            if entry.name in ("seed", "step"):
                raise CaptureError(f"{entry.role} {entry.name} of the model has the name of random-number state")
        return [*self.own, *self.random]

    def lowered(self, step: _Step) -> _Lowered:
        """Lowers the step, or reads the result for an equal graph from the cache on disk (base/files/cache.py)."""
        identity, contents = frontend_identity(), contents_of(self.first)
        if identity is None or contents is None:
            return self._lower(step)
        names = [*(entry.name for entry in self.own), "", *step.input_names, "", *step.output_names]
        settings = f"{torch.get_default_dtype()} {torch.are_deterministic_algorithms_enabled()} {self.keeps_random}"
        sources = [b"capture", identity, settings.encode(), contents]
        data = cached([*sources, json.dumps(names).encode()], lambda: self._lower(step).to_bytes())
        return _Lowered.of_bytes(data)

    def _lower(self, step: _Step) -> _Lowered:
        graph, draws = self.second
        entries = self.entries(draws)
        return _Lowered(_text(step, graph, entries), draws, _written(graph.graph, entries))


@dataclass(frozen=True)
class _Lowered:
    """The imported linalg of a step, whether it draws random numbers, and the names of the state tensors it changes."""

    text: str
    draws: bool
    written: frozenset[str]

    def to_bytes(self) -> bytes:
        """Serializes the result for the cache; `of_bytes` reads it."""
        return json.dumps([self.draws, sorted(self.written)]).encode() + b"\n" + self.text.encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Reads the result of `to_bytes`."""
        head, _, text = data.partition(b"\n")
        draws, written = json.loads(head)
        return cls(text.decode(), draws, frozenset(written))


def _text(step: _Step, graph: torch.fx.GraphModule, entries: Sequence[_StateTensor], sizes: Sizes | None = None) -> str:
    """Lowers a graph to imported linalg."""
    # Imported here because the import of torch-mlir takes half a second, which a cache hit saves.
    from repro_mlir.frontends.torch.lower.lowering import lower

    names = [entry.name for entry in entries]
    return lower(graph, len(names), [*names, *step.input_names], [*names, *step.output_names], sizes=sizes)


def _written(graph: torch.fx.Graph, entries: Sequence[_StateTensor]) -> frozenset[str]:
    """Returns the names of the state tensors that a step changes."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.nodes if node.op == "output")
    triples = zip(entries, arguments, output.args[0], strict=False)
    return frozenset(entry.name for entry, argument, result in triples if origin_of_values(result) is not argument)


def _trace(step: _Step, options: CaptureOptions, sizes: Sizes | None = None) -> _Traced:
    optimizer = step.optimizer
    entries = [
        *(_StateTensor(name, "parameter", value.detach().clone()) for name, value in step.parameters.items()),
        *(_StateTensor(name, "buffer", value.detach().clone()) for name, value in step.buffers.items()),
        *(_StateTensor(slot.name, "optimizer", slot.initial) for slot in (optimizer.slots if optimizer else [])),
        *(_StateTensor(name, role, value.detach().clone()) for name, (role, value) in step.extra.items()),
    ]
    _check_names(entries)
    num_parameters, num_buffers = len(step.parameters), len(step.buffers)
    num_model_state = len(entries)
    random_state = [
        _StateTensor("seed", "seed", torch.tensor(signed_seed(options.seed), dtype=torch.int64)),
        _StateTensor("step", "step", torch.tensor(0, dtype=torch.int64)),
    ]
    hyper_parameters = optimizer.read_hyper_parameters() if optimizer else []
    hyper_parameters += step.changing.tensors([leaf for _, leaf in step.leaves])
    count = len(hyper_parameters)

    def function(*arguments: torch.Tensor) -> list[torch.Tensor]:
        values = list(arguments[:num_model_state])
        seed_value, step_value, *rest = arguments[num_model_state:]
        parameters = dict(zip(step.parameters, values[:num_parameters], strict=True))
        buffers = {
            name: value.clone()
            for name, value in zip(step.buffers, values[num_parameters : num_parameters + num_buffers], strict=True)
        }
        names = [entry.name for entry in entries[num_parameters + num_buffers :]]
        state = dict(zip(names, values[num_parameters + num_buffers :], strict=True))
        recorded = contextlib.nullcontext() if step.recording is None else step.recording.recorded()
        with RandomSites(seed_value, step_value), recorded:
            batch = step.rebuild_batch(rest[count:])
            leaves = dict(named_leaves(batch))
            outputs = step.run(parameters, buffers, state, rest[:count], batch)
            refuse_new_entries(leaves, dict(named_leaves(batch)))
        kept.note_constants()
        new_state = [*parameters.values(), *buffers.values(), *state.values()]
        return [*new_state, seed_value, step_value + 1, *outputs]

    random_values = [entry.initial for entry in random_state]
    arguments = [*(entry.initial for entry in entries), *random_values, *hyper_parameters]
    block = options.attention_block
    with kept_tensors(step.modules()) as kept, contextlib.nullcontext() if sizes is None else sizes.tracing():
        arguments = [*arguments, *step.batch] if sizes is None else sizes.fake(arguments)
        trace = functools.partial(first_stage, function, arguments, None if block is None else int(block), step.origins)
        first = trace()
        kept.check(first, trace)
        traced = _Traced(first, entries, random_state, optimizer is not None and options.is_stochastic)
        if sizes is not None:
            # The second stage may add conditions on the sizes, so it must run while the sizes are traced.
            _ = traced.second
    refuse_writes(first.graph, step.batch_names)
    _check_constants(first.meta["constants"], step)
    return traced


def _capture(step: _Step, options: CaptureOptions) -> ImportedProgram[Captured]:
    traced = _trace(step, options)
    optimizer, num_model_state = step.optimizer, len(traced.own)
    lowered = traced.lowered(step)
    entries = traced.entries(lowered.draws)
    output_node = next(node for node in traced.first.graph.nodes if node.op == "output")
    results = [node.meta["val"] for node in output_node.args[0][num_model_state + len(traced.random) :]]
    state = _kinds([entry.name for entry in entries], [entry.initial for entry in entries])
    batch = _kinds(step.batch_names, step.batch)
    hyper_kinds = [
        *(optimizer.hyper_parameters if optimizer else []),
        *(TensorType(name, "f64", ()) for name in step.changing.inputs),
    ]
    model_tensors = [*step.parameters.values(), *step.buffers.values()]

    def write_state(values: Sequence[torch.Tensor]) -> None:
        with torch.no_grad():
            for tensor, value in zip(model_tensors, values, strict=False):
                represented(tensor).copy_(represented(value))
            beside = values[num_model_state - len(step.extra) : num_model_state]
            for tensor, value in zip(step.extra_tensors(), beside, strict=True):
                tensor.copy_(value)
        if optimizer:
            optimizer.write_state(values[len(model_tensors) : num_model_state - len(step.extra)])

    bindings = Captured(
        state=state,
        roles=tuple(entry.role for entry in entries),
        batch=batch,
        written=lowered.written,
        constants=traced.first.meta["constants"],
        results=step.results,
        recording=step.recording,
        _batch_spec=step.batch_spec,
        _batch_constants=step.constants,
        changing=step.changing,
        _optimizer=optimizer,
        _write_state=write_state,
        _graph=traced.graph,
    )
    imported = ImportedProgram(
        text=lowered.text,
        state=state,
        initial=_initial_values(entries),
        inputs=(*hyper_kinds, *batch),
        outputs=_kinds(step.output_names, results),
        num_hyper_parameters=len(hyper_kinds),
        random=(num_model_state, num_model_state + 1) if lowered.draws else None,
        bindings=bindings,
    )
    if optimizer is None or options.gradient_compression is None:
        return imported
    return _compressed(imported, options.gradient_compression)


def _compressed(imported: ImportedProgram[Captured], compression: GradientCompression) -> ImportedProgram[Captured]:
    """Compresses the gradients of a step, and adds the new state to the bindings."""
    found = compress_gradients(imported, compression)
    new = found.state[len(imported.state) :]
    role: Role = "gradient_compression"
    written = imported.bindings.written | {kind.name for kind in new}
    bindings = replace(
        imported.bindings, state=found.state, roles=(*imported.bindings.roles, *(role for _ in new)), written=written
    )
    return replace(found, bindings=bindings)


def _check_names(entries: Sequence[_StateTensor]) -> None:
    """Raises CaptureError if two state tensors have the same name."""
    roles: dict[str, Role] = {}
    for entry in entries:
        if entry.name in roles:
            raise CaptureError(
                f"{roles[entry.name]} {entry.name} of the model has the name of a state tensor of another kind "
                f"({entry.role}): rename the module"
            )
        roles[entry.name] = entry.role


def _kinds(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> tuple[TensorType, ...]:
    return tuple(kind_of(name, tensor) for name, tensor in zip(names, tensors, strict=True))


def _initial_values(entries: Sequence[_StateTensor]) -> tuple[np.ndarray, ...]:
    kinds = _kinds([entry.name for entry in entries], [entry.initial for entry in entries])
    return tuple(_initial(entry.initial, kind) for entry, kind in zip(entries, kinds, strict=True))


def _initial(tensor: torch.Tensor, kind: TensorType) -> np.ndarray:
    return np.ascontiguousarray(as_array(tensor, kind, "state")).reshape(kind.shape)


def _check_constants(constants: Sequence[torch.Tensor], step: _Step) -> None:
    """Raises CaptureError if the step reads the memory of its state other than through the model."""
    held = {
        value.untyped_storage().data_ptr(): name
        for name, value in (*step.parameters.items(), *step.buffers.items())
        if value.numel() and value.device.type == "cpu"
    }
    for constant in constants:
        if constant.layout is torch.strided and constant.device.type == "cpu" and constant.numel():
            name = held.get(constant.untyped_storage().data_ptr())
            if name is not None:
                raise CaptureError(
                    f"the step reads the tensor of {name} from elsewhere than the model: expected it to be read as an "
                    "attribute of its module, so that it changes with each step and has a gradient"
                )


def _drop_random_state(graph: torch.fx.GraphModule, position: int) -> None:
    """Removes the arguments and results for seed and step from a graph that draws no random numbers."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.graph.nodes if node.op == "output")
    results = list(output.args[0])
    output.args = ([*results[:position], *results[position + 2 :]],)
    graph.graph.eliminate_dead_code()
    for node in placeholders[position : position + 2]:
        graph.graph.erase_node(node)
    graph.recompile()
