# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random bits of the algorithms Threefry 2x32 and Philox 4x32, in XLA's order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

Pair = tuple[ir.Value, ir.Value]
"""The lower and upper 32 bits of a 64-bit number."""


@rule("stablehlo.rng")
def undefined(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Rejects the operation: its bits depend on the implementation."""
    raise Unsupported(
        "is not supported: its bits are not defined; use random numbers of a JAX key or TensorFlow's stateless ones"
    )


@rule("stablehlo.rng_bit_generator")
def generate(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Returns the new state and the random bits. The state is the key, then a counter of one or two words, lower word
    first."""
    state = operation.operands[0]
    kind = ir.RankedTensorType(operation.results[1].type)
    algorithm = str(operation.attributes["rng_algorithm"]).split()[-1].strip("<>")
    if algorithm not in _ALGORITHMS or not isinstance(kind.element_type, ir.IntegerType):
        raise Unsupported(
            "is not supported: its bits are not defined; use keys of threefry2x32 (JAX's default), or TensorFlow's "
            "stateless random numbers"
        )
    words = [emit.reshape(emit.cut(state, [i], [i + 1]), []) for i in range(emit.shape_of(state)[0])]
    width = kind.element_type.width
    bits, new = _ALGORITHMS[algorithm](words, list(kind.shape), 64 if width == 64 else 32)
    if emit.element_of(bits) != kind.element_type:
        narrow = emit.convert(bits, ir.IntegerType.get_unsigned(width))
        bits = narrow if emit.element_of(narrow) == kind.element_type else emit.bitcast(narrow, kind.element_type)
    return [emit.concatenate([emit.reshape(each, [1]) for each in new], 0), bits]


def _threefry(words: list[ir.Value], shape: list[int], width: int) -> tuple[ir.Value, list[ir.Value]]:
    key, counter, *rest = words
    if rest:
        raise Unsupported(f"is not supported: expected a THREE_FRY state of two words, got {len(words)}")
    given = shape or [1]
    # Each counter value yields two 32-bit words, which alternate along the first dimension of even extent, if there is
    # one, or else along the longest dimension.
    even = [i for i, extent in enumerate(given) if extent % 2 == 0]
    split = even[0] if even else given.index(max(given))
    counted = list(given)
    if width == 32:
        counted[split] = (given[split] + 1) // 2
    size = math.prod(counted)
    numbers = hlo.add(emit.reshape(emit.iota([size], 0, _u64()), counted), emit.broadcast(counter, counted, []))
    low, high = _threefry_2x32(_halves(numbers), _halves(key))
    new = [key, hlo.add(counter, emit.like(counter, size))]
    if width == 64:
        return emit.reshape(_whole(low, high), shape), new
    apart = [*counted[: split + 1], 1, *counted[split + 1 :]]
    both = emit.concatenate([emit.reshape(each, apart) for each in (low, high)], split + 1)
    counted[split] *= 2
    return emit.reshape(emit.cut(emit.reshape(both, counted), [0] * len(given), given), shape), new


def _threefry_2x32(counter: Pair, key: Pair) -> Pair:
    keys = [*key, hlo.xor(hlo.xor(*key), emit.like(key[0], _PARITY))]
    shape = emit.shape_of(counter[0])
    keys = [emit.broadcast(each, shape, []) for each in keys]
    x, y = hlo.add(counter[0], keys[0]), hlo.add(counter[1], keys[1])
    for number in range(5):
        for rotation in _ROTATIONS[number % 2]:
            x = hlo.add(x, y)
            left = hlo.shift_left(y, emit.like(y, rotation))
            y = hlo.xor(hlo.or_(left, hlo.shift_right_logical(y, emit.like(y, 32 - rotation))), x)
        x = hlo.add(x, keys[(number + 1) % 3])
        y = hlo.add(hlo.add(y, keys[(number + 2) % 3]), emit.like(y, number + 1))
    return x, y


def _philox(words: list[ir.Value], shape: list[int], width: int) -> tuple[ir.Value, list[ir.Value]]:
    # In a state of two words, the key is also the counter's upper word and stays unchanged.
    key, low = words[:2]
    high = words[2] if len(words) == 3 else key
    count = math.prod(shape)
    size = -(-count * width // 128)
    vector = [size]
    lower = hlo.add(emit.iota(vector, 0, _u64()), emit.broadcast(low, vector, []))
    carry = emit.convert(emit.compare("LT", lower, emit.broadcast(low, vector, [])), _u64())
    upper = hlo.add(emit.broadcast(high, vector, []), carry)
    state = [*_halves(lower), *_halves(upper)]
    keys = [emit.broadcast(each, vector, []) for each in _halves(key)]
    for number in range(_ROUNDS):
        if number:
            keys = [hlo.add(each, emit.like(each, weyl)) for each, weyl in zip(keys, _WEYL, strict=True)]
        first, second = (_product(state[2 * i], multiplier) for i, multiplier in enumerate(_MULTIPLIERS))
        state = [
            hlo.xor(hlo.xor(second[1], state[1]), keys[0]),
            second[0],
            hlo.xor(hlo.xor(first[1], state[3]), keys[1]),
            first[0],
        ]
    found = state if width == 32 else [_whole(*state[:2]), _whole(*state[2:])]
    columns = emit.concatenate([emit.reshape(each, [size, 1]) for each in found], 1)
    flat = emit.cut(emit.reshape(columns, [size * len(found)]), [0], [count])
    new = hlo.add(low, emit.like(low, size))
    if len(words) == 2:
        return emit.reshape(flat, shape), [key, new]
    carry = emit.convert(emit.compare("LT", new, low), _u64())
    return emit.reshape(flat, shape), [key, new, hlo.add(high, carry)]


_ALGORITHMS = {"PHILOX": _philox, "THREE_FRY": _threefry}


def _u64() -> ir.Type:
    return ir.IntegerType.get_unsigned(64)


def _halves(value: ir.Value) -> Pair:
    half = ir.IntegerType.get_unsigned(32)
    upper = hlo.shift_right_logical(value, emit.like(value, 32))
    return emit.convert(value, half), emit.convert(upper, half)


def _whole(low: ir.Value, high: ir.Value) -> ir.Value:
    upper = emit.convert(high, _u64())
    return hlo.or_(emit.convert(low, _u64()), hlo.shift_left(upper, emit.like(upper, 32)))


def _product(value: ir.Value, number: int) -> Pair:
    wide = emit.convert(value, _u64())
    return _halves(hlo.multiply(wide, emit.like(wide, number)))
