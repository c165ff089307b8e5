# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that counts are exact, that causes add up to the total, that a better machine makes no launch slower, and that
a partial wave takes the time of a whole one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.compilation.gpu import compile
from repro_mlir.roofline import GPU_CAUSES, GpuCode, predict, read_code
from repro_mlir.roofline.gpu.counts import Work
from repro_mlir.roofline.gpu.prediction import gpu_code_of
from repro_mlir.roofline.machines import ACCELERATOR_NUMBERS
from repro_mlir.roofline.report.data import as_json
from repro_mlir.roofline.report.text import lines_of
from repro_mlir.roofline.traffic import Touch, reuse
from repro_mlir.runner.certificates import unit_of
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.plan import Kernel, Launch, Plan, read_plan
from support.predicted import EMPTY, GPU, MACHINE, doubled, product, program_of

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"

WORK = Work(
    blocks=100,
    counted=100,
    kinds={},
    issued=4000.0,
    units={"f32": 4000.0},
    l2_bytes=3200.0,
    path=(1000.0, 2000.0),
    touched=((0, 4096, True, False),),
    shared_bytes=0,
    threads=128,
)


def code_with(**changes: object) -> GpuCode:
    """Returns invented code with one launch."""
    plan = Plan(
        "gpu", 0, 0, (TensorType("x", "f32", (1024,)),), (), (), (), (Kernel("k", block=(128, 1, 1)),),
        (Launch(0, False, (("state", 0, 0),), (100, 1, 1)),),
    )  # fmt: skip
    return GpuCode("sm_90", plan, (replace(WORK, **changes),), {"k": 32}, True, "")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def code() -> GpuCode:
    return read_code(program_of(product(512)), GPU)


@pytest.mark.parametrize("size", [40, 64, 512, 1024])
def test_the_work_of_a_product_is_counted_exactly(size: int) -> None:
    """A partial tile also computes results that it does not store, so the number of multiply-adds is n^3 only if tiles
    are full."""
    code = read_code(program_of(product(size)), GPU)
    fused = 32 * sum(work.kinds.get("f32 fma", 0.0) for work in code.work)
    if size % 64 == 0:
        assert fused == pytest.approx(size**3, rel=1e-12)
    assert fused >= size**3
    for launch, work in zip(code.plan.launches, code.work, strict=True):
        assert work.blocks == launch.grid[0] * launch.grid[1] * launch.grid[2]
        assert work.counted <= work.blocks
    # Both operands are read completely, and the result is written completely.
    sizes = {
        touch.number: touch.size for touch in code.work[0].touches(code.plan.launches[0]) if touch.space == "input"
    }
    assert sizes == {0: 4 * size**2, 1: 4 * size**2}


def test_blocks_that_are_not_run_count_like_their_neighbours() -> None:
    """Counting runs only a few of 1024 equal blocks and scales the numbers up."""
    code = read_code(program_of(product(4096)), GPU)
    (work,) = code.work
    assert work.counted < 10 < work.blocks == 1024
    assert work.kinds["f32 fma"] * 32 == pytest.approx(4096**3, rel=1e-12)


def test_matrix_instructions() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tools" / "gpu"))
    from sass_statistics import matmul

    made = compile(matmul(256, 256, 256, "nn", 0, unit_of("sm_90")), "sm_90+tensor-cores")
    target = TargetCode(made.arch, None, made.ptx.encode(), read_plan(made.plan, "gpu", "x"), made.constants)
    code = gpu_code_of(target, "sm_90")
    work = max(code.work, key=lambda each: each.issued)
    assert work.units["matrix f16"] * work.blocks == 2 * 256**3
    assert not code.is_assembled
    assert predict(code, GPU).facts["registers"] == "estimated"
    with pytest.raises(ReproError, match="needs l2_bandwidth, which made-up-gpu does not have"):
        predict(code_with(), replace(GPU, l2_bandwidth=0.0))
    with pytest.raises(ReproError, match="needs matrix f16, which made-up-gpu does not have"):
        predict(code, replace(GPU, f16_matrix_flops=0.0))


def test_causes_add_up(code: GpuCode) -> None:
    step = predict(code, GPU)
    assert all(tuple(each.causes) == GPU_CAUSES for each in step.launches)
    assert sum(step.causes.values()) == pytest.approx(step.seconds)
    assert all(seconds >= 0 for each in step.launches for seconds in each.causes.values())
    assert step.seconds > 2 * 512**3 / GPU.f32_flops
    assert predict(code, GPU) == step


WORSE = {"launch_seconds"}
# Numbers for which more is not better: more multiprocessors would share the same peak.
OTHERS = {"multiprocessors", "registers", "blocks"}


@pytest.mark.parametrize("name", sorted({*ACCELERATOR_NUMBERS} - OTHERS))
@pytest.mark.parametrize("text", [doubled(1 << 22), product(512)], ids=["stream", "product"])
@pytest.mark.diagonal
def test_no_better_number_makes_a_step_slower(name: str, text: str) -> None:
    code = read_code(program_of(text), GPU)
    value = getattr(GPU, name)
    better = value * (0.5 if name in WORSE else 1 / 0.95 if name.endswith("efficiency") else 2)
    before, after = (predict(code, each).seconds for each in (GPU, replace(GPU, **{name: better})))
    assert after <= before * (1 + 1e-12)
    if name in ("launch_seconds", "clock_hz"):
        assert after < before


def test_waves_are_whole() -> None:
    """Compares with values computed by hand for 100 multiprocessors with 16 resident blocks each. The longest path of a
    block takes 1000 cycles, at 1 GHz."""
    idle: dict[str, object] = {
        "issued": 1.0,
        "units": {},
        "l2_bytes": 0.0,
        "touched": ((0, 0, False, False),),
        "path": (1000.0, 1000.0),
    }
    for blocks, waves, tail in (
        (1, 1, 0),
        (1600, 1, 0),
        (2400, 1.5, 500e-9),
        (1601, 1601 / 1600, 999.375e-9),
        (3200, 2, 0),
    ):
        (launch,) = predict(code_with(**idle, blocks=blocks), GPU).launches
        assert launch.resident == 16
        assert launch.seconds - GPU.launch_seconds == pytest.approx((waves + tail * 1e6) * 1e-6), blocks
        assert launch.causes["tail"] == pytest.approx(tail), blocks


def test_causes_by_hand() -> None:
    """Compares with values computed by hand. A block issues 4000 instructions in 1000 cycles, its f32 units also need
    1000 cycles, and its longest path takes 1000 cycles if data is in L2, else 2000."""
    gpu = replace(GPU, issue_efficiency=1.0)
    (launch,) = predict(code_with(), gpu).launches
    # All data is in L2, so the path takes 1000 cycles.
    assert launch.causes == pytest.approx(
        {"issue": 1e-6, "units": 0, "latency": 0, "l2": 0, "memory": 0, "tail": 0, "launch": 2e-6}, abs=1e-15
    )
    (launch,) = predict(code_with(), replace(gpu, issue_efficiency=0.8)).launches
    assert launch.causes["issue"] == pytest.approx(1.25e-6)
    (launch,) = predict(code_with(), replace(gpu, f32_flops=GPU.f32_flops / 2)).launches
    assert (launch.causes["units"], launch.unit) == (pytest.approx(1e-6), "f32")
    # 100 blocks read 3200 bytes each from L2. At 160 GB/s this takes 2 us, 1 us longer than issuing the instructions.
    (launch,) = predict(code_with(), replace(gpu, l2_bandwidth=1.6e11)).launches
    assert launch.causes["l2"] == pytest.approx(1e-6)
    # With 150 blocks, half of the 100 multiprocessors have two and take 2 us, 0.5 us more than the average of 1.5.
    (launch,) = predict(code_with(blocks=150), gpu).launches
    assert (launch.causes["issue"], launch.causes["tail"]) == (pytest.approx(1.5e-6), pytest.approx(0.5e-6))


def test_l2_keeps_data_that_fits() -> None:
    (launch,) = predict(read_code(program_of(doubled(1 << 20)), GPU), GPU).launches
    assert launch.traffic["memory"] == 0
    assert launch.traffic["l2"] == 8 << 20
    (launch,) = predict(read_code(program_of(doubled(1 << 25)), GPU), GPU).launches
    assert launch.traffic["memory"] >= 0.99 * (8 << 25)
    assert launch.seconds >= (8 << 25) / GPU.memory_bandwidth


def test_buffers_that_are_read_and_written_pass_twice() -> None:
    """The bytes of a buffer that is read and written count twice, whether one argument does both or two arguments refer
    to the same bytes."""
    launch = Launch(0, False, (("state", 0, 0), ("state", 1, 256), ("state", 1, 256)), (1, 1, 1))
    touched = ((0, 64, True, True), (0, 32, True, False), (0, 32, False, True))
    found = replace(WORK, touched=touched).touches(launch)
    assert found == [Touch("state", 0, 0, 64, times=2), Touch("state", 1, 256, 32, times=2)]
    assert reuse([found]).beyond(32).tolist() == [192]


def test_a_chain_of_indices_is_counted_as_empty() -> None:
    """Counting replaces loaded indices by -1, with which this loop ends; with 0 it would not."""
    text = f"""{HEADER}.visible .entry k(
.param .u64 a,
.param .u64 e
)
{{
\t.reg .b64 %rd<9>;
\t.reg .pred %p<2>;
\tld.param.u64 \t%rd1, [a];
$L1:
\tld.global.s64 \t%rd2, [%rd1];
\tsetp.ge.s64 \t%p1, %rd2, 0;
\t@%p1 bra \t$L1;
\tret;
}}
"""
    plan = Plan(
        "gpu", 0, 0, (TensorType("x", "i64", (4,)),), (), (), (), (Kernel("k", block=(32, 1, 1)),),
        (Launch(0, False, (("state", 0, 0),), (1, 1, 1)),),
    )  # fmt: skip
    code = gpu_code_of(TargetCode("sm_90", None, text.encode(), plan, b""), "sm_90")
    assert code.work[0].kinds["global load"] == 1
    beyond = text.replace("[%rd1];", "[%rd1+64];")
    with pytest.raises(ReproError, match=r"cannot count: kernel 'k'.*of buffer '0' of 32 bytes"):
        gpu_code_of(TargetCode("sm_90", None, beyond.encode(), plan, b""), "sm_90")


def test_hostile_sizes_are_an_error() -> None:
    huge = Plan(
        "gpu", 1 << 47, 0, (), (), (), (), (Kernel("k", block=(32, 1, 1)),),
        (Launch(0, False, (("arena", 0, 0),), (1, 1, 1)),),
    )  # fmt: skip
    text = f"{HEADER}.visible .entry k(\n.param .u64 a,\n.param .u64 e\n)\n{{\n\tret;\n}}\n"
    with pytest.raises(
        ReproError, match="cannot count on this machine: a buffer of 140737488355328 bytes is too large"
    ):
        gpu_code_of(TargetCode("sm_90", None, text.encode(), huge, b""), "sm_90")


def test_mismatched_machines_are_refused(code: GpuCode) -> None:
    with pytest.raises(ReproError, match="read for architecture sm_90, and made-up-gpu has sm_80: expected read_code"):
        predict(code, replace(GPU, architecture="sm_80"))
    with pytest.raises(ReproError, match="made-up-gpu: expected a machine of an architecture that the compiler"):
        read_code(program_of(product(32)), replace(GPU, architecture=None))
    with pytest.raises(ReproError, match="expected one thread, as made-up-gpu is not a CPU, got 2"):
        predict(code, GPU, 2)
    with pytest.raises(
        ReproError, match="expected code that was read for made-up, got code for another kind of machine"
    ):
        predict(code, MACHINE)  # type: ignore[call-overload]


def test_a_program_without_launches() -> None:
    step = predict(read_code(program_of(EMPTY), GPU), GPU)
    assert (step.launches, step.seconds) == ((), 0)


def test_energy_is_power_times_seconds() -> None:
    prediction = predict(code_with(), replace(GPU, watts=400.0))
    assert prediction.joules == 400.0 * prediction.seconds
    assert as_json(prediction, None)["joules"] == prediction.joules
    assert any(line.startswith("energy") for line in lines_of(prediction, None, 5))
    unknown = predict(code_with(), replace(GPU, watts=0.0))
    assert unknown.joules is None and as_json(unknown, None)["joules"] is None
    assert not any(line.startswith("energy") for line in lines_of(unknown, None, 5))
