# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles programs for a target, and runs steps of the compiled programs."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.base.near_names import did_you_mean
from repro_mlir.base.numerics.tensors import start_of
from repro_mlir.base.progress import working
from repro_mlir.base.tensors.arrays import as_given
from repro_mlir.base.tensors.frameworks import tensor_module_of
from repro_mlir.base.threads import check_threads
from repro_mlir.execute.arguments import Arguments, readable, require_apart, updatable
from repro_mlir.execute.backend import Backend, InPlaceBackend, ResidentBackend
from repro_mlir.execute.bound_state import bind
from repro_mlir.execute.signature import check_signature
from repro_mlir.program import Program
from repro_mlir.program.program import import_program, read_signature
from repro_mlir.reference.steps import StepInterpreter
from repro_mlir.runner.certificates import TENSOR_CORES

CORES = "cores:"
"""The begin of the names of machines of many cores."""


MICROCONTROLLER = "cortex-m4f"
"""The machine of many cores that has only one, and no DRAM; `repro compile` writes code for it."""


def targets() -> list[str]:
    """Returns the target names that `compile` accepts."""
    from repro_mlir.compilation.cores import has_dram, machines
    from repro_mlir.compilation.cpu import levels
    from repro_mlir.compilation.gpu import architectures

    variants = {"cpu": levels(), "cuda": architectures(), "ptx-emulator": architectures()}
    names = [name for kind, members in variants.items() for name in (kind, *(f"{kind}:{member}" for member in members))]
    return [*names, *(f"{CORES}{machine}" for machine in machines() if has_dram(machine)), "reference"]


def check_target(target: str, others: Sequence[str] = ()) -> None:
    """Raises ReproError unless `target` is in `targets()`, with an optional suffix for tensor cores on GPU targets, or
    names the file of a machine of many cores.

    Args:
      others: further names that the caller accepts, for the message of the error.
    """
    if not isinstance(target, str):
        raise ReproError(f"expected the name of a target, got {target!r}")
    # "cpu" and "reference" are not looked up in `targets()`, because that call loads the compiler library.
    name = target.removesuffix(TENSOR_CORES) if target.startswith(("cuda", "ptx-emulator:")) else target
    if name.startswith(CORES) and name.endswith(".json"):
        return
    if name.removeprefix(CORES) == MICROCONTROLLER:
        use = f"repro compile --target {MICROCONTROLLER} writes an object and a C header for it"
        raise ReproError(f"target {shown(target)}: expected a target that runs here, got a microcontroller: {use}")
    if name not in ("cpu", "reference") and name not in targets():
        known = [*targets(), *others]
        if near := did_you_mean(name, known, _SYNONYMS):
            raise ReproError(f"unknown target {shown(target)}{near} repro targets lists all targets")
        kinds = dict.fromkeys(f"{CORES}NAME" if each.startswith(CORES) else each.partition(":")[0] for each in known)
        raise ReproError(f"unknown target {shown(target)}, expected one of {', '.join(kinds)}: repro targets lists all")


_SYNONYMS = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "emulator": "ptx-emulator",
    "ptx": "ptx-emulator",
    "interpreter": "reference",
    "spinnaker": "cores:spinnaker2",
    "spinnaker2": "cores:spinnaker2",
    "wormhole": "cores:wormhole-n150",
    "cores:wormhole": "cores:wormhole-n150",
    "npu": "cores:npu2-strix",
    "xdna2": "cores:npu2-strix",
    "x86": "cpu",
    "x86_64": "cpu",
    "x86-64": "cpu",
    "native": "cpu",
    "host": "cpu",
    "avx2": "cpu:x86-64-v3",
    "cpu:avx2": "cpu:x86-64-v3",
    "avx512": "cpu:x86-64-v4",
    "cpu:avx512": "cpu:x86-64-v4",
    "arm": "cpu:aarch64",
    "arm64": "cpu:aarch64",
    "cpu:arm64": "cpu:aarch64",
}
"""Maps names of devices that are not targets to the target that was probably meant."""


_SMALL = """
func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> attributes {repro.num_state = 0 : i64} {
  %empty = tensor.empty() : tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                         iterator_types = ["parallel"]} ins(%x : tensor<1xf32>) outs(%empty : tensor<1xf32>) {
  ^bb0(%each: f32, %out: f32):
    %twice = arith.addf %each, %each : f32
    linalg.yield %twice : f32
  } -> tensor<1xf32>
  return %sum : tensor<1xf32>
}
"""


@functools.cache
def check_runs(target: str) -> None:
    """Raises ReproError unless this machine runs code for `target`; called before the slow capture of a model."""
    check_target(target)
    if target not in ("cpu", "reference"):
        compile(read_signature(import_program(_SMALL)), target, 1)


def compile(program: Program, target: str = "cpu", threads: int | None = None) -> Executable:
    """Compiles a program; the implementation of `repro_mlir.compile`."""
    threads = check_threads(threads)
    check_target(target)
    if target.startswith(CORES):
        threads = 1  # The simulator handles one event after the other.
    try:
        return Executable(program, target, threads, _backend(program, target, threads))
    except MemoryError as error:
        raise ReproError(f"out of memory: cannot load the program for {target}{_reason(error)}") from None


def _reason(error: MemoryError) -> str:
    return f" ({error})" if str(error) else ""


def _backend(program: Program, target: str, threads: int) -> Backend:
    kind, _, variant = target.partition(":")
    if kind == "reference":
        return StepInterpreter(program.data)
    if kind.removesuffix(TENSOR_CORES) == "cuda":
        from repro_mlir.execute.cuda import CudaBackend

        return CudaBackend(program, target)
    if kind == "ptx-emulator":
        from repro_mlir.execute.ptx import DEFAULT_ARCHITECTURE, PtxBackend

        return PtxBackend(program, variant or DEFAULT_ARCHITECTURE, threads)
    if kind == "cores":
        from repro_mlir.compilation.cores import read_machine
        from repro_mlir.execute.cores import compile_for

        return compile_for(program, read_machine(variant))
    return _cpu_backend(program, target, variant, threads)


def _cpu_backend(program: Program, target: str, level: str, threads: int) -> Backend:
    from repro_mlir.compilation.cache import cached_compile
    from repro_mlir.compilation.cpu import native_level, runnable_levels
    from repro_mlir.execute.cpu import CpuBackend
    from repro_mlir.execute.qemu import QemuBackend
    from repro_mlir.program import debugging

    level = level or native_level()
    pipeline = f"builtin.module(cpu{{level={level}}})"
    if not program.untrusted:
        debugging.dump_pipeline(program.data, pipeline, level)
    try:
        with working(f"compiling for {level}"):
            artifact = cached_compile(program.data, level, untrusted=program.untrusted)
    except CompileError as error:
        repeat = "" if program.untrusted else debugging.how_to_repeat(program.text, pipeline)
        raise ReproError(f"cannot compile the program for {level}: {_first_line(error)}{repeat}") from None
    try:
        in_qemu = level.startswith("aarch64") and level not in runnable_levels()
        backend = QemuBackend(artifact, threads) if in_qemu else CpuBackend(artifact, threads)
        found = {"state": backend.states, "input": backend.inputs, "output": backend.outputs}
        check_signature(level, found.__getitem__, program)
        return backend
    except (RuntimeError, ValueError) as error:
        raise ReproError(f"cannot run {target} on this machine: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class Compiled(ConstantAttributes):
    """A base class of executables, which cannot be copied or pickled: they hold machine code of this process."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Rejects copy and pickle, which call this method."""
        kind = type(self).__name__
        raise ReproError(f"{kind} objects cannot be copied or pickled: copy or pickle its program, and compile that")


class Executable(Compiled):
    """A compiled program that is ready to run.

    Attributes:
      target: the target that was passed to `compile`.
      threads: the number of threads of a step.
      arguments: converts and checks arguments of the program.
    """

    program: Program
    target: str
    threads: int
    arguments: Arguments

    def __init__(self, program: Program, target: str, threads: int, backend: Backend) -> None:
        self.program = program
        self.target = target
        self.threads = threads
        self._backend = backend
        # Computed once, because isinstance with a Protocol takes as long as a small step.
        self._resident = isinstance(backend, ResidentBackend)
        self._in_place = backend if isinstance(backend, InPlaceBackend) else None
        self.arguments = Arguments(program)

    def __repr__(self) -> str:
        return f"<Executable of program {self.program.hash[:16]} for {self.target}, threads: {self.threads}>"

    @property
    def report(self) -> dict[str, Any]:
        """The measurements of the last completed step on a simulated machine of many cores
        (docs/guides/many-cores.md#the-report). Raises ReproError on other targets, and if no step has been
        completed."""
        if not self.target.startswith(CORES):
            raise ReproError(f"expected a target {CORES}<machine>, whose steps are measured, got {self.target}")
        from repro_mlir.execute.cores import CoresBackend

        assert isinstance(self._backend, CoresBackend)
        return self._backend.report

    @property
    def resident(self) -> bool:
        """Whether the state that `keep` returns is in the memory of a device, separate from the caller's arrays."""
        return self._resident

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runs one step.

        The state is updated in place: the returned arrays are the caller's arrays. Contiguous arrays are not copied. A
        state that the program returns unchanged, such as a weight of a model, is not written, and its NaNs do not
        become canonical (V4).

        Args:
          state: an array for each name of `program.state`: NumPy, torch (CPU) or anything with DLPack; contiguous and
            writable, because it is updated in place.
          inputs: an array for each entry of `program.inputs`, hyper-parameters first; contiguous arrays are not copied.
            A Python number may be passed for shape [].
        Returns:
          the state and the outputs, by name. The first state or input that is a torch tensor, a JAX array or an array
            with an ml_dtypes dtype decides the type of the outputs: torch tensors, or NumPy arrays with ml_dtypes
            dtypes. Without one, outputs are NumPy arrays, with the bits of bf16 and narrower floats as integers.
        Raises:
          ReproError: a wrong number of inputs, a wrong name, shape or element type, or a state array that cannot be
            updated in place.
          StepFailed: a check of the program failed; the state is unchanged.
        """
        program = self.program
        states = self.arguments.states(state)
        self.arguments.make_canonical(states)
        given = self.arguments.inputs(inputs)
        # An input that shares memory with the state is copied, because the step writes the state while it reads the
        # input. For a scalar, a copy takes less time than the search through all states.
        read = [
            array.copy()
            if not array.shape or any(np.may_share_memory(array, other) for other in states)
            else readable(array)
            for array in given
        ]
        with step_errors(self.target):
            outputs = [kind.empty() for kind in program.outputs]
            self._backend.run(states, read, outputs)
        framework = next(filter(None, map(tensor_module_of, (*state.values(), *inputs))), None)
        results: dict[str, Any] = {
            kind.name: as_given(array, kind, framework) for array, kind in zip(outputs, program.outputs, strict=True)
        }
        return {kind.name: state[kind.name] for kind in program.state}, results

    def write(self, states: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Runs one step on the caller's arrays.

        Args:
          states: contiguous arrays that share no memory, in the order of the program; updated in place.
          inputs: see `__call__`.
          outputs: contiguous arrays that share no memory; written without a copy.
        Raises:
          ReproError, StepFailed: see `__call__`.
        """
        program = self.program
        updated = [updatable(value, kind) for value, kind in zip(states, program.state, strict=True)]
        self.arguments.make_canonical(updated)
        given = [readable(array) for array in self.arguments.inputs(inputs)]
        written = [updatable(value, kind, "output") for value, kind in zip(outputs, program.outputs, strict=True)]
        named = [
            [(f"{role} {kind.name}", array) for kind, array in zip(kinds, arrays, strict=True)]
            for role, kinds, arrays in (
                ("state", program.state, updated),
                ("output", program.outputs, written),
                ("input", program.inputs, given),
            )
        ]
        require_apart([*named[0], *named[1]], named[2])
        with step_errors(self.target):
            self._backend.run(updated, given, written)

    @property
    def takes_addresses(self) -> bool:
        """Whether `write_at` is available, which requires compiled code in this process."""
        return self._in_place is not None

    @property
    def moved(self) -> frozenset[int]:
        """The positions of the arguments whose elements the program may copy unchanged to a result, apart from the
        states that it returns unchanged (see `Arguments`)."""
        return self.arguments.moved

    def write_at(self, addresses: Sequence[int]) -> None:
        """Like `write`, without checks of the arguments.

        Args:
          addresses: the addresses of states, inputs and outputs, which are contiguous and aligned and have the types
            of the program. In the arguments at the positions `moved`, NaNs are canonical (V4). No state or output
            shares memory with another buffer.
        Raises:
          ReproError: out of memory.
          StepFailed: a check of the program failed.
        """
        assert self._in_place is not None
        with step_errors(self.target):
            self._in_place.run_at(addresses)

    def keep(self, state: Mapping[str, Any], *, exclusive: bool = False) -> Kept:
        """Returns a state on which many steps run. A GPU keeps the state in its memory; on other targets the arrays
        themselves are the state.

        Args:
          state: see `__call__`; its memory must not move. `Kept.fetch` updates it if the state is on a GPU.
          exclusive: whether only steps write to the state, so that they need not check it for new NaNs (V4).
        Raises:
          ReproError: see `__call__`.
        """
        return Kept(self, self._backend, self.arguments.states(state), exclusive)


class Kept:
    """A state on which steps run one after the other. The state is checked and the outputs are allocated only once.

    A step changes the state and the number of steps together: whichever exception interrupts the caller, `completed` is
    the number of steps that have updated the state, and `finish` completes the last one.
    """

    def __init__(self, executable: Executable, backend: Backend, states: list[np.ndarray], exclusive: bool) -> None:
        self._executable = executable
        self._states = states
        self._exclusive = exclusive
        executable.arguments.make_canonical(states, whole=True)
        self._bound = bind(backend, states)
        spans = sorted(_span(array) for array in states if array.nbytes)
        self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]
        self._outputs = {kind.name: kind.empty() for kind in executable.program.outputs}

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the last step by name."""
        return self._outputs

    @property
    def completed(self) -> int:
        """The number of completed steps. Raises ReproError if an interrupted step has destroyed the state."""
        return self._bound.completed

    @property
    def resident(self) -> bool:
        """Whether steps run on a copy of the state outside the arrays, such as on a GPU."""
        return self._executable.resident

    @property
    def ahead(self) -> bool:
        """Whether the state is outside the arrays, such as on a GPU, and newer than the arrays."""
        return self._bound.ahead

    def step(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Runs one step; inputs are those of `Executable.__call__`.

        Returns:
          the outputs by name; every call returns the same arrays.
        Raises:
          ReproError, StepFailed: see `Executable.__call__`.
        """
        return self.run(self.read_inputs(inputs))

    def read_inputs(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Returns checked arrays for `run`, see `Arguments.inputs`."""
        return self._executable.arguments.inputs(inputs)

    def run(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Runs one step like `step`, on arrays that `read_inputs` has returned."""
        if not (self._executable.resident or self._exclusive):
            # Since the last step, a caller may have written NaNs that are not canonical.
            self._executable.arguments.make_canonical(self._states)
        own = [self._readable(array) for array in arrays]
        with step_errors(self._executable.target):
            self._bound.step(own, list(self._outputs.values()))
        return self._outputs

    def finish(self) -> None:
        """Finishes the copies of a completed step if an exception interrupted them."""
        self._bound.finish()

    def fetch(self) -> None:
        """Copies the state to the caller's arrays if they are out of date."""
        self._bound.fetch()

    def load(self) -> None:
        """Loads the state from the arrays, after a caller has written to them."""
        self._executable.arguments.make_canonical(self._states, whole=True)
        self._bound.load()

    def _readable(self, array: np.ndarray) -> np.ndarray:
        """Returns the array, or a copy if it is not contiguous or shares memory with the state, which a step writes."""
        start, end = _span(array)
        before = bisect.bisect_left(self._starts, end)
        if before and self._ends[before - 1] > start:
            return array.copy(order="C")
        return readable(array)


def _span(array: np.ndarray) -> tuple[int, int]:
    """Returns the first address of the array's elements, and the address after the last one."""
    start = start_of(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    ways = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    return start + sum(min(way, 0) for way in ways), start + sum(max(way, 0) for way in ways) + array.itemsize


class step_errors:
    """A context manager around a step, which converts MemoryError to ReproError.

    It is a class because a generator would take as long as a small step.
    """

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, MemoryError):
            raise ReproError(f"out of memory: cannot run a step on {self._target}{_reason(error)}") from None
