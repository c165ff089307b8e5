# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random numbers as PyTorch tensors. No other module of this room imports PyTorch.

On the CPU, NumPy computes the numbers. On CUDA, PyTorch computes them on the device, by operations that have one result
on every device: on integers, exact conversions, and f64 operations whose rounding to f32 is certain. For all other
devices, such as MPS, which has no f64, the CPU computes the numbers, and they are copied to the device. The computation
on CUDA was tested with tensors on the CPU only; it has not been run on a CUDA device, nor the copies on MPS.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.philox import Place, key_words, philox4x32_10
from repro_mlir.random import distributions
from repro_mlir.random.boxes import Box
from repro_mlir.random.distributions import TWO_PI, Distribution
from repro_mlir.reference.functions import evaluate

_MASK = 0xFFFFFFFF
_TOGETHER = 1 << 24
"""The number of elements that a device computes together, which bounds the memory for words of 8 bytes."""
_DTYPES: dict[type[np.generic], torch.dtype] = {
    np.float32: torch.float32,
    np.bool_: torch.bool,
    np.int64: torch.int64,
}
_MARGIN = 2.0**-46
"""A bound of the relative errors of log and cos of f64. The CUDA C++ Programming Guide (Mathematical Functions, Table
"Double-Precision") states at most 2 units in the last place, which are 2^-51."""


def device_of(device: Any) -> torch.device:
    """Returns a device of PyTorch. Raises ReproError if PyTorch does not know it or cannot use it here."""
    try:
        found = torch.device(device)
        if found.type != "cpu":
            torch.empty(0, device=found)
        return found
    except (RuntimeError, TypeError, AssertionError) as error:
        # Builds of PyTorch without CUDA fail with AssertionError.
        reason = str(error).partition("\n")[0]
        raise ReproError(f"expected a device of PyTorch, such as 'cpu' or 'cuda', got {device!r}: {reason}") from None


def draw(distribution: Distribution, box: Box, place: Place, device: torch.device) -> torch.Tensor:
    """Returns a part of a tensor of random numbers (R2) on a device, of the element type of the distribution."""
    if device.type == "cuda":
        return draw_on_device(distribution, box, place, device)
    return from_array(distributions.draw(distribution, box, place), device)


def draw_on_device(distribution: Distribution, box: Box, place: Place, device: torch.device) -> torch.Tensor:
    """Does the same as `draw` by operations of PyTorch on the device, which must have i64 and f64."""
    starts, length = box.runs
    first = torch.from_numpy(starts.view(np.int64)).to(device)
    result = torch.empty(len(starts), length, dtype=_DTYPES[distribution.dtype], device=device)
    columns = min(max(length, 1), _TOGETHER)
    rows = _TOGETHER // columns
    per_result, of_bits = distribution.per_result, _OF_BITS[distribution.name]
    for row, column in itertools.product(range(0, len(starts), rows), range(0, length, columns)):
        block = (first[row : row + rows] + column) * per_result
        count = min(columns, length - column)
        bits = bits_of_runs(block, count * per_result, *place)
        result[row : row + rows, column : column + count] = of_bits(bits, *distribution.parameters)
    return result.reshape(box.shape)


def from_array(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Returns a tensor on a device with the elements of an array, whose memory it shares on the CPU."""
    return torch.from_numpy(array).to(device)


def convert(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Returns random numbers in another element type, by its name; floats are rounded to nearest even."""
    # PyTorch has no conversion to u64 on some devices.
    return tensor.view(torch.uint64) if name == "uint64" else tensor.to(getattr(torch, name))


def bits_of_runs(starts: torch.Tensor, length: int, seed: Any, site: int, step: Any) -> torch.Tensor:
    """(R1) Returns the random bits of runs of elements, computed in i64 arithmetic that does not overflow.

    Args:
      starts: i64 [runs]; the number of the first element of each run.
      length: the number of elements of each run.
      seed, step: integers, or i64 of shape [].
      site: the site's number, below 2^32.
    Returns:
      i64 [runs, length]; each element contains 32 bits, zero-extended.
    """
    block = (starts >> 2)[:, None] + torch.arange((length + 6) // 4, device=starts.device)
    step = block.new_full([], step) if isinstance(step, int) else step
    counter = block & _MASK, block >> 32, torch.full_like(block, site), (step & _MASK).expand(block.shape)
    words = torch.stack(philox4x32_10(counter, key_words(seed), _multiply), dim=2).flatten(1)
    return words.gather(1, (starts & 3)[:, None] + torch.arange(length, device=starts.device))


def _multiply(words: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    low = (words & 0xFFFF) * factor
    middle = (words >> 16) * factor + (low >> 16)
    return (middle >> 16) & _MASK, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def uniform(bits: torch.Tensor) -> torch.Tensor:
    """(R2) Returns uniform f32 in [0, 1) from i64 bits."""
    return (bits >> 8).to(torch.float32) * 2.0**-24


def randint(bits: torch.Tensor, low: int, extent: int) -> torch.Tensor:
    """(R2) Returns i64 from low to low + extent - 1 modulo 2^64 from i64 bits."""
    # The product may exceed the range of i64, so it is computed from the 16-bit halves of the bits.
    drawn = ((bits >> 16) * extent + ((bits & 0xFFFF) * extent >> 16)) >> 16 if extent < 2**32 else bits
    return drawn + ((low + 2**63) % 2**64 - 2**63)


def bernoulli(bits: torch.Tensor, probability: float) -> torch.Tensor:
    """(R2) Returns booleans from i64 bits that are true with a probability."""
    # The probability is rounded to f32 here, because PyTorch compares f32 with the f64 value of a Python number.
    return uniform(bits) < float(np.float32(probability))


def _normal(bits: torch.Tensor) -> torch.Tensor:
    numbers = uniform(bits)
    u1, u2 = numbers[:, 0::2], numbers[:, 1::2]
    square = -2.0 * _rounded("log", 1.0 - u1)
    # Computed in f64 and then rounded to f32, the square root and the product are correctly rounded, and subnormals are
    # not flushed to zero.
    radius = square.double().sqrt().float()
    cosine = _rounded("cos", float(TWO_PI) * u2)
    return (radius.double() * cosine.double()).float()


def _rounded(name: str, x: torch.Tensor) -> torch.Tensor:
    """(S5) Returns the correctly rounded function of f32. The CPU computes the elements, about one in 2^20, whose
    rounding the f64 function of the device leaves undecided."""
    wide = getattr(torch, name)(x.double())
    result = wide.float()
    undecided = (wide * (1.0 - _MARGIN)).float() != (wide * (1.0 + _MARGIN)).float()
    if bool(undecided.any()):
        result[undecided] = torch.from_numpy(evaluate(name, x[undecided].cpu().numpy())).to(x.device)
    return result


_OF_BITS: dict[str, Any] = {"uniform": uniform, "normal": _normal, "bernoulli": bernoulli, "randint": randint}


def dropout(x: Any, probability: float, kept: torch.Tensor | None) -> torch.Tensor:
    """Returns kept * x * (1 / (1 - probability)), or zeros if `kept` is None; autograd computes its gradient."""
    if kept is None:
        # Autograd needs a result that depends on x; a product would keep NaN and infinity.
        return x.masked_fill(torch.ones((), dtype=torch.bool, device=x.device), 0.0)
    return kept * x * (1.0 / (1.0 - probability))
