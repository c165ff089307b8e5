# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's unsigned integers are signed types in programs (V1) and unsigned numbers for the user."""

from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from operator_checks import check
from repro_mlir import Program, ReproError
from repro_mlir.base.files.tensor_file import read_all_tensors, write_tensors
from support.applied import Applied

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")

X = torch.tensor([0, 1, 3, 44, 127, 128, 200, 255], dtype=torch.uint8)
Y = torch.tensor([7, 255, 128, 1, 200, 9, 3, 254], dtype=torch.uint8)


def test_bytes_as_eager_computes_them() -> None:
    table = torch.arange(250, 0, -1, dtype=torch.uint8)
    check(
        {
            "sums": lambda x, y: [x + y, x - y, x * y, -x, ~x, x + 300, 3 - x, torch.add(x, y, alpha=3)],
            "quotients": lambda x, y: [x // y, x / y, x % y, torch.fmod(x, y), torch.div(x, 7, rounding_mode="trunc")],
            # True quotients are floats, so the Python number is not converted to the tensor's integer type.
            "true quotients": lambda x, y: [x / -3, x / 300, -3 / y, x / torch.tensor(-300), x / 2.5],
            "bits": lambda x, y: [x & y, x | y, x ^ y, x << 3, x >> 3, x << 9, x >> 9, x >> (y & 7)],
            # Python numbers are converted to the tensor's type: 300 becomes 44, -1 becomes 255.
            "orders": lambda x, y: [x > y, x <= y, x == 300, x > -1, torch.maximum(x, y), torch.minimum(x, y)],
            "bounds": lambda x, y: [x.clamp(2, -1), x.clamp(-1, 3), x.clamp(min=-1), x.clamp(max=torch.tensor(258)),
                                    torch.clamp(x, torch.tensor(-1), torch.tensor(3)), F.threshold(x, -1, 7)],
            "truths": lambda x, y: [torch.logical_and(x, torch.tensor(256)), torch.logical_xor(x, torch.tensor(257))],
            "reductions": lambda x, y: [x.sum(), x.prod(), x.max(), x.min(), x.argmax(), x.cumsum(0), x.any()],
            "sorted": lambda x, y: [*x.sort(), *torch.topk(y, 3), torch.flip(x, [0]), x.median()],
            "chosen": lambda x, y: [torch.where(x > y, x, y), x.clamp(3, 200), x.masked_fill(x > 100, 255), x[2:]],
            "joined": lambda x, y: [torch.cat([x, y]), torch.stack([x, y.to(torch.int8)]), x.reshape(2, 4).t()],
            "indexed": lambda x, y: [table[x.long() % 250], x.scatter_add(0, x.long() % 8, y)],
            "powers": lambda x, y: [x**2, x**3, 2**x, x.square()],
            "products": lambda x, y: [x.reshape(2, 4) @ y.reshape(4, 2), torch.dot(x, y)],
            "made": lambda x, y: [torch.zeros_like(x), torch.full_like(x, 200), torch.arange(9, dtype=torch.uint8)],
            "images": lambda x, y: [x.float() / 255, x.to(torch.bfloat16), x.to(torch.int16), x.bool()],
            "pooled": lambda x, y: F.max_pool2d(x.reshape(1, 2, 4), (1, 2)),
            "back": lambda x, y: [(x.float() * 0.7).to(torch.uint8), (x.int() * 5).to(torch.uint8), y.view(torch.int8)],
        },
        X,
        Y,
    )  # fmt: skip


def test_wider_unsigned_integers() -> None:
    wide = torch.tensor([0, 5, 2**31, 2**32 - 1], dtype=torch.uint32)
    widest = torch.tensor([0, 5, 2**63, 2**64 - 1], dtype=torch.uint64)
    numbers = [np.array([0, 5, 2**63, 2**64 - 1], np.uint64), np.array([3, 2, 2**63 + 1, 10], np.uint64)]
    check(
        {
            "16": lambda x, y, z: [x.to(torch.uint16), x.to(torch.uint16).to(torch.int32), x.to(torch.uint16).float()],
            "32": lambda x, y, z: [
                y.to(torch.int64),
                y.double(),
                y.float(),
                y.to(torch.uint8),
                y * y,
                y.to(torch.uint64),
            ],
            "64": lambda x, y, z: [z.double(), z.float(), z.to(torch.uint8), z.to(torch.int64), z.reshape(2, 2)],
            # PyTorch computes in floats if the other operand is a float or the operator returns floats.
            "with floats": lambda x, y, z: [
                *(each for v in (y, z) for each in (v / -3, v / torch.tensor(-3), v / 2.5, v * 2.5, v > 2.5)),
                z + torch.tensor(0.5, dtype=torch.float64),
                z / z.double(),
            ],
            "floats": lambda x, y, z: [(y.double() / 3).to(torch.uint32), (z.double() / 3).to(torch.uint64)],
        },
        X,
        wide,
        widest,
    )
    # NumPy computes the expected values, because PyTorch has few operators on these types.
    x, y = (torch.from_numpy(each) for each in numbers)
    want = [numbers[0] // numbers[1], numbers[0] % numbers[1], numbers[0] > numbers[1], numbers[0] >> np.uint64(3)]

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [torch.div(x, y, rounding_mode="trunc"), torch.remainder(x, y), x > y, x >> 3]

    program = repro_mlir.capture(Applied(function), (x, y))
    for target in TARGETS:
        _, outputs = repro_mlir.compile(program, target)({}, *numbers)
        for got, expected in zip(outputs.values(), want, strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


class _Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full([3], 100, dtype=torch.uint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(200)
        return x + 1


@pytest.mark.parametrize("target", TARGETS)
def test_the_user_has_unsigned_arrays(target: str, tmp_path: Path) -> None:
    program = repro_mlir.capture(_Counting(), (X,))
    program.save(tmp_path / "p.repro")
    loaded = Program.load(tmp_path / "p.repro")
    assert loaded.hash == program.hash and loaded.inputs == program.inputs
    assert [str(each) for each in (*loaded.state, *loaded.inputs)] == ["count: 3xui8", "batch[0]: 8xui8"]
    step, state = repro_mlir.compile(loaded, target), loaded.initial_state()
    _, outputs = step(state, X.numpy())
    assert [each.dtype for each in outputs.values()] == [np.uint8]
    np.testing.assert_array_equal(*outputs.values(), X.numpy() + np.uint8(1))
    np.testing.assert_array_equal(state["count"], np.full(3, 44, np.uint8))
    (tensor,) = step(loaded.initial_state(), X)[1].values()
    assert tensor.dtype is torch.uint8 and torch.equal(tensor, X + 1)
    with pytest.raises(ReproError, match=r"expected elements of ui8 \(uint8\), got int8"):
        step(loaded.initial_state(), X.numpy().view(np.int8))
    kinds, arrays, _ = read_all_tensors(write_tensors(loaded.state, loaded.initial), "file")
    assert kinds[0].unsigned and arrays[0].dtype == np.uint8


def test_signed_tensors_have_the_same_program() -> None:
    """(V1) A program has the same types for signed and unsigned integers. Only its signature distinguishes them."""
    signed = repro_mlir.capture(Applied(lambda x: x + x), (X.view(torch.int8),))
    unsigned = repro_mlir.capture(Applied(lambda x: x.view(torch.int8) + x.view(torch.int8)), (X,))
    assert signed.hash == unsigned.hash and str(unsigned.inputs[0]) == "batch[0]: 8xui8"


def test_floats_saturate() -> None:
    """(S3) Conversions of floats to integers saturate. For floats outside of the integer's range, PyTorch's result
    depends on the processor."""
    x = torch.tensor([-1.0, -torch.inf, 255.9, 256.0, 1e30, torch.inf, torch.nan])
    program = repro_mlir.capture(Applied(lambda x: [x.to(torch.uint8), x.to(torch.uint32), x.to(torch.uint64)]), (x,))
    for target in TARGETS:
        narrow, wide, widest = repro_mlir.compile(program, target)({}, x)[1].values()
        assert narrow.tolist() == [0, 0, 255, 255, 255, 255, 0]
        assert wide.tolist() == [0, 0, 255, 256, 2**32 - 1, 2**32 - 1, 0]
        assert widest.tolist() == [0, 0, 255, 256, 2**64 - 1, 2**64 - 1, 0]


def test_sizes_that_are_left_open() -> None:
    model = Applied(lambda x: x.reshape(-1) >> 1)
    program = repro_mlir.capture(model, (X.reshape(2, 4),), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    step = repro_mlir.compile(program, "cpu")
    x = torch.arange(0, 240, 20, dtype=torch.uint8).reshape(3, 4)
    (found,) = step({}, x)[1].values()
    assert found.dtype is torch.uint8 and torch.equal(found, model(x))


def test_unsupported_operators_are_refused() -> None:
    with pytest.raises(ReproError, match=r"test_unsigned\.py:\d+: bilinear interpolation of uint8, for which PyTorch"):
        image = X.reshape(1, 1, 2, 4)
        repro_mlir.capture(Applied(lambda x: F.interpolate(x, (4, 8), mode="bilinear")), (image,))
    with pytest.raises(ReproError, match=r"aten\.sin.*not supported on uint64"):
        repro_mlir.capture(Applied(torch.sin), (X.to(torch.uint64),))
