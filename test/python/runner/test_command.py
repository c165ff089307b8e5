# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A bundle runs as a program without this package. A failure prints one clear line and exits with status 2."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.bundle.writer import expect, write_bundle
from repro_mlir.runner import Bundle
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.runner.packing import write_runner
from support import handmade

# A program that runs a zip and refuses imports of packages other than NumPy, even if they are installed.
_NUMPY_ALONE = """
import importlib.util, runpy, sys
class Only:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("blake3", "torch", "mlir", "torch_mlir", "scipy"):
            raise ImportError(f"{name} is not for the runner")
sys.meta_path.insert(0, Only())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    program, steps = handmade.program(), handmade.steps(3)
    path = tmp_path / "model.rmb"
    write_bundle(path, program, [handmade.code()], steps=steps, expected=expect(program, steps))
    return path


def run(file: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a zip in a process that can import NumPy, but neither this package nor others."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    variables |= {LIBRARY_VARIABLE: str(LIBRARY), "PYTHONPATH": str(Path(np.__file__).parent.parent), **environment}
    command = [sys.executable, "-c", _NUMPY_ALONE, str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, cwd=file.parent, timeout=120)


def failing(file: Path, *arguments: str, **environment: str) -> str:
    """Returns the message of a run that must fail with one line."""
    result = run(file, *arguments, **environment)
    assert result.returncode == 2 and result.stdout == "", result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("runner: error: "), result.stderr
    return lines[0].removeprefix("runner: error: ")


def test_a_bundle_runs_itself(bundle: Path, tmp_path: Path) -> None:
    result = run(bundle, "--json", "--save", "state.safetensors")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    expected = Bundle(bundle).expected
    assert expected is not None
    assert report["state_hash"] == expected.state[3] and report["differences"] == [] and report["steps"] == 3
    assert report["outputs"]["loss"] == expected.outputs["loss"][2]
    assert report["code"] == "PTX for sm_75" and report["device"] == "PTX emulator"
    # Starts from the saved state, with a runner that is in a file of its own.
    write_runner(tmp_path / "runner.pyz")
    again = run(tmp_path / "runner.pyz", "model.rmb", "--steps", "1", "--state", "state.safetensors")
    assert again.returncode == 0 and "state    " in again.stdout and "expects" not in again.stdout


def test_inputs_from_a_file(bundle: Path, tmp_path: Path) -> None:
    lr, x, k = handmade.steps(1)[0]
    np.savez(tmp_path / "inputs.npz", lr=lr, x=x, k=k)
    result = run(bundle, "--inputs", "inputs.npz", "--steps", "2", "--json")
    assert json.loads(result.stdout)["differences"] is None
    assert "expected the inputs lr, x, k, got x, k" in failing(bundle, "--inputs", _without_lr(tmp_path, x, k))
    assert "cannot read none.npz" in failing(bundle, "--inputs", "none.npz")


def _without_lr(folder: Path, x: np.ndarray, k: np.ndarray) -> str:
    np.savez(folder / "less.npz", x=x, k=k)
    return "less.npz"


def test_results_that_are_not_expected(bundle: Path) -> None:
    program, steps = handmade.program(), handmade.steps(3)
    write_bundle(bundle, program, [handmade.code()], steps=steps, expected=expect(program, [*steps[:2], steps[0]]))
    result = run(bundle)
    assert result.returncode == 1
    assert "the results are not those that the bundle expects: output loss of step 3: expected" in result.stderr
    assert "state w: expected" in result.stderr
    # The bundle has expected states for the first two steps only, and these match.
    assert run(bundle, "--steps", "2").returncode == 0


def test_a_cubin_that_is_refused_falls_to_ptx(bundle: Path) -> None:
    code = handmade.code("sm_90", cubin=b"\x7fELF made for a newer driver")
    write_bundle(bundle, handmade.program(), [handmade.code(), code], steps=handmade.steps(1))
    assert json.loads(run(bundle, "--json").stdout)["code"] == "PTX for sm_90"


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ([], {LIBRARY_VARIABLE: "libnothing.so.1"}, "expected the CUDA driver libnothing.so.1"),
        ([], {LIBRARY_VARIABLE: "libm.so.6"}, "libm.so.6 has no cuInit: expected a CUDA driver of version 12 or later"),
        ([], {"REPRO_STUB_FAIL": "cuInit=100"}, "the CUDA driver finds no GPU"),
        ([], {"REPRO_STUB_FAIL": "cuInit=803"}, "reports CUDA_ERROR 803"),
        ([], {"REPRO_STUB_CAPABILITY": "7.0"}, "has code for sm_75, which this GPU (sm_70) cannot run"),
        ([], {"REPRO_STUB_MEMORY": "1024"}, "out of memory: no 2,048 bytes free of 1,024 on PTX emulator"),
        ([], {"REPRO_STUB_FAIL": "cuModuleLoadDataEx=218"}, "(sm_90) does not take the PTX for sm_75"),
        ([], {"REPRO_STUB_FAIL": "cuModuleLoadDataEx=222"}, "(sm_90) does not take the PTX for sm_75"),
        ([], {"REPRO_STUB_FAIL": "cuModuleGetFunction=500"}, "(cuModuleGetFunction)"),
        ([], {"REPRO_STUB_FAIL": "cuLaunchKernel=701"}, "reports CUDA_ERROR 701"),
        ([], {"REPRO_STUB_FAIL": "cuGraphLaunch=700@2"}, "CUDA_ERROR_ILLEGAL_ADDRESS 700: an illegal memory access"),
        ([], {"REPRO_STUB_FAIL": "cuStreamSynchronize=999@4"}, "reports CUDA_ERROR 999"),
        (["--device", "2"], {}, "expected a GPU from 0 to 0, got 2"),
        (["--steps", "4"], {}, "has the inputs of 3 steps, expected those of 4"),
        (["--steps", "0"], {}, "expected a whole number of at least 1, got '0'"),
        (["--state", "none.safetensors"], {}, "cannot read none.safetensors"),
        (["--step"], {}, "unknown option --step: did you mean --steps?"),
    ],
)
def test_errors_of_a_run(bundle: Path, arguments: list[str], environment: dict[str, str], message: str) -> None:
    assert message in failing(bundle, *arguments, **environment)


def test_damaged_code(bundle: Path, tmp_path: Path) -> None:
    write_runner(tmp_path / "runner.pyz")
    data = bundle.read_bytes()
    bundle.write_bytes(data[:1000] + b"X" + data[1001:])
    assert "damaged" in failing(tmp_path / "runner.pyz", "model.rmb")
    assert "expected a bundle of repro-mlir" in failing(tmp_path / "runner.pyz", "runner.pyz")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    assert "it has no manifest.json" in failing(tmp_path / "runner.pyz", "empty.zip")


def test_ptx_that_is_none(bundle: Path) -> None:
    code = handmade.code()
    broken = type(code)(code.architecture, None, code.ptx.replace(b"add.rn.f32", b"add.zz.f32"), code.plan, b"")
    write_bundle(bundle, handmade.program(), [broken], steps=handmade.steps(1))
    message = failing(bundle)
    assert "does not take the PTX for sm_75" in message and "add.zz.f32" in message
