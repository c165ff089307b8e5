# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the digests and texts of values that the recorder of `repro check-resume` computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from repro_mlir.resume_check.recorder import UNREADABLE, Known, Recorder, digest, release, value_text
from repro_mlir.resume_check.records import UNREADABLE as READ_AS_UNREADABLE


class Opaque(torch.Tensor):
    """A tensor without memory of its own, whose operations apply to another tensor."""

    @staticmethod
    def __new__(kind: type, held: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(kind, held.shape, dtype=held.dtype)

    def __init__(self, held: Any) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: tuple = (), keywords: Any = None) -> Any:
        return cls(function(*(each.held if isinstance(each, cls) else each for each in arguments), **(keywords or {})))


class Wrapped(Opaque):
    """The same, which names the tensor that it holds, as torch.compile requires."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None


def test_tensors_differ_in_type_shape_or_values() -> None:
    tensors = [torch.zeros(2), torch.ones(2), torch.ones(2, 1), torch.ones(2, dtype=torch.int32), torch.ones(0)]
    assert len({digest(each) for each in tensors}) == len(tensors)
    assert digest(torch.ones(2, 3).T) == digest(torch.ones(3, 2))


def test_a_tensor_that_wraps_others_has_their_values() -> None:
    assert digest(Wrapped(torch.ones(3))) == digest(Wrapped(torch.ones(3)))
    assert digest(Wrapped(torch.ones(3))) != digest(Wrapped(torch.zeros(3)))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc], ids=str)
def test_a_sparse_tensor_has_its_values(layout: Any) -> None:
    assert digest(torch.eye(3).to_sparse(layout=layout)) == digest(torch.eye(3))


@pytest.mark.parametrize("tensor", [torch.ones(3, device="meta"), Opaque(torch.ones(3))], ids=["meta", "opaque"])
def test_a_tensor_without_values_is_unreadable(tensor: Any) -> None:
    assert digest(tensor) == UNREADABLE == READ_AS_UNREADABLE
    assert digest(Wrapped(tensor)) == value_text(tensor) == value_text({"a": [1, tensor]}) == UNREADABLE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(True, "True"), (2, "2"), (0.5, "0.5"), (1j, "1j"), (None, "None"), ("x", "'x'")],
        *[(np.float64(0.1), "0.1"), (np.float32(0.5), "0.5"), (np.int16(-3), "-3"), (np.bool_(True), "True")],
        *[((0.9, np.float64(0.5)), "[0.9, 0.5]"), ({"a": np.int64(1)}, "{'a': 1}")],
        *[(torch.tensor([1.0, 2.0]), "[1.0, 2.0]"), (np.array([1, 2]), "[1, 2]")],
        # The bare class `object`, whose representation is the same in all processes of the tests.
        *[(object, None), ([object], None), ({object: 1}, None), (1 << 2000, None)],
    ],
    ids=lambda each: repr(each)[:40],
)
def test_the_text_of_a_value(value: Any, text: str | None) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    "values",
    [
        (torch.full((4,), 1 / 3, dtype=torch.float64), torch.tensor([1 / 3] * 3 + [0.3], dtype=torch.float64)),
        ([0] * 5000 + [1], [0] * 5000 + [2]),
        ([torch.ones(9)], [torch.zeros(9)]),
        ([torch.ones(9, requires_grad=True)], [torch.zeros(9, requires_grad=True)]),
        (np.ones(9), np.zeros(9)),
        (np.zeros(9), np.zeros((3, 3))),
        (np.zeros(9, np.int64), np.zeros(9, np.float64)),
        (np.array([1, "a"] * 9, object), np.array([1, "b"] * 9, object)),
    ],
    ids=["f64", "list", "tensors", "gradients", "array", "shape", "type", "objects"],
)
def test_values_that_differ_have_other_texts(values: tuple[Any, Any]) -> None:
    texts = [value_text(each) for each in values]
    assert None not in texts and texts[0] != texts[1]


def test_an_array_of_objects_has_their_values() -> None:
    assert value_text(np.array([1.5, "ab"] * 9, object)) == value_text(np.array([float("1.5"), "a" + "b"] * 9, object))


def test_objects_that_the_script_has_replaced_are_forgotten() -> None:
    def create() -> Any:
        optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)

    optimizers, schedulers = Known(), Known()
    for _ in range(2):
        optimizer, scheduler = create()
        optimizers.add(optimizer)
        schedulers.add(scheduler)
    assert [key for key, _ in optimizers.keyed()] == ["SGD", "SGD 2"]
    release([optimizers, schedulers])
    assert optimizers.objects == [optimizer] and schedulers.objects == [scheduler]
    # Without a release, the state at the end of the process has the objects of functions that have returned.
    optimizer = scheduler = None
    assert [key for key, _ in schedulers.keyed()] == ["StepLR"]


def test_generators_of_one_name_and_of_modules_are_recorded(tmp_path: Any) -> None:
    recorder = Recorder(str(tmp_path / "record"), 1 << 20, None)
    model = torch.nn.Linear(1, 1)
    model.noise = np.random.PCG64(1)

    def inner(generator: Any) -> dict[str, str]:
        recorder._add_model(model)
        return dict(recorder._generators())

    generator = torch.Generator().manual_seed(1)
    before = inner(np.random.default_rng(1))
    generator.manual_seed(2)
    model.noise.advance(1)
    after = inner(np.random.default_rng(1))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"the generator generator (2)", "the generator model.noise"}
    assert "the generator generator" in before
