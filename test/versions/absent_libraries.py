# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes builds of PyTorch for CUDA importable without NVIDIA's libraries, which take several gigabytes.

Package indexes have builds for CPUs alone of few versions. The libraries that a build needs are replaced by libraries
whose functions all return 100: for CUDA's runtime, this number means that the machine has no GPU.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

_NAMES = re.compile(r"_*(cu|nccl|nv)")
# The driver's library, which PyTorch loads only when it uses a GPU.
_DRIVER = "libcuda.so.1"


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def replace_absent_libraries(folder: Path) -> list[str]:
    """Writes to `folder`, PyTorch's folder of libraries, a library for each absent one of NVIDIA.

    Returns:
      the names of the written libraries.
    """
    needed: set[str] = set()
    undefined: set[str] = set()
    defined: set[str] = set()
    library_of: dict[str, str] = {}
    for path in sorted(folder.glob("*.so*")):
        needed.update(re.findall(r"NEEDED.*\[(.*)\]", _output("readelf", "-dW", path)))
        library = ""
        for line in _output("readelf", "-VW", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                library = found[1]
            elif (found := re.search(r"Name: (\S+)", line)) and library:
                library_of[found[1]] = library
        undefined.update(line.split()[-1] for line in _output("nm", "-D", "--undefined-only", path).splitlines())
        lines = _output("nm", "-D", "--defined-only", path).splitlines()
        defined.update(line.split()[-1].partition("@")[0] for line in lines)
    absent = {name for name in needed if name.startswith("lib") and _NAMES.match(name[3:])} - {_DRIVER}
    absent = {name for name in absent if not (folder / name).exists()}
    versioned: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    others = []
    for symbol in sorted(undefined):
        name, _, version = symbol.partition("@")
        if version:
            versioned[library_of.get(version, "")][version].append(name)
        elif name not in defined and _NAMES.match(name):
            others.append(name)
    for library in sorted(absent):
        _write(folder / library, versioned.get(library, {"": others}))
    return sorted(absent)


def _write(path: Path, functions: dict[str, list[str]]) -> None:
    """Writes a library.

    Args:
      functions: maps each version of symbols to the names of functions; "" if the symbols have no versions.
    """
    names = [name for group in functions.values() for name in group]
    labels = "".join(f".globl {name}\n.type {name}, @function\n{name}:\n" for name in names)
    script = "".join(f"{version} {{ {'; '.join(group)}; }};\n" for version, group in functions.items() if version)
    with tempfile.TemporaryDirectory() as folder:
        source, versions = Path(folder) / "functions.s", Path(folder) / "versions"
        source.write_text(f".text\n{labels}mov $100, %eax\nret\n.section .note.GNU-stack\n")
        versions.write_text(script)
        option = [f"-Wl,--version-script={versions}"] if script else []
        command = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", *option, "-o", path, source]
        subprocess.run(command, check=True)
