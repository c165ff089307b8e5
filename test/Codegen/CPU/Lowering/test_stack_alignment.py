# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that vectors that are spilled to the stack do not cross cache lines."""

from __future__ import annotations

import re

import pytest
import repro_mlir
import torch
from repro_mlir.compilation import cpu


@pytest.mark.parametrize(("level", "size"), [("x86-64-v3", 32), ("x86-64-v4", 64)])
def test_spilled_vectors_are_aligned(level: str, size: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(1024, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(16, 8, 8, 8), torch.randint(4, (16,))
    program = repro_mlir.capture(model, torch.nn.functional.cross_entropy, optimizer, batch)
    spills = re.findall(rf"\t(\w+)\s+%[yz]mm\d+, .*# {size}-byte Spill", cpu.analyze(program.data, level).assembly)
    assert spills
    # These instructions, unlike vmovups, fault at unaligned addresses, so code that spills with them aligns the stack.
    assert {spill.rstrip("6432") for spill in spills} <= {"vmovaps", "vmovapd", "vmovdqa"}


@pytest.mark.parametrize("columns", [33, 64])
def test_code_that_counts_aligns_the_stack_too(columns: int) -> None:
    """Code that models the accumulators of matrix units also spills vectors."""
    left, right = torch.zeros(64, 64, dtype=torch.bfloat16), torch.zeros(64, columns, dtype=torch.bfloat16)
    program = repro_mlir.set_accumulators(repro_mlir.capture(_Product(), (left, right)), "hopper")
    assert "64-byte Spill" in cpu.analyze(program.data, "x86-64-v4").assembly


class _Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.mm(x.float(), y.float())
