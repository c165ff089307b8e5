# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro doctor: what it says of this machine, and what it says of machines with faults."""

import json
import shutil
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.cli.main import main
from repro_mlir.runner.certificates import UNITS, Certificate, path_of, write_certificate
from repro_mlir.runner.device import Device
from repro_mlir.runner.driver import LIBRARY_VARIABLE, NO_DEVICE, Driver, DriverError


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "cache"))


def examined(capsys, status: int = 0) -> dict:
    assert main(["doctor", "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_this_machine(capsys, tmp_path: Path) -> None:
    found = examined(capsys)
    assert found["version"] == repro_mlir.__version__ and found["faults"] == []
    assert [each["name"] for each in found["targets"]] == repro_mlir.targets()
    packages = {each["name"]: each for each in found["packages"]}
    assert {"torch", "torch-mlir", "jax", "keras", "onnx", "transformers"} <= set(packages)
    assert packages["torch"]["version"] == metadata.version("torch") and packages["torch"]["fits"]
    assert packages["torch"]["range"]
    doors = {each["name"]: each for each in found["doors"]}
    assert doors["PyTorch"]["ready"] and doors["JAX"]["ready"] and doors["ONNX"]["ready"]
    assert found["cache"]["path"] == str(tmp_path / "cache") and found["cache"]["free"] > 0
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"versions  repro-mlir {repro_mlir.__version__}, LLVM 22.")
    assert "no faults" in lines and lines[-1].startswith("next      repro train ")


def with_versions(monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None]) -> None:
    installed = metadata.version

    def version(name: str) -> str:
        if name not in changed:
            return installed(name)
        if (found := changed[name]) is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)


def test_a_version_outside_of_its_range(capsys, monkeypatch) -> None:
    with_versions(monkeypatch, {"torch": "1.13.1", "onnx": "not a version"})
    found = examined(capsys, 1)
    packages = {each["name"]: each["fits"] for each in found["packages"]}
    assert packages["torch"] is False and packages["onnx"] is False and packages["jax"] is True
    assert len(found["faults"]) == 2
    assert found["faults"][0].startswith("torch 1.13.1 is outside of the tried versions ")
    assert ": pip install 'torch" in found["faults"][0]
    assert main(["doctor"]) == 1
    assert "OUTSIDE OF THE RANGE" in capsys.readouterr().out


def test_missing_packages_are_no_faults(capsys, monkeypatch) -> None:
    with_versions(monkeypatch, {"torch": None, "torch-mlir": None, "keras": None})
    found = examined(capsys)
    doors = {each["name"]: each for each in found["doors"]}
    assert doors["PyTorch"]["missing"] == ["torch", "torch-mlir"] and not doors["PyTorch"]["ready"]
    assert doors["PyTorch"]["command"] == "install the extra torch of repro-mlir (docs/guides/install.md)"
    assert doors["Keras"]["command"].startswith("install the extra keras of repro-mlir") and doors["JAX"]["ready"]
    assert main(["doctor"]) == 0
    assert "missing: torch, torch-mlir; install the extra torch of repro-mlir" in capsys.readouterr().out


def test_tensorflow_needs_jaxlib(capsys, monkeypatch) -> None:
    for tensorflow, jaxlib, missing in (
        ({"tensorflow": "2.21.0", "tensorflow-cpu": None}, None, ["jaxlib"]),
        ({"tensorflow": None, "tensorflow-cpu": "2.21.0"}, "0.10.2", []),
        ({"tensorflow": None, "tensorflow-cpu": None}, None, ["tensorflow-cpu", "jaxlib"]),
    ):
        with monkeypatch.context() as patch:
            with_versions(patch, {**tensorflow, "jaxlib": jaxlib})
            (door,) = [each for each in examined(capsys)["doors"] if each["name"] == "TensorFlow"]
        assert door["missing"] == missing and door["ready"] == (not missing)


def test_a_gpu(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    monkeypatch.setenv("REPRO_CERTIFICATES", str(tmp_path))
    found = examined(capsys)
    assert found["tensor_cores"].endswith("not certified: repro certify-device")
    assert {each["name"]: each["ready"] for each in found["doors"]}["cuda"]
    device = Device()
    path, architecture = path_of(device), f"sm_{10 * device.capability[0] + device.capability[1]}"
    for driver, told in (("another", "not certified: "), (device.driver.identity(), "certified: +tensor-cores can be")):
        write_certificate(Certificate(device.name, driver, UNITS[architecture], ()), path)
        assert f", {told}" in examined(capsys)["tensor_cores"]
    path.write_text("{}")
    assert ", not certified: " in examined(capsys)["tensor_cores"]


def fails(function: str, code: int) -> Any:
    def call(*_: Any) -> None:
        raise DriverError(function, code, f"CUDA_ERROR_{code}: a text")

    return call


def door_of_cuda(found: dict) -> dict:
    (door,) = [each for each in found["doors"] if each["name"] == "cuda"]
    return door


def test_no_gpu(capsys, monkeypatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    monkeypatch.setattr(Driver, "cuInit", fails("cuInit", NO_DEVICE), raising=False)
    found = examined(capsys)
    assert found["tensor_cores"].startswith("no GPU: ") and not found["faults"]
    assert door_of_cuda(found)["missing"] == ["a GPU with NVIDIA's driver"]


@pytest.mark.parametrize("function", ["cuInit", "cuStreamCreate", "file too short"])
def test_a_driver_that_fails(capsys, monkeypatch, tmp_path: Path, function: str) -> None:
    """A driver that fails is not a missing GPU, at whatever call it fails."""
    (tmp_path / "empty.so").touch()
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY if function.startswith("cu") else tmp_path / "empty.so"))
    if function.startswith("cu"):
        monkeypatch.setattr(Driver, function, fails(function, 999), raising=False)
    found = examined(capsys, 1)
    (fault,) = found["faults"]
    assert found["tensor_cores"].startswith("the driver fails: ") and fault.startswith("cuda: the driver fails: ")
    assert function in fault and fault.endswith("for CUDA 12 or later")
    assert door_of_cuda(found)["missing"] == ["a driver that works"] and not door_of_cuda(found)["ready"]
    (cuda,) = [each for each in found["targets"] if each["name"] == "cuda"]
    assert function in cuda["detail"]


def test_a_gpu_that_is_not_supported(capsys, monkeypatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    monkeypatch.setattr(Device, "_attribute", lambda self, attribute: {75: 5, 76: 2}[attribute])
    found = examined(capsys)
    assert "not supported: the target has code for " in found["tensor_cores"] and "(sm_52)" in found["tensor_cores"]
    door = door_of_cuda(found)
    assert door["missing"] == ["a supported GPU"] and door["command"] == "use the target ptx-emulator"


def test_faults_of_the_cache_and_the_disk(capsys, monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "file"))
    (fault,) = examined(capsys, 1)["faults"]
    assert "cannot use this folder as the cache" in fault and "set REPRO_MLIR_CACHE to another folder" in fault
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "file" / "cache"))
    (fault,) = examined(capsys, 1)["faults"]
    assert "the cache cannot be written: set REPRO_MLIR_CACHE to a folder" in fault
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: namedtuple("Usage", "total used free")(10, 9, 1 << 20))
    (fault,) = examined(capsys, 1)["faults"]
    assert "1,048,576 bytes are free on this disk" in fault
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    assert examined(capsys)["cache"]["path"] is None
    assert main(["doctor"]) == 0
    assert "cache     none" in capsys.readouterr().out


def test_a_processor_that_runs_no_program(capsys, monkeypatch) -> None:
    from repro_mlir.execute import executable

    def fails(target: str) -> None:
        raise repro_mlir.ReproError(f"cannot run {target} on this machine: no such instruction")

    monkeypatch.setattr(executable, "check_runs", fails)
    (fault,) = examined(capsys, 1)["faults"]
    assert fault.startswith("no compiled program runs on this processor: cannot run cpu:")
