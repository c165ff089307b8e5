# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(H2): the parts of a program on which its identity depends, and those on which it does not."""

from __future__ import annotations

import pytest
from support.stored_samples import PROGRAM

ir = pytest.importorskip("repro_mlir.ir")
from repro_mlir._mlir_libs._repro import program_hash  # noqa: E402

# The identity of PROGRAM (docs/verification/identity.md). This identity may change only if the version of the numerics
# changes.
EXPECTED = "15dc52ddc1ba1687c605f611e060792497a254475a8580bf9590b47aa096ca19"


def hash_of(text: str) -> str:
    with ir.Context():
        return program_hash(ir.Module.parse(text))


def test_known_hash() -> None:
    assert hash_of(PROGRAM) == EXPECTED


@pytest.mark.parametrize(
    "flags",
    [
        {"print_generic_op_form": True},
        {"enable_debug_info": True},
        {"use_local_scope": True},
        {"large_elements_limit": 100, "assume_verified": True},
    ],
    ids=str,
)
def test_printing_has_no_part(flags: dict[str, object]) -> None:
    with ir.Context():
        text = ir.Module.parse(PROGRAM).operation.get_asm(**flags)
    assert hash_of(text) == EXPECTED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{repro.name = "w"}', '{repro.name = "v"}'),
        (' {repro.name = "w"}', ""),
        ("%noise", "%renamed"),
        ("%a:", "%a: "),
        ('"message"', '"another"'),
        ("dense<7> : tensor<8xi8>", "dense<[7, 7, 7, 7, 7, 7, 7, 7]> : tensor<8xi8>"),
        ("%zero = arith.constant 0.0 : f32", '%zero = arith.constant 0.0 : f32 loc("file.py":1:2)'),
        ("#id =", "#other = affine_map<(d0, d1) -> (d1)>\n#id ="),
        ("arith.subf %a, %b : f32", "arith.subf %a, %b fastmath<none> : f32"),
    ],
)
def test_no_part_of_the_identity(old: str, new: str) -> None:
    assert old in PROGRAM
    assert hash_of(PROGRAM.replace(old, new)) == EXPECTED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("num_state = 2", "num_state = 1"),
        ("arith.constant 0.0 : f32", "arith.constant -0.0 : f32"),
        ("arith.constant 0.0 : f32", "arith.constant 1.0e-45 : f32"),
        ("8.0]> : tensor<8xf32>", "8.00000095]> : tensor<8xf32>"),
        ("dense<7>", "dense<8>"),
        ("site = 3", "site = 4"),
        ("arith.subf %a, %b", "arith.subf %b, %a"),
        ("arith.subf %a, %b", "arith.addf %a, %b"),
        ("cmpf olt", "cmpf ole"),
        ("math.fma %e, %c, %zero", "math.fma %e, %zero, %c"),
        ("linalg.yield %f", "linalg.yield %a"),
        ("chunk = 8192", "chunk = 4096"),
        ("lanes = 64", "lanes = 32"),
        ("run = 1", "run = 0"),
        ("totals = refold", "totals = sequential"),
        ("ins(%new : tensor<8xf32>)", "ins(%noise : tensor<8xf32>)"),
        ("return %new, %seed", "return %noise, %seed"),
        ('    cf.assert %g, "message"\n', ""),
    ],
)
def test_part_of_the_identity(old: str, new: str) -> None:
    assert old in PROGRAM
    assert hash_of(PROGRAM.replace(old, new)) != EXPECTED


def test_maps_and_shapes_have_a_part() -> None:
    transposed = """
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {{repro.num_state = 0 : i64}} {{
      %e = tensor.empty() : tensor<4x4xf32>
      %0 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> ({map})>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {{
      ^bb0(%a: f32, %out: f32):
        %b = arith.negf %a : f32
        linalg.yield %b : f32
      }} -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }}
    """
    maps = ["d0, d1", "d1, d0", "d0, 0", "d0, d1 floordiv 2", "d0, d1 mod 2"]
    assert len({hash_of(transposed.format(map=m)) for m in maps}) == len(maps)
    shapes = ["4x4", "4x5", "5x4"]
    assert len({hash_of(transposed.format(map="d0, d1").replace("4x4", s)) for s in shapes}) == len(shapes)


def test_a_nan_is_a_nan() -> None:
    """(V4) The identity of a program does not depend on the sign and payload of the NaNs in it."""
    program = """
    func.func @main(%x: tensor<f32>) -> tensor<f32> attributes {{repro.num_state = 0 : i64}} {{
      %c = arith.constant {bits} : f32
      %e = tensor.empty() : tensor<f32>
      %0 = linalg.generic {{indexing_maps = [affine_map<() -> ()>], iterator_types = []}} outs(%e : tensor<f32>) {{
      ^bb0(%out: f32):
        linalg.yield %c : f32
      }} -> tensor<f32>
      return %0 : tensor<f32>
    }}
    """
    assert hash_of(program.format(bits="0x7FC00000")) == hash_of(program.format(bits="0xFFC12345"))
    assert hash_of(program.format(bits="0x7FC00000")) != hash_of(program.format(bits="0x7F800000"))


def test_not_canonical() -> None:
    text = PROGRAM.replace("arith.subf %a, %b : f32", "arith.subf %a, %b fastmath<contract> : f32")
    with pytest.raises(ValueError, match=r"\(V3\) expected no 'fastmath'"):
        hash_of(text)
