# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Loads MLIR modules of other tools as programs: conversion of their dialects, functions and names, and refusals."""

import contextlib
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import Program, ReproError, compile
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.cli.main import main
from repro_mlir.sandbox import import_module

OPT = Path(_repro.__file__).parent / "repro-opt"
TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")

LINALG = """
module {
  func.func @forward(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> (tensor<2x2xf32> {repro.name = "product"}) {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<2x2xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x2xf32>) -> tensor<2x2xf32>
    %r = linalg.matmul ins(%x, %w : tensor<2x3xf32>, tensor<3x2xf32>)
        outs(%zeros : tensor<2x2xf32>) -> tensor<2x2xf32>
    %s = func.call @negated(%r) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %s : tensor<2x2xf32>
  }
  func.func private @negated(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %empty = tensor.empty() : tensor<2x2xf32>
    %r = linalg.negf ins(%x : tensor<2x2xf32>) outs(%empty : tensor<2x2xf32>) -> tensor<2x2xf32>
    return %r : tensor<2x2xf32>
  }
  func.func private @unused(%x: f32) -> f32 {
    return %x : f32
  }
}
"""
TOSA = """
func.func @main(%x: tensor<3x7xf32> {repro.name = "image"}) -> (tensor<4x8xf32>, tensor<3x7xf32>) {
  %padding = tosa.const_shape {values = dense<[0, 1, 1, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %value = "tosa.const"() <{values = dense<0.5> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.pad %x, %padding, %value : (tensor<3x7xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<4x8xf32>
  %1 = tosa.tanh %x : (tensor<3x7xf32>) -> tensor<3x7xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<3x7xf32>
}
"""
STABLEHLO = """
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %last = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %last, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %w = func.call @doubled(%v) : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func private @doubled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.add %x, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
STATE = """
func.func @main(%n: tensor<i64> {repro.name = "n"}, %x: tensor<f32>)
    -> (tensor<i64> {repro.name = "n"}, tensor<f32>) attributes {repro.num_state = 1 : i64} {
  return %n, %x : tensor<i64>, tensor<f32>
}
"""


def written(folder: Path, text: str, name: str = "module.mlir") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_linalg(tmp_path: Path) -> None:
    """The only public function becomes @main and its calls are inlined. Arguments and results without names get
    names."""
    program = Program.load(written(tmp_path, LINALG))
    assert [kind.name for kind in (*program.inputs, *program.outputs)] == ["arg0", "arg1", "product"]
    assert program.state == () and program.untrusted
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    for target in TARGETS:
        assert np.array_equal(compile(program, target)({}, x, w)[1]["product"], -(x @ w))


def test_tosa(tmp_path: Path) -> None:
    """A module in the TOSA dialect needs no option."""
    program = Program.load(written(tmp_path, TOSA))
    assert [kind.name for kind in (*program.inputs, *program.outputs)] == ["image", "result0", "result1"]
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    found = [compile(program, target)({}, x)[1] for target in TARGETS]
    for outputs in found:
        assert np.array_equal(outputs["result0"], np.pad(x, ((0, 1), (1, 0)), constant_values=np.float32(0.5)))
        assert outputs["result1"].tobytes() == found[0]["result1"].tobytes()


@pytest.mark.parametrize("text", [LINALG, TOSA], ids=["linalg", "tosa"])
def test_bytecode(tmp_path: Path, text: str) -> None:
    """A module in bytecode gives the program of its text, whatever the name of its file."""
    path = written(tmp_path, text)
    subprocess.run([OPT, "--emit-bytecode", path, "-o", tmp_path / "module.bin"], check=True)
    assert Program.load(tmp_path / "module.bin").hash == Program.load(path).hash


def test_stablehlo(tmp_path: Path) -> None:
    """StableHLO is read from text, and from the portable artifact that jaxlib writes."""
    pytest.importorskip("jaxlib")
    from jaxlib.mlir.dialects import stablehlo

    path = written(tmp_path, STABLEHLO)
    program = Program.load(path)
    x = np.arange(4, dtype=np.float32)
    for target in TARGETS:
        assert np.array_equal(compile(program, target)({}, x)[1]["result0"], 8 * x)
    artifact = stablehlo.serialize_portable_artifact_str(STABLEHLO, stablehlo.get_current_version())
    (tmp_path / "module.bin").write_bytes(artifact)
    assert Program.load(tmp_path / "module.bin").hash == program.hash
    with pytest.raises(ReproError, match="expected a StableHLO module: "):
        Program.load(written(tmp_path, STABLEHLO.replace("LT,", "LT")))


@pytest.mark.parametrize(
    ("count", "last", "message"),
    [(1, 0, "recursive functions are not supported"), (40, 40, "expected at most 100,000 function calls, got ")],
    ids=["recursion", "doubling"],
)
def test_calls_of_stablehlo_are_bounded(tmp_path: Path, count: int, last: int, message: str) -> None:
    pytest.importorskip("jaxlib")
    kind = "(tensor<4xf32>) -> tensor<4xf32>"

    def function(name: str, body: str) -> str:
        return f"func.func {name}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\nreturn %r : tensor<4xf32>\n}}\n"

    text = function("@main", f"%r = func.call @f0(%x) : {kind}")
    for i in range(count):
        callee = f"func.call @f{min(i + 1, last)}"
        text += function(f"private @f{i}", f"%a = {callee}(%x) : {kind}\n%r = {callee}(%a) : {kind}")
    text += function(f"private @f{count}", "%r = stablehlo.add %x, %x : tensor<4xf32>")
    with pytest.raises(ReproError, match=message):
        Program.load(written(tmp_path, text))


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands compile, run and inspect accept a module like a program file."""
    path = written(tmp_path, LINALG)
    inputs = {"arg0": np.ones((2, 3), np.float32), "arg1": np.ones((3, 2), np.float32)}
    np.savez(tmp_path / "inputs.npz", **inputs)
    assert main(["compile", str(path), "-o", str(tmp_path / "p.repro"), "--target", "cpu"]) == 0
    shown = []
    for file in (path, tmp_path / "p.repro"):
        capsys.readouterr()
        options = ["--inputs", str(tmp_path / "inputs.npz"), "--target", "reference"]
        assert main(["run", str(file), *options]) == 0 and main(["inspect", str(file)]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and "product: 2x2xf32" in shown[0]
    exact = ["compile", str(path), "-o", str(tmp_path / "exact.repro"), "--exact-digits", "3"]
    assert main(exact) == 0 and "#repro.exact" in Program.load(tmp_path / "exact.repro").text


def test_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A module has no values for its initial state; the values are in another file."""
    path, output = written(tmp_path, STATE), str(tmp_path / "p.repro")
    program = Program.load(path)
    assert [kind.name for kind in program.state] == ["n"]
    assert main(["compile", str(path), "-o", output]) == 2
    assert "the program has 1 state tensors without initial values" in capsys.readouterr().err
    (tmp_path / "s.safetensors").write_bytes(write_tensors(program.state, [np.array(7, np.int64)]))
    np.savez(tmp_path / "inputs.npz", arg1=np.float32(2))
    given = ["--state", str(tmp_path / "s.safetensors")]
    assert main(["compile", str(path), "-o", output, *given]) == 0
    assert Program.load(output).initial_state() == {"n": 7}
    run = ["run", str(path), "--target", "reference", "--inputs", str(tmp_path / "inputs.npz")]
    assert main(run) == 2 and main([*run, *given]) == 0


REFUSED = {
    "syntax": (LINALG.replace("linalg.matmul", "linalg.matmlu"), "line 7: custom op 'linalg.matmlu'"),
    "functions": (LINALG.replace("private ", ""), "expected a function main, or one public function, got forward, neg"),
    "no function": ("module {}", "expected a function main, or one public function, got none"),
    "unknown": (
        TOSA.replace("tosa.tanh %x", '"foo.tanh"(%x)'),
        "line 6: 'foo.tanh' op is not an operation of a canonical program",
    ),
    "shape": (TOSA.replace("tensor<3x7xf32>", "tensor<?x7xf32>"), "line [0-9]+: "),
    "double name": (
        TOSA.replace("-> (tensor<4x8xf32>", '-> (tensor<4x8xf32> {repro.name = "result1"}'),
        "expected output tensors with different names",
    ),
    "brackets": ("module {" + "[" * 1000, "at most 256 levels of brackets, got 1,001"),
    "calls": (
        "".join(
            f"func.func private @f{i}() {{\n call @f{i + 1}() : () -> ()\n call @f{i + 1}() : () -> ()\n return\n}}\n"
            for i in range(64)
        )
        + "func.func private @f64() {\n return\n}\nfunc.func @main() {\n call @f0() : () -> ()\n return\n}\n",
        "makes more than 1000000 operations",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_modules(tmp_path: Path, name: str) -> None:
    """Loading fails with a one-line error, within the time that the limits allow."""
    text, message = REFUSED[name]
    path = written(tmp_path, text)
    start = time.monotonic()
    with pytest.raises(ReproError, match=message) as error:
        Program.load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value) and time.monotonic() - start < 30


def test_a_word_in_a_comment_is_not_a_dialect(tmp_path: Path) -> None:
    assert Program.load(written(tmp_path, "// stablehlo.add (as it was)\n" + TOSA)).outputs


@pytest.mark.parametrize("size", [5, 40, 200])
def test_damaged_bytecode(tmp_path: Path, size: int) -> None:
    """Damaged bytecode may crash the child process that reads it, but not this process."""
    path = written(tmp_path, LINALG)
    subprocess.run([OPT, "--emit-bytecode", path, "-o", tmp_path / "module.bin"], check=True)
    data = (tmp_path / "module.bin").read_bytes()
    with pytest.raises(ReproError):
        import_module(data[:size], is_text=False)
    with contextlib.suppress(ReproError):
        # Reading may succeed, for example if the flipped byte is in a name.
        import_module(data[:size] + bytes([data[size] ^ 0xFF]) + data[size + 1 :], is_text=False)
    assert import_module(data, is_text=False)
