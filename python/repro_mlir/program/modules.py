# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports MLIR module files of other tools: linalg, TOSA and StableHLO, as text or bytecode.

A child process reads and imports the modules (docs/verification/security.md): `import_module` runs only there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro_mlir import sandbox
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular, read_regular
from repro_mlir.base.limits import limits
from repro_mlir.program.canonical import write_module
from repro_mlir.program.entry_point import entry_point
from repro_mlir.program.importing import IMPORT, run_prepared_passes

if TYPE_CHECKING:
    from repro_mlir import ir

_BYTECODE = b"ML\xefR"
_BEGINNING = 4096
_TOSA = "import-tosa,canonical"

# Matches an operation, whose name may be quoted, but not a word in a string; comments are removed before the search.
_STABLEHLO = re.compile(rb'(?<![\w.!#%@^"$-])"?(?:stablehlo|chlo|vhlo)\.[a-z_0-9]+(?:"\s*\(|[ (<{])')
_COMMENT = re.compile(rb"//[^\n]*")


def is_module(path: str | Path) -> bool:
    """Returns whether a file looks like an MLIR module by its name or beginning; False if it cannot be read."""
    try:
        with open_regular(path, follow=True) as file:
            beginning = file.read(_BEGINNING)
    except (OSError, ReproError, ValueError):
        return False
    if beginning.startswith(_BYTECODE):
        return True
    is_text = b"\0" not in beginning
    return is_text and (Path(path).suffix == ".mlir" or b"func.func" in beginning)


def read_module_file(path: str | Path) -> bytes:
    """Imports an MLIR module file in a child process; returns the stored canonical program.

    Raises:
      ReproError: the import fails (the message is its first error, with its line), or the module exceeds the limits for
        untrusted programs.
    """
    data = read_regular(path, limits().text_bytes, follow=True)
    try:
        return sandbox.import_module(data, is_text=not data.startswith(_BYTECODE))
    except ReproError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from None


def import_module(data: bytes, lower_stablehlo: Callable[[bytes], bytes]) -> bytes:
    """Imports a module in text or bytecode; returns the stored canonical program.

    The program is the function `main`, else the only public function. Without `repro.num_state` there is no state. An
    argument or result without a name gets a name by its position, such as `arg0` or `result0`.

    Args:
      data: the module.
      lower_stablehlo: a function that lowers a StableHLO module, which our MLIR build cannot parse, to linalg.
    Raises:
      ReproError: the import fails; the message is the first error and its line.
    """
    try:
        source = lower_stablehlo(data) if _is_stablehlo(data) else data
        return run_prepared_passes(source, _prepare, "import", write_module)
    except ReproError as error:
        # The parser does not know the file name and reports the location as "-":LINE:COLUMN.
        raise ReproError(re.sub(r'^"?-"?:(\d+)(?::\d+)?: ', r"line \1: ", str(error))) from None


def _is_stablehlo(data: bytes) -> bool:
    """Returns whether a module contains StableHLO operations, which our MLIR build cannot parse."""
    if data.startswith(_BYTECODE):
        # A portable artifact contains the name and version of its producer after the bytecode version.
        return b"StableHLO_v" in data[:_BEGINNING]
    return _STABLEHLO.search(_COMMENT.sub(b"", data)) is not None


def _prepare(module: ir.Module) -> str:
    """Names the function and its tensors; returns the pipeline for the dialects of the module."""
    from repro_mlir import ir

    functions = [each for each in module.body.operations if each.operation.name == "func.func"]
    main = entry_point(ir, [each.operation for each in functions])
    attributes = main.attributes
    attributes["sym_name"] = ir.StringAttr.get("main")
    for other in functions:
        if other.operation != main:
            other.operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
    if "repro.num_state" not in attributes:
        attributes["repro.num_state"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    kind = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)
    for key, role, count in (("arg_attrs", "arg", len(kind.inputs)), ("res_attrs", "result", len(kind.results))):
        given = [ir.DictAttr(each) for each in ir.ArrayAttr(attributes[key])] if key in attributes else []
        attributes[key] = ir.ArrayAttr.get([_named(ir, given[i : i + 1], f"{role}{i}") for i in range(count)])
    return _TOSA if "tosa" in _dialects(module) else IMPORT


def _named(ir: Any, given: list[Any], name: str) -> Any:
    entries = {each.name: each.attr for attributes in given for each in attributes}
    return ir.DictAttr.get({"repro.name": ir.StringAttr.get(name)} | entries)


def _dialects(module: ir.Module) -> set[str]:
    from repro_mlir import ir

    found: set[str] = set()

    def look(operation: Any) -> Any:
        found.add(operation.name.split(".")[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    return found
