# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds the package into build/python_packages, adds it to the environment, and builds the programs for lit.

Must run with the Python of the virtual environment that tools/setup.py created. Uses ccache and mold if they are
installed.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import scikit_build_core.build

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PACKAGES = BUILD / "python_packages"


def configure(bin_folder: Path, environment: dict[str, str], folder: Path, options: list[str]) -> int:
    """Runs CMake with the generator Ninja; returns its exit status. MLIR_DIR and LLVM_DIR in the environment take
    precedence over the installed packages."""
    site = Path(sysconfig.get_path("purelib"))
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        # A short build matters more here than a fast compiler. Wheels are built with -O3.
        "CMAKE_CXX_FLAGS_RELEASE": "-O1 -DNDEBUG",
        # Parsing MLIR's headers takes longer than compiling our sources, so a unity build parses them once for eight
        # sources.
        "CMAKE_UNITY_BUILD": "ON",
        "CMAKE_C_VISIBILITY_PRESET": "hidden",
        "CMAKE_CXX_VISIBILITY_PRESET": "hidden",
        "CMAKE_VISIBILITY_INLINES_HIDDEN": "ON",
        "CMAKE_MAKE_PROGRAM": str(bin_folder / "ninja"),
        "MLIR_DIR": os.environ.get("MLIR_DIR", str(site / "mlir" / "lib" / "cmake" / "mlir")),
        "LLVM_DIR": os.environ.get("LLVM_DIR", str(site / "llvm" / "lib" / "cmake" / "llvm")),
        "Python3_EXECUTABLE": sys.executable,
        "Python_EXECUTABLE": sys.executable,
    }
    if shutil.which("ccache"):
        definitions |= {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX")}
    if shutil.which("mold"):
        definitions |= {f"CMAKE_{kind}_LINKER_FLAGS": "-fuse-ld=mold" for kind in ("EXE", "MODULE", "SHARED")}
    command = [str(bin_folder / "cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    command += [f"-D{name}={value}" for name, value in definitions.items()] + options
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode


def drop_stale_links() -> None:
    """Removes links in the build tree that point to modules which have been deleted or renamed."""
    for path in PACKAGES.rglob("*"):
        if path.is_symlink() and not path.exists():
            path.unlink()


def publish(bin_folder: Path, site: Path) -> None:
    """Adds the built package to the virtual environment: its path, its commands, and its metadata, whose entry points
    register the backend of torch.compile."""
    # The path is not added during a build (REPRO_BUILDING), so that the stub generator does not import a half-built
    # package.
    line = f"import os, sys; os.environ.get('REPRO_BUILDING') or sys.path.append({str(PACKAGES)!r})\n"
    path = site / "repro_mlir_build.pth"
    path.write_text(line)
    written = [path]
    for name, place in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].items():
        module, function = place.split(":")
        script = bin_folder / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        )
        script.chmod(0o755)
        written.append(script)
    for old in site.glob("repro_mlir-*.dist-info"):
        shutil.rmtree(old)
    with contextlib.chdir(ROOT):
        info = site / scikit_build_core.build.prepare_metadata_for_build_wheel(str(site))
    # With a RECORD, pip replaces the build by a wheel without leaving files.
    written += [each for each in info.rglob("*") if each.is_file()]
    lines = [f"{os.path.relpath(each, site)},," for each in [*written, info / "RECORD"]]
    (info / "RECORD").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=BUILD, help="another one is not published in the environment")
    parser.add_argument("--target", action="append", help="of Ninja; default: the package and the programs of lit")
    parser.add_argument("cmake_options", nargs="*", help="further options of CMake, behind --")
    options = parser.parse_args()
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(bin_folder), os.environ.get("PATH", "")]),
        "REPRO_BUILDING": "1",
        # With a base folder, paths in the keys of ccache are relative, so clones in different folders share the entries
        # of the cache.
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_NOHASHDIR": "1",
    }
    environment.pop("PYTHONPATH", None)
    # CMake runs each time because Ninja does not find new Python files.
    status = configure(bin_folder, environment, options.folder, options.cmake_options)
    if status:
        return status
    targets = options.target or ["ReproPythonModules", "ReproNativeTests"]
    command = [str(bin_folder / "ninja"), "-C", str(options.folder), "-j", str(options.jobs), *targets]
    status = subprocess.run(command, env=environment).returncode
    if status == 0 and options.folder == BUILD:
        drop_stale_links()
        publish(bin_folder, Path(sysconfig.get_path("purelib")))
    return status


if __name__ == "__main__":
    sys.exit(main())
