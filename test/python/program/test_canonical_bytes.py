# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V4) Tensors that users can see have canonical NaNs, and i1 elements that are 0 or 1. Files with other bits are
refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.base.files.tensor_file import read_tensors, write_tensors
from repro_mlir.base.numerics.hashing import tensor_bytes, tensor_hash
from repro_mlir.base.numerics.tensors import TensorType, check_canonical, from_bytes, is_canonical, make_canonical
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.runner.initial import initial_array

# For each element type, bit patterns that mean the same (NaN or true); the first one is canonical.
SAME = {
    "f64": [0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000000, 0x7FF8000000000001],
    "f32": [0x7FC00000, 0x7F800001, 0xFFC00000, 0x7FC00001, 0xFFFFFFFF],
    "f16": [0x7E00, 0x7C01, 0xFE00, 0x7FFF],
    "bf16": [0x7FC0, 0x7F81, 0xFFC0, 0xFFFF],
    "f8E4M3FN": [0x7F, 0xFF],
    "f8E5M2": [0x7E, 0x7D, 0x7F, 0xFE],
    "i1": [1, 2, 0x80, 0xFF],
}
# For each element type, bit patterns of numbers: zeros, the smallest and largest numbers, and infinities of both signs.
NUMBERS = {
    "f64": [0, 1 << 63, 1, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000],
    "f32": [0, 0x80000000, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000],
    "f16": [0, 0x8000, 1, 0x7BFF, 0x7C00, 0xFC00],
    "bf16": [0, 0x8000, 1, 0x7F7F, 0x7F80, 0xFF80],
    "f8E4M3FN": [0, 0x80, 1, 0x7E, 0xFE],
    "f8E5M2": [0, 0x80, 1, 0x7B, 0x7C, 0xFC],
    "i1": [0],
}
everywhere = pytest.mark.parametrize("element", SAME)


def array_of(element: str, bits: list[int]) -> np.ndarray:
    kind = TensorType("x", element, (len(bits),))
    return np.array(bits, f"u{kind.dtype.itemsize}").view(kind.dtype)


def bits_of(array: np.ndarray) -> list[int]:
    return array.view(f"u{array.itemsize}").tolist()


@everywhere
def test_V4_made_canonical(element: str) -> None:
    given = NUMBERS[element] + SAME[element]
    wanted = NUMBERS[element] + [SAME[element][0]] * len(SAME[element])
    array = array_of(element, given)
    assert not is_canonical(array, element)
    make_canonical(array, element)
    assert bits_of(array) == wanted
    assert is_canonical(array, element)
    spread = array_of(element, [bits for value in given for bits in (value, 0)])
    make_canonical(spread[::2], element)
    assert bits_of(spread) == [bits for value in wanted for bits in (value, 0)]
    assert is_canonical(array[:0], element)
    array.flags.writeable = False
    make_canonical(array, element)


@everywhere
def test_V4_refused(element: str) -> None:
    kind = TensorType("layer.weight", element, (2, 3))
    for wrong in SAME[element][1:]:
        array = array_of(element, [0, SAME[element][0], 0, 0, wrong, 0]).reshape(2, 3)
        digits = 2 * array.itemsize
        expected = "0 or 1" if element == "i1" else f"the NaN 0x{SAME[element][0]:0{digits}x}"
        message = (
            rf"here: tensor layer.weight: expected {expected} as element \[1, 1\] \(V4\), got 0x{wrong:0{digits}x}"
        )
        with pytest.raises(ReproError, match=message):
            check_canonical(array, kind, "here")
        with pytest.raises(ReproError, match=message):
            read_tensors([kind], write_tensors([kind], [array]), "here")
        with pytest.raises(ReproError, match=message.replace("here", "initial value").replace(r"1, 1", "")):
            bits = wrong.to_bytes(array.itemsize, "little").hex()
            initial_array(kind, {"from": "fill", "bits": bits})
        make_canonical(array, element)
        check_canonical(array, kind, "here")
        (read,) = read_tensors([kind], write_tensors([kind], [array]), "here")
        assert read.tobytes() == array.tobytes() and read.flags.writeable


@everywhere
def test_V4_H1_one_hash(element: str) -> None:
    arrays = [array_of(element, [0, bits]) for bits in SAME[element]]
    assert len({tensor_hash(array, element) for array in arrays}) == 1
    assert {tensor_bytes(array, element) for array in arrays} == {arrays[0].tobytes()}
    assert (
        from_bytes(tensor_bytes(arrays[-1], element), TensorType("x", element, (2,))).tobytes() == arrays[0].tobytes()
    )


def test_V4_program_files(tmp_path: Path) -> None:
    """A program file is refused if its initial state contains a NaN that is not canonical."""
    kind = TensorType("w", "f32", (3,))
    text = (
        "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> attributes {repro.num_state = 1 : i64} {\n"
        "  return %a : tensor<3xf32>\n}"
    )
    program = Program(to_bytes(text), (kind,), (), (), 0, (np.zeros(3, np.float32),))
    program.save(tmp_path / "right.repro")
    assert Program.load(tmp_path / "right.repro").initial[0].tobytes() == bytes(12)
    wrong = dataclasses.replace(program, initial=(array_of("f32", [0, 0x7FC00001, 0]),))
    wrong.save(tmp_path / "wrong.repro")
    with pytest.raises(ReproError, match=r"wrong.repro: tensor w: expected the NaN 0x7fc00000 as element \[1\]"):
        Program.load(tmp_path / "wrong.repro")


MOVING = """
func.func @main(%kept: tensor<4xELEMENT>, %spread: tensor<4xELEMENT>, %new: tensor<4xELEMENT>, %i: tensor<1x1xi64>,
                %x: tensor<4xELEMENT>)
    -> (tensor<4xELEMENT>, tensor<4xELEMENT>, tensor<4xELEMENT>, tensor<2xELEMENT>, tensor<4x1xELEMENT>,
        tensor<4xELEMENT>) attributes {repro.num_state = 3 : i64} {
  %part = tensor.extract_slice %x[1] [2] [1] : tensor<4xELEMENT> to tensor<2xELEMENT>
  %one = tensor.extract_slice %x[0] [1] [1] : tensor<4xELEMENT> to tensor<1xELEMENT>
  %scattered = repro.scatter replace ins(%one, %i : tensor<1xELEMENT>, tensor<1x1xi64>)
      outs(%spread : tensor<4xELEMENT>) -> tensor<4xELEMENT>
  %tall = tensor.expand_shape %new [[0, 1]] output_shape [4, 1] : tensor<4xELEMENT> into tensor<4x1xELEMENT>
  %e = tensor.empty() : tensor<4xELEMENT>
  %turned = linalg.generic {indexing_maps = [affine_map<(d0) -> (3 - d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xELEMENT>) outs(%e : tensor<4xELEMENT>) {
  ^bb0(%a: ELEMENT, %o: ELEMENT):
    linalg.yield %a : ELEMENT
  } -> tensor<4xELEMENT>
  return %kept, %scattered, %x, %part, %tall, %turned : tensor<4xELEMENT>, tensor<4xELEMENT>, tensor<4xELEMENT>,
      tensor<2xELEMENT>, tensor<4x1xELEMENT>, tensor<4xELEMENT>
}
"""


@everywhere
@pytest.mark.parametrize("target", ["cpu", "reference", "ptx-emulator"])
@pytest.mark.parametrize("kept", [False, True], ids=["called", "kept"])
@pytest.mark.diagonal
def test_V4_a_step_shows_canonical_bytes(element: str, target: str, kept: bool) -> None:
    """Elements that a step only moves are canonical in the result. A state that a call returns unchanged keeps its
    bits."""
    canonical = SAME[element][0]
    given = [SAME[element][-1], NUMBERS[element][-1], SAME[element][1], 0]
    wanted = [canonical, NUMBERS[element][-1], canonical, 0]
    kinds = [TensorType(name, element, (4,)) for name in ("kept", "spread", "new")]
    inputs = (TensorType("i", "i64", (1, 1)), TensorType("x", element, (4,)))
    outputs = tuple(
        TensorType(name, element, shape) for name, shape in (("part", (2,)), ("tall", (4, 1)), ("turned", (4,)))
    )
    initial = tuple(np.zeros(4, kind.dtype) for kind in kinds)
    program = Program(to_bytes(MOVING.replace("ELEMENT", element)), tuple(kinds), inputs, outputs, 0, initial)
    executable = repro_mlir.compile(program, target, 1)
    state = {kind.name: array_of(element, given) for kind in kinds}
    x = array_of(element, given)
    x.flags.writeable = False
    index = np.array([[3]])
    if kept:
        run = executable.keep(state)
        for array in state.values():
            array[...] = array_of(element, given)
        run.load()
        found = run.step(index, x)
        run.fetch()
    else:
        _, found = executable(state, index, x)
    assert bits_of(x) == given
    # `load` makes a state canonical. A plain call does not change a state that the program returns as it is.
    assert bits_of(state["kept"]) == (wanted if kept else given)
    assert bits_of(state["spread"]) == [*wanted[:3], canonical]
    assert bits_of(state["new"]) == wanted
    assert bits_of(found["part"]) == wanted[1:3]
    assert bits_of(found["tall"].reshape(-1)) == wanted
    assert bits_of(found["turned"]) == wanted[::-1]
