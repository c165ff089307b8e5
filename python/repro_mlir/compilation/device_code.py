# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles programs for GPUs and caches the code."""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.base.files.archive import archive_of
from repro_mlir.base.near_names import did_you_mean
from repro_mlir.base.progress import working
from repro_mlir.compilation.assembler import assemble, find_assembler
from repro_mlir.program import Program
from repro_mlir.runner.certificates import TENSOR_CORES, without_tensor_cores
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.plan import read_plan


def architectures_of(target: str) -> list[str]:
    """Returns the GPU architectures of a target such as "cuda", "cuda:sm_75,sm_90+tensor-cores" or "cuda+tensor-cores".

    The list is empty for a target that is not a GPU.

    Raises:
      ReproError: a GPU architecture is unknown.
    """
    from repro_mlir.compilation.gpu import architectures

    if target == "cuda":
        return architectures()
    if target == f"cuda{TENSOR_CORES}":
        return [name + TENSOR_CORES for name in architectures()]
    if not target.startswith("cuda:"):
        return []
    names = target.removeprefix("cuda:").split(",")
    for name in names:
        if without_tensor_cores(name) not in architectures():
            near = did_you_mean(name, architectures())
            raise ReproError(f"unknown GPU {name!r}, expected one of {', '.join(architectures())}{near}")
    return list(dict.fromkeys(names))


def compile_for(program: Program, architectures: Iterable[str], *, assembled: bool = True) -> list[TargetCode]:
    """Compiles a program for each architecture; the device code is cached on disk.

    Args:
      architectures: names such as "sm_90", or "sm_90+tensor-cores", whose code requires a certificate of the GPU.
      assembled: whether to include a cubin if ptxas is installed.
    Raises:
      ReproError: the program cannot be compiled.
    """
    from repro_mlir.compilation.cache import cached_code
    from repro_mlir.program import debugging
    from repro_mlir.sandbox import compile_device

    assembler = find_assembler() if assembled else None
    # The cubin depends on the version of the assembler, so that version is a part of the cache key.
    suffix = f" {assembler} {Path(assembler).stat().st_mtime_ns}" if assembler else ""
    codes = []
    for architecture in architectures:
        pipeline = f"builtin.module(gpu{{arch={architecture}}})"
        if not program.untrusted:
            debugging.dump_pipeline(program.data, pipeline, architecture)
        with working(f"compiling for {architecture}"):
            make = compile_device if program.untrusted else compile_data
            try:
                data = cached_code(
                    program.data, architecture + suffix, functools.partial(make, program.data, architecture, assembled)
                )
            except ReproError as error:
                if program.untrusted:
                    raise
                raise ReproError(f"{error}{debugging.how_to_repeat(program.text, pipeline)}") from None
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        plan = read_plan(members["plan"], "gpu", architecture)
        codes.append(TargetCode(architecture, members.get("cubin"), members["ptx"], plan, members["constants"]))
    return codes


def compile_data(data: bytes, architecture: str, assembled: bool) -> bytes:
    """Compiles a program; returns the code as the bytes of a zip file, which is the format of the cache. Raises
    ReproError if the compilation fails."""
    from repro_mlir.compilation.gpu import compile

    try:
        made = compile(data, architecture)
    except CompileError as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise ReproError(f"cannot compile the program for {architecture}: {reason}") from None
    members = {"ptx": made.ptx.encode(), "plan": made.plan, "constants": made.constants}
    if assembled and find_assembler():
        members["cubin"] = assemble(made.ptx, without_tensor_cores(architecture))
    return archive_of(members)
