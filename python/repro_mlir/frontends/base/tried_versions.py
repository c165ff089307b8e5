# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The versions of other packages with which this package was tried, and the reaction to other versions.

pyproject.toml states the ranges as requirements of the extras; the metadata of the installed package repeats them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError
from repro_mlir.base.package_versions import installed_version, is_tried

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE = "repro-mlir"


class UnusableVersion(ReproError):
    """Raised by the import of a frontend that cannot work with the installed version of a package, or without it."""


def requirements() -> Mapping[str, list[Requirement]]:
    """Returns the requirements of each extra: from the metadata of the installed package, or, for a build in a clone of
    the repository, from pyproject.toml."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, list[Requirement]] = {}
    for text in _given():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            # The metadata of a package that another tool has changed.
            continue
        extra = re.search(r"""\bextra\s*==\s*['"]([^'"]+)['"]""", str(requirement.marker))
        if extra and requirement.marker is not None and requirement.marker.evaluate({"extra": extra[1]}):
            found.setdefault(extra[1], []).append(requirement)
    return found


def _given() -> list[str]:
    try:
        return importlib.metadata.requires(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        path = Path(__file__).resolve().parents[4] / "pyproject.toml"
        if not path.is_file():
            return []
        extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
        return [f'{each} ; extra == "{extra}"' for extra, texts in extras.items() for each in texts]


@functools.cache
def tried_range(name: str) -> Requirement | None:
    """Returns the requirement with the tried versions of a package, such as torch>=2.9; None if no extra has it."""
    return next((each for extra in requirements().values() for each in extra if each.name == name), None)


@functools.cache
def warn_if_untried(*names: str) -> None:
    """Warns if the installed version of one of the packages is outside of the tried range: once in a process, since
    each frontend calls this function when it is imported."""
    for name in names:
        version, wanted = installed_version(name), tried_range(name)
        if version is not None and wanted is not None and not is_tried(wanted, version):
            message = f"{name} {version} has not been tried with {PACKAGE}; tried were the versions {wanted.specifier}"
            warnings.warn(f"{message}: pip install '{name}{wanted.specifier}'", RuntimeWarning, stacklevel=2)


@contextlib.contextmanager
def private_names(name: str) -> Iterator[None]:
    """A context manager for imports of private names of an installed package: a missing name raises
    UnusableVersion."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        version, wanted = installed_version(name), tried_range(name)
        if version is None:
            raise
        # The message of ImportError ends with the path of the module.
        absent = re.sub(r" \([^()]*\)$", "", str(error))
        tried = wanted.specifier if wanted else ""
        advice = f"; tried were the versions {tried}: pip install '{name}{tried}'" if tried else ""
        raise UnusableVersion(f"{name} {version} lacks a name that {PACKAGE} uses: {absent}{advice}") from error
