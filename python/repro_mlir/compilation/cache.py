# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Caches compiled code on disk (base/files/cache.py)."""

from collections.abc import Callable

from repro_mlir.base.files.cache import cached
from repro_mlir.compilation.cpu import Analysis, analyze, compile, native_level
from repro_mlir.program.canonical import compiler_identity
from repro_mlir.sandbox import analyze_native, compile_native


def cached_code(program: bytes, target: str, make: Callable[[], bytes]) -> bytes:
    """Returns the code that `make` compiles from a stored program for a target, or the code from the cache if it has
    been compiled before."""
    return cached([b"code", compiler_identity(), target.encode(), program], make)


def cached_compile(program: bytes, level: str = "native", *, jobs: int | None = None, untrusted: bool = False) -> bytes:
    """Compiles like `cpu.compile`, or returns the artifact from the cache if it has been compiled before.

    Args:
      program: a stored canonical program.
      level, jobs: as for `cpu.compile`.
      untrusted: whether to compile in a child process with limits (see sandbox/), as for untrusted programs.
    """
    if level == "native":
        level = native_level()
    if untrusted:
        return cached_code(program, level, lambda: compile_native(program, level))
    return cached_code(program, level, lambda: compile(program, level, jobs=jobs))


def cached_analysis(program: bytes, level: str, *, untrusted: bool = False) -> Analysis:
    """Analyzes like `cpu.analyze`, or returns the analysis from the cache.

    Args:
      program, untrusted: as for `cached_compile`.
      level: one of `levels()`.
    """

    def make() -> bytes:
        return analyze_native(program, level) if untrusted else analyze(program, level).to_bytes()

    return Analysis.from_bytes(cached_code(program, f"analysis {level}", make))
