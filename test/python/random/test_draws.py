# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R1), (R2) Random numbers as NumPy arrays: whole tensors, parts of tensors, element types, invalid arguments."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError, permutation, random
from repro_mlir.base.numerics.philox import philox4x32_10, random_bits, random_uniform
from repro_mlir.random import Generator, local_slices
from repro_mlir.reference.functions import evaluate

SEED, STEP, SITE = 2**64 - 3, 2**32 - 1, 5
WORD = 2**32

DRAWS: dict[str, Callable[..., np.ndarray]] = {
    "rand": random.rand,
    "randn": random.randn,
    "randint": functools.partial(random.randint, -(2**31), 2**31),
    "bfloat16": functools.partial(random.randn, dtype="bfloat16"),
}


def generator() -> Generator:
    return Generator(SEED, step=STEP, site=SITE)


def words(counter: list[int], key: list[int]) -> list[int]:
    """Returns the words of Philox, computed with Python integers."""
    return list(philox4x32_10(counter, key, lambda word, factor: divmod(word * factor, WORD)))


def bits(index: int) -> int:
    """(R1) Returns the bits of an element, computed with Python integers."""
    block, which = divmod(index, 4)
    return words([block % WORD, block // WORD, SITE, STEP], [SEED % WORD, SEED // WORD])[which]


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("counter", "key", "wanted"),
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([WORD - 1] * 4, [WORD - 1] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_R1_words_of_philox_are_those_of_its_authors(counter: list[int], key: list[int], wanted: str) -> None:
    """The words are those of the file kat_vectors of Random123, the authors' library."""
    assert " ".join(f"{word:08x}" for word in words(counter, key)) == wanted


@pytest.mark.parametrize("shape", [(), 5, (3, 7), (0,), (4, 0, 2), (2, 40000)], ids=str)
def test_R2_whole_tensors(shape: Any) -> None:
    extents = (shape,) if isinstance(shape, int) else shape
    place = SEED, SITE, STEP
    drawn = random_bits(extents, *place)
    # The elements from 65536 on are computed in another block.
    for part in (slice(0, 9), slice(65530, 65541), slice(79990, 80000)):
        assert drawn.ravel()[part].tolist() == [bits(i) for i in range(*part.indices(drawn.size))]
    uniform = (drawn >> np.uint64(8)).astype(np.float32) * np.float32(2**-24)
    assert same(random.rand(shape, generator=generator()), uniform)
    integers = random.randint(-7, 10**9, shape, generator=generator())
    assert same(integers, (drawn * np.uint64(10**9 + 7) >> np.uint64(32)).astype(np.int64) - 7)
    pairs = random_uniform((*extents, 2), *place)
    radius = np.sqrt(np.float32(-2) * evaluate("log", np.float32(1) - pairs[..., 0]))
    normal = radius * evaluate("cos", np.uint32(0x40C90FDB).view(np.float32) * pairs[..., 1])
    assert same(random.randn(shape, generator=generator()), np.asarray(normal))
    x = np.ones(extents, np.float32)
    kept = random.dropout(x, 0.7, generator=generator())
    assert same(kept, (uniform < np.float32(1 - 0.7)) * np.float32(1 / (1 - 0.7)))


def test_normal_numbers_are_normal() -> None:
    drawn = random.randn(10**5, generator=generator())
    assert abs(drawn.mean()) < 0.01 and abs(drawn.std() - 1) < 0.01 and np.abs(drawn).max() < 5.77


@pytest.mark.parametrize("shape", [(4, 6), (5, 7), (1, 2), (3, 5, 2)], ids=str)
@pytest.mark.parametrize("name", DRAWS)
def test_a_tensor_sharded_2_x_3_equals_the_whole(name: str, shape: tuple[int, ...]) -> None:
    whole = DRAWS[name](shape, generator=generator())
    found = np.zeros_like(whole)
    count = 0
    for coordinate in itertools.product(range(2), range(3)):
        own = generator()
        local = local_slices(shape, (2, 3), coordinate, (0, 1))
        part = DRAWS[name](shape, generator=own, local=local)
        assert own.site == SITE + 1
        found[local] = part
        count += part.size
    assert count == whole.size and same(found, whole)


@pytest.mark.parametrize("name", DRAWS)
def test_every_box_has_the_bits_of_the_whole(name: str) -> None:
    shape = 5, 7, 6
    whole = DRAWS[name](shape, generator=generator())
    slices = [
        [slice(None), slice(1, 3), slice(4, 5), slice(None, None, 2), slice(4, None, -2), slice(-2, None)],
        [slice(None), slice(2, 7), slice(3, 4), slice(0, 1, 2**70)],
        [slice(None), slice(1, 4), slice(5, 99), slice(None, None, -1), slice(2, 2)],
    ]
    for local in itertools.product(*slices):
        assert same(DRAWS[name](shape, generator=generator(), local=local), np.ascontiguousarray(whole[local])), local
    assert same(DRAWS[name](shape, generator=generator(), local=[slice(2, 4)]), whole[2:4])


def test_dropout_of_a_part_drops_the_elements_of_the_whole() -> None:
    x = random.randn((6, 9), generator=Generator(1))
    whole = random.dropout(x, 0.4, generator=generator())
    for coordinate in itertools.product(range(2), range(3)):
        local = local_slices(x.shape, (2, 3), coordinate, (0, 1))
        part = random.dropout(x[local], 0.4, generator=generator(), shape=x.shape, local=local)
        assert same(part, np.ascontiguousarray(whole[local]))


def test_a_part_of_a_tensor_that_no_machine_can_hold() -> None:
    shape = 2**20, 2**20, 2**22
    local = slice(2**20 - 1, None), slice(2**19, 2**19 + 2), slice(2**22 - 3, None)
    found = random.randint(0, WORD, shape, generator=generator(), local=local)
    first = [((2**20 - 1) * 2**20 + 2**19 + i) * 2**22 + 2**22 - 3 for i in range(2)]
    assert found.tolist() == [[[bits(start + j) for j in range(3)] for start in first]]
    normal = random.randn(shape, generator=generator(), local=local)
    u1, u2 = ((bits(2 * first[1] + i) >> 8) * 2.0**-24 for i in range(2))
    assert normal[0, 1, 0] == pytest.approx(np.sqrt(-2 * np.log(1 - u1)) * np.cos(2 * np.pi * u2), rel=1e-5)


def test_element_types_are_rounded_from_f32() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for draw in (random.rand, random.randn):
        narrow = draw(1000, generator=generator())
        for dtype in ("float64", np.float16, ml_dtypes.bfloat16, float):
            found = draw(1000, generator=generator(), dtype=dtype)
            assert same(found, narrow.astype(dtype)), dtype
    assert random.rand(3, generator=generator(), dtype="bfloat16").dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"])
def test_integers_reach_both_ends_of_their_type(dtype: str) -> None:
    bounds = np.iinfo(dtype)
    for low in {bounds.min, bounds.max - 2}:
        drawn = random.randint(low, low + 3, 64, generator=generator(), dtype=dtype)
        assert drawn.dtype == dtype and set(drawn.tolist()) == {low, low + 1, low + 2}
    with pytest.raises(ReproError, match=f"expected integers that {dtype} represents"):
        random.randint(bounds.max, bounds.max + 2, 3, generator=generator(), dtype=dtype)


def test_unsigned_integers_beyond_i64() -> None:
    low = 2**63 - 5
    found = random.randint(low, low + 10, 100, generator=generator(), dtype=np.uint64)
    assert found.tolist() == [low + (bits(i) * 10 >> 32) for i in range(100)]


@pytest.mark.parametrize("count", [0, 1, 10, 70000])
def test_G1_permutation(count: int) -> None:
    found = random.randperm(count, generator=Generator(11, step=4), dtype="int32")
    assert found.dtype == np.int32 and sorted(found.tolist()) == [*range(count)]
    assert found.tolist() == permutation(count, 11, 4).tolist()
    drawn = random_bits((count,), 11, 7, 4).tolist()
    found = random.randperm(count, generator=Generator(11, step=4), site=7)
    assert found.tolist() == sorted(range(count), key=lambda i: drawn[i])


def test_dropout_of_special_values_and_probabilities() -> None:
    x = np.array([np.nan, -1.5, np.inf, 0.0] * 20, np.float32)
    own = generator()
    assert random.dropout(x, 0.0, generator=own) is x
    assert random.dropout(x, 0.3, generator=own, training=False) is x
    assert not random.dropout(x, 1, generator=own).any() and own.site == SITE
    found = random.dropout(x, 0.5, generator=own)
    kept = random.rand(80, generator=generator()) < 0.5
    assert own.site == SITE + 1 and np.isnan(found[0::4]).all()
    assert found[1::4].tolist() == [-3.0 if each else 0.0 for each in kept[1::4]]
    for dtype in ("float64", "float16", "bfloat16"):
        wide = np.float64 if dtype == "float64" else np.float32
        value = random.randn(50, generator=Generator(1), dtype=dtype)
        wanted = ((random.rand(50, generator=generator()) < np.float32(0.9)) * value.astype(wide)) * wide(1 / 0.9)
        assert same(random.dropout(value, 0.1, generator=generator()), wanted.astype(value.dtype))


ONES = np.ones(3)

ERRORS: list[tuple[str, Callable[[Generator], Any]]] = [
    ("expected a shape of whole numbers from 0, got -1", lambda g: random.rand(-1, generator=g)),
    ("expected a shape of whole numbers from 0, got True", lambda g: random.rand(True, generator=g)),
    ("as shape, got 1.5", lambda g: random.rand(1.5, generator=g)),
    (r"as shape, got \(2, 'x'\)", lambda g: random.rand((2, "x"), generator=g)),
    ("at most 64 dimensions, got 65", lambda g: random.rand((1,) * 65, generator=g)),
    (r"at most 2\^62 elements", lambda g: random.rand((2**40, 2**40, 0), generator=g)),
    ("part of at most [0-9]+ elements, got 1099511627776; pass", lambda g: random.randn(2**40, generator=g)),
    ("part of at most [0-9]+ elements, got 1099511627776", lambda g: random.randperm(2**40, generator=g)),
    ("as size of a permutation", lambda g: random.randperm((2, 3), generator=g)),
    ("expected a tuple of slices as local", lambda g: random.rand(4, generator=g, local=(0,))),
    ("expected a tuple of slices as local", lambda g: random.rand(4, generator=g, local="ab")),
    ("at most 1 slices for a tensor", lambda g: random.rand(4, generator=g, local=(slice(2), slice(2)))),
    ("step other than 0", lambda g: random.rand(4, generator=g, local=(slice(0, 2, 0),))),
    ("expected slices of whole numbers", lambda g: random.rand(4, generator=g, local=(slice(0.5),))),
    (
        "element types float32, float64, float16, bfloat16, got 'int8'",
        lambda g: random.rand(4, generator=g, dtype="int8"),
    ),
    ("got 'float8'", lambda g: random.rand(4, generator=g, dtype="float8")),
    ("element types int64, .*, got <class 'float'>", lambda g: random.randint(0, 2, 4, generator=g, dtype=float)),
    (r"1 to 2\^32 integers", lambda g: random.randint(3, 3, 4, generator=g)),
    (r"1 to 2\^32 integers", lambda g: random.randint(0, 2**32 + 1, 4, generator=g)),
    ("whole numbers as bounds", lambda g: random.randint(0, 2.5, 4, generator=g)),
    (
        "expected a Generator of repro_mlir.random as generator, got <class 'numpy.random",
        lambda g: random.rand(4, generator=np.random.default_rng()),
    ),
    (
        "expected a Generator of repro_mlir.random as generator, got <class 'int'>",
        lambda g: random.rand(4, generator=3),
    ),
    ("expected a site from 0 to 4294967295, got 4294967296", lambda g: random.rand(4, generator=g, site=2**32)),
    ("expected a probability from 0 to 1 for dropout, got 1.5", lambda g: random.dropout(ONES, 1.5, generator=g)),
    ("expected a probability from 0 to 1 for dropout, got nan", lambda g: random.dropout(ONES, np.nan, generator=g)),
    ("for dropout, got a list", lambda g: random.dropout([1.0], generator=g)),
    ("element types float32, .*got dtype", lambda g: random.dropout(ONES.astype(int), generator=g)),
    ("expected the shape of the whole tensor", lambda g: random.dropout(ONES, generator=g, local=(slice(3),))),
    (
        r"x of the shape \[2\] of its part, got \[3\]",
        lambda g: random.dropout(ONES, generator=g, shape=4, local=(slice(2),)),
    ),
]


@pytest.mark.parametrize(("message", "call"), ERRORS, ids=[message for message, _ in ERRORS])
def test_wrong_arguments_are_one_error_and_take_no_site(message: str, call: Callable[[Generator], Any]) -> None:
    own = generator()
    with pytest.raises(ReproError, match=message) as error:
        call(own)
    assert "\n" not in str(error.value) and own.get_state() == generator().get_state()


def test_draws_do_not_depend_on_the_rounding_of_the_caller() -> None:
    torch = pytest.importorskip("torch")
    x = np.full(8, 2.0**-140, np.float32)
    wanted = random.dropout(x, 0.25, generator=generator())
    assert wanted.any()
    try:
        torch.set_flush_denormal(True)
        found = random.dropout(x, 0.25, generator=generator())
    finally:
        torch.set_flush_denormal(False)
    assert same(found, wanted)
