# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""MLIR modules that other tools wrote, as files: linalg, TOSA and StableHLO, text and bytecode.

A child process reads and imports them (docs/security.md): `import_module` runs there alone.
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

# An operation, not a word of a comment or of a string; its name may be quoted.
_STABLEHLO = re.compile(rb'(?<![\w.!#%@^"$-])"?(?:stablehlo|chlo|vhlo)\.[a-z_0-9]+(?:"\s*\(|[ (<{])')
_COMMENT = re.compile(rb"//[^\n]*")


def is_module(path: str | Path) -> bool:
    """Whether a file looks like an MLIR module: by its name or its beginning. False where it cannot be read."""
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
    """The canonical program of an MLIR module, imported in a child process.

    Raises:
      ReproError: the first error of the import, with its line, or a module beyond the limits of strangers' programs.
    """
    data = read_regular(path, limits().text_bytes, follow=True)
    try:
        return sandbox.import_module(data, is_text=not data.startswith(_BYTECODE))
    except ReproError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from None


def import_module(data: bytes, lower_stablehlo: Callable[[bytes], bytes]) -> bytes:
    """The canonical program of a module, text or bytecode, as it is stored.

    The function is main, else the only public one. Without `repro.num_state` there is no state, and an argument or a
    result without a name is `arg0` or `result0`, by its number.

    Args:
      lower_stablehlo: gives linalg for a module in StableHLO, which our MLIR cannot parse.
    Raises:
      ReproError: the first error of the import, and which line it is about.
    """
    try:
        source = lower_stablehlo(data) if _is_stablehlo(data) else data
        return run_prepared_passes(source, _prepare, "import", write_module)
    except ReproError as error:
        # The parser has no name of the file.
        raise ReproError(re.sub(r'^"?-"?:(\d+)(?::\d+)?: ', r"line \1: ", str(error))) from None


def _is_stablehlo(data: bytes) -> bool:
    """Whether a module has operations of StableHLO, which our MLIR cannot parse."""
    if data.startswith(_BYTECODE):
        # A portable artifact names its producer, with its version, behind that of the bytecode.
        return b"StableHLO_v" in data[:_BEGINNING]
    return _STABLEHLO.search(_COMMENT.sub(b"", data)) is not None


def _prepare(module: ir.Module) -> str:
    """Names the function and its tensors; gives the pipeline for the dialects of the module."""
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
    found = _dialects(module)
    return _TOSA if "tosa" in found else IMPORT


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
