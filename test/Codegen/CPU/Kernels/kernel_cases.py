# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Test cases with one structured operation each. A case compares the results of the operation's kernel with those of
the reference interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from kernel_runner import RUNNABLE, TESTED, compile_kernels, kernel_function
from repro_mlir.compilation import cpu
from repro_mlir.execute import qemu
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.execute.qemu import QemuBackend
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.interpreter import Interpreter
from support import kit
from support.builder import order

#: Maps an MLIR element type to two dtypes: that of arrays in the reference interpreter, and that of arrays in memory.
DTYPES = {
    "f32": (np.float32, np.float32),
    "f64": (np.float64, np.float64),
    "bf16": (np.float32, np.uint16),
    "i1": (np.bool_, np.uint8),
    "i8": (np.int8, np.int8),
    "i32": (np.int32, np.int32),
    "i64": (np.int64, np.int64),
}


@dataclass
class Case:
    """One structured operation.

    `text` is the operation in MLIR syntax on the tensors %a0, %a1, ..., without `%r =` and result types. The last
    `outputs` operands of the operation are those in `outs(...)`.
    """

    text: str
    types: Sequence[str]
    outputs: int = 1
    #: For each operand that is a view of a larger buffer, by its number: the strides and the offset, in elements.
    layouts: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Returns the names of the arguments."""
        return [f"%a{i}" for i in range(len(self.types))]

    def program(self) -> str:
        """Returns the canonical program of the operation."""
        arguments = ", ".join(f"{n}: tensor<{t}>" for n, t in zip(self.names(), self.types, strict=True))
        results = ", ".join(f"tensor<{t}>" for t in self.types[-self.outputs :])
        values = ", ".join(f"%r#{i}" for i in range(self.outputs))
        if self.outputs == 1:
            values = "%r"
        head = f"%r:{self.outputs}" if self.outputs > 1 else "%r"
        return (
            f"func.func @main({arguments}) -> ({results}) attributes {{repro.num_state = 0 : i64}} {{\n"
            f"{head} = {self.text} -> {results}\nreturn {values} : {results}\n}}\n"
        )

    def kernel(self) -> str:
        """Returns the kernel function; the operands in `layouts` are views of larger buffers."""
        text = self.text
        types = list(self.types)
        for i, (strides, offset) in self.layouts.items():
            types[i] += f", strided<[{', '.join(map(str, strides))}], offset: {offset}>"

        def typed(match: re.Match) -> str:
            names = re.findall(r"%a(\d+)", match[1])
            return f"({match[1]}: " + ", ".join(f"memref<{types[int(n)]}>" for n in names) + ")"

        text = re.sub(r"\(((?:%a\d+,? ?)+): [^)]*\)", typed, text)
        arguments = ", ".join(f"{n}: memref<{t}>" for n, t in zip(self.names(), types, strict=True))
        return kernel_function("kernel", arguments, text)

    def reference(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of the reference interpreter."""
        return Interpreter(to_bytes(self.program())).run(*arrays)

    def run(self, arrays: Sequence[np.ndarray], level: str, cuts: Sequence[int] = ()) -> list[np.ndarray]:
        """Runs the kernel and returns its outputs in the reference interpreter's format. By default, all work items run
        in one call. `cuts` divides them among several calls: it contains where each call but the last ends, in
        thousandths of the number of items."""
        kernel = compile_kernels(self.kernel(), level)["kernel"]
        memory = [to_memory(array, kind) for array, kind in zip(arrays, self.types, strict=True)]
        bases = list(memory)
        for i, (strides, offset) in self.layouts.items():
            span = offset + sum((n - 1) * s for n, s in zip(memory[i].shape, strides, strict=True)) + 1
            bases[i] = np.full(span, 77, memory[i].dtype)
            steps = [s * bases[i].itemsize for s in strides]
            view = np.lib.stride_tricks.as_strided(bases[i][offset:], memory[i].shape, steps)
            view[...] = memory[i]
            memory[i] = view
        shares = [kernel.work_items * cut // 1000 for cut in cuts]
        assert kernel.run(*bases, shares=shares) == 0
        memory = [np.ascontiguousarray(m) for m in memory]
        for i in self.layouts:  # the kernel must not write elements outside the view
            assert np.count_nonzero(bases[i] != 77) <= memory[i].size
        first = len(self.types) - self.outputs
        return [from_memory(m, t) for m, t in zip(memory[first:], self.types[first:], strict=True)]

    def arrays(self, special: bool = True) -> list[np.ndarray]:
        """Returns an array for each operand; see `values`."""
        return [values(t, i, special) for i, t in enumerate(self.types)]

    def check(
        self, arrays: Sequence[np.ndarray] | None = None, levels: Sequence[str] = TESTED, special: bool = True
    ) -> None:
        """Compares the bits of the kernel's outputs with the reference interpreter's. Runs the work items in one call,
        and in several. `arrays` defaults to the result of the method `arrays`."""
        arrays = self.arrays(special) if arrays is None else arrays
        expected = self.reference(arrays)
        for level in filter(RUNNABLE.__contains__, levels):
            for cuts in ((), (300, 301, 777)):
                for i, (got, want) in enumerate(zip(self.run(arrays, level, cuts), expected, strict=True)):
                    if got.tobytes() != want.tobytes():
                        g, w = got.reshape(-1), want.reshape(-1)
                        bits = f"u{g.itemsize}"
                        bad = np.flatnonzero(g.view(bits) != w.view(bits))
                        raise AssertionError(
                            f"{level} {cuts} output {i}: {bad.size} of {g.size} differ, first at {bad[0]}: "
                            f"got {g[bad[0]]!r}, expected {w[bad[0]]!r}\n{self.text}"
                        )


def check_program(text: str, types: Sequence[str], result: str, special: bool = True) -> None:
    """Compares the only result of a compiled program with the reference interpreter's, bit by bit: on the tested CPU
    levels, and on aarch64 if an emulator is available.

    Args:
      text: the canonical program.
      types: the types of its arguments.
      result: the type of its result.
      special: see `values`.
    """
    arrays = [values(t, i, special) for i, t in enumerate(types)]
    (want,) = Interpreter(to_bytes(text)).run(*arrays)
    memory_type = to_memory(want, result).dtype
    inputs = [x if x.dtype == bool else to_memory(x, t) for x, t in zip(arrays, types, strict=True)]
    emulated = ["aarch64"] if qemu.is_available() else []
    for level in dict.fromkeys([*kit.levels(), *emulated]):
        artifact = cpu.compile(text, level)
        load = QemuBackend if level in emulated else CpuBackend
        for threads in (1, 2):
            executable = load(artifact, threads)
            outputs = [output.empty() for output in executable.outputs]
            executable.run([], inputs, outputs)
            got = from_memory(outputs[0].view(memory_type), result)
            assert got.shape == shape(result)
            assert got.tobytes() == want.tobytes(), f"{level}, {threads} threads\n{text}"


def element(kind: str) -> str:
    """Returns the element type of a tensor type such as "2x3xf32"."""
    return kind.rsplit("x", 1)[-1]


def shape(kind: str) -> tuple[int, ...]:
    """Returns the shape of a tensor type such as "2x3xf32"."""
    return tuple(int(d) for d in kind.split("x")[:-1])


def to_memory(array: np.ndarray, kind: str) -> np.ndarray:
    """Returns a new array in the memory format of the element type."""
    if element(kind) == "bf16":
        return np.asarray(array.view(np.uint32) >> 16, np.uint16)
    return array.astype(DTYPES[element(kind)][1], copy=True)


def from_memory(array: np.ndarray, kind: str) -> np.ndarray:
    """Converts an array in the memory format of the element type to the reference interpreter's format."""
    if element(kind) == "bf16":
        return np.asarray(array.astype(np.uint32) << 16, np.uint32).view(np.float32)
    return array.astype(DTYPES[element(kind)][0])


def values(kind: str, seed: int = 0, special: bool = True) -> np.ndarray:
    """Returns values of a tensor type; floats have widely different magnitudes and, if `special`, include -0,
    subnormals, inf and NaN."""
    rng = np.random.default_rng(seed + 1)
    dims, name = shape(kind), element(kind)
    dtype = DTYPES[name][0]
    if name == "i1":
        return rng.random(dims) < 0.5
    if np.issubdtype(dtype, np.integer):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        wide = rng.integers(low, high, dims, dtype=dtype, endpoint=True)
        small = rng.integers(-3, 4, dims).astype(dtype)
        return np.where(rng.random(dims) < 0.5, wide, small).astype(dtype)
    x = (rng.standard_normal(dims) * np.exp2(rng.integers(-12, 12, dims))).astype(dtype)
    if special:
        draw = rng.random(dims)
        x = np.where(draw < 0.05, dtype(-0.0), x)
        x = np.where((draw > 0.05) & (draw < 0.1), dtype(3e-42), x)
        rare = rng.random(dims) < min(0.5 / max(x.size, 1) ** 0.5, 0.1)
        x = np.where(rare, rng.choice(np.array([np.inf, -np.inf, np.nan], dtype), dims), x)
    x = np.asarray(x, dtype)
    if name == "bf16":
        bits = x.view(np.uint32)
        x = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return x


BF16_SUM = """^bb0(%x: bf16, %acc: f32):
  %e = arith.extf %x : bf16 to f32
  %r = arith.addf %acc, %e : f32
  repro.yield %r : f32"""
BF16_FMA = """^bb0(%x: bf16, %y: bf16, %acc: f32):
  %e = arith.extf %x : bf16 to f32
  %f = arith.extf %y : bf16 to f32
  %r = math.fma %e, %f, %acc : f32
  repro.yield %r : f32"""
FMA = """^bb0(%x: {a}, %y: {b}, %acc: {t}):
  %r = math.fma %x, %y, %acc : {t}
  repro.yield %r : {t}"""


def step(op: str, t: str = "f32") -> str:
    """Returns the body of a fold with the operation `op`. If `op` is math.fma, the fold adds the squares of the
    elements."""
    operands = "%x, %x, %acc" if op == "math.fma" else "%acc, %x"
    return f"^bb0(%x: {t}, %acc: {t}):\n  %r = {op} {operands} : {t}\n  repro.yield %r : {t}"


def fold(
    ordering: str,
    maps: Sequence[str],
    iterators: str,
    types: Sequence[str],
    body: str,
    outputs: int = 1,
) -> Case:
    """Returns a case with a repro.fold; `maps` are index maps such as "(m, n, k) -> (m, k)"; `iterators` has p
    (parallel) or r (reduction) for each dimension."""
    names = [f"%a{i}" for i in range(len(types))]
    inputs = len(types) - outputs
    kinds = [f"tensor<{t}>" for t in types]
    words = ", ".join({"p": "parallel", "r": "reduction"}[c] for c in iterators)
    ins = f"ins({', '.join(names[:inputs])} : {', '.join(kinds[:inputs])})" if inputs else ""
    outs = f"outs({', '.join(names[inputs:])} : {', '.join(kinds[inputs:])})"
    affine = ", ".join(f"affine_map<{m}>" for m in maps)
    return Case(
        f"repro.fold {ordering} maps [{affine}] iterators [{words}] {ins} {outs} {{\n{body}\n}}", types, outputs
    )


def contraction(
    maps: Sequence[str], iterators: str, types: Sequence[str], body: str | None = None, chunk: int = 512
) -> Case:
    """Returns a contraction, as a fold that sums `chunk` products at a time; `body` defaults to a fused
    multiply-add."""
    if body is None:
        a, b, t = (element(t) for t in types)
        body = FMA.format(a=a, b=b, t=t)
    return fold(order(chunk, 1), maps, iterators, types, body)


def matmul(m: int, n: int, k: int, a: str = "mk", b: str = "kn", c: str = "mn", kind: str = "f32") -> Case:
    """Returns a case with the matrix product C += A B; `a`, `b` and `c` are the operands' dimensions in order, such as
    "km" for a transposed A."""
    size = {"m": m, "n": n, "k": k}
    types = [f"{size[o[0]]}x{size[o[1]]}x{kind}" for o in (a, b, c)]
    maps = [f"(m, n, k) -> ({o[0]}, {o[1]})" for o in (a, b, c)]
    return contraction(maps, "ppr", types)


def generic(maps: Sequence[str], types: Sequence[str], body: str, outputs: int = 1) -> Case:
    """Returns a case with a linalg.generic with only parallel iterators."""
    names = [f"%a{i}" for i in range(len(types))]
    inputs = len(types) - outputs
    kinds = [f"tensor<{t}>" for t in types]
    rank = maps[0].split("->")[0].count(",") + 1 if maps[0].split("->")[0].strip("() ") else 0
    words = ", ".join(['"parallel"'] * rank)
    ins = f"ins({', '.join(names[:inputs])} : {', '.join(kinds[:inputs])})" if inputs else ""
    outs = f"outs({', '.join(names[inputs:])} : {', '.join(kinds[inputs:])})"
    affine = ", ".join(f"affine_map<{m}>" for m in maps)
    text = f"linalg.generic {{indexing_maps = [{affine}], iterator_types = [{words}]}} {ins} {outs} {{\n{body}\n}}"
    return Case(text, types, outputs)
