# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M5) Contractions of block-scaled tensors that model accumulators of matrix units have the bits of the reference
interpreter on GPUs."""

from __future__ import annotations

import pytest
from repro_mlir.compilation import gpu as device_code
from support import accumulated_blocks, assembling, device_kit
from support.accumulated_blocks import DRAWS, SUMS


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.diagonal
def test_sums_M5(name: str, draw: str) -> None:
    case = accumulated_blocks.product(f"{name}-{draw}", SUMS[name], (5, 9, 149), DRAWS[draw])
    device_kit.check(case.program, case.inputs, "sm_90")


@pytest.mark.parametrize("number", range(20))
@pytest.mark.diagonal(number=range(5))
def test_random_sums_M5(number: int) -> None:
    case = accumulated_blocks.contraction(100 + number)
    device_kit.check(case.program, case.inputs, "sm_75", checked=number % 5 == 0)


@pytest.mark.parametrize("arch", device_code.architectures())
@pytest.mark.diagonal(arch=["sm_75", "sm_100"])
def test_assembler(arch: str) -> None:
    # Excludes exact sums, which keep the digits of a sum in local memory: ptxas would count these as spills.
    names = [name for name, chosen in SUMS.items() if chosen.by.fraction is not None]
    cases = [accumulated_blocks.product(name, SUMS[name], (9, 17, 100)) for name in names]
    assembling.check([device_code.compile(case.program, arch).ptx for case in cases], arch, names)
