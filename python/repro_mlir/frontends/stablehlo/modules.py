# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers whole StableHLO modules that other tools wrote, as text or portable artifacts."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from repro_mlir.frontends.stablehlo.calls import functions
from repro_mlir.frontends.stablehlo.context import new_context
from repro_mlir.frontends.stablehlo.errors import CaptureError
from repro_mlir.frontends.stablehlo.lowering import lower
from repro_mlir.program.entry_point import entry_point


def lower_module(data: bytes) -> str:
    """Lowers a module as `lower` does; the entry point is main or the only public function.

    Without `repro.num_state`, the module has no state; an argument or result without `repro.name` is named `arg0` or
    `result0` by its number.

    Args:
      data: MLIR text, or a portable artifact of StableHLO (VHLO bytecode).
    Raises:
      CaptureError: the data is not a StableHLO module; an operation or a type is not supported.
    """
    with new_context() as context:
        try:
            if data.startswith(b"ML\xefR"):
                module = stablehlo.deserialize_portable_artifact(context, data)
            else:
                module = ir.Module.parse(data.decode())
        except (ir.MLIRError, ValueError) as error:
            raise CaptureError(f"expected a StableHLO module: {(str(error).splitlines() or [''])[0]}") from None
        main = entry_point(ir, functions(module))
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        num_state = 0
        if "repro.num_state" in main.attributes:
            num_state = ir.IntegerAttr(main.attributes["repro.num_state"]).value
        arguments = _names(main, "arg_attrs", "arg", len(kind.inputs))
        results = _names(main, "res_attrs", "result", len(kind.results))
        text = str(module.operation.get_asm(enable_debug_info=True))
    return lower(text, num_state, arguments, results)


def _names(main: Any, key: str, role: str, count: int) -> list[str]:
    names = [f"{role}{number}" for number in range(count)]
    if key in main.attributes:
        for number, entry in enumerate(ir.ArrayAttr(main.attributes[key])):
            if "repro.name" in ir.DictAttr(entry):
                names[number] = ir.StringAttr(ir.DictAttr(entry)["repro.name"]).value
    return names
