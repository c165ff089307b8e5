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


# The captured programs by name. Settings that differ only in the number of threads share a program.
_programs: dict[str, repro_mlir.Program] = {}


def compiled(
    name: str,
    function: Function,
    arguments: Sequence[torch.Tensor],
    setting: Setting,
    attention_block: int | None = None,
) -> Callable[[], object]:
    """Compiles `function`. Returns a function that calls the program on `arguments`; its outputs are allocated once.

    Args:
      name: a unique name for `function` with arguments of these shapes.
      function: a function of tensors, which may compute gradients.
      arguments: contiguous example inputs, which are captured.
      attention_block: the option of `repro_mlir.capture`.
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
    """Returns a function that calls `program`, which has no state, on `inputs` (bf16 arrays as bits). The outputs are
    allocated once."""
    executable = CpuBackend(cached_compile(program.data, setting.level), setting.threads)
    outputs = [kind.empty() for kind in executable.outputs]
    return lambda: executable.run([], inputs, outputs)


def check_close(ours: np.ndarray, theirs: torch.Tensor) -> None:
    """Raises ValueError if the relative error of our result exceeds 1e-4 (in the 2-norm)."""
    wanted = theirs.detach().double().numpy()
    difference = float(np.linalg.norm(ours.astype(np.float64) - wanted))
    scale = float(np.linalg.norm(wanted))
    if not difference <= 1e-4 * scale + 1e-12:
        raise ValueError(
            f"differs from PyTorch: expected an error of 1e-4 of {scale:.3g} at most, got {difference:.3g}"
        )
