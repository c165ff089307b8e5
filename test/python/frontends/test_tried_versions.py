# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Versions of other packages outside of the tried range: one warning; a name that is gone or a package that is absent:
one error."""

import importlib
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from repro_mlir.frontends.base import tried_versions
from repro_mlir.frontends.base.tried_versions import UnusableVersion, private_names, tried_range, warn_if_untried

PROGRAM = (
    "func.func @main() -> tensor<2xf32> attributes {repro.num_state = 0 : i64} {\n"
    "  %x = arith.constant dense<1.0> : tensor<2xf32>\n"
    "  return %x : tensor<2xf32>\n"
    "}\n"
)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    warn_if_untried.cache_clear()
    tried_range.cache_clear()
    yield
    tried_range.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)


def test_the_installed_versions_were_tried() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_untried("torch", "torch-mlir", "jax", "jaxlib", "keras", "onnx")


@pytest.mark.parametrize("version", ["99.0", "1.13.1", "not a version"])
def test_another_version_gives_one_warning(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, version)
    wanted = tried_range("torch")
    assert wanted is not None
    with pytest.warns(RuntimeWarning) as caught:
        warn_if_untried("torch")
        warn_if_untried("torch")
    (warning,) = caught
    assert str(warning.message) == (
        f"torch {version} has not been tried with repro-mlir; tried were the versions {wanted.specifier}: "
        f"pip install 'torch{wanted.specifier}'"
    )
    assert warning.filename == __file__


def test_local_builds_and_packages_without_a_range_give_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.13.0+cu130", "numpy": "0.1"}
    monkeypatch.setattr(metadata, "version", versions.__getitem__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_untried("torch", "numpy")


def test_the_ranges_of_an_installed_package_are_those_of_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["numpy>=1", "damaged >< ; x", "torch<3,>=2.20; extra == 'torch'", 'jax==9; extra == "jax"']
    monkeypatch.setattr(metadata, "requires", lambda name: given)
    assert str(getattr(tried_range("torch"), "specifier", None)) == "<3,>=2.20"
    assert {extra: [each.name for each in found] for extra, found in tried_versions.requirements().items()} == {
        "torch": ["torch"], "jax": ["jax"],
    }  # fmt: skip


def test_an_absent_name_is_one_error_with_the_name_and_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "99.0")
    with (
        pytest.raises(UnusableVersion) as failed,
        private_names("torch"),
    ):
        from torch._ops import absent_name  # noqa: F401
    message = str(failed.value)
    assert message.startswith("torch 99.0 lacks a name that repro-mlir uses: cannot import name 'absent_name' from")
    assert "torch._ops'; tried were the versions " in message and "\n" not in message and "/" not in message
    with pytest.raises(UnusableVersion, match="has no attribute 'absent_name'"), private_names("torch"):
        _ = importlib.import_module("torch").absent_name


def test_the_absence_of_the_package_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(ModuleNotFoundError, match="absent_package"), private_names("jaxlib"):
        importlib.import_module("absent_package")


ABSENT_NAME = """
import torch
del torch._conj
import repro_mlir
model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
try:
    repro_mlir.Trainer(model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters())).step(x, x)
except repro_mlir.ReproError as error:
    print(error)
"""


def test_a_version_of_pytorch_without_a_private_name() -> None:
    done = subprocess.run([sys.executable, "-c", ABSENT_NAME], capture_output=True, text=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith("torch ") and "lacks a name" in line and "'_conj'" in line and "pip install 'torch" in line


WITHOUT_TORCH_MLIR = """
import os, sys
sys.modules["torch_mlir"] = None
os.environ["KERAS_BACKEND"] = "jax"
import numpy as np
import repro_mlir
from repro_mlir.cli.main import main
from repro_mlir.frontends.jax import capture
from repro_mlir.program import Program

x = np.array([1, 2], np.float32)
program = capture(lambda x: x * 2, x)
_, outputs = repro_mlir.compile(program, threads=1)({}, x)
assert [*outputs.values()][0].tolist() == [2, 4]
program.save("jax.repro")
assert Program.load("jax.repro").hash == program.hash
assert main(["inspect", "program.mlir"]) == 0
assert main(["run", "program.mlir", "--threads", "1"]) == 0
assert main(["verify", sys.argv[1]]) == 0
import repro_mlir.frontends.onnx, repro_mlir.integrations.keras, repro_mlir.program_training, repro_mlir.serving.api
from repro_mlir import random
assert random.randn(3, generator=random.Generator(1)).shape == (3,)

import torch
model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
for capture in (
    lambda: repro_mlir.compile(model, inputs=(x,)),
    lambda: repro_mlir.frontends.onnx.load("model.onnx"),
    lambda: repro_mlir.Trainer(model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters())).step(x, x),
):
    try:
        capture()
    except repro_mlir.ReproError as error:
        print("refused:", error)
"""


def test_without_torch_mlir(tmp_path: Path) -> None:
    """JAX, Keras on JAX, MLIR files, stored programs and receipts need no torch-mlir; captures of PyTorch models and
    ONNX models, which are traced by PyTorch, name what is missing."""
    (tmp_path / "program.mlir").write_text(PROGRAM)
    receipt = Path(__file__).resolve().parents[2] / "data" / "compatibility" / "microbatches.receipt"
    command = [sys.executable, "-c", WITHOUT_TORCH_MLIR, str(receipt)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    refused = [line for line in done.stdout.splitlines() if line.startswith("refused:")]
    assert len(refused) == 3 and len({*refused}) == 1, done.stdout
    assert "need torch-mlir: install the extra torch of repro-mlir" in refused[0]
