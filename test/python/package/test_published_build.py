# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`make build` adds the package, its commands and its metadata to the virtual environment."""

import importlib.metadata
import os
import runpy
import subprocess
from pathlib import Path

import pytest
import repro_mlir

PUBLISH = runpy.run_path(str(Path(__file__).resolve().parents[3] / "tools" / "build.py"))["publish"]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Returns the folder of an environment to which the build was added twice, after one of another version."""
    site = tmp_path / "site"
    (site / "repro_mlir-0.0.0.dist-info").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for _ in range(2):
        PUBLISH(tmp_path / "bin", site)
    return tmp_path


def test_record_lists_every_file(environment: Path) -> None:
    """pip removes the files of RECORD, before it installs a wheel of the package over the build."""
    (found,) = importlib.metadata.distributions(path=[str(environment / "site")])
    assert found.files is not None
    listed = {Path(str(each.locate())).resolve() for each in found.files}
    assert listed == {path.resolve() for path in environment.rglob("*") if path.is_file()}


def test_commands_run(environment: Path) -> None:
    programs = environment / "bin"
    assert sorted(os.listdir(programs)) == ["repro", "repro-lsp-server", "repro-opt", "repro-translate"]
    packages = os.environ | {"PYTHONPATH": str(Path(repro_mlir.__file__).parents[1])}
    for name in ("repro", "repro-opt"):
        done = subprocess.run([programs / name, "--version"], capture_output=True, text=True, env=packages)
        assert done.returncode == 0 and "LLVM" in done.stdout, done
