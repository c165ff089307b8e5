# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro-verify-core-mapping refuses plans of many cores that have no race, but compute something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from repro_mlir import ir
from repro_mlir.passmanager import PassManager

PLAN = (Path(__file__).parent / "verify-core-mapping.mlir").read_text().split("// -----")[0]
LOCAL = "memref<4xf32, #local>"
RUN = f"    cores.run @tile_0(read %0, write %1) : {LOCAL}, {LOCAL}\n"


def verify(text: str) -> None:
    """Runs both verifications. Raises MLIRError with the diagnostics."""
    with ir.Context() as context:
        context.attach_diagnostic_handler(lambda _: True)
        module = ir.Module.parse(text)
        PassManager.parse("builtin.module(repro-verify-cores,repro-verify-core-mapping)").run(module.operation)


def test_the_plan_is_accepted() -> None:
    verify(PLAN)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # The operand is another box of the same buffer.
        ("cores.copy %x0 to %0", "cores.copy %x1 to %0", "to hold bytes 0 to 1 of argument 0 '' from before the step, "
         "got bytes 16 to 17"),
        # The input is shifted by one element.
        ("%x[16] :", "%x[12] :", "to hold bytes 16 to 17 of argument 0 '' from before the step, got bytes 12 to 13"),
        # The result of the first launch where that of the second one belongs.
        ("cores.copy %0 to %y0", "cores.copy %1 to %y0", "expected bytes 0 to 1 of argument 1 '' from launch 1"),
        ("cores.copy %0 to %y1", "cores.copy %0 to %y0", "expected bytes 0 to 1 of argument 1 ''|is in a race"),
        # A tile twice, a tile of another launch first, no tile.
        (RUN, RUN + RUN, "got bytes 0 to 1 of argument 0"),
        ("(read %1, write %0)", "(read %0, write %1)", "got bytes 0 to 1 of argument 0 '' from before the step"),
        (f"    cores.run @tile_0(read %1, write %0) : {LOCAL}, {LOCAL}\n", "", "expected more tiles on core"),
        # The message arrives elsewhere, or is another one.
        ("at 64 counter", "at 80 counter", "got an undefined byte"),
        ("cores.send %2 to", "cores.send %1 to", "got bytes 0 to 1 of the arena from launch 0"),
        # The tile's function computes something else than its kernel.
        ("%n = arith.negf %a", "%n = arith.addf %a, %a", "expected the function of tile"),
        # The launches are other ones.
        ("@negate(%x, %t) {cores.partition = array<i64: 2>, cores.place = array<i64: 0, 1>",
         "@negate(%x, %t) {cores.partition = array<i64: 2>, cores.place = array<i64: 1, 0>", "to hold bytes 16 to 17"),
        ("inputs(%x: memref<8xf32>) outputs(%y: memref<8xf32>) arena(%a: memref<32xi8>) live",
         'inputs(%x: memref<8xf32> {repro.name = "x"}) outputs(%y: memref<8xf32>) arena(%a: memref<32xi8>) live',
         "expected the states, inputs, outputs and messages of the launch plan"),
        ("arena(%a: memref<32xi8>) messages", "arena(%a: memref<16xi8>) messages", "expected an arena of at least 32"),
    ],
)  # fmt: skip
def test_a_changed_plan_is_refused(old: str, new: str, message: str) -> None:
    assert old in PLAN
    # The tile's function is the second one with this line.
    text = new.join(PLAN.rsplit(old, 1)) if "arith" in old else PLAN.replace(old, new, 1)
    with pytest.raises(ir.MLIRError, match=message):
        verify(text)
