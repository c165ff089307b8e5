# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a child process does with program text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from .. import ir
from .._mlir_libs import _repro
from ..errors import ReproError
from ..reference.errors import ProgramError
from ..reference.program import parse_type


def read(text: str, *, constant_bytes: int) -> bytes:
    """The text of a canonical program as MLIR prints it, which has been parsed and verified as well.

    Raises:
      ReproError: text that is no canonical program, or constants of more bytes.
    """
    with ir.Context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            _check_constants(module, constant_bytes)
            identity = _repro.program_hash(module)
            printed = str(module.operation.get_asm(enable_debug_info=True))
            # Whoever asked reads the printed text in the same way.
            if _repro.program_hash(ir.Module.parse(printed)) != identity:
                raise ReproError("the program is another one once it is printed")
        except (ir.MLIRError, ProgramError, ValueError) as error:
            raise ReproError(" ".join(line.strip() for line in str(error).splitlines()[:2])) from None
    return printed.encode()


def _check_constants(module: Any, limit: int) -> None:
    """ReproError where the constants have more bytes than `limit`: a splat takes none in the text."""
    total = 0

    def visit(operation: Any) -> Any:
        nonlocal total
        if operation.name == "arith.constant" and len(operation.results) == 1:
            kind = parse_type(str(operation.results[0].type))
            total += math.prod(kind.shape or ()) * -(-kind.element.width // 8)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if total > limit:
        raise ReproError(f"constants of {total:,} bytes, expected at most {limit:,}")


def compile_native(text: str, *, level: str) -> bytes:
    """An artifact. ValueError with the first error of the compiler."""
    from ..runtime.compilation import compile

    return compile(text, level)


def compile_device(text: str, *, architecture: str, assembled: bool) -> bytes:
    """Device code as the cache keeps it. ReproError where there is none."""
    from ..gpu_code import compile_text

    return compile_text(text, architecture, assembled)


WORK: dict[str, Callable[..., bytes]] = {
    "read": read,
    "compile_native": compile_native,
    "compile_device": compile_device,
}


def perform(request: bytes) -> bytes:
    """Does what a request says, a line of JSON and then the text: gives "+" and the result, or "-" and an error."""
    line, _, text = request.partition(b"\n")
    given = json.loads(line)
    try:
        return b"+" + WORK[given["work"]](text.decode(), **given["options"])
    except MemoryError:
        raise
    except Exception as error:
        # An error of ours in the reader is an error of the text too: the caller can do nothing else about it.
        reason = str(error) if isinstance(error, (ReproError, ValueError)) else f"{type(error).__name__}: {error}"
        return b"-" + (reason.splitlines() or [type(error).__name__])[0].encode(errors="replace")
