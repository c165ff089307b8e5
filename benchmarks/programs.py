# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch functions as compiled programs that are called with as little around them as torch's own operators."""

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


# Of this process, by name: numbers of threads share what was captured.
_programs: dict[str, repro_mlir.Program] = {}


def compiled(
    name: str,
    function: Function,
    arguments: Sequence[torch.Tensor],
    setting: Setting,
    attention_block: int | None = None,
) -> Callable[[], object]:
    """A call of `function` as we compile it, on these arguments, into outputs that stay.

    Args:
      name: of this function on arguments of these shapes.
      function: on tensors; may take gradients.
      arguments: contiguous; the example that is captured.
      attention_block: for `repro_mlir.capture`.
    Raises:
      ValueError: the result is not what PyTorch computes, to float32 accuracy.
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
    """A call of a program without state on these arrays, bf16 as its bits, into outputs that stay."""
    executable = CpuBackend(cached_compile(program.data, setting.level), setting.threads)
    outputs = [kind.empty() for kind in executable.outputs]
    return lambda: executable.run([], inputs, outputs)


def check_close(ours: np.ndarray, theirs: torch.Tensor) -> None:
    """Raises ValueError if they differ by more than rounding: then the times would mean nothing."""
    wanted = theirs.detach().double().numpy()
    difference = float(np.linalg.norm(ours.astype(np.float64) - wanted))
    scale = float(np.linalg.norm(wanted))
    if not difference <= 1e-4 * scale + 1e-12:
        raise ValueError(
            f"differs from PyTorch: expected an error of 1e-4 of {scale:.3g} at most, got {difference:.3g}"
        )
