# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the files that are dumped after each pass, and the files that reproduce a compiler error
(docs/contributors/debugging.md)."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.execute.executable import check_runs
from repro_mlir.program import Program, import_program, read_signature
from repro_mlir.program.canonical import to_bytes

IMPORTED = """
func.func @main(%x: tensor<4xf32> {repro.name = "x"}) -> (tensor<4xf32> {repro.name = "y"})
    attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture(autouse=True)
def dumps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    # The first compilation for a target in a process also compiles a small program, which is not to be dumped.
    for target in ("cpu:x86-64-v2", "cpu:x86-64-v3", "ptx-emulator:sm_75", "ptx-emulator:sm_90", "cores:tiny-2x2"):
        check_runs(target)
    monkeypatch.setenv("REPRO_DUMP", str(tmp_path / "dumps"))
    return tmp_path / "dumps"


def _program() -> Program:
    return read_signature(import_program(IMPORTED))


def _dumped(folder: Path) -> list[str]:
    """Returns the names of the dumped files, without their numbers, in the order of the passes."""
    files = sorted(folder.rglob("*.mlir"), key=lambda file: [int(n) for n in file.name.split("_")[:-1]])
    return [file.stem.rsplit("_", 1)[-1] for file in files]


def _repeat(message: str, reason: str) -> None:
    """Runs the command that follows "to repeat it" in an error message. The command must fail with the same error,
    `reason`."""
    command = shlex.split(message.split("; to repeat it: ")[1])
    assert command[0] == "repro-opt"
    tool = Path(sys.executable).with_name("repro-opt")
    done = subprocess.run([tool, *command[1:]], capture_output=True, text=True)
    assert done.returncode != 0 and reason in done.stderr, done.stderr


def test_import_writes_the_module_after_each_pass(dumps: Path) -> None:
    data = import_program(IMPORTED)
    (folder,) = dumps.iterdir()
    assert folder.name == "000-import"
    passes = _dumped(folder)
    assert passes[0] == "repro-strip-attributes" and passes[-1] == "repro-verify-canonical"
    last = next(folder.rglob("*_repro-verify-canonical.mlir"))
    assert to_bytes(last.read_text()) == data


@pytest.mark.parametrize(
    ("target", "first", "last"),
    [
        ("cpu:x86-64-v2", "repro-verify-canonical", "repro-verify-lowered"),
        ("ptx-emulator:sm_75", "repro-verify-canonical", "repro-verify-ptx"),
        ("cores:tiny-2x2", "repro-verify-canonical", "repro-verify-lowered"),
    ],
)
def test_compilation_writes_the_module_after_each_pass(dumps: Path, target: str, first: str, last: str) -> None:
    program = _program()
    repro_mlir.compile(program, target, 1)
    folder = dumps / f"001-{target.partition(':')[2]}"
    passes = _dumped(folder)
    assert passes[0] == first and passes[-1] == last and "repro-outline-kernels" in passes
    # The artifact is now in the cache; dumps are written nevertheless.
    repro_mlir.compile(program, target, 1)
    assert _dumped(dumps / f"002-{target.partition(':')[2]}") == passes


def test_nothing_is_written_without_the_variable(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRO_DUMP")
    repro_mlir.compile(_program(), "cpu", 1)
    assert not dumps.exists()


def test_folder_that_cannot_be_written(dumps: Path) -> None:
    dumps.write_text("a file")
    with pytest.raises(repro_mlir.ReproError, match="REPRO_DUMP: "):
        import_program(IMPORTED)


def test_error_of_the_import_says_how_to_repeat_it() -> None:
    reason = "(V1) element type 'complex<f32>' is not supported"
    with pytest.raises(repro_mlir.ReproError) as caught:
        import_program(
            IMPORTED.replace("tensor<4xf32>", "tensor<4xcomplex<f32>>")
            .replace(": f32", ": complex<f32>")
            .replace("arith.addf", "complex.add")
        )
    message = str(caught.value)
    assert reason in message and "\n" not in message
    _repeat(message, reason)


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "ptx-emulator:sm_90"])
def test_error_of_a_pass_says_how_to_repeat_it(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program()
    # A verified program always compiles, so the test replaces the text by one with an operation that programs must not
    # contain.
    text = IMPORTED.replace("arith.addf", "arith.maxnumf")
    object.__setattr__(program, "text", text)
    monkeypatch.setattr("repro_mlir.compilation.cpu.read_module", lambda data: repro_mlir.ir.Module.parse(text))
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    with pytest.raises(repro_mlir.ReproError) as caught:
        repro_mlir.compile(program, target, 1)
    message = str(caught.value)
    assert message.startswith("cannot compile the program for ") and "\n" not in message
    _repeat(message, "arith.maxnumf")


def test_an_error_after_the_passes_keeps_the_program(monkeypatch: pytest.MonkeyPatch, dumps: Path) -> None:
    def fail(*arguments: object, **options: object) -> bytes:
        raise repro_mlir.base.errors.CompileError("no object")

    monkeypatch.setattr("repro_mlir.compilation.cache.cached_compile", fail)
    program = _program()
    with pytest.raises(repro_mlir.ReproError, match="no object; the program is in ") as caught:
        repro_mlir.compile(program, "cpu", 1)
    assert Path(str(caught.value).rsplit(" ", 1)[1]).read_text() == program.text
