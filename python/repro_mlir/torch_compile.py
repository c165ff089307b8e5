# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The torch.compile backend."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.base.keywords import accepts_keywords
from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.base.threads import check_threads
from repro_mlir.execute.executable import check_target, compile
from repro_mlir.program import Program, program_of
from repro_mlir.program.exact import check_digits, exact_contractions

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.compile_backend.graphs import CapturedGraph
    from repro_mlir.program.imported import ImportedProgram


class BackendKeywords(TypedDict, total=False):
    """Keywords of `backend`."""

    target: str
    threads: int | None
    seed: int | None
    exact_digits: int | None
    fallback: Literal["error", "eager"]


@dataclass(frozen=True)
class BackendOptions:
    """The options of a torch.compile backend, see `backend`."""

    target: str = "cpu"
    threads: int | None = None
    seed: int | None = None
    exact_digits: int | None = None
    fallback: Literal["error", "eager"] = "error"

    def __post_init__(self) -> None:
        check_target(self.target)
        if self.threads is not None:
            check_threads(self.threads)
        if self.exact_digits is not None:
            check_digits(self.exact_digits)
        if self.fallback not in ("error", "eager"):
            raise ReproError(f"expected fallback 'error' or 'eager', got {self.fallback!r}")
        if self.seed is not None:
            signed_seed(self.seed)


class Backend(ConstantAttributes):
    """A torch.compile backend, created by `backend`.

    Backends without a seed compare equal if their arguments are equal. Dynamo then reuses code that an equal backend
    compiled for a model of the same structure, even if only one of the torch.compile calls has `fullgraph=True`.

    Attributes:
      programs: the programs of the graphs that this backend compiled, in compilation order.
    """

    @accepts_keywords(BackendKeywords, BackendOptions)
    def __init__(self, **options: Unpack[BackendKeywords]) -> None:
        # torch.compile uses this name in its error messages.
        self.__name__ = "repro_mlir"
        self._options = BackendOptions(**options)
        self._programs: list[Program] = []
        self._calls = itertools.count()
        # A backend with a seed counts its own calls, so it equals no other backend.
        self._form = (self._options, None if self._options.seed is None else self._calls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self._form == other._form

    def __hash__(self) -> int:
        return hash(self._form)

    @property
    def programs(self) -> list[Program]:
        """The programs of the compiled graphs, in compilation order."""
        return list(self._programs)

    def __call__(self, module: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph; torch.compile passes the graph and example arguments."""
        from repro_mlir.frontends.torch.compile_backend.aot import GraphOptions, compile_graph

        require_default_environment()
        options = GraphOptions(self._prepare, self._seeds, self._options.fallback == "eager")
        return compile_graph(module, arguments, options)

    def _prepare(self, imported: ImportedProgram[CapturedGraph]) -> Callable[[Sequence[Any]], list[Any]]:
        from repro_mlir.frontends.torch.compile_backend.graph_calls import Calls

        program = program_of(imported)
        options = self._options
        if options.exact_digits is not None:
            program = exact_contractions(program, options.exact_digits)
        executable = compile(program, options.target, options.threads)
        self._programs.append(program)

        return Calls(executable, program.state, program.inputs, program.outputs, imported.bindings)

    def _seeds(self) -> tuple[int, int]:
        from repro_mlir.frontends.torch.compile_backend.aot import draw_seed

        if self._options.seed is None:
            return draw_seed(), 0
        return signed_seed(self._options.seed), next(self._calls)


@accepts_keywords(BackendKeywords, BackendOptions)
def backend(**options: Unpack[BackendKeywords]) -> Backend:
    """Returns a torch.compile backend whose compiled functions compute the same bits on every target.

        loss_of = torch.compile(lambda x, y: loss_fn(model(x), y), backend=repro_mlir.backend(), fullgraph=True)

    `backend="repro_mlir", options={"threads": 1}` selects this backend by its name once the package is installed.
    Forward and backward each become a program, as does `torch.compile(optimizer.step, backend=...)`;
    `compile_optimizer` compiles the same update as `Trainer`. PyTorch computes everything outside of compiled
    functions, with its own bits: compile the function that returns the loss, not the model alone. A graph break causes
    a warning that names the line; `fullgraph=True` makes it an error. PyTorch skips some functions entirely, such as
    one with a graph break in a loop, without calling the backend: `fullgraph=True` rejects these too, and the
    environment variable TORCH_LOGS=graph_breaks shows them. Each shape has its own program; models of the same
    structure share programs. Dynamo recompiles a function if the class of the model or a number among its attributes
    differs, and for each optimizer whose `step` is compiled (but not by `compile_optimizer`). Reaching
    `torch._dynamo.config.recompile_limit` raises an error: the backend sets `fail_on_recompile_limit_hit` unless
    `fallback` is "eager", and raises the limit from its default of 8 to 64.

    The backend has no precision recipes: a recipe assigns roles from the weights, loss and gradients of a whole step,
    and each graph contains only a part of the step. `Trainer` supports recipes.

    Args:
      target, threads: see `compile`. Tensors are on the CPU for every target.
      seed: determines the random numbers of a call, together with the number of earlier calls that drew random numbers,
        so that a model in one graph draws the same numbers as `Trainer(seed=...)`. With None, each call draws its seed
        from PyTorch's generator, which `torch.manual_seed` sets. A backend selected by name accepts no seed.
      exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
      fallback: with "error", a graph that cannot be compiled raises an error. torch.compile wraps the error in its
        exception `BackendCompilerFailed`, unless the graph has dynamic sizes, for which it is compiled when it is
        called. With "eager", PyTorch runs the graph and a warning is issued.
    Raises:
      ReproError: the target is unknown or an argument has an invalid value.
    """
    return Backend(**options)


def compile_for_dynamo(
    module: Any, arguments: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Any:
    """Compiles a graph for `torch.compile(backend="repro_mlir")`; `options` are those of `backend` except the seed."""
    if mode is not None:
        raise ReproError(
            f"expected no mode, got {mode!r}: the modes of torch.compile are for its backend inductor: leave it out"
        )
    known = [name for name in BackendKeywords.__annotations__ if name != "seed"]
    given: Any = dict(options or {})
    if "seed" in given:
        # Each graph has its own backend here, so with a seed, all graphs would draw the same random numbers.
        raise ReproError("a backend given by name takes no seed: use backend=repro_mlir.backend(seed=...)")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ReproError(f"expected options among {', '.join(known)}, got {unknown[0]!r}")
    return backend(**given)(module, arguments)
