# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the digests of tensors that the recorder of `repro check-resume` computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from repro_mlir.resume_check.recorder import digest


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
    assert digest(tensor) == "unreadable"
