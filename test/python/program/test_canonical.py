# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Every entry point refuses programs that are not canonical, and signatures that do not match the program's text."""

import json
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError, compile, exact_contractions
from repro_mlir.base.errors import CompileError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.compilation import gpu as device_code
from repro_mlir.compilation.cpu import compile as compile_cpu
from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import to_bytes

TOOL = Path(repro_mlir.__path__[0]) / "_mlir_libs" / "repro-opt"

# Bodies that are not canonical, each with a part of the expected error. The bodies have the arguments %a: f32 and %b:
# i32 and return %r: i32.
BODIES = {
    "V3-nsw": ("%r = arith.addi %b, %b overflow<nsw> : i32", "overflowFlags"),
    "V3-exact": ("%r = arith.divsi %b, %b exact : i32", "isExact"),
    "V3-fast-math": (
        "%c = arith.addf %a, %a fastmath<reassoc> : f32\n%r = arith.fptosi %c : f32 to i32",
        "fastmath",
    ),
    "V1-i7": ("%c = arith.trunci %b : i32 to i7\n%r = arith.extsi %c : i7 to i32", "i7"),
    "ceildivsi": ("%r = arith.ceildivsi %b, %b : i32", "ceildivsi"),
    "maxnumf": ("%c = arith.maxnumf %a, %a : f32\n%r = arith.fptosi %c : f32 to i32", "maxnumf"),
    "V2-toward-zero": (
        "%c = arith.extf %a : f32 to f64\n%d = arith.truncf %c toward_zero : f64 to f32\n"
        "%r = arith.fptosi %d : f32 to i32",
        "roundingmode",
    ),
    "V4-bitcast": ("%r = arith.bitcast %a : f32 to i32", "V4"),
    "F6-empty": ("%r = arith.addi %b, %out : i32", "F6"),
}
ELEMENTWISE = """
func.func @main(%x: tensor<{n}xf32>, %y: tensor<4xi32>) -> tensor<4xi32> attributes {{repro.num_state = 0 : i64}} {{
  %e = tensor.empty() : tensor<4xi32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(i) -> ({index})>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%x, %y : tensor<{n}xf32>, tensor<4xi32>) outs(%e : tensor<4xi32>) {{
  ^bb0(%a: f32, %b: i32, %out: i32):
    {body}
    linalg.yield %r : i32
  }} -> tensor<4xi32>
  return %0 : tensor<4xi32>
}}
"""
FINE = ELEMENTWISE.format(n=4, index="i", body="%r = arith.fptosi %a : f32 to i32")
WRONG = {name: (ELEMENTWISE.format(n=4, index="i", body=body), part) for name, (body, part) in BODIES.items()}
CONVERSION = "%r = arith.fptosi %a : f32 to i32"
WRONG["A2-mod"] = (ELEMENTWISE.format(n=3, index="(i * 3) mod 4", body=CONVERSION), "A2")
WRONG["A2-flip"] = (ELEMENTWISE.format(n=4, index="2 - i + 3 * (i mod 2)", body=CONVERSION), "A2")
WRONG["A4-size"] = (
    "func.func @main(%x: tensor<6148914691236517206x3xi8>) attributes {repro.num_state = 0 : i64} {\n  return\n}\n",
    "A4",
)
WRONG["A3-slice"] = (
    """func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> attributes {repro.num_state = 0 : i64} {
  %0 = tensor.extract_slice %x[3] [2] [-1] : tensor<4xf32> to tensor<2xf32>
  return %0 : tensor<2xf32>
}
""",
    "A3",
)
WRONG["no-state"] = ("func.func @main(%x: tensor<4xf32>) {\n  return\n}\n", "repro.num_state")


@pytest.mark.parametrize("name", WRONG)
def test_every_entry_verifies(name: str) -> None:
    text, part = WRONG[name]
    with pytest.raises(ReproError, match=rf"expected a canonical program: .*{part}"):
        to_bytes(text)
    for entry in (compile_cpu, device_code.compile):
        with pytest.raises(CompileError, match=part):
            entry(text)
    for pipeline in ("schedule", "cpu", "gpu"):
        result = subprocess.run([TOOL, f"--{pipeline}"], input=text, capture_output=True, text=True)
        assert result.returncode == 1 and part in result.stderr


def test_a_correct_program_passes() -> None:
    program = read_signature(to_bytes(FINE))
    assert [str(kind) for kind in (*program.inputs, *program.outputs)] == [
        "argument 0: 4xf32",
        "argument 1: 4xi32",
        "result 0: 4xi32",
    ]
    for target in ("reference", "cpu"):
        _, outputs = compile(program, target)({}, np.array([1.5, -2, np.nan, 1e10], np.float32), np.zeros(4, np.int32))
        assert outputs["result 0"].tolist() == [1, -2, 0, 2**31 - 1]
    assert exact_contractions(program, 2).hash == program.hash


def other(kinds: tuple[TensorType, ...], at: int, **changes: Any) -> tuple[TensorType, ...]:
    return tuple(replace(kind, **changes) if i == at else kind for i, kind in enumerate(kinds))


def test_signatures_are_those_of_the_text(program: Program) -> None:
    text = program.text.replace("%arg3: tensor<2x3xf32>", '%arg3: tensor<2x3xf32> {repro.name = "x"}')
    named = replace(program, data=to_bytes(text))
    for changes, message in (
        ({"state": program.state[:1]}, "expected 2 state tensors in the signature, got 1"),
        (
            {"inputs": (*program.inputs, program.inputs[0])},
            "expected 2 input tensors in the signature, got 3",
        ),
        ({"outputs": ()}, "expected 1 output tensors in the signature, got 0"),
        (
            {"state": other(program.state, 0, shape=(3, 2))},
            "signature: expected w: 2x3xf32, as in the program, got w: 3x2xf32",
        ),
        ({"state": other(program.state, 0, shape=(2.0, 3))}, "state 0 of the signature"),
        (
            {"state": other(program.state, 0, element="i32")},
            "state 0 of the signature: expected w: 2x3xf32, as in the program, got w: 2x3xi32",
        ),
        ({"inputs": other(program.inputs, 1, element="bf16")}, "input 1 of the signature"),
        (
            {"inputs": other(program.inputs, 1, name="y")},
            "signature: expected x: 2x3xf32, as in the program, got y: 2x3xf32",
        ),
        ({"outputs": other(program.outputs, 0, shape=(1,))}, "output 0 of the signature"),
        ({"state": other(program.state, 1, name="w")}, "expected state tensors with different names, got 'w' twice"),
        ({"num_hyper_parameters": 3}, "expected 0 to 2 hyper-parameters, got 3"),
        ({"num_hyper_parameters": -1}, "expected 0 to 2 hyper-parameters, got -1"),
        ({"num_hyper_parameters": True}, "expected 0 to 2 hyper-parameters, got True"),
        ({"initial": program.initial[:1]}, "expected an initial array"),
        ({"initial": (program.initial[0].T, program.initial[1])}, "expected an initial array"),
        ({"initial": (program.initial[0].astype(np.float64), program.initial[1])}, "expected an initial array"),
    ):
        with pytest.raises(ReproError, match=message):
            replace(named, **changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hyper_parameters": "1"}, "hyper-parameters, got '1'"),
        ({"num_hyper_parameters": 1.5}, "hyper-parameters, got 1.5"),
        ({"num_hyper_parameters": None}, "hyper-parameters, got None"),
        (
            {"state": [{"name": "w", "element": "f32", "shape": [2, 3]}]},
            "expected 2 state tensors in the signature, got 1",
        ),
        ({"inputs": [{"name": "lr", "element": "f32", "shape": 7}]}, "the signature is damaged"),
        ({"inputs": [{"name": "lr", "element": "f32"}]}, "the signature is damaged"),
        ({"inputs": 3}, "the signature is damaged"),
        ({"outputs": [{"name": "loss", "element": "f32", "shape": [1 << 70]}]}, "output 0 of the signature"),
        ({"outputs": [{"name": ["loss"], "element": "f32", "shape": []}]}, "the signature is damaged"),
        ({"outputs": [{"name": "loss", "element": "f31", "shape": []}]}, "output 0 of the signature"),
        ([], "expected a program file of repro-mlir of format 2 and numerics 1, got format None and numerics None"),
        (
            {"format": 1},
            "expected a program file of repro-mlir of format 2 and numerics 1, got format 1 and numerics 1",
        ),
        ({"format": 3, "numerics": 2}, "got format 3 and numerics 2"),
    ],
)
def test_signatures_of_files(program: Program, tmp_path: Path, change: Any, message: str) -> None:
    program.save(tmp_path / "p")
    with zipfile.ZipFile(tmp_path / "p") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    signature = json.loads(members["signature.json"])
    members["signature.json"] = json.dumps(signature | change if isinstance(change, dict) else change).encode()
    with zipfile.ZipFile(tmp_path / "q", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ReproError, match=message) as caught:
        Program.load(tmp_path / "q")
    assert str(caught.value).startswith(str(tmp_path / "q")) and "\n" not in str(caught.value)
