# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX signal operators: Fourier transforms as products with a matrix whose elements the program computes."""

from __future__ import annotations

import math

import torch

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axis_of
from repro_mlir.frontends.onnx.nodes import Call, Operator, constant, sized


def _circle(n: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns cos(2 pi i / n) and sin(2 pi i / n) for i below n; the values 0, 1 and -1 are exact."""
    quarters = [(8 * i + n) // (2 * n) for i in range(n)]
    # After subtracting whole quarters, the remainder is at most an eighth of a turn.
    rest = constant([i / n - quarter / 4 if 4 * i != quarter * n else 0.0 for i, quarter in enumerate(quarters)], dtype)
    cosine, sine = torch.cos(rest * (2 * math.pi)), torch.sin(rest * (2 * math.pi))
    found = torch.cat([cosine, sine, -cosine, -sine])
    # Adding a quarter turn replaces (cos, sin) by (-sin, cos).
    of_cosine = constant([(0, 3, 2, 1)[quarter % 4] * n + i for i, quarter in enumerate(quarters)])
    of_sine = constant([(1, 0, 3, 2)[quarter % 4] * n + i for i, quarter in enumerate(quarters)])
    return found.index_select(0, of_cosine), found.index_select(0, of_sine)


def _transformed(x: torch.Tensor, rows: int, inverse: bool) -> torch.Tensor:
    """Returns the first `rows` results, along n, of the Fourier transform of x: [..., n, 1] (real) or [..., n, 2]."""
    n = x.shape[-2]
    sized([rows, n])
    cosine, sine = _circle(n, x.dtype)
    turns = constant([i * j % n for i in range(rows) for j in range(n)])
    cosine, sine = (each.index_select(0, turns).reshape(rows, n) for each in (cosine, sine))
    sine = sine if inverse else -sine
    if x.shape[-1] not in (1, 2):
        raise OnnxError(f"expected real or complex numbers in the last dimension, got an extent of {x.shape[-1]}")
    real = x[..., 0]
    if x.shape[-1] == 1:
        parts = [real @ cosine.T, real @ sine.T]
    else:
        imaginary = x[..., 1]
        parts = [real @ cosine.T - imaginary @ sine.T, real @ sine.T + imaginary @ cosine.T]
    result = torch.stack(parts, -1)
    return result / n if inverse else result


def _with_length(x: torch.Tensor, n: int) -> torch.Tensor:
    """Cuts or zero-pads a tensor [..., m, c] to [..., n, c]."""
    sized([*x.shape[:-2], n, x.shape[-1]])
    extent = x.shape[-2]
    return x.narrow(-2, 0, n) if n <= extent else torch.nn.functional.pad(x, [0, 0, 0, n - extent])


def _dft(call: Call) -> torch.Tensor:
    x = call.tensor()
    default = 1 if call.version < 20 else -2
    axis = axis_of(call.attribute("axis", default) if call.version < 20 else call.number(2, default=default), x.dim())
    length = call.number(1)
    moved = x.transpose(axis, -2)
    moved = moved if length is None else _with_length(moved, length)
    n, inverse, onesided = moved.shape[-2], bool(call.attribute("inverse", 0)), call.attribute("onesided", 0)
    if inverse and onesided:
        # The input has only the first half of the spectrum; the other half has the conjugates of the first.
        n = length if length is not None else 2 * (x.shape[axis] - 1)
        half = _with_length(x.transpose(axis, -2), n // 2 + 1)
        rest = half.narrow(-2, 1, n - n // 2 - 1).flip(-2)
        moved = torch.cat([half, torch.stack([rest[..., 0], -rest[..., 1]], -1)], -2)
        return _transformed(moved, n, True)[..., :1].transpose(axis, -2)
    rows = n // 2 + 1 if onesided else n
    return _transformed(moved, rows, inverse).transpose(axis, -2)


def _stft(call: Call) -> torch.Tensor:
    signal, step = call.tensor(0), call.number(1)
    window, length = call.optional(2), call.number(3)
    length = window.shape[0] if length is None and window is not None else length
    if length is None or step is None or step < 1:
        raise OnnxError("expected a frame_step above 0, and a window or a frame_length")
    count = (signal.shape[1] - length) // step + 1
    call.spend(count)
    frames = torch.stack([signal.narrow(1, i * step, length) for i in range(count)], 1)
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    rows = length // 2 + 1 if call.attribute("onesided", 1) else length
    return _transformed(frames, rows, False)


SIGNALS: dict[str, Operator] = {"DFT": _dft, "STFT": _stft}
