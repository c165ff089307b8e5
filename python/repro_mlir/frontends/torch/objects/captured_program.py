# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The connection of a captured program to the user's model, optimizer and batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.fx

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import kind_of
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.torch_tensors import dtype_of, to_tensor
from repro_mlir.frontends.torch.base.batch_leaves import TENSOR_LEAF, leaf_names
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.objects.flat_batch import FlatBatch

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.objects.changing_values import ChangingValues
    from repro_mlir.frontends.torch.optimizers.optimizers import OptimizerProgram
    from repro_mlir.frontends.torch.optimizers.state_slots import Slot
    from repro_mlir.frontends.torch.trace.recording import Recording

Role = Literal["parameter", "buffer", "optimizer", "average", "loss_scale", "seed", "step", "gradient_compression"]


@dataclass
class TorchBindings:
    """The bindings of a captured program (`program.imported.Bindings`), and the graph from which it was lowered.

    The names of state tensors are those of parameters and buffers in the model, `optimizer.<parameter>.<key>` or
    `optimizer.group<i>.<key>`, `average.<name>` with the average's own names, `loss_scale.scale` and
    `loss_scale.growth_tracker`, `seed` and `step`, and `gradient_compression.<kind>.<parameter>`.

    The hyper-parameters are the numbers that the optimizer's update reads, and those that torch.optim derives from them
    in f64. For one parameter group, they are listed below. For several groups, each name ends in the group's number
    (`.0`, `.1`, ...), and the numbers of the first group come first:

      SGD: `lr`; `weight_decay`, `momentum`, `one_minus_dampening`, each if it has an effect.
      Adam, AdamW: `lr`; `weight_decay` unless it is 0; `beta1`, `one_minus_beta1`, `beta2`, `one_minus_beta2`, `eps`.
      RMSprop: `lr`; `weight_decay` unless it is 0; `alpha`, `one_minus_alpha`, `eps`; `momentum` if it is above 0.

    If gradients are clipped, `clip_norm` is the last hyper-parameter. Hyper-parameters are f32, or f64 for groups with
    f64 parameters.

    For any other optimizer the hyper-parameters are the numbers of its groups that its step computes with, as f64 and
    named by their keys: `lr`, `betas[0]`. The program itself computes the numbers derived from them.

    The program supports changes of the hyper-parameters. Any other change of an optimizer needs another program: a
    weight decay, momentum or dampening that becomes zero or nonzero, a flag (`nesterov`, `amsgrad`, `maximize`,
    `centered`, `decoupled_weight_decay`), a parameter that is added to or removed from a group. A traced optimizer also
    needs another program if a flag, an attribute, or the outcome of a comparison in its step changes. Such an outcome
    may depend on the optimizer's state (`depends_on_state`). In all these cases, `optimizer_structure()` differs from
    `structure`, and `hyper_parameters()` raises. To continue, call `write_state` and capture again: the optimizer's
    values become the new program's state. A missing slot gets the optimizer's initial value; a slot that no step reads
    any more stays in the optimizer, as with torch.optim.

    Attributes:
      state: the state tensors.
      roles: the role of each state tensor. `seed` and `step` occur only if the program draws random numbers; no object
        of the user contains `gradient_compression`.
      batch: the tensors of the batch, which are the inputs after the hyper-parameters.
      written: the names of the state tensors that a step changes.
      constants: tensors that the step read in addition to its state and the batch; the program contains their values.
      results: the positions of the outputs in the user's results (see `step_results.Results`).
      changing: values that may differ at later steps; numbers among them are inputs after the hyper-parameters.
      recording: the code that ran in the trace; None if no caller checks whether the program still applies.
    """

    state: tuple[TensorType, ...]
    roles: tuple[Role, ...]
    batch: tuple[TensorType, ...]
    written: frozenset[str] = field(repr=False)
    constants: list[torch.Tensor] = field(repr=False)
    results: dict[str, Any] = field(repr=False)
    changing: ChangingValues = field(repr=False)
    recording: Recording | None = field(repr=False)
    _batch_spec: pytree.TreeSpec = field(repr=False)
    _batch_constants: list[Any] = field(repr=False)
    _optimizer: OptimizerProgram | None = field(repr=False)
    _write_state: Callable[[Sequence[torch.Tensor]], None] = field(repr=False)
    _graph: Callable[[], torch.fx.GraphModule] = field(repr=False)

    @property
    def graph(self) -> torch.fx.GraphModule:
        """The functional ATen graph that is lowered; `graph(*state, *inputs)` runs it in eager mode."""
        return self._graph()

    @property
    def structure(self) -> Hashable:
        """The optimizer's structure at capture; None for inference."""
        return self._optimizer and self._optimizer.structure

    @property
    def depends_on_state(self) -> bool:
        """Whether `structure` depends on the optimizer's state, so that another program may be needed after a step."""
        return self._optimizer is not None and self._optimizer.depends_on_state

    @property
    def slots(self) -> list[Slot | None]:
        """The optimizer's slot for each state tensor; None for state that is not the optimizer's."""
        slots = iter(self._optimizer.slots if self._optimizer else [])
        return [next(slots) if role == "optimizer" else None for role in self.roles]

    @property
    def own(self) -> list[str]:
        """The names of the state tensors that no object of the user contains."""
        roles = ("seed", "step", "gradient_compression")
        return [kind.name for kind, role in zip(self.state, self.roles, strict=True) if role in roles]

    @property
    def optimizer_constants(self) -> Mapping[torch.Tensor, dict[Any, Any]]:
        """Entries that the optimizer's first step creates and that are not state tensors, keyed by parameter."""
        return self._optimizer.constants if self._optimizer else {}

    def optimizer_structure(self) -> Hashable:
        """Returns the optimizer's present structure, which equals `structure` as long as the program applies.

        The call takes microseconds. The result may be used only to compare it with `structure`, and only while this
        object lives.

        Raises:
          CaptureError: an option is set that no program supports, such as `differentiable`.
        """
        return self._optimizer and self._optimizer.present_structure()

    def hyper_parameters(self) -> list[torch.Tensor]:
        """Returns the present values of the hyper-parameters, read from the user's optimizer and rounded once.

        Equal values yield the same tensors again, which must not be modified.

        Raises:
          CaptureError: the optimizer needs another program, or a hyper-parameter is not a number.
        """
        return [] if self._optimizer is None else self._optimizer.read_hyper_parameters()

    def inputs(self, batch: FlatBatch) -> list[torch.Tensor]:
        """Returns all inputs of a step on this batch.

        Raises:
          CaptureError: see `hyper_parameters` and `flatten_batch`.
        """
        return [*self.hyper_parameters(), *self.changing.tensors(batch.leaves), *self.batch_tensors(batch)]

    def takes(self, batch: FlatBatch) -> bool:
        """Whether the program supports the numbers and strings of a batch that has the captured structure."""
        pairs = enumerate(zip(batch.leaves, self._batch_constants, strict=True))
        constants = ((leaf, each) for i, (leaf, each) in pairs if each is not TENSOR_LEAF and not self.changing.has(i))
        return all(_is_same(leaf, each) for leaf, each in constants) and self.changing.fits(batch.leaves)

    def flatten_batch(self, batch: Any) -> list[torch.Tensor]:
        """Returns the tensors of `batch` in the order of the inputs.

        Raises:
          CaptureError: the structure, a shape, an element type or a constant differs from the captured batch.
        """
        return self.batch_tensors(FlatBatch(batch))

    def batch_tensors(self, batch: FlatBatch) -> list[torch.Tensor]:
        """Returns the tensors as `flatten_batch` does; for a microbatch, the tensors of the whole batch."""
        leaves, spec = batch.leaves, batch.spec
        if spec != self._batch_spec:
            raise CaptureError(f"batch has the structure {_one_line(spec)}, expected {_one_line(self._batch_spec)}")
        tensors = []
        expected = iter(self.batch)
        for index, (leaf, constant) in enumerate(zip(leaves, self._batch_constants, strict=True)):
            if constant is not TENSOR_LEAF:
                if not self.changing.has(index) and not _is_same(leaf, constant):
                    name = leaf_names(batch.given)[index]
                    raise CaptureError(
                        f"{name} is {leaf!r}, but was captured as the constant {constant!r}: pass values that differ "
                        "between batches as tensors"
                    )
                continue
            want = next(expected)
            if not isinstance(leaf, torch.Tensor):
                raise CaptureError(f"{want.name} is {kind_of(leaf)}, expected a tensor")
            dtype, shape = dtype_of(want), want.shown_shape
            if tuple(leaf.shape) != shape or leaf.dtype != dtype:
                raise CaptureError(
                    f"{want.name} has shape {list(leaf.shape)} of {leaf.dtype}, expected {list(shape)} of {dtype}"
                )
            tensors.append(leaf.detach().resolve_neg())
        if batch.whole is not None:
            return [leaf.detach().resolve_neg() for leaf in batch.whole.leaves if isinstance(leaf, torch.Tensor)]
        return tensors

    def write_state(self, values: Sequence[Any]) -> None:
        """Stores state in the user's model and optimizer: afterwards their `state_dict` contains the program's state.

        Args:
          values: for each entry of `state`, an array of the entry's shape and element type, in a form that `as_array`
            accepts.
        Raises:
          ReproError: the number, a shape or an element type of the arrays differs; nothing has been written.
        """
        if len(values) != len(self.state):
            raise CaptureError(f"got {len(values)} state tensors, expected {len(self.state)}")
        pairs = [(as_array(value, kind, "state"), kind) for value, kind in zip(values, self.state, strict=True)]
        self._write_state([to_tensor(np.require(array, requirements="C"), kind) for array, kind in pairs])


def _is_same(leaf: Any, constant: Any) -> bool:
    """Whether a step cannot distinguish two leaves: 1 differs from 1.0 and True, 0.0 from -0.0; all NaNs are equal."""
    if type(leaf) is not type(constant):
        return False
    if isinstance(leaf, complex):
        return _is_same(leaf.real, constant.real) and _is_same(leaf.imag, constant.imag)
    return leaf.hex() == constant.hex() if isinstance(leaf, float) else bool(leaf == constant)


def _one_line(spec: pytree.TreeSpec) -> str:
    return " ".join(str(spec).split())
