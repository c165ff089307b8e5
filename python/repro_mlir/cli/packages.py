# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The packages that `repro doctor` lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

from repro_mlir.base.package_versions import installed_version, is_tried


@dataclass(frozen=True)
class Package:
    """A package that repro-mlir uses.

    Attributes:
      version: the installed version; None if the package is not installed.
      range: the versions that were tried, such as ">=1.10,<2"; empty if every version is accepted.
      fits: whether the installed version is in the range; None if the package is not installed.
    """

    name: str
    version: str | None
    range: str
    fits: bool | None


def package_of(requirement: Requirement) -> Package:
    """Returns a required package, as it is installed."""
    version = installed_version(requirement.name)
    fits = None if version is None else is_tried(requirement, version)
    return Package(requirement.name, version, str(requirement.specifier), fits)


def faults_of(packages: Sequence[Package]) -> list[str]:
    """Returns a line for each installed package whose version is outside of its range, with the command that installs
    another version."""
    return [
        f"{each.name} {each.version} is outside of the tried versions {each.range}: "
        f"pip install '{each.name}{each.range}'"
        for each in packages
        if each.fits is False
    ]


def lines_of(packages: Sequence[Package]) -> Iterator[str]:
    """Yields the lines of `repro doctor` about packages."""
    for i, package in enumerate(packages):
        told = package.version or "not installed"
        fits = "" if package.fits is not False else "  OUTSIDE OF THE RANGE"
        yield f"{'packages' if i == 0 else '':9} {package.name:24} {told:12} {package.range}{fits}"
