# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks that ptxas accepts the PTX for every architecture, and that no kernel spills registers.

test/python/coverage checks this for PyTorch's operators, and test/python/examples/test_golden.py for the examples.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from repro_mlir.compilation import gpu as device_code
from support import assembling, catalogue

BATCH = 20
"""The number of modules per call of ptxas."""


def check(cases: Sequence[catalogue.Case], arch: str) -> None:
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        modules = [device_code.compile(case.program, arch).ptx for case in batch]
        assembling.check(modules, arch, [case.name for case in batch])


@pytest.mark.parametrize("arch", device_code.architectures())
@pytest.mark.exhaustive("sm_86", "sm_89", "sm_100")
def test_representatives(arch: str) -> None:
    check([case for case in catalogue.cases() if case.name in catalogue.REPRESENTATIVES], arch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", device_code.architectures())
def test_catalogue(arch: str) -> None:
    check(catalogue.cases(), arch)


def test_a_spill_is_found() -> None:
    """Checks that a kernel is rejected if it needs more registers than a thread has."""
    loads = "".join(f"ld.volatile.global.u32 %r{i}, [%p+{4 * i}];\n" for i in range(400))
    stores = "".join(f"st.volatile.global.u32 [%p+{4 * i}], %r{399 - i};\n" for i in range(400))
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry greedy(.param .u64 greedy_param_0)
{{
.reg .b64 %p;
.reg .b32 %r<400>;
ld.param.u64 %p, [greedy_param_0];
{loads}{stores}ret;
}}
"""
    with pytest.raises(AssertionError, match=r"the one: greedy spills \d+ bytes on sm_90"):
        assembling.check([text], "sm_90", ["the one"])


def test_text_that_ptxas_rejects() -> None:
    with pytest.raises(AssertionError, match=r"sm_75: .*nothing"):
        assembling.check([".version 6.4\n.target sm_75\n.address_size 64\n.entry k() { nothing; }\n"], "sm_75")
