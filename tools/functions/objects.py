# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles elementary functions and the driver that calls them.

`repro-expand-functions` and the conversions to LLVM generate a loop over 65,536 elements for each function; `opt`
and `llc` compile the loop to an object per level.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from types import ModuleType

import numpy as np
from derive import UNARY as UNARY
from numpy.typing import NDArray

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
BUILD = ROOT / "build" / "functions"
BLOCKS = 256
ELEMENTS = 65536

BINARY = "atan2 hypot pow powi".split()

#: Maps a level to its target triple, its processor, and the number of vector lanes. A vector takes two registers of
#: f32, as in kernels.
LEVELS = {
    "x86-64-v2": ("x86_64-unknown-linux-gnu", "x86-64-v2", 8),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", 16),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", "x86-64-v4", 32),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", 8),
}

#: Levels without an fma instruction call a routine. Here this machine's fma instruction replaces the routine. This
# changes no result, since fma is correctly rounded. test/python/functions/test_fma_routine.py tests the routine itself.
_FMA_DECLARATION = "declare double @repro_fma(double, double, double)\n"
_FMA_INSTRUCTION = """
define internal double @repro_fma(double %a, double %b, double %c) alwaysinline {
  %r = call double asm "vfmadd213sd $3, $2, $0", "=x,0,x,x"(double %a, double %b, double %c)
  ret double %r
}
"""

_PIPELINE = (
    "repro-expand-functions,canonicalize,cse,loop-invariant-code-motion,{fma}convert-scf-to-cf,"
    "arith-expand{{include-bf16=true}},convert-vector-to-llvm{{reassociate-fp-reductions=false}},"
    "convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm,"
    "convert-func-to-llvm{{use-bare-ptr-memref-call-conv=1}},convert-cf-to-llvm,"
    "reconcile-unrealized-casts,canonicalize,cse"
)


def _load_reference() -> ModuleType:
    """Imports only the file with the reference functions, because importing the package would load the compiler."""
    path = ROOT / "python/repro_mlir/reference/functions.py"
    spec = importlib.util.spec_from_file_location("repro_reference_functions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = _load_reference()


def progress(what: str, done: int, total: int) -> None:
    """Shows a progress bar if standard error is a terminal."""
    if sys.stderr.isatty():
        filled = 40 * done // total
        end = "\n" if done == total else ""
        print(f"\r{what:24} [{'#' * filled}{'.' * (40 - filled)}]", end=end, file=sys.stderr, flush=True)


@functools.cache
def _processor_flags() -> frozenset[str]:
    """Returns the processor flags in /proc/cpuinfo; empty on other systems."""
    path = pathlib.Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    return frozenset(text.partition("flags")[2].partition("\n")[0].split())


def _run(*command: str | pathlib.Path) -> None:
    libraries = pathlib.Path(sysconfig.get_path("platlib"), "llvm", "lib")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stderr}")


def _tool(package: str, name: str) -> pathlib.Path:
    return pathlib.Path(sysconfig.get_path("platlib"), package, "bin", name)


def _is_newer(made: pathlib.Path, *sources: pathlib.Path) -> bool:
    return made.exists() and all(made.stat().st_mtime >= s.stat().st_mtime for s in sources)


@functools.cache
def driver() -> ctypes.CDLL:
    """Compiles Driver.cpp for this machine; returns the loaded library."""
    source, made = HERE / "Driver.cpp", BUILD / "driver.so"
    if not _is_newer(made, source):
        BUILD.mkdir(parents=True, exist_ok=True)
        _run("g++", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", made)
    library = ctypes.CDLL(str(made))
    for name in ("mix_result", "compiled_block", "library_block"):
        getattr(library, name).restype = ctypes.c_uint64
    return library


def source_text(name: str, lanes: int, element: str = "f32") -> str:
    """Returns the MLIR of a loop that applies one function to vectors of `lanes` elements, or to scalars if `lanes` is
    0."""
    memref = f"memref<{ELEMENTS}x{element}>"
    exponents = f"memref<{ELEMENTS}xi32>"
    operands = [("%x", memref, element)]
    if name in BINARY:
        operands.append(("%y", exponents, "i32") if name == "powi" else ("%y", memref, element))

    def lane_type(kind: str) -> str:
        return f"vector<{lanes}x{kind}>" if lanes else kind

    def load(value: str, memory: str, kind: str) -> str:
        if lanes:
            return f"    {value}v = vector.load {value}[%i] : {memory}, {lane_type(kind)}"
        return f"    {value}v = memref.load {value}[%i] : {memory}"

    values = ", ".join(f"{value}v" for value, _, _ in operands)
    types = f"{lane_type(element)}, {lane_type('i32')}" if name == "powi" else lane_type(element)
    store = (
        f"vector.store %r, %z[%i] : {memref}, {lane_type(element)}" if lanes else f"memref.store %r, %z[%i] : {memref}"
    )
    arguments = ", ".join(f"{value}: {memory}" for value, memory, _ in operands)
    body = "\n".join(load(*operand) for operand in operands)
    return f"""
func.func @{name}_{"vector" if lanes else "scalar"}({arguments}, %z: {memref}) {{
  %zero = arith.constant 0 : index
  %end = arith.constant {ELEMENTS} : index
  %step = arith.constant {lanes or 1} : index
  scf.for %i = %zero to %end step %step {{
{body}
    %r = repro.{name} {values} : {types}
    {store}
  }}
  return
}}
"""


def compiler() -> pathlib.Path:
    """Returns the path of repro-opt: the value of the environment variable REPRO_OPT, by default that of the build
    tree."""
    return pathlib.Path(os.environ.get("REPRO_OPT", ROOT / "build/python_packages/repro_mlir/_mlir_libs/repro-opt"))


def object_of(name: str, level: str, element: str = "f32") -> pathlib.Path:
    """Compiles one function, for vectors and for scalars, at one level; returns the path of the object."""
    triple, processor, lanes = LEVELS[level]
    if element == "f64":
        lanes //= 4  # a vector takes a single register: the function has enough operations to keep a processor busy
    folder = BUILD / level
    made = folder / (f"{name}.o" if element == "f32" else f"{name}_{element}.o")
    library = compiler().parent / "libReproPythonCAPI.so"
    if _is_newer(made, library if library.exists() else compiler(), pathlib.Path(__file__)):
        return made
    folder.mkdir(parents=True, exist_ok=True)
    stem = made.with_suffix("")
    mlir, lowered, text, bitcode = (stem.with_suffix(s) for s in (".mlir", ".llvm.mlir", ".ll", ".bc"))
    mlir.write_text(source_text(name, lanes, element) + source_text(name, 0, element))
    pipeline = _PIPELINE.format(fma="repro-expand-fma," if level == "x86-64-v2" else "")
    _run(compiler(), f"--pass-pipeline=builtin.module({pipeline})", mlir, "-o", lowered)
    _run(_tool("mlir", "mlir-translate"), "--mlir-to-llvmir", lowered, "-o", text)
    target = [f"-mtriple={triple}", f"-mcpu={processor}"]
    linked = text
    if level == "x86-64-v2" and {"fma", "avx"} <= _processor_flags():
        linked = stem.with_suffix(".fma.ll")
        linked.write_text(text.read_text().replace(_FMA_DECLARATION, _FMA_INSTRUCTION))
    _run(_tool("llvm", "opt"), "-O3", *target, linked, "-o", bitcode)
    _run(_tool("llvm", "llc"), "-O3", *target, "-filetype=obj", "-relocation-model=pic", bitcode, "-o", made)
    return made


@functools.cache
def compiled(name: str, level: str, element: str = "f32") -> ctypes.CDLL:
    """Compiles a function for a level and loads the object. The level must be one of this machine's architecture."""
    made = object_of(name, level, element)
    shared = made.with_suffix(".so")
    if not _is_newer(shared, made, HERE / "Support.c"):
        _run("gcc", "-O2", "-fPIC", "-shared", HERE / "Support.c", made, "-o", shared, "-lm")
    return ctypes.CDLL(str(shared))


def emulated(name: str, *operands: NDArray[np.generic], lanes: bool = True) -> NDArray[np.generic]:
    """Calls a function that is compiled for aarch64 on arrays of equal length, under qemu."""
    made = object_of(name, "aarch64", _element(operands[0]))
    kind = "vector" if lanes else "scalar"
    program = made.with_name(f"{made.stem}_{kind}.exe")
    if not _is_newer(program, made, HERE / "Support.c"):
        flags = ["-O2", "-static", "-DMAIN", f"-DFUNCTION={name}_{kind}", f"-DOPERANDS={len(operands)}"]
        flags.append(f"-DELEMENT={'double' if made.stem.endswith('_f64') else 'float'}")
        _run("aarch64-linux-gnu-gcc", *flags, HERE / "Support.c", made, "-o", program, "-lm")
    size = operands[0].size
    padded = [np.resize(o, -(-size // ELEMENTS) * ELEMENTS).reshape(-1, ELEMENTS) for o in operands]
    text = b"".join(chunk.tobytes() for chunks in zip(*padded, strict=True) for chunk in chunks)
    done = subprocess.run(["qemu-aarch64-static", str(program)], input=text, capture_output=True, check=True)
    return np.frombuffer(done.stdout, operands[0].dtype)[:size]


def _element(x: NDArray[np.generic]) -> str:
    return f"f{8 * x.itemsize}"


def evaluate(name: str, level: str, *operands: NDArray[np.generic], lanes: bool = True) -> NDArray[np.generic]:
    """Calls a function, compiled for a level, on f32 or f64 arrays of equal length (and i32 exponents)."""
    if level == "aarch64" and platform.machine() != "aarch64":
        return emulated(name, *operands, lanes=lanes)
    kind = "vector" if lanes else "scalar"
    function = getattr(compiled(name, level, _element(operands[0])), f"{name}_{kind}")
    size = operands[0].size
    padded = [np.resize(o, -(-size // ELEMENTS) * ELEMENTS).reshape(-1, ELEMENTS) for o in operands]
    result = np.empty_like(padded[0])
    for row in range(len(result)):
        arrays = [*(p[row] for p in padded), result[row]]
        function(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
    return result.reshape(-1)[:size]


def available_levels() -> list[str]:
    """Returns the levels that this machine runs, directly or under qemu."""
    levels = []
    if platform.machine() in ("x86_64", "AMD64"):
        needs = {
            "x86-64-v2": {"sse4_2", "popcnt"},
            "x86-64-v3": {"avx2", "fma", "bmi2"},
            "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
        }
        levels += [level for level, need in needs.items() if need <= _processor_flags()]
    emulator = shutil.which("qemu-aarch64-static") and shutil.which("aarch64-linux-gnu-gcc")
    if platform.machine() == "aarch64" or emulator:
        levels.append("aarch64")
    return levels
