# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The configuration of `lit test`: text-in, text-out tests of repro-opt, and programs in C and C++.

Environment:
  REPRO_PACKAGES         folder that contains the package `repro_mlir`; by default that of the build tree, else the
                         installed one
  REPRO_NATIVE_TESTS     folder of the programs that `ninja ReproNativeTests` builds; by default that of the build
                         tree; without the folder, their tests do not run
  REPRO_TEST_TIMEOUT     seconds that one command may take, 60 by default
  REPRO_CHECK_ROUNDTRIP  if set, every run of %repro-opt also checks that its output parses back to the same IR
"""

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from pathlib import Path

import lit.formats

ROOT = Path(__file__).resolve().parent.parent
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))


def find_packages() -> Path:
    """Returns the folder that contains the package `repro_mlir` with the tools."""
    if "REPRO_PACKAGES" in os.environ:
        return Path(os.environ["REPRO_PACKAGES"]).resolve()
    built = ROOT / "build" / "python_packages"
    if built.is_dir():
        return built
    installed = importlib.util.find_spec("repro_mlir")
    if installed and installed.submodule_search_locations:
        return Path(next(iter(installed.submodule_search_locations))).parent
    lit_config.fatal(f"no repro_mlir: neither {built} nor an installed package; build ReproPythonModules")


def cpu_flags() -> set[str]:
    """Returns the feature flags of the first CPU in /proc/cpuinfo; an empty set if the system does not report them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith(("flags", "Features"))), set())


config.name = "repro-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".c", ".cpp"]
config.excludes = ["Inputs", "data", "fuzz", "python"]
config.test_source_root = str(ROOT / "test")
config.test_exec_root = str(ROOT / "build" / "test")

packages = find_packages()
tools = packages / "repro_mlir" / "_mlir_libs"
if not (tools / "repro-opt").exists():
    lit_config.fatal(f"no repro-opt in {tools}; build ReproPythonModules")
llvm_tools = SITE_PACKAGES / "llvm" / "bin"
mlir_tools = SITE_PACKAGES / "mlir" / "bin"
path = [str(folder) for folder in (llvm_tools, mlir_tools, Path(sys.executable).parent) if folder.is_dir()]
config.environment["PATH"] = os.pathsep.join([*path, os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --dump-input-filter=error"

native = Path(os.environ.get("REPRO_NATIVE_TESTS", ROOT / "build" / "native_tests"))
if native.is_dir():
    config.available_features.add("native-tests")

# lit's own limit needs psutil, which is not otherwise a dependency.
limit = f"timeout {os.environ.get('REPRO_TEST_TIMEOUT', '60')}"
roundtrip = " --verify-roundtrip" if os.environ.get("REPRO_CHECK_ROUNDTRIP") else ""
config.substitutions.extend(
    [
        ("%repro-opt", f"{limit} {tools / 'repro-opt'}{roundtrip}"),
        ("%python", f"{limit} {sys.executable}"),
        ("%native", f"{limit} {native}"),
    ]
)
if not shutil.which("FileCheck", path=config.environment["PATH"]):
    config.substitutions.append((r"\bFileCheck\b", "filecheck"))

for feature, program in {"qemu-aarch64": "qemu-aarch64-static", "aarch64-gcc": "aarch64-linux-gnu-gcc"}.items():
    if shutil.which(program):
        config.available_features.add(feature)
config.available_features.add(f"host-{platform.machine()}")
if {"avx2", "fma"} <= cpu_flags():
    config.available_features.add("avx2")
if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= cpu_flags():
    config.available_features.add("avx512")
for module in ("torch", "torch_mlir"):
    if importlib.util.find_spec(module):
        config.available_features.add(module)
