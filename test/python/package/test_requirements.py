# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""requirements.lock contains every requirement of pyproject.toml except PyTorch, each with hashes."""

import re
import runpy
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
