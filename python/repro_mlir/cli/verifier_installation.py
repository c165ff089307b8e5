# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Examines an installation of the verifier without the compiler."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from repro_mlir.base.compiler import distribution, install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.base.threads import check_threads
from repro_mlir.base.version import __version__
from repro_mlir.cli.packages import Package, faults_of, package_of

_OPTIONS = (
    "verify: --script, --microbatches, --model, steps in microbatches, answers of repro serve",
    "inspect: --text, ONNX models, SavedModels, MLIR modules",
    "diff: the targets of a script",
    "dispute: --script, scripts as --terms",
    "attest: --machine",
    "every --target but reference",
)
"""The uses of the verifier's commands that need the compiler."""


@dataclass(frozen=True)
class VerifierInstallation:
    """The findings about an installation of the verifier, and about this machine.

    Attributes:
      version, python: the versions of the verifier and of Python.
      system: the operating system and the processor's architecture.
      cores: the number of cores that this process may use, which is the default number of threads of a step.
      memory_bytes: the size of the machine's memory; None if the system does not tell it.
      packages: the packages that the verifier needs.
      signatures: whether signatures can be checked, as a phrase.
      needs_compiler: the commands and options that need the compiler.
      faults: what is wrong, one line each, with what to do; empty if nothing is wrong.
    """

    version: str
    python: str
    system: str
    cores: int
    memory_bytes: int | None
    packages: tuple[Package, ...]
    signatures: str
    needs_compiler: tuple[str, ...]
    faults: tuple[str, ...]


def examine(others: Sequence[str]) -> VerifierInstallation:
    """Examines this installation.

    Args:
      others: the commands of the distribution with the compiler.
    """
    required = [Requirement(each) for each in _metadata().get_all("Requires-Dist") or []]
    own = [each for each in required if each.marker is None]
    packages = tuple(map(package_of, own))
    missing = [
        f"{each.name} is not installed: pip install '{each.name}{each.range}'" for each in packages if not each.version
    ]
    signs = [package_of(each) for each in required if each.marker and each.marker.evaluate({"extra": "sign"})]
    # A package of the extra need not be installed, but an installed one has to fit.
    faults = [*_fault_of_python(), *missing, *faults_of([*packages, *signs])]
    ready = all(each.version for each in signs)
    return VerifierInstallation(
        __version__,
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        check_threads(None),
        _memory(),
        (*packages, *signs),
        "ready" if ready else f"need {', '.join(each.name for each in signs)}: {install_extra('sign')}",
        (f"the commands {', '.join(others)}", *_OPTIONS),
        tuple(faults),
    )


def _metadata() -> importlib.metadata.PackageMetadata:
    try:
        return importlib.metadata.metadata(distribution())
    except importlib.metadata.PackageNotFoundError:
        raise ReproError(f"the metadata of {distribution()} are missing: install its wheel with pip") from None


def _fault_of_python() -> list[str]:
    due, found = _metadata()["Requires-Python"], platform.python_version()
    if SpecifierSet(due).contains(found, prereleases=True):
        return []
    return [f"expected Python {due}, got {found}: make an environment with another Python"]


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
