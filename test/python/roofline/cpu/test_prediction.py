# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that predictions add up, depend on the machine's numbers, and say which memory level bytes come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.roofline import CAUSES, NUMBERS, Code, predict, read_code
from repro_mlir.roofline.cpu.kernel_descriptions import KernelDescription, Operand
from repro_mlir.roofline.cpu.peak import bandwidths, scattered_bandwidths
from repro_mlir.roofline.cpu.prediction import LEVELS, seconds_beyond
from repro_mlir.roofline.report import as_json
from repro_mlir.runner.plan import Kernel, Launch, Plan
from support.predicted import EMPTY, MACHINE, doubled, planes, product, program_of, streamed


@pytest.fixture(scope="module")
def code() -> Code:
    return read_code(program_of(product(128)), MACHINE)


def test_causes_add_up(code: Code) -> None:
    step = predict(code, MACHINE)
    assert {cause for each in step.launches for cause in each.causes} == set(CAUSES)
    assert sum(step.causes.values()) == pytest.approx(step.seconds)
    assert all(seconds >= 0 for each in step.launches for seconds in each.causes.values())
    # 2^21 multiply-adds in vectors of eight lanes are 2^18 instructions, of which a core starts at most two per cycle.
    assert 128**3 / 16 / MACHINE.clock_hz < step.seconds < 128**3 / 4 / MACHINE.clock_hz
    assert predict(code, MACHINE) == step


def test_energy_is_that_of_all_cores(code: Code) -> None:
    known, unknown = (predict(code, replace(MACHINE, watts=watts)) for watts in (30.0, 0.0))
    assert known.joules == as_json(known, None)["joules"] == 30.0 * known.seconds
    assert unknown.joules is None and as_json(unknown, None)["joules"] is None


@pytest.fixture(scope="module")
def stream() -> Code:
    """Returns code that reads and overwrites 12 MiB. This data fits in the machine's L3 cache, but an eighth of it does
    not fit in an L2 cache."""
    return read_code(program_of(doubled(3 << 20)), MACHINE)


@pytest.mark.parametrize("name", sorted({*NUMBERS} - {"cores", "modelled_vector_bits", "issue_width"}))
@pytest.mark.parametrize("threads", [1, 4, 8])
@pytest.mark.diagonal
def test_no_better_number_makes_a_step_slower(name: str, threads: int, stream: Code) -> None:
    """Doubles one of the machine's bandwidths, caches or clocks, or halves one of its overheads: no step becomes
    slower."""
    others = {"cold_launch_seconds": 1e-6, "l3_half_life": 1e-3, "scattered_memory_bandwidth": 2e9, "watts": 30.0}
    given = replace(MACHINE, **others)
    better = replace(given, **{name: getattr(given, name) * (0.5 if name.endswith("_seconds") else 2)})
    before, after = (predict(stream, machine, threads).seconds for machine in (given, better))
    # The numbers that bound the step: one thread uses the bandwidth of a core, eight threads use the shared bandwidth.
    decides = {1: {"l3_bandwidth"}, 4: {"wake_seconds"}, 8: {"wake_seconds", "shared_l3_bandwidth"}}[threads]
    if name in {"launch_seconds", *decides}:
        assert after < before
    else:
        assert after <= before * (1 + 1e-12)


def test_bandwidth_is_that_of_the_cache_that_holds_the_state() -> None:
    sizes = {1 << 12: "l1", 1 << 16: "l2", 1 << 20: "l3", 1 << 23: "memory"}
    for elements, level in sizes.items():
        (launch,) = predict(read_code(program_of(doubled(elements)), MACHINE), MACHINE).launches
        assert launch.traffic[level] >= 0.9 * sum(launch.traffic.values()) >= 4 * 0.9 * elements, level


def test_threads_share_the_work(code: Code) -> None:
    one, four = (predict(code, MACHINE, threads) for threads in (1, 4))
    assert one.seconds / 4 < four.seconds < one.seconds
    assert [each.threads for each in four.launches] != [each.threads for each in one.launches]
    for threads in (0, 9):
        with pytest.raises(ReproError, match=f"threads from 1 to the 8 cores of made-up, got {threads}"):
            predict(code, MACHINE, threads)


@pytest.mark.parametrize(
    ("name", "value"),
    [("issue_width", 4), ("modelled_vector_bits", 256), ("level", "x86-64-v4"), ("scheduling_model", "a")],
)
def test_other_execution_units_need_the_code_again(name: str, value: object, code: Code) -> None:
    with pytest.raises(ReproError, match=f"the code was read for {name} .*: expected read_code with this machine"):
        predict(code, replace(MACHINE, **{name: value}))


@pytest.mark.parametrize(
    ("name", "message"), [("znver99", "llvm-mca of znver99"), ("help", "no cycles for the processor help")]
)
def test_an_unknown_model_is_refused(name: str, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        read_code(program_of(product(32)), replace(MACHINE, scheduling_model=name))


def test_a_program_without_launches() -> None:
    step = predict(read_code(program_of(EMPTY), MACHINE), MACHINE)
    assert (step.launches, step.seconds) == ((), 0)


def test_threads_have_caches_of_their_own() -> None:
    """1.5 MiB do not fit in the L2 cache of one thread, but they fit in the L2 caches of two or eight threads."""
    code = read_code(program_of(doubled(3 << 17)), MACHINE)
    for threads, level in ((1, "l3"), (2, "l2"), (8, "l2")):
        (launch,) = predict(code, MACHINE, threads).launches
        assert launch.traffic == {**dict.fromkeys(LEVELS, 0), level: 3 << 20}


def test_memory_has_all_buffers_of_a_step() -> None:
    """The predicted memory of a step is that of states, inputs, outputs, constants and the executable's own buffers."""
    text = """
func.func @main(%s: tensor<1000xf32> {repro.name = "s"}, %x: tensor<500xf32>)
    -> (tensor<1000xf32> {repro.name = "s"}, tensor<500xf32>) attributes {repro.num_state = 1 : i64} {
  %c = arith.constant dense<"0x%s"> : tensor<500xf32>
  %e = tensor.empty() : tensor<500xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]} ins(%x, %c : tensor<500xf32>, tensor<500xf32>)
      outs(%e : tensor<500xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.addf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<500xf32>
  return %s, %r : tensor<1000xf32>, tensor<500xf32>
}
""".replace("0x%s", "0x" + np.arange(500, dtype=np.float32).tobytes().hex())
    found = predict(read_code(program_of(text), MACHINE), MACHINE, 3).memory
    assert (found["state"], found["input"], found["output"]) == (4000, 2000, 2000)
    assert found["constant"] >= 2000 and found["scratch"] == 3 * 128
    packed = read_code(program_of(product(128)), MACHINE)
    scratch = max(kernel.scratch for kernel in packed.plan.kernels)
    one, two = (predict(packed, MACHINE, threads).memory for threads in (1, 2))
    assert one["arena"] == packed.plan.arena_size if packed.plan.arena_size else "arena" not in one
    assert scratch <= one["scratch"] == two["scratch"] / 2


STATES = tuple(TensorType(name, "f32", (512,)) for name in "xy")


def code_by_hand(kernels: tuple[Kernel, ...], launches: tuple[Launch, ...], **operands: list[Operand]) -> Code:
    plan = Plan("cpu", 0, 0, STATES, (), (), (), kernels, launches)
    descriptions = {name: KernelDescription(tuple(each), "", "") for name, each in operands.items()}
    return Code(MACHINE, plan, descriptions, {}, {}, {}, 1.0)


def traffic(code: Code, threads: int, *sizes: int) -> list[list[int]]:
    """Returns the bytes of each launch that come from each of `LEVELS`, on a machine with caches of these sizes."""
    machine = replace(MACHINE, **dict(zip(("l1_bytes", "l2_bytes", "l3_bytes"), sizes, strict=True)))
    found = code.traffic(machine, threads)
    assert [[*each] for each in found] == [[*LEVELS]] * len(found)
    return [[*each.values()] for each in found]


def test_where_bytes_come_from() -> None:
    whole, part, nothing = Operand(2048, True, False), Operand(1024, True, True), Operand(0, True, False)
    kernels = (Kernel("first", 1, 1), Kernel("second", 1, 1))
    launches = (
        Launch(0, False, (("state", 0, 0), ("state", 1, 0))),
        Launch(1, False, (("state", 0, 1024), ("state", 0, 0))),
    )
    code = code_by_hand(kernels, launches, first=[whole, whole], second=[part, nothing])
    # At the start of a step, the caches have the half of the first state that the second launch of the previous step
    # has just read. The first launch reads this half last.
    assert traffic(code, 1, 2048, 4096, 8192) == [[1024, 3072, 0, 0], [0, 2048, 0, 0]]
    assert traffic(code, 1, 4096, 4096, 8192) == [[4096, 0, 0, 0], [2048, 0, 0, 0]]
    assert traffic(code, 1, 1024, 2048, 4096) == [[0, 1024, 3072, 0], [0, 0, 2048, 0]]
    assert traffic(code, 1, 1024, 1024, 0) == [[0, 0, 0, 4096], [0, 0, 0, 2048]]
    with pytest.raises(ReproError, match="launch 0: expected its kernel's 1 buffers, got 2"):
        traffic(code_by_hand(kernels, launches, first=[whole], second=[part, nothing]), 1, 1, 1, 1)


def test_where_the_bytes_of_a_thread_come_from() -> None:
    """Covers a launch on four threads, followed by one on a single thread that reads the same bytes."""
    whole = Operand(2048, True, False)
    kernels = (Kernel("shared", 8, 2), Kernel("alone", 1, 1))
    launches = tuple(Launch(number, False, (("state", 0, 0),)) for number in range(2))
    code = code_by_hand(kernels, launches, shared=[whole], alone=[whole])
    # One quarter is read by the same thread in both launches. The other three quarters are read by different threads.
    assert traffic(code, 4, 512, 1024, 2048) == [[0, 0, 2048, 0], [512, 0, 1536, 0]]
    assert traffic(code, 4, 512, 2048, 2048) == [[0, 2048, 0, 0], [512, 1536, 0, 0]]
    assert traffic(code, 4, 512, 1024, 2047) == [[0, 0, 0, 2048], [512, 0, 0, 1536]]


def test_the_last_cache_loses_untouched_data() -> None:
    """After t seconds the L3 cache has 2^-t² of its data left. The expected numbers are averages over all times at
    which the two launches, of 0.6 and 0.2 seconds, can touch a byte."""
    kernels = (Kernel("both", 1, 1),)
    launches = tuple(Launch(0, False, (("state", number, 0),)) for number in range(2))
    code = code_by_hand(kernels, launches, both=[Operand(2048, True, False)])
    sizes = {"l1_bytes": 512, "l2_bytes": 1024, "l3_bytes": 8192}
    machine = replace(MACHINE, l3_half_life=1.0, **sizes)
    assert traffic(code, 1, *sizes.values()) == [[0, 0, 2048, 0], [0, 0, 2048, 0]]
    found = code.traffic(machine, 1, code.lost(machine, np.array([0.6, 0.2])))
    assert [[*each.values()] for each in found] == [[0, 0, 1307, 741], [0, 0, 1314, 734]]
    # Only L3 loses data to other processes. An L2 cache is private to its core.
    found = code.traffic(replace(machine, l2_bytes=4096), 1, code.lost(machine, np.array([0.6, 0.2])))
    assert [[*each.values()] for each in found] == [[0, 2048, 0, 0]] * 2


def test_bytes_from_memory_if_others_use_the_last_cache() -> None:
    """Predicts two products of 1 MiB matrices. If L3 has lost all data, what is not in L2 comes from memory; the second
    product finds the first one's result in L2."""
    code = read_code(program_of(product(512, twice=True)), MACHINE)
    never, seldom, often = (predict(code, replace(MACHINE, l3_half_life=half_life)) for half_life in (0.0, 1e6, 1e-9))
    moved = [[each.traffic["memory"] for each in step.launches] for step in (never, seldom, often)]
    assert moved == [[0, 0], [0, 0], [4 << 20, 3 << 20]]
    assert never.seconds == seldom.seconds <= often.seconds


@pytest.mark.parametrize("level", ["x86-64-v3", "aarch64"])
def test_routines_whose_time_is_not_known_are_named(level: str) -> None:
    """A remainder is computed by a routine whose time is not known, so the prediction names the routine. A product
    calls no routine."""
    machine = replace(MACHINE, level=level, scheduling_model="znver4" if level == "x86-64-v3" else "neoverse-v2")
    remainder = doubled(1000).replace("arith.addf", "arith.remf")
    named, none = (predict(read_code(program_of(text), machine), machine) for text in (remainder, product(64)))
    assert named.facts["calls"] == named.calls == ("repro_fmod",)
    assert named.setting.endswith("1 threads, without the time of repro_fmod")
    assert none.calls == ()
    assert none.setting.endswith("1 threads")


@pytest.mark.parametrize(
    ("size", "caches", "late"),
    [
        (512, {"l3_half_life": 1e-9}, True),
        (512, {"l3_half_life": 0.0}, False),
        (512, {"l3_bytes": 0}, True),
        (64, {"l3_half_life": 1e-9}, False),
        (64, {"l3_bytes": 0}, False),
    ],
)
def test_a_launch_on_data_in_memory_begins_late(size: int, caches: dict[str, float], late: bool) -> None:
    """A launch starts later, by `cold_launch_seconds`, only if some of its data comes from memory. If its data is in
    L2, what L3 has lost does not matter."""
    code = read_code(program_of(product(size)), MACHINE)
    (launch,) = predict(code, replace(MACHINE, cold_launch_seconds=1e-3, **caches)).launches
    assert launch.causes["launch"] == pytest.approx(MACHINE.launch_seconds + 1e-3 * late)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_launch_on_data_in_the_caches_of_its_threads_does_not(threads: int) -> None:
    """1.5 MiB do not fit in the L2 cache of one thread, but they fit in the L2 caches of two or eight threads."""
    machine = replace(MACHINE, cold_launch_seconds=1e-3, l3_bytes=0)
    (launch,) = predict(read_code(program_of(doubled(3 << 17)), MACHINE), machine, threads).launches
    assert launch.threads == threads
    assert (launch.traffic["memory"] > 0) == (threads == 1)
    assert (launch.causes["launch"] > 1e-3) == (threads == 1)


def test_scattered_lines_take_longer() -> None:
    """Compares reading planes of the size of a page out of order with reading the same bytes in order."""
    sizes = {"l2_bytes": 4096, "l3_bytes": 0}
    codes = [read_code(program_of(text), MACHINE) for text in (planes(64, 64), streamed(64 * 64 * 1024))]
    one, slow = (
        [predict(code, replace(MACHINE, scattered_memory_bandwidth=rate, **sizes)) for code in codes]
        for rate in (0.0, 2e9)
    )
    read = 4 * 64 * 64 * 1024
    # The planes are read at 2 GB/s, the bandwidth of scattered data. Writing, and reading in order, have the full
    # bandwidth.
    expected = read / 2e9 + 2 * read / 1e10
    assert slow[0].seconds == pytest.approx(expected, rel=0.05)
    assert slow[1].seconds == pytest.approx(one[1].seconds, rel=0.02)
    assert one[0].causes["memory"] == pytest.approx(3 * read / 1e10, rel=0.05)


def test_a_slower_memory_is_not_faster_for_scattered_lines() -> None:
    """If `--set` makes memory slower than the bandwidth of scattered data, scattered data has the bandwidth of
    memory."""
    machine = replace(MACHINE, scattered_memory_bandwidth=2 * MACHINE.memory_bandwidth)
    moved = {"l1": 0, "l2": 0, "l3": 0, "memory": int(MACHINE.memory_bandwidth)}
    assert seconds_beyond(0.0, moved, 0.5, machine, 1) == seconds_beyond(0.0, moved, 0.5, MACHINE, 1)
    assert scattered_bandwidths(machine, 1) == bandwidths(MACHINE, 1)


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_prefetched_data_overlaps(part: float) -> None:
    """The core takes one second. Memory takes half a second, the share `part` of it for scattered data, which cannot be
    prefetched."""
    machine = replace(MACHINE, scattered_memory_bandwidth=MACHINE.memory_bandwidth / 4)
    moved = {"l1": 0, "l2": 0, "l3": 0, "memory": int(MACHINE.memory_bandwidth / 2)}
    found = seconds_beyond(1.0, moved, part, machine, 1)
    assert found == {"l2": 0.0, "l3": 0.0, "memory": pytest.approx(max(part / 2, (1 - part) / 2 + 4 * part / 2 - 1))}
