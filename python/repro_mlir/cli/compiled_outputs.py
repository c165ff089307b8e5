# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The kinds of output of repro compile: a program file, a bundle for GPUs, and an object for a microcontroller."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import check_can_write, check_empty_folder, make_empty_folder, write_file
from repro_mlir.cli.file_kinds import MODULE, ONNX, SAVED_MODEL, FileKind
from repro_mlir.execute.executable import MICROCONTROLLER, check_runs, check_target, compile

if TYPE_CHECKING:
    from repro_mlir.program import Program


def output_of(options: argparse.Namespace) -> ProgramFile:
    """Returns the output that the target determines. Raises ReproError if the target or an option is wrong."""
    from repro_mlir.compilation.device_code import architectures_of

    if architectures := architectures_of(options.target or ""):
        return _Bundle(options, architectures)
    if options.steps or options.expect or options.sign:
        raise ReproError("--steps, --expect and --sign are for bundles: expected --target cuda or cuda:sm_75,sm_90")
    return _StepLibrary(options) if options.target == MICROCONTROLLER else ProgramFile(options)


class ProgramFile:
    """A program file, whose program is also compiled if there is a target."""

    reader: str | None = "inspect"
    """The command that reads the output."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    def check(self, kind: FileKind | None) -> None:
        """Raises ReproError unless the output can be made from a file of this kind, and be written. Creates nothing."""
        if self.options.target:
            check_target(self.options.target, [MICROCONTROLLER])
            check_runs(self.options.target)
        check_can_write(self.options.output, ".repro")

    def write(self, program: Program, steps: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
        """Writes the output.

        Args:
          steps: the inputs of the first steps of a script.

        Returns:
          The facts that the command reports.
        """
        if self.options.target:
            compile(program, self.options.target)
        program.save(self.options.output)
        return {"program": program.hash, "file": self.options.output}

    def time_passes(self, program: Program) -> None:
        """Compiles the program and prints the time that each pass takes."""
        from repro_mlir.compilation import cores, cpu, gpu
        from repro_mlir.execute.ptx import DEFAULT_ARCHITECTURE

        kind, _, variant = (self.options.target or "").partition(":")
        if kind == "cpu":
            cpu.compile(program.data, variant or "native", timing=True)
        elif kind == "cores":
            cores.compile(program.data, cores.read_machine(variant), cpu.native_level(), timing=True)
        elif kind == "ptx-emulator":
            gpu.compile(program.data, variant or DEFAULT_ARCHITECTURE, timing=True)


class _Bundle(ProgramFile):
    reader = "run-bundle"

    def __init__(self, options: argparse.Namespace, architectures: list[str]) -> None:
        from repro_mlir.verification.receipts.signing import PrivateKey

        super().__init__(options)
        self._architectures = architectures
        self._signer = PrivateKey(options.sign) if options.sign else None

    def check(self, kind: FileKind | None) -> None:
        check_can_write(self.options.output)
        if kind in (MODULE, ONNX, SAVED_MODEL):
            raise ReproError(f"{self.options.script}: expected a script, as a bundle records the inputs of its steps")

    def write(self, program: Program, steps: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
        from repro_mlir.bundle.writer import expect, write_bundle
        from repro_mlir.compilation.device_code import compile_for

        path, seed = self.options.output, self.options.seed
        codes = compile_for(program, self._architectures)
        expected = expect(program, steps) if self.options.expect else None
        write_bundle(path, program, codes, steps=steps, expected=expected, seed=seed, sign=self._signer)
        report = {
            "program": program.hash,
            "file": path,
            "bytes": os.path.getsize(path),
            "targets": ", ".join(f"{code.architecture} ({'PTX and cubin' if code.cubin else 'PTX'})" for code in codes),
            "steps": len(steps),
        }
        if expected is not None:
            report["state"] = expected.state[len(steps)]
        return report

    def time_passes(self, program: Program) -> None:
        from repro_mlir.compilation import gpu

        for architecture in self._architectures:
            gpu.compile(program.data, architecture, timing=True)


class _StepLibrary(ProgramFile):
    """An object and a C header for a microcontroller, in a folder."""

    reader = None

    def check(self, kind: FileKind | None) -> None:
        check_empty_folder(self.options.output)

    def write(self, program: Program, steps: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
        from repro_mlir.compilation import microcontroller

        library = microcontroller.compile(program, self._name())
        folder = make_empty_folder(self.options.output)
        files = {f"{library.name}.o": library.object, f"{library.name}.h": library.header.encode()}
        for file, data in files.items():
            write_file(folder / file, data)
        return {
            "program": program.hash,
            "files": ", ".join(str(folder / file) for file in files),
            "code": library.code,
            "constants": library.constants,
            "memory": library.memory,
        }

    def time_passes(self, program: Program) -> None:
        from repro_mlir.compilation import microcontroller

        microcontroller.compile(program, self._name(), timing=True)

    def _name(self) -> str:
        name = re.sub(r"\W", "_", Path(self.options.script).stem, flags=re.ASCII)
        return name if name[:1].isalpha() else f"program_{name}"
