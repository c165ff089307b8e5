# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles PyTorch functions into programs whose calls have no more overhead than operators of PyTorch."""

from collections.abc import Callable, Sequence

import numpy as np
import repro_mlir
import torch
from case import Setting
from gradients import Function
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend


class _Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self._function(*arguments)


# The programs of this process by name: settings that differ in the number of threads share the captured program.
_programs: dict[str, repro_mlir.Program] = {}


def compiled(
    name: str,
    function: Function,
    arguments: Sequence[torch.Tensor],
    setting: Setting,
    attention_block: int | None = None,
) -> Callable[[], object]:
    """Returns a call of our compiled `function` on these arguments, into fixed outputs.

    Args:
      name: name of this function on arguments of these shapes.
      function: a function of tensors, which may compute gradients.
      arguments: contiguous example inputs, which are captured.
      attention_block: for `repro_mlir.capture`.
    Raises:
      ValueError: the result differs from PyTorch's beyond float32 accuracy.
    """
    if name not in _programs:
        _programs[name] = repro_mlir.capture(_Module(function), tuple(arguments), attention_block=attention_block)
    executable = CpuBackend(cached_compile(_programs[name].data, setting.level), setting.threads)
    inputs = [value.numpy() for value in arguments]
    outputs = [kind.empty() for kind in executable.outputs]
    executable.run([], inputs, outputs)
    expected = function(*arguments)
    for ours, theirs in zip(outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
        check_close(ours, theirs)
    return lambda: executable.run([], inputs, outputs)


def timed(program: repro_mlir.Program, inputs: Sequence[np.ndarray], setting: Setting) -> Callable[[], object]:
    """Returns a function that calls a stateless program on these arrays (bf16 as bits) and writes to fixed outputs."""
    executable = CpuBackend(cached_compile(program.data, setting.level), setting.threads)
    outputs = [kind.empty() for kind in executable.outputs]
    return lambda: executable.run([], inputs, outputs)


def check_close(ours: np.ndarray, theirs: torch.Tensor) -> None:
    """Raises ValueError if the results differ by more than rounding, which would make the times meaningless."""
    wanted = theirs.detach().double().numpy()
    difference = float(np.linalg.norm(ours.astype(np.float64) - wanted))
    scale = float(np.linalg.norm(wanted))
    if not difference <= 1e-4 * scale + 1e-12:
        raise ValueError(
            f"differs from PyTorch: expected an error of 1e-4 of {scale:.3g} at most, got {difference:.3g}"
        )
