# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests programs that are compiled for CPUs and run: buffers, errors, CPU levels, threads."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError, StepFailed
from repro_mlir.compilation import cpu
from repro_mlir.execute import qemu
from repro_mlir.execute.arguments import require_apart
from repro_mlir.execute.artifact import read_artifact
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.execute.executable import compile
from repro_mlir.execute.qemu import QemuBackend
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.program import read_signature
from repro_mlir.reference.interpreter import Interpreter

STEP = """
#map = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @main(%w: tensor<1000xf32> {repro.name = "w"}, %n: tensor<i64> {repro.name = "n"},
                %g: tensor<1000xf32>, %i: tensor<i64>)
    -> (tensor<1000xf32>, tensor<i64>, tensor<f32> {repro.name = "sum"}, tensor<f32>)
    attributes {repro.num_state = 2 : i64} {
  %rate = arith.constant -1.25e-1 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : i64
  %e = tensor.empty() : tensor<1000xf32>
  %new = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
      ins(%w, %g : tensor<1000xf32>, tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = math.fma %rate, %b, %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  %start = tensor.splat %zero : tensor<f32>
  %sum = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#map, #none] iterators [reduction] ins(%new : tensor<1000xf32>) outs(%start : tensor<f32>) {
  ^bb0(%x: f32, %acc: f32):
    %0 = arith.addf %acc, %x : f32
    repro.yield %0 : f32
  } -> tensor<f32>
  %count = tensor.extract %n[] : tensor<i64>
  %next = arith.addi %count, %one : i64
  %nextTensor = tensor.from_elements %next : tensor<i64>
  %index = tensor.extract %i[] : tensor<i64>
  %at = arith.index_cast %index : i64 to index
  %picked = tensor.extract %g[%at] : tensor<1000xf32>
  %pickedTensor = tensor.from_elements %picked : tensor<f32>
  return %new, %nextTensor, %sum, %pickedTensor : tensor<1000xf32>, tensor<i64>, tensor<f32>, tensor<f32>
}
"""


def make_buffers() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns example states and inputs for the program STEP."""
    rng = np.random.default_rng(5)
    states = [rng.standard_normal(1000).astype(np.float32), np.array(41, np.int64)]
    return states, [rng.standard_normal(1000).astype(np.float32), np.array(7, np.int64)]


def make_outputs() -> list[np.ndarray]:
    """Returns zeroed arrays for the outputs of the program STEP."""
    return [np.zeros((), np.float32), np.zeros((), np.float32)]


@pytest.fixture(scope="module")
def artifact() -> bytes:
    return cpu.compile(STEP, "x86-64-v2")


def run_bits(executable) -> list[bytes]:
    """Runs one step and returns the bytes of each new state and output."""
    states, inputs = make_buffers()
    outputs = executable.run(states, inputs)
    return [value.tobytes() for value in [*states, *outputs]]


def test_step(artifact: bytes) -> None:
    executable = CpuBackend(artifact, threads=2)
    assert [tensor.name for tensor in executable.states] == ["w", "n"]
    assert [tensor.name for tensor in executable.outputs] == ["sum", ""]
    states, inputs = make_buffers()
    old = states[0].copy()
    total, picked = executable.run(states, inputs)
    want = (old.astype(np.float64) - 0.125 * inputs[0].astype(np.float64)).astype(np.float32)
    assert states[0].tobytes() == want.tobytes()  # a product with a power of two is exact
    assert states[1] == 42
    assert picked == inputs[0][7]
    assert abs(total - want.sum(dtype=np.float64)) < 1e-3
    executable.run(states, inputs)
    assert states[1] == 43


def test_levels_and_threads_give_the_same_bits(artifact: bytes) -> None:
    want = run_bits(CpuBackend(artifact, threads=1))
    for level in _repro.runnable_cpu_levels():
        compiled = cpu.compile(STEP, level)
        for threads in (1, 2, 5, 33):
            assert run_bits(CpuBackend(compiled, threads)) == want, (level, threads)


def test_every_item_runs_once() -> None:
    """Covers counts of work items, grains and threads that do not divide each other, so that some threads have no
    work."""
    item, grain, grains = 4096, 8, (1, 2, 3, 5, 7, 9, 31, 33, 34, 67)
    sizes = [count * grain * item - 3 * item - 5 for count in grains]
    types = [f"tensor<{size}xi8>" for size in sizes]
    arguments = ", ".join(f"%w{i}: {kind}" for i, kind in enumerate(types))
    additions = "\n".join(
        f"""
  %e{i} = tensor.empty() : {kind}
  %r{i} = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}}
      ins(%w{i} : {kind}) outs(%e{i} : {kind}) {{
  ^bb0(%a: i8, %o: i8):
    %0 = arith.addi %a, %one : i8
    linalg.yield %0 : i8
  }} -> {kind}"""
        for i, kind in enumerate(types)
    )
    program = f"""
#map = affine_map<(i) -> (i)>
func.func @main({arguments}) -> ({", ".join(types)}) attributes {{repro.num_state = {len(types)} : i64}} {{
  %one = arith.constant 1 : i8{additions}
  return {", ".join(f"%r{i}" for i in range(len(types)))} : {", ".join(types)}
}}"""
    compiled = cpu.compile(program, "x86-64-v2")
    plan = read_artifact(compiled).plan
    # Each kernel increments its state in place, so that running an item twice would show.
    assert [[b[0] for b in launch.arguments] for launch in plan.launches] == [["state"] * 2] * len(grains)
    assert [-(-k.items // k.grain) for k in plan.kernels] == list(grains)
    for threads in (1, 2, 3, 5, 7, 16, 33):
        executable = CpuBackend(compiled, threads)
        states = [np.full(size, threads, np.int8) for size in sizes]
        for _ in range(3):
            executable.run(states, [])
        for count, state in zip(grains, states, strict=True):
            assert (state == threads + 3).all(), (threads, count)


def test_long_chain_on_rows_is_cut() -> None:
    """A chain of operations on the same rows that is too long for one kernel is split into several kernels. The results
    are bit by bit those of the reference interpreter."""
    rows, steps = "tensor<64x128xf32>", 40
    chain = "".join(
        f"""
  %s{i} = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#rows, #row] iterators [parallel, reduction] ins(%x{i} : {rows}) outs(%zeros : tensor<64xf32>) {{
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    repro.yield %0 : f32
  }} -> tensor<64xf32>
  %x{i + 1} = linalg.generic {{indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]}}
      ins(%x{i}, %s{i} : {rows}, tensor<64xf32>) outs(%empty : {rows}) {{
  ^bb0(%a: f32, %sum: f32, %o: f32):
    %q = repro.exp %sum : f32
    %0 = arith.divf %a, %q : f32
    linalg.yield %0 : f32
  }} -> {rows}"""
        for i in range(steps)
    )
    program = f"""
#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x0: {rows}) -> {rows} attributes {{repro.num_state = 0 : i64}} {{
  %zero = arith.constant 0.0 : f32
  %zeros = tensor.splat %zero : tensor<64xf32>
  %empty = tensor.empty() : {rows}{chain}
  return %x{steps} : {rows}
}}"""
    compiled = cpu.compile(program, "x86-64-v2")
    assert len(read_artifact(compiled).plan.launches) == 2
    x = np.random.default_rng(3).standard_normal((64, 128)).astype(np.float32)
    (result,) = CpuBackend(compiled, threads=2).run([], [x])
    (expected,) = Interpreter(to_bytes(program)).run(x)
    assert np.asarray(result).tobytes() == expected.tobytes()


@pytest.mark.skipif(not qemu.is_available(), reason="no aarch64 compiler or emulator")
def test_aarch64_gives_the_same_bits(artifact: bytes) -> None:
    want = run_bits(CpuBackend(artifact))
    executable = QemuBackend(cpu.compile(STEP, "aarch64"), threads=3)
    assert run_bits(executable) == want
    states, inputs = make_buffers()
    inputs[1][...] = -1
    with pytest.raises(StepFailed, match="index out of range"):
        executable.run(states, inputs)


def test_a_failed_check_leaves_the_states(artifact: bytes) -> None:
    """(E1) A failed check leaves the states as they were, and the next step succeeds."""
    executable = CpuBackend(artifact, threads=2)
    for index in (-1, 1000, 2**62):
        states, inputs = make_buffers()
        before = [value.tobytes() for value in states]
        inputs[1][...] = index
        with pytest.raises(StepFailed, match=r"index out of range for a tensor of shape \[1000\]"):
            executable.run(states, inputs)
        assert [value.tobytes() for value in states] == before
    states, inputs = make_buffers()
    executable.run(states, inputs)
    assert states[1] == 42


def test_same_artifact_whatever_the_jobs() -> None:
    assert cpu.compile(STEP, "x86-64-v3", jobs=1) == cpu.compile(STEP, "x86-64-v3", jobs=4)


def test_float_environment_is_set_and_restored(artifact: bytes) -> None:
    """(V2) If the caller's rounding mode is toward zero, the step returns the same bits as with rounding to nearest,
    and the caller's rounding mode is restored."""
    libm = ctypes.CDLL("libm.so.6")
    toward_zero, nearest = 0xC00, 0  # FE_TOWARDZERO, FE_TONEAREST of x86
    executable = CpuBackend(artifact, threads=2)
    want = run_bits(executable)
    states, inputs = make_buffers()
    libm.fesetround(toward_zero)
    try:
        outputs = executable.run(states, inputs)
        assert libm.fegetround() == toward_zero
    finally:
        libm.fesetround(nearest)
    assert [value.tobytes() for value in [*states, *outputs]] == want


def test_steps_from_several_threads_take_turns(artifact: bytes) -> None:
    executable = CpuBackend(artifact, threads=2)
    want = run_bits(executable)
    results: list[list[bytes]] = []
    workers = [threading.Thread(target=lambda: results.append(run_bits(executable))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [want] * 4


def test_arrays_that_do_not_fit(artifact: bytes) -> None:
    executable = compile(read_signature(to_bytes(STEP)), "cpu:x86-64-v2", 1)
    (w, n), (g, i) = make_buffers()
    sum_, picked = make_outputs()
    with pytest.raises(ReproError, match="state: missing n, unknown none"):
        executable({"w": w}, g, i)
    with pytest.raises(ReproError, match=r"state w: expected elements of f32 \(float32\), got float64"):
        executable({"w": w.astype(np.float64), "n": n}, g, i)
    with pytest.raises(ReproError, match=r"expected shape \[1000\], got \[500\]"):
        executable({"w": w, "n": n}, g[:500], i)
    with pytest.raises(ReproError, match="state w: expected a contiguous array"):
        executable({"w": np.zeros(2000, np.float32)[::2], "n": n}, g, i)
    with pytest.raises(ReproError, match="state w: expected an array, got a list"):
        executable({"w": [1.0], "n": n}, g, i)
    frozen = w.copy()
    frozen.flags.writeable = False
    with pytest.raises(ReproError, match="state w: expected a writable array"):
        executable({"w": frozen, "n": n}, g, i)
    with pytest.raises(ReproError, match="output sum: expected a writable array"):
        executable.write([w, n], [g, i], [np.broadcast_to(sum_, ()), picked])
    with pytest.raises(ReproError, match=r"state w and input .* share memory: expected separate arrays"):
        executable.write([w, n], [w, i], [sum_, picked])
    with pytest.raises(ReproError, match=r"output sum and output .* share memory: expected separate arrays"):
        executable.write([w, n], [g, i], [sum_, sum_])
    with pytest.raises(ValueError, match="expected at least 1 thread, got 0"):
        CpuBackend(artifact, threads=0)


def unaligned(array: np.ndarray) -> np.ndarray:
    """Returns a copy of an array; the copy begins at an odd address."""
    copy = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_unaligned_arrays() -> None:
    executable = compile(read_signature(to_bytes(STEP)), "cpu:x86-64-v2", 1)
    (w, n), (g, i) = make_buffers()
    for use in (executable.keep, lambda state: executable(state, g, i)):
        with pytest.raises(ReproError, match="state w: expected an array aligned to its elements"):
            use({"w": unaligned(w), "n": n})
    want = [each.copy() for each in (w, n)]
    executable.write(want, [g, i], make_outputs())
    executable({"w": w, "n": n}, unaligned(g), unaligned(i))
    assert w.tobytes() == want[0].tobytes() and n == want[1]
    executable.keep({"w": w, "n": n}).step(unaligned(g), i)
    executable.write(want, [g, i], make_outputs())
    assert w.tobytes() == want[0].tobytes() and n == want[1]


def test_a_state_within_an_input_after_another_input() -> None:
    memory = np.zeros(12, np.float32)
    inputs = [("input a", memory[:10]), ("input b", memory[2:3])]
    require_apart([("state", memory[10:11])], inputs)
    with pytest.raises(ReproError, match="input a and state share memory: expected separate arrays"):
        require_apart([("state", memory[5:6])], inputs)
    with pytest.raises(ReproError, match="share memory: expected separate arrays"):
        require_apart([("state", memory[2:3])], inputs)


def test_unknown_level() -> None:
    with pytest.raises(CompileError, match="unknown CPU level 'x86-64-v9', expected one of x86-64-v2, x86-64-v3"):
        cpu.compile(STEP, "x86-64-v9")


def test_program_that_does_not_parse() -> None:
    with pytest.raises(CompileError):
        cpu.compile("func.func @main(", "x86-64-v2")


@pytest.mark.parametrize("position", [0, 9, 20, 30, 100, 2000])
def test_damaged_artifacts(artifact: bytes, position: int) -> None:
    damaged = bytearray(artifact)
    damaged[position] ^= 0x41
    with pytest.raises(ValueError, match="artifact"):
        CpuBackend(bytes(damaged))
    with pytest.raises(ValueError, match="artifact"):
        CpuBackend(artifact[: position + 1])


def test_artifact_of_another_machine() -> None:
    foreign = cpu.compile(STEP, "aarch64")
    with pytest.raises(ValueError, match="artifact for aarch64, but this machine is"):
        CpuBackend(foreign)


def test_plan(artifact: bytes) -> None:
    """The launch plan updates the counter and the weights in place, in launches after the last check."""
    contents = read_artifact(artifact)
    launches = contents.plan.launches
    writes = [i for i, launch in enumerate(launches) if any(b[0] == "state" for b in launch.arguments)]
    assert launches[min(i for i in writes if launches[i].check)].check
    assert contents.level == "x86-64-v2"
    assert [tensor.shape for tensor in contents.plan.inputs] == [(1000,), ()]
