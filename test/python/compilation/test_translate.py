# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tools translate a canonical program to the artifact and the launch plan that the compiler makes from it. They
translate a plan of many cores to bytes."""

import re
import subprocess
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.compilation import cpu
from repro_mlir.compilation import gpu as device_code
from repro_mlir.program.canonical import to_bytes
from support.cores import machine

TOOLS = Path(repro_mlir.__path__[0]) / "_mlir_libs"
PROGRAM = """
#id = affine_map<(i) -> (i)>
func.func @main(%s: tensor<16xf32> {repro.name = "s"}, %x: tensor<16xf32>, %i: tensor<i64>)
    -> (tensor<16xf32>, tensor<f32> {repro.name = "y"}) attributes {repro.num_state = 1 : i64} {
  %c = arith.constant dense<[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.]> : tensor<16xf32>
  %n = tensor.extract %i[] : tensor<i64>
  %at = arith.index_cast %n : i64 to index
  %element = tensor.extract %x[%at] : tensor<16xf32>
  %y = tensor.from_elements %element : tensor<f32>
  %e = tensor.empty() : tensor<16xf32>
  %new = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%s, %x, %c : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32, %d: f32, %o: f32):
    %p = arith.mulf %b, %d : f32
    %r = arith.addf %a, %p : f32
    linalg.yield %r : f32
  } -> tensor<16xf32>
  return %new, %y : tensor<16xf32>, tensor<f32>
}
"""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Writes the program to a file in its binary form, so that error messages name positions in bytes."""
    path = tmp_path / "program"
    path.write_bytes(to_bytes(PROGRAM))
    return path


def run(tool: str, *options: str | Path, text: bytes = b"") -> bytes:
    """Runs a tool and returns its standard output."""
    return subprocess.run([TOOLS / tool, *options], input=text, capture_output=True, check=True).stdout


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v4", "aarch64"])
def test_artifact(level: str, stored: Path) -> None:
    module = run("repro-opt", f"--pass-pipeline=builtin.module(cpu{{level={level}}})", stored)
    artifact = run("repro-translate", "--launch-to-artifact", f"--level={level}", text=module)
    assert artifact == bytes(cpu.compile(stored.read_bytes(), level))


def test_device_plan(stored: Path) -> None:
    module = run("repro-opt", "--pass-pipeline=builtin.module(gpu{arch=sm_90})", stored)
    plan = run("repro-translate", "--launch-to-plan", text=module)
    assert plan == device_code.compile(stored.read_bytes(), "sm_90").plan


LAUNCH = """
gpu.module @device {{
  gpu.func @kernel(%x: memref<4xf32>, %error: memref<1xi64>) kernel {{ gpu.return }}
}}
func.func private @kernel(memref<4xf32>, memref<?xi8>, memref<1xi64>, index, index)
launch.plan @main states(%s: memref<4xf32> {{repro.name = "s"}}) inputs() outputs() arena(%a: memref<0xi8>)
    live 0 messages [] {{
  launch.dispatch {launch} : memref<4xf32>
}}
"""
ON_CPU = LAUNCH.format(launch="@kernel(%s)")
ON_GPU = LAUNCH.format(launch="@device::@kernel(%s) grid [4, 1, 1] block [128, 1, 1]")
TOO_WIDE = LAUNCH.format(launch="@device::@kernel(%s) grid [4294967296, 1, 1] block [128, 1, 1]")


CORES = """
llvm.func @kernel(%x: !llvm.ptr, %scratch: !llvm.ptr, %error: !llvm.ptr, %begin: i64, %end: i64){attributes} {{
{code}
  llvm.return
}}
cores.plan @main machine "{machine}" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {{
  cores.program at [0, 1] scratch [0, 0] error 64 {{
  ^bb0(%local: memref<128xi8, #cores.memory<local>>):
    %x = launch.view %local[0] : memref<128xi8, #cores.memory<local>> to memref<4xi64, #cores.memory<local>>
    cores.run @kernel(write %x) : memref<4xi64, #cores.memory<local>>
    {operation}
  }}
}}
"""
WORK = " attributes {launch.work = #launch.work<items = 1, grain = 1, scratch_bytes = 0>}"
WORD = "%x{0} = llvm.mlir.constant({0} : i64) : i64\n  llvm.store volatile %x{0}, %x : i64, !llvm.ptr"
CODE = "\n".join(WORD.format(i) for i in range(200))


def cores(attributes: str = WORK, code: str = "", machine: str = "tiny-2x2", operation: str = "") -> str:
    return CORES.format(attributes=attributes, code=code, machine=machine, operation=operation)


def test_core_plan() -> None:
    plan = run("repro-translate", "--cores-to-plan", "--level=x86-64-v2", text=cores().encode())
    assert plan.startswith(b"reprocore\0\0\0\1\0\0\0") and b"\x7fELF" in plan


def test_code_memory(tmp_path: Path) -> None:
    """The code of 200 stores has more than 1,024 bytes. Code for the host does not lie in the memory of a core."""
    small = machine(tmp_path, core={"code_bytes": 1024})
    text = cores(code=CODE, machine=small).encode()
    assert run("repro-translate", "--cores-to-plan", "--level=x86-64-v2", text=text).startswith(b"reprocore")
    command = [TOOLS / "repro-translate", "--cores-to-plan", "--level=thumbv7em"]
    result = subprocess.run(command, input=text, capture_output=True)
    assert result.returncode != 0 and not result.stdout
    message = result.stderr.decode()
    assert f"expected code that fits into the 1024 code bytes of a core of '{small}': the 1 kernels" in message
    needed = re.search(r"need (\d+) bytes for thumbv7em, and the largest are 'kernel' with (\d+); use", message)
    assert needed and needed[1] == needed[2] and int(needed[1]) > 1024
    assert f"use a machine of at least {needed[1]} code bytes a core" in message


READ_TOO = "cores.run @kernel(read|write %x) : memref<4xi64, #cores.memory<local>>"


@pytest.mark.parametrize(
    ("module", "options", "error"),
    [
        (PROGRAM, ["--launch-to-artifact"], "expected one 'launch.plan', which repro-plan-buffers makes of 'main'"),
        (PROGRAM, ["--launch-to-artifact", "--level=z80"], "unknown CPU level 'z80'"),
        (PROGRAM, ["--launch-to-plan"], "expected one 'launch.plan', which repro-plan-buffers makes of 'main'"),
        (ON_CPU, ["--launch-to-artifact"], "expected a kernel that repro-expand-kernels expanded"),
        (ON_CPU, ["--launch-to-plan"], "expected a launch of a device kernel, which repro-expand-device-kernels makes"),
        (ON_GPU, ["--launch-to-artifact"], "expected a launch of a kernel without a grid"),
        (PROGRAM, ["--cores-to-plan"], "expected one 'cores.plan', which repro-map-schedule makes of a launch plan"),
        (cores(), ["--cores-to-plan", "--level=z80"], "unknown CPU level 'z80'"),
        (cores(attributes=""), ["--cores-to-plan"], "expected a kernel that repro-expand-kernels expanded"),
        (cores(machine="none"), ["--cores-to-plan"], "unknown machine of many cores 'none'"),
        (
            cores(operation=READ_TOO),
            ["--cores-to-plan"],
            "has buffers of other types or accesses than an earlier run",
        ),
        (
            cores(attributes=WORK.replace("bytes = 0", "bytes = 64")),
            ["--cores-to-plan", "--level=thumbv7em"],
            "operation 0 runs a kernel with 64 bytes of scratch memory, of 0",
        ),
        (TOO_WIDE, ["--launch-to-plan"], "expected a grid, a block and shared memory of sizes below 2^31"),
    ],
)
def test_other_modules_are_refused(module: str, options: list[str], error: str) -> None:
    result = subprocess.run([TOOLS / "repro-translate", *options], input=module.encode(), capture_output=True)
    assert result.returncode != 0 and not result.stdout and error in result.stderr.decode()
