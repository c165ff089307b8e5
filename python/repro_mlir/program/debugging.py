# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Debugging aids for the compiler: dumps of the program after each pass, and files that reproduce an error.

docs/contributors/debugging.md describes both. Untrusted programs have no such aids, because they are compiled in child
processes.
"""

from __future__ import annotations

import itertools
import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from repro_mlir import ir, passmanager
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import make_folder
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.program.canonical import from_bytes

VARIABLE = "REPRO_DUMP"
"""The environment variable that names the folder of the dumps."""


def is_dumping() -> bool:
    """Returns whether passes are dumped. If so, the passes must run: their cached results must not be used."""
    return bool(os.environ.get(VARIABLE))


def dump_after_passes(manager: passmanager.PassManager, stage: str) -> None:
    """Makes `manager` write the module after each pass if REPRO_DUMP names a folder.

    Args:
      manager: a pass manager that has not run.
      stage: the suffix of the name of the new folder in REPRO_DUMP, after a sequence number.
    Raises:
      ReproError: the folder cannot be written.
    """
    root = os.environ.get(VARIABLE)
    if root:
        manager.enable_ir_printing(tree_printing_dir_path=str(_new_folder(Path(root), stage)), enable_debug_info=True)


def dump_pipeline(data: bytes, pipeline: str, stage: str) -> None:
    """Runs a pipeline on a program only to write dumps, and ignores failures; does nothing without REPRO_DUMP.

    Args:
      data: a canonical program.
      pipeline: a pipeline in the syntax of `repro-opt --pass-pipeline`.
      stage: as for `dump_after_passes`.
    """
    if is_dumping():
        _succeeds(from_bytes(data), pipeline, stage)


def how_to_repeat(text: str, pipeline: str, options: Sequence[str] = ()) -> str:
    """Creates a file with a module that the compiler has rejected, in the folder REPRO_DUMP or else in the temporary
    folder.

    Args:
      text: the module.
      pipeline: the pipeline that failed, as for `dump_pipeline`.
      options: further options of repro-opt.
    Returns:
      The end of an error message. This text contains the command that reproduces the error, or only the path of the
      file if the pipeline succeeds when it runs alone.
    """
    folder = os.environ.get(VARIABLE) or None
    try:
        if folder:
            make_folder(folder)
        descriptor, file = tempfile.mkstemp(".mlir", "repro-", folder)
    except (OSError, ReproError) as error:
        return f"; cannot write a file to repeat it: {error}"
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    if not options and _succeeds(text, pipeline, None):
        return f"; the program is in {file}"
    return f"; to repeat it: {shlex.join(['repro-opt', *options, f'--pass-pipeline={pipeline}', file])}"


def _new_folder(root: Path, stage: str) -> Path:
    try:
        make_folder(root)
        for number in itertools.count():
            folder = root / f"{number:03}-{stage}"
            if not list(root.glob(f"{number:03}-*")):
                folder.mkdir()
                return folder
    except (OSError, ReproError) as error:
        raise ReproError(f"{VARIABLE}: {error}") from None
    raise AssertionError("unreachable")


@float_environment()
def _succeeds(text: str, pipeline: str, stage: str | None) -> bool:
    with ir.Context() as context, ir.Location.unknown():
        context.attach_diagnostic_handler(lambda _: True)
        try:
            module = ir.Module.parse(text)
            manager = passmanager.PassManager.parse(pipeline)
            if stage is not None:
                dump_after_passes(manager, stage)
            manager.run(module.operation)
        except (ir.MLIRError, ValueError):
            return False
    return True
