# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks that loads are not scheduled so far ahead of a tile's multiply-adds that the accumulators spill to the
stack."""

from __future__ import annotations

import re

import pytest
import repro_mlir
import torch
from repro_mlir.compilation import cpu
from repro_mlir.roofline.cpu.assembly import read_assembly

_THROUGH_STACK = re.compile(r"vmov\w+\s.*%[yz]mm.*\(%rsp\)|vmov\w+\s.*\(%rsp\).*%[yz]mm")
# Functions that run fewer multiply-adds per step than this hardly affect the speed, so they are not checked.
_MULTIPLY_ADDS = 400_000


@pytest.mark.parametrize(
    ("level", "channels", "size"), [("x86-64-v3", (3, 16), 32), ("x86-64-v3", (16, 8), 14), ("x86-64-v4", (16, 32), 14)]
)
def test_sums_of_convolutions_stay_in_registers(level: str, channels: tuple[int, int], size: int) -> None:
    """Covers forward convolutions, and gradients of the weight, where each row of the weight has an address of its
    own."""
    inputs, outputs = channels
    model = torch.nn.Sequential(
        torch.nn.Conv2d(inputs, outputs, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(outputs * size**2, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(16, inputs, size, size), torch.randint(4, (16,))
    program = repro_mlir.capture(model, torch.nn.functional.cross_entropy, optimizer, batch)
    shares = []
    for blocks in read_assembly(cpu.analyze(program.data, level).assembly).values():
        code = [(block.runs, each) for block in blocks for each in block.instructions]
        adds = sum(runs for runs, each in code if each.startswith("vfmadd"))
        if adds > _MULTIPLY_ADDS:
            shares.append(sum(runs for runs, each in code if _THROUGH_STACK.match(each)) / adds)
    assert len(shares) == 2
    assert max(shares) < 0.02
