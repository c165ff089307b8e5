# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Examines this installation and machine: targets, versions of packages, the cache."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.base.package_versions import installed_version
from repro_mlir.cli.packages import Package, faults_of, package_of
from repro_mlir.execute.availability import COMPILED, Target, describe_targets
from repro_mlir.frontends.base.tried_versions import requirements

if TYPE_CHECKING:
    from repro_mlir.runner.device import Device

_LEAST_FREE = 1 << 30
"""The number of free bytes below which a disk counts as nearly full."""


@dataclass(frozen=True)
class Door:
    """A way to use repro-mlir that needs packages or programs in addition.

    Attributes:
      name: what the door opens.
      ready: whether everything that the door needs is installed.
      missing: the packages and programs that are not installed.
      command: what installs everything that the door needs: a command, or an instruction.
    """

    name: str
    ready: bool
    missing: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Cache:
    """The cache of captures and compiled code.

    Attributes:
      path: the folder; None if the cache is disabled.
      bytes, limit: the size of the cache and its maximum size, in bytes.
      free: the free bytes of the disk with the folder.
    """

    path: str | None
    bytes: int
    limit: int
    free: int


@dataclass(frozen=True)
class Installation:
    """The findings about this machine and this installation.

    Attributes:
      version, llvm, python: the versions of repro-mlir, LLVM and Python.
      system: the operating system and the processor's architecture.
      targets: every target, and whether this machine executes its code.
      tensor_cores: whether there is a GPU that runs compiled programs, and whether its tensor cores are certified, as a
        sentence without a full stop.
      packages: the packages of the extras.
      doors: the ways to use repro-mlir.
      faults: what is wrong, one line each, with what to do; empty if nothing is wrong.
    """

    version: str
    llvm: str
    python: str
    system: str
    targets: tuple[Target, ...]
    tensor_cores: str
    packages: tuple[Package, ...]
    doors: tuple[Door, ...]
    cache: Cache
    faults: tuple[str, ...]


_DOORS = {
    "PyTorch": ("torch",),
    "Hugging Face": ("torch", "transformers"),
    "JAX": ("jax",),
    "Keras": ("keras",),
    "ONNX": ("onnx",),
    "serving": ("torch", "serve"),
    "signed receipts": ("sign",),
    "machine code for GPUs": ("cuda",),
}
"""The extras of the package that each door needs. The extras' requirements are those of the package's metadata."""


def examine() -> Installation:
    """Examines this installation. Runs a small program, and imports no framework."""
    from repro_mlir._mlir_libs import _repro

    targets = tuple(describe_targets())
    required = requirements()
    packages = tuple(map(package_of, _wanted(required)))
    cache, faults = _cache()
    faults += faults_of(packages)
    gpu = _gpu(targets)
    faults = [*_run_here(), *gpu.faults, *faults]
    return Installation(
        _repro.__version__,
        _repro.llvm_version,
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        targets,
        gpu.told,
        packages,
        (*_doors(required), *_programs(targets, gpu)),
        cache,
        tuple(faults),
    )


def _wanted(required: Mapping[str, list[Requirement]]) -> list[Requirement]:
    """Returns one requirement for each package, in the order of the doors."""
    found: dict[str, Requirement] = {}
    for extras in _DOORS.values():
        for extra in extras:
            for each in required.get(extra, []):
                found.setdefault(canonicalize_name(each.name), each)
    return [*found.values()]


def _doors(required: Mapping[str, list[Requirement]]) -> Iterable[Door]:
    for name, extras in _DOORS.items():
        wanted = {each.name: None for extra in extras for each in required.get(extra, [])}
        missing = tuple(each for each in wanted if installed_version(each) is None)
        yield Door(name, not missing, missing, install_extra(*extras))
    tensorflow = "tensorflow" if installed_version("tensorflow") else "tensorflow-cpu"
    missing = tuple(each for each in (tensorflow, "jaxlib") if installed_version(each) is None)
    yield Door("TensorFlow", not missing, missing, f"pip install {tensorflow}, and {install_extra('jax')}")
    missing = () if installed_version("mpi4py") else ("mpi4py",)
    yield Door("ranks of mpirun", not missing, missing, "pip install mpi4py")


def _programs(targets: Iterable[Target], gpu: _Gpu) -> Iterable[Door]:
    """Yields the doors that need programs or drivers."""
    from repro_mlir.execute.qemu import COMPILER, EMULATOR

    executions = {each.name: each for each in targets}
    arm = executions["cpu:aarch64"]
    ready = arm.execution != COMPILED
    missing = () if ready else tuple(each for each in (COMPILER, EMULATOR) if shutil.which(each) is None)
    yield Door("cpu:aarch64", ready, missing, "apt-get install qemu-user-static gcc-aarch64-linux-gnu")
    yield Door("cuda", not gpu.missing, gpu.missing, gpu.command)


@dataclass(frozen=True)
class _Gpu:
    """The findings about the GPU: a sentence without a full stop about its tensor cores, what the target cuda lacks,
    and what is wrong."""

    told: str
    missing: tuple[str, ...] = ()
    command: str = ""
    faults: tuple[str, ...] = ()


def _gpu(targets: Iterable[Target]) -> _Gpu:
    """Examines this machine's GPU and its driver."""
    from repro_mlir.runner.device import Device
    from repro_mlir.runner.driver import NoDevice

    try:
        with contextlib.closing(Device()) as device:
            return _of_device(device, targets)
    except NoDevice:
        return _Gpu("no GPU: the ptx-emulator computes the bits of one", ("a GPU with NVIDIA's driver",), _DRIVER)
    except ReproError as error:
        told = f"the driver fails: {error}"
        return _Gpu(told, ("a driver that works",), _DRIVER, (f"cuda: {told}: {_DRIVER}",))


def _of_device(device: Device, targets: Iterable[Target]) -> _Gpu:
    name = f"{device.name}, CUDA {device.driver.version()}"
    (cuda,) = [each for each in targets if each.name == "cuda"]
    if cuda.execution == COMPILED:
        return _Gpu(f"{name}, not supported: {cuda.detail}", ("a supported GPU",), "use the target ptx-emulator")
    return _Gpu(f"{name}, {_certification(device)}")


_DRIVER = "install NVIDIA's driver of this GPU, for CUDA 12 or later"


def _certification(device: Device) -> str:
    from repro_mlir.runner.certificates import UNITS, certificate_for, path_of
    from repro_mlir.runner.execution import choose_architecture

    if not path_of(device).exists():
        return "not certified: repro certify-device"
    try:
        certificate_for(device, choose_architecture([*UNITS], device.capability, "this package"))
    except ReproError as error:
        return f"not certified: {error}: repro certify-device"
    return "certified: +tensor-cores can be used"


def _run_here() -> list[str]:
    """Compiles and runs a small program on this processor; returns a line if that fails."""
    from repro_mlir.compilation.cpu import native_level
    from repro_mlir.execute.executable import check_runs

    try:
        check_runs(f"cpu:{native_level()}")
    except ReproError as error:
        return [f"no compiled program runs on this processor: {error}"]
    return []


def _cache() -> tuple[Cache, list[str]]:
    """Returns the cache, and what is wrong with the cache and its disk."""
    from repro_mlir.base.files.cache import VARIABLE, directory, usage
    from repro_mlir.base.limits import limits

    path = directory()
    if path is None:
        return Cache(None, 0, limits().cache_bytes, 0), []
    beneath = path
    while not beneath.exists() and beneath != beneath.parent:
        beneath = beneath.parent
    faults: list[str] = []
    size = 0
    try:
        size = usage().bytes
        if not beneath.is_dir() or not os.access(beneath, os.W_OK | os.X_OK):
            faults.append(f"{path}: the cache cannot be written: set {VARIABLE} to a folder that this user can write")
    except ReproError as error:
        faults.append(f"{error}: set {VARIABLE} to another folder")
    free = shutil.disk_usage(beneath).free
    if free < _LEAST_FREE:
        faults.append(
            f"{path}: {free:,} bytes are free on this disk: free space (repro cache --clear), or set {VARIABLE}"
        )
    return Cache(str(path), size, limits().cache_bytes, free), faults
