# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Launch plans as bytes: writing and reading preserves all fields, and other bytes cause one clear error."""

import struct
from dataclasses import replace

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.runner.plan import Kernel, Launch, Plan, read_plan, write_plan
from support import handmade

BIG = 1 << 48

EMPTY = Plan("cpu", 0, 0, (), (), (), (), (), ())
HOST = Plan(
    processor="cpu",
    arena_size=64,
    constant_size=16,
    states=(TensorType("w", "bf16", (3, 5)),),
    inputs=(TensorType("é", "i1", (0, 7)),),
    outputs=(TensorType("", "f64", ()),),
    messages=("", "model.py:1: ∞"),
    kernels=(Kernel("k", items=7, grain=3, scratch=128), Kernel("k2", grain=1)),
    launches=(
        Launch(1, True, (("state", 0, 30), ("input", 0, 0), ("output", 0, 8), ("arena", 0, 64), ("constant", 0, 16))),
        Launch(0, False, ()),
    ),
)
DEVICE = handmade.plan()


@pytest.mark.parametrize("plan", [EMPTY, HOST, DEVICE])
def test_a_plan_survives_a_round_trip(plan: Plan) -> None:
    assert read_plan(write_plan(plan), plan.processor, "plan") == plan


def test_a_plan_for_another_processor() -> None:
    with pytest.raises(ReproError, match="here: expected a launch plan for a gpu, got one for a cpu"):
        read_plan(write_plan(HOST), "gpu", "here")


def _launch(plan: Plan, **changes: object) -> Plan:
    return replace(plan, launches=(replace(plan.launches[0], **changes),))


def _kernel(plan: Plan, **changes: object) -> Plan:
    return replace(plan, kernels=(replace(plan.kernels[0], **changes), *plan.kernels[1:]))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (_launch(DEVICE, kernel=2), "launch 0: expected a kernel below 2, got 2"),
        (_launch(DEVICE, arguments=(("state", 2, 0),)), "launch 0 reads at state 2, byte 0, which does not exist"),
        (_launch(DEVICE, arguments=(("output", 0, 5),)), "launch 0 reads at output 0, byte 5, which does not exist"),
        (_launch(HOST, arguments=(("input", 0, 1),)), "launch 0 reads at input 0, byte 1, which does not exist"),
        (_launch(DEVICE, arguments=(("arena", 0, 65),)), "launch 0 reads at arena 0, byte 65, which does not exist"),
        (_launch(DEVICE, arguments=(("arena", 1, 0),)), "launch 0 reads at arena 1, byte 0, which does not exist"),
        (_launch(HOST, arguments=(("constant", 0, 17),)), "constant 0, byte 17, which does not exist"),
        (_launch(DEVICE, grid=(1, 0, 1)), "launch 0 has a grid without blocks"),
        (_kernel(DEVICE, block=(1, 1, 0)), "kernel look_up has no work"),
        (_kernel(DEVICE, block=(512, 1, 3)), "kernel look_up has no work, or more"),
        (_kernel(HOST, grain=0), "kernel k has no work"),
        (_kernel(HOST, grain=BIG + 1), "kernel k has no work, or more"),
        (_kernel(HOST, items=BIG + 1), "kernel k has no work, or more"),
        (_kernel(HOST, scratch=BIG + 1), "kernel k has no work, or more"),
        (replace(HOST, arena_size=BIG + 1), "an arena or constants of more than 2\\^48 bytes"),
        (replace(HOST, constant_size=BIG + 1), "an arena or constants of more than 2\\^48 bytes"),
        (replace(HOST, states=(TensorType("w", "f32", (1 << 46, 2)),)), "w of more than 2\\^48 bytes"),
        (replace(HOST, states=(TensorType("w", "f32", (0, 1 << 63)),)), "w of more than 2\\^48 bytes"),
    ],
)
def test_out_of_range(plan: Plan, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        read_plan(write_plan(plan), plan.processor, "plan")


def test_element_of_no_tensor() -> None:
    data = write_plan(DEVICE).replace(b"\3\0\0\0f32", b"\3\0\0\0f33", 1)
    with pytest.raises(ReproError, match="unknown element type of a tensor"):
        read_plan(data, "gpu", "plan")


@pytest.mark.parametrize("plan", [HOST, DEVICE])
def test_cut_short_or_too_long(plan: Plan) -> None:
    data = write_plan(plan)
    for length in range(len(data)):
        with pytest.raises(ReproError, match="plan: the launch plan is damaged"):
            read_plan(data[:length], plan.processor, "plan")
    with pytest.raises(ReproError, match="expected the end of the plan, got 1 bytes more"):
        read_plan(data + b"\0", plan.processor, "plan")


@pytest.mark.parametrize("plan", [HOST, DEVICE])
def test_every_number_at_every_place(plan: Plan) -> None:
    """Writes numbers at every offset. The reader must raise ReproError or return a plan with this encoding, and must
    allocate little memory."""
    data = write_plan(plan)
    for at in range(len(data) - 3):
        for number in (0, 1, 5, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF):
            changed = data[:at] + struct.pack("<I", number) + data[at + 4 :]
            try:
                found = read_plan(changed, plan.processor, "plan")
            except ReproError:
                continue
            assert write_plan(found) == changed


@pytest.mark.parametrize(("at", "message"), [(0, "expected 'reproplan'"), (12, "version"), (16, "processor")])
def test_head(at: int, message: str) -> None:
    data = bytearray(write_plan(DEVICE))
    data[at] ^= 0x40
    with pytest.raises(ReproError, match=message):
        read_plan(bytes(data), "gpu", "plan")
