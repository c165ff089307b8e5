# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles the forward and backward graphs of torch.compile, with one program per set of sizes that occurs."""

import contextlib
import dataclasses
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.checkpoint import CheckpointPolicy

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import is_user_file, source_name
from repro_mlir.frontends.torch.compile_backend.graphs import (
    CapturedGraph,
    capture_graph,
    concrete,
    draws,
    errors_of_nodes,
    is_random,
    may_overlap,
    name_origins,
    reads_written,
)
from repro_mlir.frontends.torch.trace.compositions import Compositions
from repro_mlir.frontends.torch.trace.control_flow import make_counters_known
from repro_mlir.frontends.torch.trace.selections import has_selections, without_selections
from repro_mlir.frontends.torch.trace.tracing import errors_with_lines, tracing_environment
from repro_mlir.program.imported import ImportedProgram

_DEFAULT_LIMIT = 8
"""PyTorch's default for the number of variants of a function that Dynamo compiles."""
_SIZES = 64
"""The maximum number of programs that a graph keeps, so that a size that changes in each call does not fill memory."""


class Runner(Protocol):
    """A captured graph that is ready to run."""

    def __call__(self, tensors: Sequence[torch.Tensor], /) -> list[torch.Tensor]:
        """Runs the program on `CapturedGraph.tensors` and updates the state tensors, which come first.

        Returns:
          the outputs as new tensors with the layouts of `CapturedGraph.layouts`.
        """


@dataclass(frozen=True)
class GraphOptions:
    """The options for compiling a graph of torch.compile.

    Attributes:
      prepare: returns the runner of a captured graph.
      seeds: returns seed and step of the random numbers (R1) for one call of a graph that draws random numbers.
      fallback: whether PyTorch runs a graph that cannot be captured or compiled, after a warning; otherwise an error is
        raised.
    """

    prepare: Callable[[ImportedProgram[CapturedGraph]], Runner]
    seeds: Callable[[], tuple[int, int]]
    fallback: bool


def compile_graph(module: torch.fx.GraphModule, arguments: Sequence[Any], options: GraphOptions) -> Callable[..., Any]:
    """Compiles a graph of Dynamo to a function, as a backend of torch.compile does.

    Args:
      module, arguments: the graph and its example arguments, as Dynamo passes them.
      options: see `GraphOptions`.
    Raises:
      ReproError: the graph cannot be captured or compiled.
    """
    if internals.active_data_parallel_module() is not None:
        raise CaptureError(
            "the model is wrapped in DistributedDataParallel, whose order of adding gradients is not defined: "
            "expected the model itself, in one process"
        )
    _warn_of_break(module)
    make_counters_known(module)
    if not options.fallback:
        # If a function exceeded Dynamo's limit of recompilations, Dynamo would run it in eager mode and only log this.
        config = internals.dynamo_config()
        config.fail_on_recompile_limit_hit = True
        if config.recompile_limit == _DEFAULT_LIMIT:
            # PyTorch's default limit is low, because exceeding it only causes a fallback to eager mode. Here, exceeding
            # the limit is an error.
            config.recompile_limit = _SIZES

    def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        return _Graph(gm, example_inputs, options)

    def compile_it(environment: contextlib.AbstractContextManager[Any]) -> Callable[..., Any]:
        with errors_of_nodes(), _separate_gradients(), tracing_environment(), Compositions(), environment:
            compiled: Callable[..., Any] = internals.aot_module_simplified(
                module,
                arguments,
                fw_compiler=compiler,
                bw_compiler=compiler,
                partition_fn=_partition,
                # Tensors written in place are the program's state; otherwise AOTAutograd would copy results into them.
                keep_inference_input_mutations=True,
            )
        return compiled

    mode = internals.detect_fake_mode()
    environment = None if mode is None else mode.shape_env
    if environment is None:
        return compile_it(contextlib.nullcontext())
    known = environment.unbacked_symint_counter
    try:
        return compile_it(_selections(environment))
    except CaptureError:
        if environment.unbacked_symint_counter == known:
            raise
        # The attempt with data-dependent shapes failed. Without such shapes, Dynamo breaks the graph at the operator
        # whose output shape depends on values.
        return compile_it(contextlib.nullcontext())


def _separate_gradients() -> contextlib.AbstractContextManager[None]:
    """Within the block, the gradient of a result with overlapping elements, as from `unfold`, has no overlapping
    elements.

    PyTorch by itself detects only repeated elements, as from `expand`.
    """

    def make(former: Any) -> Any:
        def from_tensor(tensor: torch.Tensor, force_use_memory_format: bool = False) -> Any:
            is_static = tensor.layout is torch.strided and not tensor._has_symbolic_sizes_strides
            return former(tensor, force_use_memory_format or (is_static and may_overlap(tensor)))

        return staticmethod(from_tensor)

    return internals.replaced(internals.MemoryFormatMeta, from_tensor=make)


def draw_seed() -> int:
    """Draws a 64-bit number from PyTorch's default generator, which `torch.manual_seed` seeds."""
    return int(torch.randint(-(2**63), 2**63 - 1, ()))


class _Graph:
    """A graph of ATen operators, with one program per set of sizes with which the graph is called."""

    # This attribute makes AOTAutograd pass the arguments as one list.
    _boxed_call = True

    def __init__(self, module: torch.fx.GraphModule, examples: Sequence[Any], options: GraphOptions) -> None:
        self._module = module
        self._options = options
        # The positions of the arguments that are sizes. They are known only from the first call on, because an argument
        # that is None in calls may have a tensor as its example.
        self._sizes: list[int] | None = None
        self._programs: dict[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]] = {}
        if all(isinstance(value, torch.Tensor) for value in examples):
            # A graph without sizes has one program; compiling it now reports errors before anything runs.
            self._programs[()] = self._make(examples)

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        if self._sizes is None:
            self._sizes = [i for i, value in enumerate(arguments) if not isinstance(value, torch.Tensor)]
        sizes = tuple([arguments[i] for i in self._sizes])
        found = self._programs.get(sizes)
        if found is None:
            found = self._make(arguments)
            if len(self._programs) == _SIZES:
                del self._programs[next(iter(self._programs))]
            self._programs[sizes] = found
        return found(arguments)

    def _make(self, arguments: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        try:
            imported = capture_graph(self._module, arguments)
            run = self._options.prepare(imported)
        except ReproError as error:
            if not self._options.fallback:
                raise
            warnings.warn(f"PyTorch runs a graph, so its bits are not defined: {error}", RuntimeWarning, stacklevel=2)
            interpreter = torch.fx.Interpreter(self._module)
            return lambda given: interpreter.run(*given)
        captured = imported.bindings

        def call(given: Sequence[Any]) -> list[Any]:
            tensors = captured.tensors(given)
            if captured.draws:
                tensors += [torch.tensor(number, dtype=torch.int64, device="cpu") for number in self._options.seeds()]
            outputs = run(tensors)
            captured.written(given, tensors)
            return captured.results(given, outputs)

        return call


def _partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """Splits a joint graph into forward and backward: the backward recomputes cheap values but no random numbers."""
    if has_selections(joint.graph):
        # A tensor whose extent depends on values cannot be passed from the forward program to the backward program.
        joint = _without_selections(joint)
    for node in joint.graph.nodes:
        if "recompute" in node.meta and is_random(node):
            # Checkpointing could recompute random numbers only by resetting the generator, so the numbers are saved.
            parts = [user for user in node.users if user.target is operator.getitem]
            for each in (node, *parts):
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    forward, backward = internals.min_cut_rematerialization_partition(joint, inputs, **options)
    if not draws(backward.graph) and not reads_written(forward.graph, backward.graph):
        return forward, backward
    # With this partition, the backward would draw random numbers, or read values that the forward has overwritten. The
    # default partition saves these values instead of recomputing them.
    forward, backward = internals.default_partition(joint, inputs, **options)
    if reads_written(forward.graph, backward.graph):
        raise CaptureError(
            "the backward pass reads an argument or buffer as it was before the function wrote to it: make a copy of "
            "it, outside of the checkpointed part"
        )
    return forward, backward


def _without_selections(joint: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Rewrites the selections of a joint graph to static shapes, and keeps the argument names that PyTorch expects."""
    former = [node for node in joint.graph.nodes if node.op in ("placeholder", "output")]
    with (
        internals.tracing_context(None),
        internals.disable_current_modes(),
        errors_with_lines({}),
        tracing_environment(),
    ):
        arguments = [node.meta["val"] for node in former if node.op == "placeholder"]
        name_origins(joint.graph)
        found = without_selections(joint, [*map(concrete, arguments)])
    for old, new in zip(
        former, (node for node in found.graph.nodes if node.op in ("placeholder", "output")), strict=True
    ):
        if new.op == "placeholder":
            new.target = old.target
            new._rename(old.name)
        new.meta = {**old.meta, **new.meta}
    found.recompile()
    return found


def _selections(environment: ShapeEnv) -> contextlib.AbstractContextManager[None]:
    """Allows data-dependent output shapes within the block, so that gradients of masked selections can be traced."""
    return internals.replaced(
        environment, settings=lambda former: dataclasses.replace(former, allow_dynamic_output_shape_ops=True)
    )


def _warn_of_break(module: torch.fx.GraphModule) -> None:
    """Warns if Dynamo breaks the graph, so that Python code runs between this graph and the next."""
    reason: Any = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return
    lines = [frame for frame in reason.user_stack if is_user_file(frame.filename)]
    place = f"{source_name(lines[-1].filename)}:{lines[-1].lineno}: " if lines else ""
    what = " ".join(reason.reason.split("\n")[0].split())
    warnings.warn(
        f"{place}torch.compile breaks the graph here ({what}): PyTorch computes between the two graphs, with bits "
        "that are not defined; fullgraph=True makes this an error",
        RuntimeWarning,
        stacklevel=2,
    )
