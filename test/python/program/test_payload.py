# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Microbatches whose computation is divided into two parts (T2): the data sent between the two parts has the compressed
size, and the sums of gradients are unchanged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.execute.executable import compile
from repro_mlir.gradient_compression import QSGD, Blocks, OneBit, TopK
from repro_mlir.program.imported import Microbatches
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.program.payload import payload_of

BATCH = torch.randn(8, 20, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3
METHODS = [TopK(0.1), OneBit(), Blocks.named("mxfp8"), Blocks.named("mxfp4"), Blocks.named("nvfp4"), QSGD(4)]


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 3))


def step(method: Any) -> tuple[MicrobatchProgram, list[np.ndarray]]:
    """Returns a training step with a compression method, and the inputs of its first microbatch."""
    given = model()
    optimizer = torch.optim.SGD(given.parameters(), lr=0.1)
    loss_fn = torch.nn.functional.cross_entropy
    trainer = repro_mlir.Trainer(given, loss_fn, optimizer, microbatches=2, gradient_compression=method)
    program = trainer.prepare(*BATCH)
    assert isinstance(program, MicrobatchProgram) and program.microbatches == Microbatches(2, 1)
    inputs = [array[:4] if i in program.cut else array for i, array in enumerate(trainer.read_inputs(*BATCH))]
    state = [array[0] if i in program.own else array for i, array in enumerate(trainer.state.values())]
    return program, [*state, *inputs]


def outputs(program: Any, inputs: list[np.ndarray], target: str) -> list[np.ndarray]:
    found = [np.empty(kind.shape, kind.dtype) for kind in program.outputs]
    compile(program, target, 1).write([], inputs, found)
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name}")
@pytest.mark.exhaustive("qsgd", "blocks0", "blocks2")
def test_the_sums_are_the_same(method: Any) -> None:
    program, inputs = step(method)
    payload, count = payload_of(program), len(program.sums)
    assert payload is not None
    want = outputs(program.part, inputs, "reference")
    for target in ("reference", "cpu"):
        given = outputs(payload.encode, inputs, target)
        between = len(payload.kinds)
        found = [*outputs(payload.decode, given[:between], target), *given[between:]]
        assert [each.tobytes() for each in found] == [each.tobytes() for each in want], target
        assert len(found) == count + len(program.own)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name}")
def test_the_bytes_are_those_of_the_method(method: Any) -> None:
    """The payload of a microbatch has the compressed gradients, the loss and the running statistics. In it, codes of
    qsgd take whole bytes, although they have fewer bits."""
    shapes = [tuple(each.shape) for each in model().parameters()]
    want = sum(map(method.bytes_of, shapes))
    if isinstance(method, QSGD):
        buckets = [(-(-size // 512), min(size, 512)) for size in map(math.prod, shapes)]
        want = sum(count * (width + 4) for count, width in buckets)
    program, _ = step(method)
    others = sum(kind.nbytes for kind in program.sums) - sum(4 * math.prod(shape) for shape in shapes)
    assert others == 4 + 2 * 4 * 30
    payload = payload_of(program, want + others + 1)
    assert payload is not None and payload.nbytes == want + others
    assert payload_of(program, want + others) is None


def test_without_compression_the_sums_go_as_they_are() -> None:
    """Gradients are sent as they are. Two factors whose product is the gradient could be smaller, but then each rank
    would have to multiply them for all microbatches."""
    program, _ = step(None)
    payload = payload_of(program)
    assert payload is not None and payload.nbytes == sum(kind.nbytes for kind in program.sums)
    assert sorted(kind.shape for kind in payload.kinds) == sorted(kind.shape for kind in program.sums)
