# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""requirements.lock contains every requirement of pyproject.toml except PyTorch, each with hashes."""

import re
import runpy
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]


def test_lock_has_every_requirement() -> None:
    setup = runpy.run_path(str(ROOT / "tools" / "setup.py"))
    # A requirement of requirements.lock can have several lines, which end with a backslash.
    entries = re.sub(r"\\\n", " ", (ROOT / "requirements.lock").read_text()).splitlines()[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    locked = [Requirement(entry.partition("--hash")[0]) for entry in entries]
    for text in setup["requirements"]():
        if setup["name_of"](text) == setup["UNLOCKED"]:
            continue
        wanted = Requirement(text)
        found = [lock for lock in locked if canonicalize_name(lock.name) == canonicalize_name(wanted.name)]
        assert found, f"{text}: not in requirements.lock (make lock)"
        for lock in found:
            (version,) = lock.specifier
            assert version.operator == "==" and wanted.specifier.contains(version.version), f"{text}: {lock}"


def test_the_environment_has_versions_of_the_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    ranges = [Requirement(text) for texts in extras for text in texts]
    own = [Requirement(text) for text in project["tool"]["repro-mlir"]["environment"]]
    assert "torch" in {each.name for each in own}
    for each in own:
        (version,) = each.specifier
        wanted = [extra for extra in ranges if extra.name == each.name]
        assert version.operator == "==" and wanted
        assert all(extra.specifier.contains(version.version) for extra in wanted), f"{each}: {wanted}"
        # make setup and make lock take this version and not the newest one of the range.
        installed = runpy.run_path(str(ROOT / "tools" / "setup.py"))["requirements"]()
        assert [text for text in installed if Requirement(text).name == each.name] == [str(each)]
