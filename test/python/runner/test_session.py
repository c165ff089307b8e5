# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs bundles on a simulated CUDA driver: states, hashes, and buffers that the caller provides."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.bundle.writer import expect, write_bundle
from repro_mlir.program.canonical import to_bytes
from repro_mlir.runner import Bundle, Device, Session
from repro_mlir.runner.device_array import device_pointer
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from support import handmade


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))


@pytest.fixture
def bundle(stub: None, tmp_path: Path) -> Bundle:
    program, steps = handmade.program(), handmade.steps(3)
    path = tmp_path / "model.rmb"
    write_bundle(path, program, [handmade.code()], steps=steps, expected=expect(program, steps))
    return Bundle(path)


def test_steps_have_the_bits_of_the_cpu(bundle: Bundle) -> None:
    program = handmade.program()
    executable = repro_mlir.compile(program)
    state = program.initial_state()
    with Session(bundle) as session:
        assert (session.architecture, session.image, session.device.architecture) == ("sm_75", "PTX", "sm_90")
        assert session.state_hash() == bundle.initial_state_hash
        for step in range(3):
            inputs = bundle.recorded_inputs(step)
            state, expected = executable(state, *inputs)
            outputs = session.step(*inputs)
            assert outputs["loss"] == expected["loss"] and outputs["loss"].dtype == np.float32
        assert session.steps == 3
        assert session.state_hash() == state_hash([(state[kind.name], kind.element) for kind in program.state])
        assert bundle.expected is not None
        assert session.state_hash() == bundle.expected.state[3]
        assert [digest.hex() for digest in session.tensor_digests()] == bundle.expected.tensors[3]
        session.reset()
        assert session.steps == 0 and session.state_hash() == bundle.initial_state_hash


def test_complex_arrays(stub: None, tmp_path: Path) -> None:
    """(Z1) The bundle's manifest says which tensors are complex, that is, are pairs of real and imaginary parts. The
    plan does not contain this information."""
    given, plan, shape = handmade.program(), handmade.plan(), (3, 2)
    lr, x, k = given.inputs
    pairs = replace(x, shape=shape, complex=True)
    w, n = given.state
    state, initial = (replace(w, shape=shape), n), (given.initial[0].reshape(shape), given.initial[1])
    data = to_bytes(handmade.TEXT.replace("2x3", "3x2"))
    program = replace(given, data=data, state=state, inputs=(lr, pairs, k), initial=initial)
    code = replace(handmade.code(), plan=replace(plan, states=state, inputs=(lr, replace(pairs, complex=False), k)))
    write_bundle(tmp_path / "model.rmb", program, [code])
    values = np.array([1 + 2j, 3 + 4j, 5 + 6j], np.complex64)
    with Session(tmp_path / "model.rmb") as session:
        assert [kind.complex for kind in session.bundle.inputs] == [False, True, False]
        session.step(0.5, values, 1)
        expected = initial[0] + np.float32(0.5) * values.view(np.float32).reshape(shape)
        assert (session.state()["w"] == expected).all()
        # The program has no complex output, so the test changes the declaration of its only output.
        outputs = (replace(program.outputs[0], shape=(2,), complex=True),)
        session.bundle.__dict__["outputs"] = outputs
        session._execution.read = lambda space, index: np.array([7, 8], np.float32)  # type: ignore[method-assign]
        assert session.step(0.5, values, 1)["loss"] == np.complex64(7 + 8j)


def test_a_failed_check_leaves_the_state(bundle: Bundle) -> None:
    with Session(bundle) as session:
        lr, x, k = bundle.recorded_inputs(0)
        session.step(lr, x, k)
        before = session.state_hash()
        with pytest.raises(StepFailed, match=r"index out of range for a tensor of shape \[2, 3\]"):
            session.step(lr, x, np.array(3))
        with pytest.raises(StepFailed):
            session.step(lr, x, np.array(-1))
        assert session.state_hash() == before and session.steps == 1
        # Later steps succeed, because a failed step resets the error word.
        session.step(*bundle.recorded_inputs(1))
        session.step(*bundle.recorded_inputs(2))
        assert bundle.expected is not None and session.state_hash() == bundle.expected.state[3]


def test_inputs_that_do_not_fit(bundle: Bundle) -> None:
    with Session(bundle) as session:
        lr, x, k = bundle.recorded_inputs(0)
        with pytest.raises(ReproError, match=r"expected 3 inputs \(lr: f32, x: 2x3xf32, k: i64\), got 1"):
            session.step(lr)
        with pytest.raises(ReproError, match=r"input x: expected shape \[2, 3\], got \[3, 2\]"):
            session.step(lr, x.T, k)
        with pytest.raises(ReproError, match="the program has no state v"):
            session.set_state({"v": x})


def test_states_can_be_set(bundle: Bundle) -> None:
    with Session(bundle) as session:
        session.set_state({"w": np.full((2, 3), 2, np.float32)})
        assert np.array_equal(session.state()["w"], np.full((2, 3), 2, np.float32)) and session.state()["n"] == 3


class OnDevice:
    """An array of another library in the memory of the simulated device (which is host memory). It has
    `__cuda_array_interface__`."""

    def __init__(self, device: Device, array: np.ndarray, **changes: object) -> None:
        self._device = device
        self.pointer = device.allocate(array.nbytes)
        self._like = np.empty_like(array)
        device.write(self.pointer, np.ascontiguousarray(array))
        device.synchronize()
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            **changes,
        }

    def value(self) -> np.ndarray:
        self._device.read(self.pointer, self._like)
        self._device.synchronize()
        return self._like


def test_buffers_in_place(bundle: Bundle) -> None:
    device = Device()
    w = OnDevice(device, np.full((2, 3), 1, np.float32))
    x = OnDevice(device, np.arange(6, dtype=np.float32).reshape(2, 3))
    loss = OnDevice(device, np.zeros((), np.float32))
    with Session(bundle, device, state={"w": w}, inputs={"x": x}, outputs={"loss": loss}) as session:
        session.step(0.5, 2)
        assert np.array_equal(w.value(), 1 + np.float32(0.5) * np.arange(6, dtype=np.float32).reshape(2, 3))
        assert loss.value() == 2 and session.state()["n"] == 4
        shown = session.on_device()["w"].__cuda_array_interface__
        assert shown["data"] == (w.pointer, False) and shown["shape"] == (2, 3) and shown["typestr"] == "<f4"
    with Session(bundle, device) as session:
        session.step(np.float32(0.5), x, 1)
        assert session.state()["w"][1, 2] == np.float32(5 / np.float32(7)) + np.float32(2.5)
        again = session.on_device("input")["x"]
        session.step(np.float32(0.5), again, 1)


@pytest.mark.parametrize(
    ("array", "changes", "message"),
    [
        (np.zeros((3, 2), np.float32), {}, r"state w: expected shape \[2, 3\], got \[3, 2\]"),
        (np.zeros((2, 3), np.float64), {}, r"state w: expected elements of f32 \(float32\), got float64"),
        (np.zeros((2, 3), np.float32), {"strides": (4, 8)}, "state w: expected a contiguous array"),
        (np.zeros((2, 3), np.float32), {"data": (256, True)}, "state w: expected a writable array"),
        (np.zeros((2, 3), np.float32), {"mask": object()}, "state w: expected an array without a mask"),
        (
            np.zeros((2, 3), np.float32),
            {"typestr": "?!"},
            "state w: expected a __cuda_array_interface__, got TypeError",
        ),
        (np.zeros((2, 3), np.float32), {"shape": 6}, "state w: expected a __cuda_array_interface__, got TypeError"),
        (np.zeros((2, 3), np.float32), {"data": ()}, "state w: expected a __cuda_array_interface__, got IndexError"),
    ],
)
def test_buffers_that_do_not_fit(bundle: Bundle, array: np.ndarray, changes: dict, message: str) -> None:
    device = Device()
    with pytest.raises(ReproError, match=message):
        Session(bundle, device, state={"w": OnDevice(device, array, **changes)})
    with pytest.raises(ReproError, match="state w: expected an array on GPU 0, got one on device"):
        Session(bundle, device, state={"w": np.zeros((2, 3), np.float32)})
    with pytest.raises(ReproError, match="the program has no state v"):
        Session(bundle, device, state={"v": OnDevice(device, array)})


@pytest.mark.parametrize(("space", "name"), [("state", "w"), ("input", "x"), ("output", "loss")])
def test_misaligned_buffers(bundle: Bundle, space: str, name: str) -> None:
    """A buffer must be aligned to 16 bytes, because kernels access 16 bytes at a time. On a GPU, a misaligned access
    would make the whole context unusable."""
    device = Device()
    shape = () if name == "loss" else (2, 3)
    array = OnDevice(device, np.zeros(16, np.float32))
    for beyond in (4, 8):
        view = OnDevice(device, np.zeros(shape, np.float32), data=(array.pointer + beyond, False))
        with pytest.raises(ReproError, match=rf"{space} {name}: expected an address .* of 16, .* {beyond} bytes"):
            Session(bundle, device, **{f"{space}s" if space != "state" else space: {name: view}})
    view = OnDevice(device, np.arange(6, dtype=np.float32).reshape(2, 3), data=(array.pointer + 4, False))
    with Session(bundle, device) as session:
        session.step(0.5, view, 0)  # a step copies its inputs, so they need no alignment


def test_overlapping_buffers(bundle: Bundle) -> None:
    """Two buffers must not overlap if one of them is written, because kernels may cache data that they only read."""
    device = Device()
    room = OnDevice(device, np.zeros(64, np.float32))

    def view(shape: tuple[int, ...], offset: int = 0) -> OnDevice:
        return OnDevice(device, np.zeros(shape, np.float32), data=(room.pointer + offset, False))

    with pytest.raises(ReproError, match="state w and output loss: expected separate memory, but they overlap"):
        Session(bundle, device, state={"w": view((2, 3))}, outputs={"loss": view((), 16)})
    with pytest.raises(ReproError, match="input x and output loss: expected separate memory"):
        Session(bundle, device, inputs={"x": view((2, 3))}, outputs={"loss": view((), 16)})
    inputs = {"x": view((2, 3)), "lr": view((), 16)}
    with Session(bundle, device, inputs=inputs, outputs={"loss": view((), 32)}) as session:
        assert session.step(0)["loss"] == 0


def test_replay_runs_steps(bundle: Bundle) -> None:
    with Session(bundle) as session:
        session.step(*bundle.recorded_inputs(0))
        assert session.replay(4) > 0
        assert session.state()["n"] == 3 + 1 + 5


def test_a_closed_session_touches_no_memory(bundle: Bundle) -> None:
    """A closed session must not write to its memory, which may have another owner by then. Closing a session again has
    no effect."""
    device = Device()
    inputs = bundle.recorded_inputs(0)
    session = Session(bundle, device)
    session.step(*inputs)
    array = session.on_device()["w"]
    session.close()
    block = device.allocate(8 * 256)
    device.write(block, before := np.full(8 * 256, 7, np.uint8))
    for use in (
        lambda: session.step(*inputs),
        lambda: session.replay(1),
        lambda: session.set_state({"w": np.ones((2, 3), np.float32)}),
        session.reset,
        session.state,
        session.state_hash,
        session.on_device,
        lambda: array.__cuda_array_interface__,
        lambda: Session(bundle, device, state={"w": array}),
    ):
        with pytest.raises(ReproError, match="expected an open session, got one whose memory is freed"):
            use()
    session.close()
    device.read(block, after := np.zeros_like(before))
    device.synchronize()
    assert np.array_equal(before, after)
    device.free(block)


def test_requests_that_a_session_refuses(bundle: Bundle) -> None:
    with Session(bundle) as session:
        with pytest.raises(ReproError, match="expected state or input or output, got 'scratch'"):
            session.on_device("scratch")
        for steps in (0, -1):
            with pytest.raises(ReproError, match=f"expected at least one step to measure, got {steps}"):
                session.replay(steps)


def test_memory_is_given_back(bundle: Bundle) -> None:
    device = Device()
    for _ in range(3):
        # This block has more than half of the simulated device's memory, so the next allocation fails unless the block
        # is freed.
        block = device.allocate(12 << 30)
        device.free(block)
    session = Session(bundle, device)
    assert session.allocated == 8 * 256
    session.close()


def test_unknown_device(bundle: Bundle) -> None:
    with pytest.raises(ReproError, match="expected a GPU from 0 to 0, got 1"):
        Session(bundle, 1)


class ByDLPack:
    """An array of a library that supports only DLPack, in the memory of the simulated device."""

    def __init__(self, device: Device, array: np.ndarray, ordinal: int = 0) -> None:
        self.pointer = device.allocate(array.nbytes)
        self._device = ordinal
        memory = (ctypes.c_char * array.nbytes).from_address(self.pointer)
        self.array = np.frombuffer(memory, array.dtype).reshape(array.shape)
        self.array[...] = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device

    def __dlpack__(self, **_: object) -> object:
        return self.array.__dlpack__()


def test_buffers_by_dlpack(bundle: Bundle) -> None:
    device = Device()
    w = ByDLPack(device, np.full((2, 3), 1, np.float32))
    with Session(bundle, device, state={"w": w}) as session:
        session.step(0.5, np.ones((2, 3), np.float32), 1)
        assert np.array_equal(w.array, np.full((2, 3), 1.5, np.float32))
        # A transposed view of the same memory.
        turned = ByDLPack(device, np.ones((3, 2), np.float32))
        turned.array = turned.array.T
        with pytest.raises(ReproError, match="input x: expected a contiguous array"):
            session.step(0.5, turned, 1)
    for array, ordinal, message in (
        (np.ones((3, 2), np.float32), 0, r"state w: expected shape \[2, 3\], got \[3, 2\]"),
        (np.ones((2, 3), np.int32), 0, r"expected elements of f32 \(float32\), got DLPack type 0 of 32 bits"),
        (np.ones((2, 3), np.float32), 1, r"state w: expected an array on GPU 0, got one on device \(2, 1\)"),
    ):
        with pytest.raises(ReproError, match=message):
            Session(bundle, device, state={"w": ByDLPack(device, array, ordinal)})


@pytest.mark.usefixtures("stub")
@pytest.mark.parametrize("element", ["f4E2M1FN", "f6E2M3FN", "f6E3M2FN"])
def test_elements_that_dlpack_packs(element: str) -> None:
    """(V1) A DLPack capsule without a version does not say whether each element has a byte of its own, so it is
    refused."""
    given = ByDLPack(Device(), np.zeros((2, 4), np.uint8))
    with pytest.raises(ReproError, match=f"w: expected the codes of {element} as uint8: DLPack packs its elements"):
        device_pointer(given, TensorType("w", element, (2, 4)), "state", 0, is_written=True)
