# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The versions of installed packages, and the ranges of versions that were tried."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def installed_version(name: str) -> str | None:
    """Returns the version of an installed package; None if the package is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_tried(requirement: Requirement, version: str) -> bool:
    """Returns whether a version of the required package is in the range of tried versions."""
    from packaging.version import InvalidVersion, Version

    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
