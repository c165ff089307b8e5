# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random numbers as PyTorch tensors have the bits of NumPy's, also by the operations that CUDA would run."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError, random
from repro_mlir.random import Generator, devices, distributions, local_slices
from repro_mlir.random.boxes import box_of

torch = pytest.importorskip("torch")

SEED, STEP, SITE = 2**63 + 11, 2**32 - 2, 3
CPU = torch.device("cpu")


def generator() -> Generator:
    return Generator(SEED, step=STEP, site=SITE)


def bytes_of(tensor: Any) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 50), (0, 4), 7], ids=str)
def test_floats_are_those_of_numpy(dtype: str, shape: Any) -> None:
    for draw in (random.rand, random.randn):
        wanted = draw(shape, generator=generator(), dtype=dtype)
        for found in (
            draw(shape, generator=generator(), dtype=getattr(torch, dtype)),
            draw(shape, generator=generator(), dtype=dtype, device="cpu"),
        ):
            assert found.dtype == getattr(torch, dtype) and tuple(found.shape) == wanted.shape
            assert bytes_of(found) == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"])
def test_integers_are_those_of_numpy(dtype: str) -> None:
    low = np.iinfo(dtype).max - 100
    wanted = random.randint(low, low + 101, 60, generator=generator(), dtype=dtype)
    found = random.randint(low, low + 101, 60, generator=generator(), dtype=getattr(torch, dtype))
    assert found.dtype == getattr(torch, dtype) and bytes_of(found) == wanted.tobytes()
    shuffled = random.randperm(100, generator=generator(), dtype=getattr(torch, dtype))
    assert shuffled.tolist() == random.randperm(100, generator=generator()).tolist()


@pytest.mark.parametrize(
    "distribution",
    [
        distributions.UNIFORM,
        distributions.NORMAL,
        distributions.bernoulli(0.3),
        distributions.randint(-5, 2**32),
        distributions.randint(2**63 - 3, 10),
    ],
    ids=lambda each: each.name,
)
def test_the_operations_for_cuda_give_the_same_bits(distribution: distributions.Distribution) -> None:
    place = generator().take()
    boxes = [
        box_of((5, 7, 6), local)
        for local in itertools.product(
            [slice(None), slice(4, None, -2)], [slice(2, 7), slice(3, 4)], [slice(1, 4), slice(2, 2), slice(None)]
        )
    ]
    boxes += [box_of(()), box_of(10**5), box_of((2**30, 2**30), (slice(2**30 - 2, None), slice(7, 9)))]
    for box in boxes:
        wanted = distributions.draw(distribution, box, place)
        found = devices.draw_on_device(distribution, box, place, CPU).numpy()
        assert found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


def test_undecided_elements_are_computed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a margin that leaves every element undecided, the exact functions compute all of them."""
    box, place = box_of(1000), generator().take()
    wanted = distributions.draw(distributions.NORMAL, box, place)
    monkeypatch.setattr(devices, "_MARGIN", 0.5)
    assert np.array_equal(devices.draw_on_device(distributions.NORMAL, box, place, CPU).numpy(), wanted)


def test_large_draws_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    place = generator().take()
    boxes = [box_of((4, 300)), box_of((50, 9), (slice(None), slice(1, 8)))]
    wanted = [distributions.draw(distributions.NORMAL, box, place) for box in boxes]
    monkeypatch.setattr(devices, "_TOGETHER", 64)
    for box, whole in zip(boxes, wanted, strict=True):
        assert np.array_equal(devices.draw_on_device(distributions.NORMAL, box, place, CPU).numpy(), whole)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_dropout_is_that_of_numpy_and_has_a_gradient(dtype: str) -> None:
    x = random.randn((8, 9), generator=Generator(1), dtype=getattr(torch, dtype)).requires_grad_()
    found = random.dropout(x, 0.3, generator=generator())
    array = random.randn((8, 9), generator=Generator(1), dtype=dtype)
    assert bytes_of(found.detach()) == random.dropout(array, 0.3, generator=generator()).tobytes()
    found.sum().backward()
    assert torch.equal(x.grad != 0, found != 0)
    own = generator()
    assert random.dropout(x, 0.3, generator=own, training=False) is x and own.site == SITE
    with torch.no_grad():
        x[0, :2] = torch.tensor([torch.nan, -torch.inf])
    x.grad = None
    dropped = random.dropout(x, 1.0, generator=own)
    dropped.sum().backward()
    assert not dropped.any() and torch.equal(x.grad, torch.zeros_like(x))


def test_parts_are_those_of_dtensor() -> None:
    tensor = pytest.importorskip("torch.distributed.tensor")
    utils = pytest.importorskip("torch.distributed.tensor._utils")
    choices = [tensor.Replicate(), tensor.Shard(0), tensor.Shard(1), tensor.Shard(-1)]
    for shape, mesh in itertools.product([(4, 6), (5, 7), (1, 13), (0, 3)], [(2, 3), (4, 2)]):
        for placements in itertools.product(choices, choices):
            for coordinate in itertools.product(*map(range, mesh)):
                found = local_slices(shape, mesh, coordinate, placements)
                plain = [tensor.Shard(p.dim % 2) if isinstance(p, tensor.Shard) else p for p in placements]
                sizes, offsets = utils._compute_local_shape_and_global_offset(shape, mesh, [*coordinate], plain)
                assert tuple(each.stop - each.start for each in found) == tuple(sizes)
                # PyTorch's offset of an empty part may exceed the start of the part.
                assert 0 in sizes or tuple(each.start for each in found) == tuple(offsets)
                named = [None if isinstance(p, tensor.Replicate) else p.dim for p in placements]
                assert local_slices(shape, mesh, coordinate, named) == found


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("a placement for each of the 2 dimensions", ((4, 6), (2, 3), (0, 0), (0,))),
        (r"got \(0, 0\) and 1", ((4, 6), (2, 3), (0, 0), 1)),
        ("expected a coordinate within the mesh", ((4, 6), (2, 3), (2, 0), (0, 1))),
        ("a sequence of whole numbers as mesh_shape, got 'x'", ((4, 6), "x", (2, 0), (0, 1))),
        (r"a coordinate of whole numbers from 0, got \(-1, 0\)", ((4, 6), (2, 3), (-1, 0), (0, 1))),
        ("dimension of the tensor below 2, None, Shard or Replicate, got 2", ((4, 6), (2, 3), (0, 0), (0, 2))),
        ("got Partial", ((4, 6), (2, 3), (0, 0), (0, "Partial"))),
        ("got True", ((4, 6), (2, 3), (0, 0), (0, True))),
    ],
)
def test_wrong_shardings_are_one_error(message: str, arguments: tuple[Any, ...]) -> None:
    shape, mesh, coordinate, placements = arguments
    if placements == (0, "Partial"):
        placements = (0, pytest.importorskip("torch.distributed.tensor").Partial())
    with pytest.raises(ReproError, match=message):
        local_slices(shape, mesh, coordinate, placements)


UNUSABLE = "mps" if torch.cuda.is_available() else "cuda"
"""A device that this machine does not have."""


@pytest.mark.parametrize(
    ("message", "keywords"),
    [
        (f"expected a device of PyTorch, .*, got '{UNUSABLE}'", {"device": UNUSABLE}),
        ("expected a device of PyTorch, such as 'cpu' or 'cuda', got 'gpu'", {"device": "gpu"}),
        ("expected a device of PyTorch, such as 'cpu' or 'cuda', got 1.5", {"device": 1.5}),
        ("element types float32, .*, got torch.int8", {"dtype": torch.int8}),
        ("element types float32, .*, got 3", {"dtype": 3}),
    ],
)
def test_wrong_devices_and_types_are_one_error(message: str, keywords: dict[str, Any]) -> None:
    own = generator()
    with pytest.raises(ReproError, match=message) as error:
        random.rand(3, generator=own, **keywords)
    assert "\n" not in str(error.value) and own.site == SITE


def test_arrays_need_no_torch_and_tensors_say_so() -> None:
    code = """
import sys
sys.modules["torch"] = None
from repro_mlir import ReproError, random
generator = random.Generator(7)
print(random.randn((2, 3), generator=generator).shape)
try:
    random.rand(3, generator=generator, device="cpu")
except ReproError as error:
    print(error, generator.site)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("(2, 3)\nexpected PyTorch for tensors: pip install torch"), done.stderr
    assert done.stdout.endswith(" 1\n")


def test_torch_compile_calls_the_draws() -> None:
    """A traced draw would be a constant of the compiled function."""
    own = generator()

    def step(x: Any) -> Any:
        return random.dropout(x * 2, 0.5, generator=own) + random.randn(8, generator=own, device="cpu")

    compiled = torch.compile(step, backend="eager")
    found = [compiled(torch.ones(8)) for _ in range(3)]
    own = generator()
    for each in found:
        assert torch.equal(each, step(torch.ones(8)))
