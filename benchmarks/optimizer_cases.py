# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmark of an AdamW update of 10 million parameters."""

import torch
from case import OURS, Case, Contestants, Setting
from gradients import GivenGradient
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.capture.programs import training_program

_TENSORS, _SIZE = 10, (1000, 1000)
_SETTINGS = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}


class _Parameters(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.values = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(_SIZE)) for _ in range(_TENSORS))

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        losses = [GivenGradient.apply(value, gradient) for value, gradient in zip(self.values, gradients, strict=True)]
        return torch.stack(losses).sum()


def _build(setting: Setting) -> Contestants:
    torch.manual_seed(0)
    model = _Parameters()
    gradients = tuple(torch.randn(_SIZE) for _ in range(_TENSORS))
    ours = torch.optim.AdamW(model.parameters(), **_SETTINGS)
    program, imported = training_program(model, None, ours, gradients, CaptureOptions())
    executable = CpuBackend(cached_compile(program.data, setting.level), setting.threads)
    states = list(program.initial_state().values())
    inputs = imported.read_inputs(gradients)
    outputs = [kind.empty() for kind in executable.outputs]

    def peer(**options: bool):
        copies = [torch.nn.Parameter(value.detach().clone()) for value in model.values]
        for copy, gradient in zip(copies, gradients, strict=True):
            copy.grad = gradient
        return torch.optim.AdamW(copies, **_SETTINGS, **options).step

    return {
        OURS: lambda: executable.run(states, inputs, outputs),
        "fused": peer(fused=True),
        "foreach": peer(foreach=True),
    }


def cases() -> list[Case]:
    """Returns one benchmark. Each step reads and writes the parameters and both moments, and reads the gradients: 7
    accesses per element."""
    size = _TENSORS * _SIZE[0] * _SIZE[1]
    return [Case("AdamW 10M", "optimizer", f"{_TENSORS} x {list(_SIZE)}", _build, bytes=4.0 * 7 * size)]
