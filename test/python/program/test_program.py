# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Saving and loading program files, and the identities of programs."""

import copy
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.program import Program
from repro_mlir.program.canonical import examine, to_bytes


def test_save_and_load(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.repro")
    loaded = Program.load(tmp_path / "p.repro")
    assert (loaded.state, loaded.inputs, loaded.outputs) == (program.state, program.inputs, program.outputs)
    assert loaded.untrusted and not program.untrusted
    assert loaded.num_hyper_parameters == 1
    for a, b in zip(loaded.initial, program.initial, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    assert loaded.hash == program.hash
    # Once loaded, a program has the text that MLIR prints. From then on, saving and loading change no byte.
    loaded.save(tmp_path / "q.repro")
    Program.load(tmp_path / "q.repro").save(tmp_path / "r.repro")
    assert (tmp_path / "q.repro").read_bytes() == (tmp_path / "r.repro").read_bytes()


def test_load_mistakes(program: Program, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="No such file"):
        Program.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ReproError, match="expected a program file of repro-mlir"):
        Program.load(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(ReproError, match="expected a program file of repro-mlir"):
        Program.load(tmp_path / "other.zip")
    program.save(tmp_path / "p")
    data = (tmp_path / "p").read_bytes()
    (tmp_path / "newer").write_bytes(data.replace(b'"format": 2', b'"format": 9'))
    # The file, a zip, is refused because the edited byte does not match the zip's checksum.
    with pytest.raises(ReproError, match="expected a program file of repro-mlir"):
        Program.load(tmp_path / "newer")
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(ReproError, match="expected a program file of repro-mlir"):
        Program.load(tmp_path / "cut")
    with pytest.raises(ReproError, match="cannot write"):
        program.save(tmp_path / "no" / "folder")


MODULE = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xf32> attributes {{repro.num_state = 0 : i64}} {{
  %zero = arith.constant {zero} : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %init = linalg.generic {{indexing_maps = [affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%zero : f32) outs(%empty : tensor<4x4xf32>) {{
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  }} -> tensor<4x4xf32>
  return %init : tensor<4x4xf32>
}}
"""


def identity_of(text: str) -> str:
    return examine(to_bytes(text)).identity


def test_H2_is_fixed() -> None:
    assert identity_of(MODULE.format(zero="0.0")) == "ebf99795ad25d305a207cb5c1ddfeddd2ef48e5527061f8adc85f9558b1f0af3"


def test_H2_ignores_names_and_locations() -> None:
    expected = identity_of(MODULE.format(zero="0.0"))
    other = MODULE.format(zero="0.0").replace("%init", "%start").replace("(i, j)", "(k, l)")
    assert identity_of(other) == expected
    named = MODULE.format(zero="0.0").replace("%a: tensor<4x8xf32>", '%a: tensor<4x8xf32> {repro.name = "a"}')
    assert identity_of(named) == expected


@pytest.mark.parametrize(("old", "new"), [("0.0", "-0.0"), ("0.0", "1.0"), ("8x4xf32", "8x5xf32")])
def test_H2_depends_on_meaningful_parts(old: str, new: str) -> None:
    text = MODULE.format(zero="0.0")
    assert identity_of(text.replace(old, new)) != identity_of(text)


def test_H2_unknown_attribute_is_an_error() -> None:
    text = MODULE.format(zero="0.0").replace("tensor.empty()", "tensor.empty() {note = 1 : i64}")
    with pytest.raises(ReproError, match="note"):
        identity_of(text)
    with pytest.raises(ReproError, match="expected a canonical program"):
        identity_of("func.func @main(")


def test_H2_is_none_of_the_initial_state(program: Program) -> None:
    changed = replace(program, initial=tuple(value + 1 for value in program.initial))
    assert changed.hash == program.hash


def test_safetensors_reads_the_state(program: Program, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    program.save(tmp_path / "p")
    with zipfile.ZipFile(tmp_path / "p") as archive:
        state = safetensors.load(archive.read("state.safetensors"))
    assert set(state) == {"w", "n"}
    assert np.array_equal(state["w"], program.initial[0]) and state["n"] == 0


def test_programs_are_copied_and_pickled(program: Program) -> None:
    for made in (copy.copy(program), copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert made is not program and (made.data, made.state, made.hash) == (program.data, program.state, program.hash)
        assert [array.tobytes() for array in made.initial] == [array.tobytes() for array in program.initial]
        assert made.untrusted == program.untrusted
    assert copy.deepcopy(program).initial[0] is not program.initial[0]
    assert pickle.loads(pickle.dumps(replace(program, untrusted=True))).untrusted


def test_unpickled_programs_are_verified(program: Program) -> None:
    make, arguments = program.__reduce__()
    with pytest.raises(ReproError):
        make(arguments[0][:-1], *arguments[1:])
