# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the arrays that an executable takes and returns: which of them share memory, and the errors for wrong
arguments."""

import copy
import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.compilation import cache, cpu
from repro_mlir.compilation.device_code import compile_data
from repro_mlir.execute.executable import Executable, compile
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.steps import StepInterpreter


def test_state_is_updated_in_place(program: Program, executable: Executable) -> None:
    state = program.initial_state()
    after, outputs = executable(state, 0.5, np.ones((2, 3), np.float32))
    assert after["w"] is state["w"] and after["n"] is state["n"]
    assert (state["w"] == np.arange(1, 7).reshape(2, 3)).all()
    assert state["n"] == 1
    assert outputs["loss"] == np.float32(0.5) and outputs["loss"].dtype == np.float32
    assert (program.initial[0] == np.arange(6).reshape(2, 3)).all()


def test_torch_tensors_are_updated_in_place(executable: Executable) -> None:
    torch = pytest.importorskip("torch")
    state = {"w": torch.nn.Parameter(torch.zeros(2, 3)), "n": torch.tensor(4)}
    after, outputs = executable(state, torch.tensor(0.25), torch.ones(2, 3))
    assert after["w"] is state["w"]
    assert torch.equal(state["w"], torch.ones(2, 3)) and state["n"] == 5
    assert isinstance(outputs["loss"], torch.Tensor) and outputs["loss"].item() == 0.25


def test_dlpack_is_shared(executable: Executable) -> None:
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    memory = np.zeros((2, 3), np.float32)
    executable({"w": Foreign(memory), "n": np.array(0)}, 1.0, Foreign(np.ones((2, 3), np.float32)))
    assert (memory == 1).all()


def test_inputs_need_not_be_contiguous(program: Program, executable: Executable) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    state, _ = executable(program.initial_state(), 1.0, x.T)
    assert (state["w"] == program.initial[0] + x.T).all()


def test_input_that_is_part_of_the_state_is_read_before_it_changes(program: Program, executable: Executable) -> None:
    state = program.initial_state()
    executable(state, 1.0, state["w"])
    assert (state["w"] == 2 * program.initial[0]).all()


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("changes", "inputs", "message"),
    [
        ({}, (1.0,), r"expected 2 inputs \(lr: f32, x: 2x3xf32\), got 1"),
        ({}, (1.0, X.astype(np.float64)), r"input x: expected elements of f32 \(float32\), got float64"),
        ({}, (1.0, X[:1]), r"input x: expected shape \[2, 3\], got \[1, 3\]"),
        ({}, (1.0, [1, 2]), "input x: expected an array, got a list"),
        ({}, (True, X), "input lr: expected elements of f32, got the number True"),
        ({"w": X.T.copy().T}, (1.0, X), "state w: expected a contiguous array, as it is updated in place"),
        ({"w": np.broadcast_to(X[0], (2, 3))}, (1.0, X), "state w: expected a contiguous array"),
        ({"w": np.frombuffer(bytes(24), np.float32).reshape(2, 3)}, (1.0, X), "state w: expected a writable array"),
        ({"n": 3}, (1.0, X), "state n: expected an array, as it is updated in place, got the number 3"),
        ({"n": np.array(0, np.int32)}, (1.0, X), r"state n: expected elements of i64 \(int64\), got int32"),
        ({"v": X}, (1.0, X), "state: missing none, unknown v"),
    ],
)
def test_mistakes(program: Program, executable: Executable, changes, inputs, message: str) -> None:
    state = {**program.initial_state(), **changes}
    before = {name: np.array(value) for name, value in state.items()}
    with pytest.raises(ReproError, match=message):
        executable(state, *inputs)
    assert all((np.array(state[name]) == before[name]).all() for name in before)


_PAIR = TensorType("x", "f32", (2,), complex=True)
_COUNT = TensorType("x", "i64", ())


@pytest.mark.parametrize(("number", "parts"), [(1 + 2j, [1, 2]), (3.5, [3.5, 0]), (-4, [-4, 0])])
def test_numbers_for_complex_inputs(number: complex, parts: list[float]) -> None:
    assert as_array(number, _PAIR, "input").tolist() == parts


@pytest.mark.parametrize(
    ("number", "kind"),
    [(True, _PAIR), (1j, _COUNT), (1.5, _COUNT), (float("inf"), _COUNT), (float("nan"), _COUNT), (True, _COUNT)],
)
def test_numbers_of_another_kind(number: complex, kind: TensorType) -> None:
    with pytest.raises(ReproError, match=f"input x: expected elements of {kind.shown_element}, got the number"):
        as_array(number, kind, "input")


def test_a_state_that_is_not_a_mapping(executable: Executable) -> None:
    with pytest.raises(ReproError, match="expected the state as a mapping from name to array, got a list"):
        executable([X], 1.0, X)


def test_states_in_the_same_memory(executable: Executable) -> None:
    memory = np.zeros(40, np.uint8)
    state = {"w": memory[:24].view(np.float32).reshape(2, 3), "n": memory[16:24].view(np.int64).reshape(())}
    with pytest.raises(ReproError, match="share memory"):
        executable(state, 1.0, X)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", 100000])
def test_number_of_threads(program: Program, threads) -> None:
    from repro_mlir import compile

    with pytest.raises(ReproError, match="expected a number of threads from 1 to 1024, got"):
        compile(program, "reference", threads)


def test_reference_target(program: Program) -> None:
    from repro_mlir import compile

    state, outputs = compile(program, "reference")(program.initial_state(), 0.125, X)
    assert outputs["loss"] == 0.125 and (state["w"] == program.initial[0]).all()


_MOVED = """
func.func @main(%x: tensor<{type}>) -> tensor<{type}> attributes {{repro.num_state = 0 : i64}} {{
  return %x : tensor<{type}>
}}
"""


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
@pytest.mark.parametrize(
    ("type", "found"),
    [("6xf32", r"f32 of shape \[6\]"), ("5xf64", r"f64 of shape \[5\]"), ("5xi32", r"i32 of shape \[5\]")],
)
def test_code_of_other_tensors_than_its_program_is_refused(
    target: str, type: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled code for other tensor shapes than those of the program, for example from a damaged cache, must be
    refused: it would write outside the program's arrays."""
    data, other = (to_bytes(_MOVED.format(type=each)) for each in ("5xf32", type))
    kind = TensorType("x", "f32", (5,))
    program = Program(data, (), (kind,), (kind,), 0, ())

    def damaged(_: bytes, name: str, make: Callable[[], bytes]) -> bytes:
        return compile_data(other, name, False) if name.startswith("sm_") else cpu.compile(other, name)

    monkeypatch.setattr(cache, "cached_code", damaged)
    with pytest.raises(ReproError, match=rf"the code for .*: input 0: expected f32 of shape \[5\], got {found}"):
        compile(program, target, 1)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 1)])
def test_reference_writes_no_result_into_memory_of_another_shape(program: Program, shape: tuple[int, ...]) -> None:
    states = [*program.initial_state().values()]
    inputs = [np.float32(0.5), np.ones((2, 3), np.float32)]
    outputs = [np.full(shape, 7, np.float32)]
    if shape == ():
        StepInterpreter(program.data).run(states, inputs, outputs)
        assert outputs[0] == 0.5
        return
    with pytest.raises(ReproError, match=rf"result 2: expected shape {re.escape(str([*shape]))}, got \[\]"):
        StepInterpreter(program.data).run(states, inputs, outputs)
    assert (outputs[0] == 7).all()


def test_out_of_memory_is_one_error(program: Program) -> None:
    class Greedy:
        def run(self, states, inputs, outputs) -> None:
            np.empty(1 << 60, np.uint8)

    executable = Executable(program, "greedy", 1, Greedy())
    with pytest.raises(ReproError, match=r"out of memory: cannot run a step on greedy .*Unable"):
        executable(program.initial_state(), 1.0, np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_executable_is_not_copied(executable: Executable, use: Callable[[object], object]) -> None:
    with pytest.raises(ReproError, match="cannot be copied or pickled: copy or pickle its program, and compile that"):
        use(executable)


def test_steps_at_addresses_are_of_compiled_programs(executable: Executable) -> None:
    kinds = [TensorType(name, "f32", (3,)) for name in ("x", "y", "z")]
    text = "func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) attributes "
    text += "{repro.num_state = 1 : i64} { return %y, %x : tensor<3xf32>, tensor<3xf32> }"
    zeros = np.zeros(3, np.float32)
    swapping = Program(to_bytes(text), (kinds[0],), (kinds[1],), (kinds[2],), 0, (zeros,))
    compiled = compile(swapping, "cpu", threads=1)
    state, given, found = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert compiled.takes_addresses and compiled.moved == {0, 1}
    compiled.write_at([array.ctypes.data for array in (state, given, found)])
    assert state.tolist() == [3, 4, 5] and found.tolist() == [0, 1, 2]
    assert not any(other.takes_addresses for other in (compile(swapping, "reference"), executable))
