# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A step as a function of tensors, which every kind of capture traces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.torch_tensors import kind_of
from repro_mlir.frontends.torch.base.batch_leaves import TENSOR_LEAF, flatten, leaf_names
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.source_lines import module_names, named_modules
from repro_mlir.frontends.torch.base.torch_internals import pytree, reparametrize_module
from repro_mlir.frontends.torch.base.user_objects import require_model
from repro_mlir.frontends.torch.capture.step_results import Results
from repro_mlir.frontends.torch.objects.captured_program import Role
from repro_mlir.frontends.torch.objects.changing_values import ChangingValues
from repro_mlir.frontends.torch.optimizers.optimizers import OptimizerProgram
from repro_mlir.frontends.torch.trace.recording import Recording
from repro_mlir.frontends.torch.trace.representation import represented

DEFAULTS = CaptureOptions()


@dataclass(frozen=True)
class StateTensor:
    """A state tensor with a copy of its value."""

    name: str
    role: Role
    initial: torch.Tensor

    @property
    def kind(self) -> TensorType:
        """The name, element type and shape of the tensor."""
        return kind_of(self.name, self.initial)

    def array(self) -> np.ndarray:
        """Returns the value as a C-contiguous array."""
        return np.ascontiguousarray(as_array(self.initial, self.kind, "state")).reshape(self.kind.shape)


@dataclass(frozen=True, eq=False)
class StepTensors:
    """The tensors with which a step computes.

    Attributes:
      parameters, buffers: the model's tensors, keyed by name.
      state: the tensors of the optimizer and of `Step.extra`, keyed by name.
      hyper_parameters: the hyper-parameters of the optimizer.
      changing: the Python numbers that are inputs because they change from step to step.
      batch: the batch, with its tensors in the trace.
    """

    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]
    hyper_parameters: Sequence[torch.Tensor]
    changing: Sequence[torch.Tensor]
    batch: Any


class Step:
    """A function of state, hyper-parameters and batch tensors, all with names."""

    def __init__(self, model: torch.nn.Module, batch: Any) -> None:
        require_model(model)
        self.model = model
        self.origins: Mapping[int, str] = module_names(model)
        self.parameters = dict(model.named_parameters())
        self.buffers = dict(model.named_buffers())
        leaves, self.batch_spec = flatten(batch)
        self.constants = [TENSOR_LEAF if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        tensors = (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
        # Tensors that were created in inference mode are copied, because autograd does not accept them.
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

    def state(self) -> list[StateTensor]:
        """Returns the state tensors of the model, of the optimizer and of `extra`."""
        slots = self.optimizer.slots if self.optimizer else []
        return [
            *(StateTensor(name, "parameter", value.detach().clone()) for name, value in self.parameters.items()),
            *(StateTensor(name, "buffer", value.detach().clone()) for name, value in self.buffers.items()),
            *(StateTensor(slot.name, "optimizer", slot.initial) for slot in slots),
            *(StateTensor(name, role, value.detach().clone()) for name, (role, value) in self.extra.items()),
        ]

    def numbers(self) -> list[torch.Tensor]:
        """Returns the present values of the hyper-parameters and the changing numbers."""
        hyper_parameters = self.optimizer.read_hyper_parameters() if self.optimizer else []
        return [*hyper_parameters, *self.changing.tensors([leaf for _, leaf in self.leaves])]

    def write_state(self, values: Sequence[torch.Tensor]) -> None:
        """Copies `values`, one for each tensor of `state`, into the user's objects."""
        model_tensors = [*self.parameters.values(), *self.buffers.values()]
        begin = len(model_tensors)
        end = begin + len(self.optimizer.slots if self.optimizer else [])
        with torch.no_grad():
            for tensor, value in zip(model_tensors, values, strict=False):
                represented(tensor).copy_(represented(value))
            for tensor, value in zip(self.extra_tensors(), values[end : end + len(self.extra)], strict=True):
                tensor.copy_(value)
        if self.optimizer:
            self.optimizer.write_state(values[begin:end])

    def extra_tensors(self) -> list[torch.Tensor]:
        """Returns the tensors of the user's objects that correspond to `extra`."""
        return []

    def modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yields the modules that the step calls, each with its name."""
        return named_modules("model", self.model)

    def tensors(
        self, state: Mapping[str, torch.Tensor], numbers: Sequence[torch.Tensor], batch: Sequence[torch.Tensor]
    ) -> StepTensors:
        """Returns the tensors of a trace for `run`.

        Args:
          state: the state tensors, keyed by name.
          numbers: the hyper-parameters, then the changing numbers.
          batch: the tensors of the batch; its other leaves are those of the captured batch.
        """
        remaining = iter(batch)
        leaves = [next(remaining) if constant is TENSOR_LEAF else constant for constant in self.constants]
        model_names = self.parameters.keys() | self.buffers.keys()
        count = len(numbers) - len(self.changing.inputs)
        return StepTensors(
            parameters={name: state[name] for name in self.parameters},
            buffers={name: state[name].clone() for name in self.buffers},
            state={name: value for name, value in state.items() if name not in model_names},
            hyper_parameters=numbers[:count],
            changing=numbers[count:],
            batch=pytree.tree_unflatten(self.changing.replaced(leaves), self.batch_spec),
        )

    @contextlib.contextmanager
    def model_with(self, parameters: Mapping[str, torch.Tensor], tensors: StepTensors) -> Iterator[None]:
        """Replaces the model's tensors within the block; afterwards `tensors.buffers` has the buffers' new values."""
        swapped = {**parameters, **tensors.buffers}
        with reparametrize_module(self.model, swapped, tie_weights=True):
            yield
        tensors.buffers.update({name: swapped[name] for name in tensors.buffers})

    def run(self, tensors: StepTensors) -> list[torch.Tensor]:
        """Computes the step: replaces the entries of `tensors` by the new state and returns the outputs."""
        raise NotImplementedError

    def give(self, results: Results) -> list[torch.Tensor]:
        """Returns the output tensors, and stores their names and structure in the step."""
        self.output_names, self.results = results.names, results.structure
        return [value.detach() for value in results.tensors]


def called(model: torch.nn.Module, batch: Any) -> Any:
    """Calls a model with the entries of a batch."""
    return model(**batch) if isinstance(batch, dict) else model(*batch)
