# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(H1), (H2), (H3): docs/identity.md and docs/numerics.md, written a second time, give the same hashes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

ir = pytest.importorskip("repro_mlir.ir")
import identity_bytes  # noqa: E402
from repro_mlir import hashing  # noqa: E402
from repro_mlir._mlir_libs._repro import program_hash  # noqa: E402
from repro_mlir.passmanager import PassManager  # noqa: E402
from test_program_hash import PROGRAM  # noqa: E402

EVERYTHING = """
func.func @main(%x: tensor<4x8xf32>, %i: tensor<6x1xi64>, %u: tensor<6x8xbf16>, %o: tensor<10x8xbf16>)
    -> (tensor<4xf32>, tensor<4xi64>, tensor<10x8xbf16>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>,
        tensor<6x8xf32>, tensor<2x2xf32>, tensor<2x2x8xf32>, tensor<f64>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant -1.5 : f32
  %inf = arith.constant 0xFF800000 : f32
  %d = arith.constant dense<[0.1, -0.0]> : tensor<2xf64>
  %h = arith.constant dense<1.0e-7> : tensor<2xf16>
  %b = arith.constant 1.0e-40 : bf16
  %nan = arith.constant 0xFFC1 : bf16
  %e5m2 = arith.constant dense<1.5> : tensor<3xf8E5M2>
  %t = arith.constant dense<[true, false]> : tensor<2xi1>
  %n = arith.constant dense<-3> : tensor<2x2xi16>
  %k = arith.constant 1 : index
  %e4 = tensor.empty() : tensor<4xf32>
  %e4i = tensor.empty() : tensor<4xi64>
  %e48 = tensor.empty() : tensor<4x8xf32>
  %0:2 = repro.arg_reduce min dimension = 1 ins(%x : tensor<4x8xf32>) outs(%e4, %e4i : tensor<4xf32>, tensor<4xi64>)
      -> tensor<4xf32>, tensor<4xi64>
  %1 = repro.scatter maximum ins(%u, %i : tensor<6x8xbf16>, tensor<6x1xi64>) outs(%o : tensor<10x8xbf16>)
      -> tensor<10x8xbf16>
  %2 = repro.scan mul dimension = 0 ins(%x : tensor<4x8xf32>) outs(%e48 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = repro.sort descending dimension = 1 ins(%x : tensor<4x8xf32>) outs(%e48 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = tensor.concat dim(0) %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = tensor.pad %x low[1, 0] high[1, 0] {
  ^bb0(%p: index, %q: index):
    tensor.yield %inf : f32
  } : tensor<4x8xf32> to tensor<6x8xf32>
  %6 = tensor.extract_slice %x[1, 2] [2, 2] [1, 3] : tensor<4x8xf32> to tensor<2x2xf32>
  %7 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 8] : tensor<4x8xf32> into tensor<2x2x8xf32>
  %s = tensor.empty() : tensor<f64>
  %8 = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%s : tensor<f64>) {
  ^bb0(%out: f64):
    %9 = tensor.extract %d[%k] : tensor<2xf64>
    linalg.yield %9 : f64
  } -> tensor<f64>
  return %0#0, %0#1, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4xf32>, tensor<4xi64>, tensor<10x8xbf16>, tensor<4x8xf32>,
      tensor<4x8xf32>, tensor<8x8xf32>, tensor<6x8xf32>, tensor<2x2xf32>, tensor<2x2x8xf32>, tensor<f64>
}
"""


IMPORTED = Path(__file__).parents[2] / "Pipelines" / "import-linalg.mlir"
MANY_FORMS = """
func.func @main(%x: tensor<5x7xf16>, %y: tensor<3x5x2xi1>) -> (tensor<5x7xf16>, tensor<3x5x2xi1>, tensor<0x3xi8>)
    attributes {repro.num_state = 0 : i64} {
  %raw = arith.constant dense<"0x0080FFFF0100FF7C"> : tensor<4xf16>
  %many = arith.constant dense<"0xHALVES"> : tensor<128xf16>
  %bits = arith.constant dense<"0xBITS"> : tensor<250xi1>
  %none = arith.constant dense<> : tensor<0x3xi8>
  %wide = arith.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  %tiny = arith.constant dense<[5.9604645e-08, 6.0975552e-05, -65504.0]> : tensor<3xf16>
  %e4 = arith.constant dense<[448.0, -0.0, 1.953125e-3, 0x7F, 0xFF]> : tensor<5xf8E4M3FN>
  %true = arith.constant true
  %e = tensor.empty() : tensor<5x7xf16>
  %0 = linalg.generic {indexing_maps = [
        affine_map<(d0, d1) -> (4 - d0, d1 mod 7)>, affine_map<(d0, d1) -> ((d0 * 7 + d1 * 2) floordiv 11)>,
        affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %raw : tensor<5x7xf16>, tensor<4xf16>) outs(%e : tensor<5x7xf16>) {
  ^bb0(%a: f16, %b: f16, %out: f16):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpi ult, %j, %j : i64
    %f = arith.extf %a : f16 to f32
    %g = arith.extf %b : f16 to f32
    %d = arith.cmpf une, %f, %g : f32
    %s = arith.select %c, %a, %b : f16
    linalg.yield %s : f16
  } -> tensor<5x7xf16>
  return %0, %y, %none : tensor<5x7xf16>, tensor<3x5x2xi1>, tensor<0x3xi8>
}
"""
# MLIR writes a constant of more than a hundred elements as raw bytes.
MANY_FORMS = MANY_FORMS.replace("HALVES", bytes(range(256)).hex()).replace("BITS", bytes(range(200, 232)).hex())
TEXTS = {"program": PROGRAM, "everything": EVERYTHING, "forms": MANY_FORMS, "imported": IMPORTED.read_text()}


@pytest.mark.parametrize("name", TEXTS)
def test_programs(name: str) -> None:
    """(H2)"""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(TEXTS[name])
        if name == "imported":
            PassManager.parse("builtin.module(import-linalg,canonical)").run(module.operation)
        text = module.operation.get_asm(print_generic_op_form=True)
        assert identity_bytes.program_hash(text) == program_hash(module)


@pytest.mark.parametrize(
    ("element", "bits"),
    [
        ("f64", [0, 1 << 63, 0x7FF0000000000001, 0xFFF8000000000123, 0x7FF0000000000000, 1]),
        ("f32", [0, 1 << 31, 0x7F800001, 0xFFC00123, 0xFF800000, 1]),
        ("bf16", [0, 0x8000, 0x7F81, 0xFFC1, 0x7F80, 1]),
        ("f16", [0, 0x8000, 0x7C01, 0xFE01, 0xFC00, 1]),
        ("f8E4M3FN", [0, 0x80, 0x7F, 0xFF, 0x7E, 1]),
        ("f8E5M2", [0, 0x80, 0x7D, 0xFF, 0xFC, 1]),
        ("i64", [0, 1, 2**63, 2**64 - 1, 2**53 + 1, 7]),
        ("i32", [0, 1, 2**31, 2**32 - 1, 3, 7]),
        ("i16", [0, 1, 2**15, 2**16 - 1, 3, 7]),
        ("i8", [0, 1, 128, 255, 3, 7]),
        ("i1", [0, 1, 1, 0, 0, 1]),
    ],
)
def test_tensors(element: str, bits: list[int]) -> None:
    """(H1), (H3) of special values; (V4) NaNs of any payload hash as the canonical one."""
    width = 8 if element == "i1" else int("".join(c for c in element.split("E")[0] if c.isdigit()))
    items = [value.to_bytes(width // 8, "little") for value in bits]
    array = np.frombuffer(b"".join(items), dtype=f"<u{width // 8}").reshape(2, 3)
    kinds = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "<i1", "i1": "?"}
    array = array.view(kinds.get(element, array.dtype))
    digest = identity_bytes.tensor_hash(element, (2, 3), items)
    assert digest.hex() == hashing.tensor_hash(array, element)
    assert identity_bytes.state_hash([digest, digest]) == hashing.state_hash([(array, element), (array, element)])


def test_worked_example() -> None:
    """The bytes that docs/identity.md shows are those of its program."""
    page = (Path(__file__).parents[3] / "docs" / "identity.md").read_text()
    program = page.split("```mlir\n")[1].split("```")[0]
    shown = page.split("```text\n")[1].split("```")[0]
    data = b"".join(example_bytes(line) for line in shown.splitlines())
    with ir.Context():
        module = ir.Module.parse(program)
        text = module.operation.get_asm(print_generic_op_form=True)
        identity = program_hash(module)
    assert data == identity_bytes.ProgramBytes().program(text)
    assert identity in page


def example_bytes(line: str) -> bytes:
    """A line of the example: numbers as u64, `N:u8` and `N:u32`, names in quotes, types padded to 16 bytes, floats in
    hexadecimal bytes; what stands behind `;` is a remark."""
    data = b""
    for token in line.partition(";")[0].split():
        if token.startswith('"'):
            data += token.strip('"').encode().replace(b"\\0", b"\0")
        elif token.startswith("0x"):
            data += bytes.fromhex(token[2:])
        elif ":" in token:
            value, _, width = token.partition(":u")
            data += int(value).to_bytes(int(width) // 8, "little")
        elif token.isdigit():
            data += identity_bytes.u64(int(token))
        else:
            data += identity_bytes.element_name(token)
    return data


def test_imports_nothing_of_the_package() -> None:
    folder = Path(__file__).parent
    for name in ("generic_form", "identity_bytes"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                root = module.partition(".")[0]
                assert root in ("blake3", "generic_form") or root in sys.stdlib_module_names, (name, module)
