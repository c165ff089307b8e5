# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs single kernel functions on NumPy arrays, for tests.

A kernel function is expanded, lowered by upstream passes and compiled to a shared library. Its work items can be
divided among several calls.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import llvm
import numpy as np
from repro_mlir import ir
from repro_mlir.compilation.cpu import runnable_levels
from repro_mlir.dialects.llvm import translate_module_to_llvmir
from repro_mlir.passmanager import PassManager
from support import kit

LLVM_OPT = Path(next(iter(llvm.__path__))) / "bin" / "opt"
LLC = Path(next(iter(llvm.__path__))) / "bin" / "llc"

#: Maps short names of CPU levels to LLVM's names, which LLVM also uses as processor names.
LEVELS = {"v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"}
#: The levels that this machine can run.
RUNNABLE = tuple(short for short, name in LEVELS.items() if name in runnable_levels())
#: The levels that tests run by default.
TESTED = RUNNABLE if kit.EVERYTHING else tuple(dict.fromkeys((RUNNABLE[0], RUNNABLE[-1])))

LOWERING = (
    "func.func(repro-expand-functions,expand-strided-metadata,lower-affine,arith-expand{include-bf16=true}),"
    "repro-expand-arithmetic,repro-expand-fma,func.func(convert-scf-to-cf,canonicalize,cse),"
    "convert-vector-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,"
    "reconcile-unrealized-casts,canonicalize,cse"
)

#: Flags with which llc writes an object file that can be linked into a shared library.
OBJECT_FLAGS = ("-filetype=obj", "-relocation-model=pic", "-fp-contract=off")

#: C source of the functions that a kernel may call on a level without fma.
SUPPORT = (
    b"double fma(double, double, double);\ndouble repro_fma(double a, double b, double c) { return fma(a, b, c); }\n"
)

_cache = Path(os.environ["REPRO_TEST_SESSION"]) / "kernels"


def run_tool(command: list, text: bytes) -> bytes:
    """Runs a tool with the given standard input. If it fails, raises a RuntimeError with the beginning of its error
    output."""
    done = subprocess.run(command, input=text, capture_output=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode()[:3000]}")
    return done.stdout


def run_passes(module: str, pipeline: str) -> str:
    """Runs a pipeline of passes on a module and returns the changed module. The passes run in this process, because
    sanitizers make process startup slow."""
    with ir.Context():
        parsed = ir.Module.parse(module)
        PassManager.parse(f"builtin.module({pipeline})").run(parsed.operation)
        return str(parsed)


def expand(module: str, level: str = "v4") -> str:
    """Returns the module with its kernels expanded for a CPU level."""
    name = LEVELS[level]
    return run_passes(module, f"repro-expand-kernels{{level={name}}},canonicalize,cse")


@dataclass
class Kernel:
    """A compiled kernel function."""

    function: object
    work_items: int
    work_grain: int
    scratch_bytes: int

    def run(self, *arrays: np.ndarray, shares: list[int] | None = None) -> int:
        """Runs all work items, by default in one call. `shares` contains the items at which one call ends and the next
        begins. Returns the error word: 0 if no check failed."""
        scratch = np.full(self.scratch_bytes + 64, 0xA5, np.uint8)
        start = -scratch.ctypes.data % 64
        scratch = scratch[start : start + self.scratch_bytes]
        error = np.zeros(1, np.int64)
        cuts = [0, *(shares or []), self.work_items]
        arguments = [describe(array) for array in (*arrays, scratch, error)]
        pointers = [ctypes.byref(argument) for argument in arguments]
        for begin, end in itertools.pairwise(cuts):
            self.function(*pointers, ctypes.c_int64(begin), ctypes.c_int64(end))
        return int(error[0])


def describe(array: np.ndarray) -> ctypes.Structure:
    """Returns the memref descriptor of an array. Its offset is 0. For a view, the array is the whole buffer: the types
    of the kernel's arguments contain the offset and the strides."""
    rank = array.ndim
    fields = [("base", ctypes.c_void_p), ("data", ctypes.c_void_p), ("offset", ctypes.c_int64)]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    kind = type("Descriptor", (ctypes.Structure,), {"_fields_": fields})
    values = [array.ctypes.data, array.ctypes.data, 0]
    if rank:
        strides = [stride // max(array.itemsize, 1) for stride in array.strides]
        values += [(ctypes.c_int64 * rank)(*array.shape), (ctypes.c_int64 * rank)(*strides)]
    return kind(*values)


@functools.lru_cache(maxsize=8)
def compile_kernels(module: str, level: str = RUNNABLE[-1]) -> dict[str, Kernel]:
    """Compiles all private kernel functions of a module for a level."""
    expanded = expand(module, level)
    works: dict[str, tuple[int, ...]] = {}
    for name, text in re.findall(r"func\.func private @(\w+)\(.*attributes \{(.*)\} \{", expanded):
        if work := re.search(r"#launch\.work<items = (\d+), grain = (\d+), scratch_bytes = (\d+)>", text):
            works[name] = tuple(int(number) for number in work.groups())
    public = expanded.replace("func.func private", "func.func")
    # LLVM's tools do not know the launch attributes, so these are removed.
    public = re.sub(r"attributes \{launch\..*\} \{", "attributes {llvm.emit_c_interface} {", public)
    public = re.sub(r"(, )?launch\.access = #launch<access [a-z|]+>", "", public).replace(" {}", "")
    lowering = LOWERING
    if level != "v2":
        lowering = lowering.replace(",repro-expand-fma", "")
    lowered = run_passes(public, lowering)
    library = _cache / f"{hashlib.sha256((lowered + level).encode()).hexdigest()}.so"
    if not library.exists():
        with ir.Context():
            text = translate_module_to_llvmir(ir.Module.parse(lowered).operation).encode()
        cpu = f"-mcpu={LEVELS[level]}"
        code = run_tool([LLVM_OPT, "-O2", cpu, "-mtriple=x86_64-linux-gnu"], text)
        with tempfile.TemporaryDirectory() as folder:
            target, linked = Path(folder) / "kernel.o", Path(folder) / library.name
            run_tool([LLC, "-O3", cpu, "-mtriple=x86_64-linux-gnu", *OBJECT_FLAGS, "-o", target], code)
            run_tool(["gcc", "-shared", "-o", linked, target, _support(), "-lm"], b"")
            _move(linked)
    loaded = ctypes.CDLL(str(library))
    touch_pages(library)
    return {name: Kernel(getattr(loaded, f"_mlir_ciface_{name}"), *work) for name, work in works.items()}


@functools.cache
def _support() -> Path:
    """Returns the object file of the support functions (`SUPPORT`)."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "support.o"
        run_tool(["gcc", "-x", "c", "-c", "-fPIC", "-o", made, "-"], SUPPORT)
        return _move(made)


def _move(file: Path) -> Path:
    """Moves a file into the test session's folder, in which parallel test processes share files. Returns its new
    path."""
    _cache.mkdir(exist_ok=True)
    target = _cache / file.name
    part = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(file, part)
    return part.replace(target)


def touch_pages(library: Path) -> None:
    """Reads each memory page of a loaded library once, so that the operating system maps it.

    Masked loads with an empty mask do not map the page that they refer to, and stay slow until another access maps it.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(library.name) and line.split()[1].startswith("r"):
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            for address in range(first, last, 4096):
                ctypes.string_at(address, 1)


def kernel_function(name: str, arguments: str, body: str) -> str:
    """Returns the text of a kernel function; `body` is usually one structured operation."""
    rest = "%scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index"
    return f"func.func private @{name}({arguments}, {rest}) {{\n{body}\nreturn\n}}\n"
