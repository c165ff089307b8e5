# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers traced steps to imported programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from repro_mlir.base.files.cache import cached
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.torch_tensors import kind_of
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.open_sizes import SymbolicSizes
from repro_mlir.frontends.torch.capture.microbatch_reduction import origin_of_values
from repro_mlir.frontends.torch.capture.steps import StateTensor, Step
from repro_mlir.frontends.torch.capture.traced_steps import TracedStep, trace_step
from repro_mlir.frontends.torch.lower.graph_hash import contents_of, frontend_identity
from repro_mlir.frontends.torch.objects.captured_program import Role, TorchBindings
from repro_mlir.gradient_compression.apply import compress_gradients
from repro_mlir.gradient_compression.methods import GradientCompression
from repro_mlir.program.imported import ImportedProgram


def import_step(step: Step, options: CaptureOptions) -> ImportedProgram[TorchBindings]:
    """Traces and lowers a step.

    Raises:
      CaptureError: the step cannot be captured.
    """
    traced = trace_step(step, options)
    lowered = _lowered(step, traced)
    entries = traced.entries(lowered.draws)
    state = tuple(entry.kind for entry in entries)
    batch = _kinds(step.batch_names, step.batch)
    numbers = (
        *(step.optimizer.hyper_parameters if step.optimizer else ()),
        *(TensorType(name, "f64", ()) for name in step.changing.inputs),
    )
    bindings = TorchBindings(
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
        _optimizer=step.optimizer,
        _write_state=step.write_state,
        _graph=traced.graph,
    )
    imported = ImportedProgram(
        text=lowered.text,
        state=state,
        initial=tuple(entry.array() for entry in entries),
        inputs=(*numbers, *batch),
        outputs=_kinds(step.output_names, traced.results()),
        num_hyper_parameters=len(numbers),
        random=(len(traced.own), len(traced.own) + 1) if lowered.draws else None,
        bindings=bindings,
    )
    if step.optimizer is None or options.gradient_compression is None:
        return imported
    return _compressed(imported, options.gradient_compression)


def _compressed(
    imported: ImportedProgram[TorchBindings], compression: GradientCompression
) -> ImportedProgram[TorchBindings]:
    """Returns the program with compressed gradients; its bindings include the state that the compression adds."""
    found = compress_gradients(imported, compression)
    new = found.state[len(imported.state) :]
    role: Role = "gradient_compression"
    written = imported.bindings.written | {kind.name for kind in new}
    bindings = replace(
        imported.bindings, state=found.state, roles=(*imported.bindings.roles, *(role for _ in new)), written=written
    )
    return replace(found, bindings=bindings)


def _kinds(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> tuple[TensorType, ...]:
    return tuple(kind_of(name, tensor) for name, tensor in zip(names, tensors, strict=True))


@dataclass(frozen=True)
class _Lowered:
    """The imported linalg of a step, whether it draws random numbers, and the names of the state tensors that the step
    changes."""

    text: str
    draws: bool
    written: frozenset[str]

    def to_bytes(self) -> bytes:
        """Serializes the result for the cache; `of_bytes` reads it."""
        return json.dumps([self.draws, sorted(self.written)]).encode() + b"\n" + self.text.encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Parses bytes that `to_bytes` has returned."""
        head, _, text = data.partition(b"\n")
        draws, written = json.loads(head)
        return cls(text.decode(), draws, frozenset(written))


def _lowered(step: Step, traced: TracedStep) -> _Lowered:
    """Lowers a step, or reads the result for an equal graph from the cache on disk (base/files/cache.py)."""

    def lower() -> _Lowered:
        graph, draws = traced.second
        entries = traced.entries(draws)
        return _Lowered(lowered_text(step, graph, entries), draws, _written(graph.graph, entries))

    identity, contents = frontend_identity(), contents_of(traced.first)
    if identity is None or contents is None:
        return lower()
    names = [*(entry.name for entry in traced.own), "", *step.input_names, "", *step.output_names]
    settings = f"{torch.get_default_dtype()} {torch.are_deterministic_algorithms_enabled()} {traced.keeps_random}"
    sources = [b"capture", identity, settings.encode(), contents, json.dumps(names).encode()]
    return _Lowered.of_bytes(cached(sources, lambda: lower().to_bytes()))


def lowered_text(
    step: Step, graph: torch.fx.GraphModule, entries: Sequence[StateTensor], sizes: SymbolicSizes | None = None
) -> str:
    """Lowers a graph to imported linalg."""
    # Imported here because the import of torch-mlir takes half a second, which a cache hit saves.
    from repro_mlir.frontends.torch.lower.lowering import lower

    names = [entry.name for entry in entries]
    return lower(graph, len(names), [*names, *step.input_names], [*names, *step.output_names], sizes=sizes)


def _written(graph: torch.fx.Graph, entries: Sequence[StateTensor]) -> frozenset[str]:
    """Returns the names of the state tensors that a step changes."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.nodes if node.op == "output")
    triples = zip(entries, arguments, output.args[0], strict=False)
    return frozenset(entry.name for entry, argument, result in triples if origin_of_values(result) is not argument)
