# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The backend for torch.compile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.execute.executable import check_target, compile
from repro_mlir.program import Program, program_of
from repro_mlir.program.exact import exact_contractions

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.compile_backend.graphs import CapturedGraph
    from repro_mlir.program.imported import ImportedProgram


class Backend(ConstantAttributes):
    """A backend for torch.compile, made by `backend`.

    Backends without a seed are equal where their arguments are: Dynamo calls what one of them compiled for models of
    the same form that are compiled with another, also where one call of torch.compile has `fullgraph=True` and the
    other one not.

    Attributes:
      programs: the programs of the graphs that this backend compiled, in the order in which it did.
    """

    def __init__(
        self, target: str, threads: int | None, seed: int | None, exact_digits: int | None, fallback: str
    ) -> None:
        # By which torch.compile names it in its errors.
        self.__name__ = "repro_mlir"
        check_target(target)
        if fallback not in ("error", "eager"):
            raise ReproError(f"expected fallback 'error' or 'eager', got {fallback!r}")
        self._programs: list[Program] = []
        self._target, self._threads = target, threads
        self._exact_digits = exact_digits
        self._seed = None if seed is None else signed_seed(seed)
        self._fallback = fallback
        self._calls = itertools.count()
        # Each backend with a seed counts its own calls.
        self._form = (target, threads, exact_digits, fallback, None if seed is None else self._calls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self._form == other._form

    def __hash__(self) -> int:
        return hash(self._form)

    @property
    def programs(self) -> list[Program]:
        return list(self._programs)

    def __call__(self, module: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        """What torch.compile calls with a graph and examples of its arguments."""
        from repro_mlir.frontends.torch.compile_backend.aot import GraphOptions, compile_graph

        require_default_environment()
        options = GraphOptions(self._prepare, self._seeds, self._fallback == "eager")
        return compile_graph(module, arguments, options)

    def _prepare(self, imported: ImportedProgram[CapturedGraph]) -> Callable[[Sequence[Any]], list[Any]]:
        from repro_mlir.frontends.torch.compile_backend.graph_calls import Calls

        program = program_of(imported)
        if self._exact_digits is not None:
            program = exact_contractions(program, self._exact_digits)
        executable = compile(program, self._target, self._threads)
        self._programs.append(program)

        return Calls(executable, program.state, program.inputs, program.outputs, imported.bindings)

    def _seeds(self) -> tuple[int, int]:
        from repro_mlir.frontends.torch.compile_backend.aot import draw_seed

        if self._seed is None:
            return draw_seed(), 0
        return self._seed, next(self._calls)


def backend(
    *,
    target: str = "cpu",
    threads: int | None = None,
    seed: int | None = None,
    exact_digits: int | None = None,
    fallback: Literal["error", "eager"] = "error",
) -> Backend:
    """A backend for torch.compile: what is compiled has the same bits on every target.

        model = torch.compile(model, backend=repro_mlir.backend(), fullgraph=True)

    `torch.compile(model, backend="repro_mlir", options={"threads": 1})` is the same where the package is installed.
    Forward and backward are programs, and so is `torch.compile(optimizer.step, backend=...)`; `compile_optimizer` makes
    the update of `Trainer`. What is computed outside of compiled functions is PyTorch's, and so are its bits: compile
    the function that gives the loss, not the model alone. Where torch.compile divides a function, that is a warning
    with the line; `fullgraph=True` makes it an error.
    A function that it leaves out altogether, such as one with a division in a loop, PyTorch runs without a word to the
    backend: `fullgraph=True` refuses that too, and TORCH_LOGS=graph_breaks in the environment shows it.
    Each shape has a program of its own; models of one form share theirs. Dynamo compiles a function again for another
    class, for other numbers among the attributes of the model, and for each optimizer whose `step` is compiled (not by
    `compile_optimizer`). It raises at the limit, `torch._dynamo.config.recompile_limit`, which becomes 64 where it is
    8, the default (`fail_on_recompile_limit_hit` is set, unless `fallback` is "eager").

    There are no precision recipes here: roles follow from weights, loss and gradients of one step, of which each graph
    has a part; `Trainer` has them.

    Args:
      target, threads: see `compile`. Tensors are on the CPU, whatever the target.
      seed: the random numbers of a call are those of this seed, and of the number of calls before it that drew some, so
        that a model in one graph draws what `Trainer(seed=...)` draws. None: a call takes its seed from PyTorch's
        generator, which `torch.manual_seed` sets; so does a backend by its name, which takes no seed.
      exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
      fallback: "error": a graph that cannot be compiled raises, within torch.compile's own exception
        `BackendCompilerFailed` where that is before its first call. "eager": PyTorch runs it, with a warning.
    Raises:
      ReproError: an unknown target or another value than these.
    """
    return Backend(target, threads, seed, exact_digits, fallback)


def compile_for_dynamo(module: Any, arguments: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """The backend by its name: `options` are the arguments of `backend` without the seed."""
    known = ("target", "threads", "exact_digits", "fallback")
    given = dict(options or {})
    if "seed" in given:
        # Each graph has a backend of its own here: all would draw the same numbers.
        raise ReproError("a backend by its name has no seed: expected backend=repro_mlir.backend(seed=...)")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ReproError(f"expected options among {', '.join(known)}, got {unknown[0]!r}")
    return backend(**given)(module, arguments)
