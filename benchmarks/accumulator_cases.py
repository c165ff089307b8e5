# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of matrix products that use an accumulator class of tensor cores (M4), against our own float32
products."""

import numpy as np
import repro_mlir
import torch
from case import OURS, PLAIN, Case, Contestants, Setting
from programs import timed

SIZE = 1024
CLASSES = {
    "hopper": torch.bfloat16,
    "ampere": torch.bfloat16,
    "volta": torch.float16,
}


class _Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        # The operands are converted to f32 first, because a training step multiplies f16 or bf16 values in f32.
        return torch.mm(x.float(), y.float())


def _build(name: str, setting: Setting) -> Contestants:
    generator = torch.Generator().manual_seed(0)
    wide = tuple(torch.randn(SIZE, SIZE, generator=generator).to(CLASSES[name]).float() for _ in range(2))
    narrow = tuple(x.to(CLASSES[name]) for x in wide)
    program = repro_mlir.set_accumulators(repro_mlir.capture(_Product(), narrow), name)
    bits = [x.numpy() if x.dtype == torch.float16 else x.view(torch.int16).numpy().view(np.uint16) for x in narrow]
    plain = repro_mlir.capture(_Product(), wide)
    return {
        OURS: timed(program, bits, setting),
        PLAIN: timed(plain, [x.numpy() for x in wide], setting),
    }


def cases() -> list[Case]:
    """Returns one benchmark of a square matrix product for each accumulator class (M4)."""
    return [
        Case(
            f"accumulator {name} {SIZE}",
            f"accumulator {name}",
            f"[{SIZE}, {SIZE}] x [{SIZE}, {SIZE}] {str(of).removeprefix('torch.')}",
            lambda setting, name=name: _build(name, setting),
            flops=2.0 * SIZE**3,
        )
        for name, of in CLASSES.items()
    ]
