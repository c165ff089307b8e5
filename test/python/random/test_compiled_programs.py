# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R1), (R2) A generator draws the bits that compiled programs draw, in every step and on every target."""

from __future__ import annotations

from typing import Any

import pytest
import repro_mlir
from repro_mlir import random

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
F = torch.nn.functional

SEED, STEP = 2**64 - 5, 2**32 - 3


class Draws(torch.nn.Module):
    """Draws once at each of the sites 0 to 8."""

    def forward(self, x: Any, narrow: Any) -> tuple[Any, ...]:
        return (
            torch.rand(3, 5),
            torch.randn(4, 7),
            F.dropout(x, 0.3, True),
            torch.randint(-3, 9, (6,)),
            torch.randperm(8),
            torch.randn(5, dtype=torch.float64),
            torch.rand(9, dtype=torch.bfloat16),
            torch.randn(5, dtype=torch.float16),
            F.dropout(narrow, 0.1, True),
        )


def drawn(x: Any, narrow: Any, generator: random.Generator) -> tuple[Any, ...]:
    """Returns what the model returns, drawn from a generator."""
    keywords: dict[str, Any] = {"generator": generator, "device": "cpu"}
    return (
        random.rand((3, 5), **keywords),
        random.randn((4, 7), **keywords),
        random.dropout(x, 0.3, generator=generator),
        random.randint(-3, 9, 6, **keywords),
        random.randperm(8, **keywords),
        random.randn(5, generator=generator, dtype=torch.float64),
        random.rand(9, generator=generator, dtype=torch.bfloat16),
        random.randn(5, generator=generator, dtype=torch.float16),
        random.dropout(narrow, 0.1, generator=generator),
    )


class Foreign(torch.nn.Module):
    """Draws from a generator of `repro_mlir.random`."""

    def forward(self, x: Any) -> Any:
        return random.dropout(x, 0.3, generator=random.Generator(1))


def test_a_draw_from_a_generator_in_a_captured_step_is_an_error() -> None:
    with pytest.raises(repro_mlir.ReproError, match="expected random functions of the framework"):
        repro_mlir.capture(Foreign(), torch.ones(3))
    assert random.rand(1, generator=random.Generator(1)).size == 1


@pytest.fixture(scope="module")
def case() -> tuple[Any, Any, Any]:
    x = random.randn((4, 6), generator=random.Generator(1), device="cpu")
    narrow = random.randn((4, 6), generator=random.Generator(2), dtype=torch.bfloat16)
    return repro_mlir.capture(Draws(), (x, narrow)), x, narrow


@pytest.mark.parametrize("target", ["cpu", "reference", "ptx-emulator"])
def test_a_generator_draws_what_a_compiled_program_draws(case: tuple[Any, Any, Any], target: str) -> None:
    program, x, narrow = case
    executable = repro_mlir.compile(program, target, 1)
    state = executable.program.initial_state()
    state["seed"][...], state["step"][...] = SEED - 2**64, STEP
    generator = random.Generator(SEED, step=STEP)
    for step in range(2):
        _, outputs = executable(state, x, narrow)
        wanted = drawn(x, narrow, generator)
        assert generator.site == len(outputs) == len(wanted) == 9
        for site, (found, tensor) in enumerate(zip(outputs.values(), wanted, strict=True)):
            assert found.dtype == tensor.dtype and torch.equal(found, tensor), (step, site)
            if tensor.is_floating_point():
                assert torch.equal(found.signbit(), tensor.signbit()), (step, site)
        generator.next_step()
