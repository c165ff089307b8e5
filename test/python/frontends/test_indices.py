# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Results of reads and writes with index tensors that have negative indices or are empty, compared with those of
PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from operator_checks import check, gradients
from repro_mlir.base.errors import StepFailed
from repro_mlir.frontends.torch import CaptureError
from support.applied import Applied


def _written(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    x = x.clone()
    x[index] = value
    return x


def test_negative_indices() -> None:
    x, index, rows = torch.arange(12.0).reshape(4, 3), torch.tensor([-1, 0]), torch.randn(2, 3)
    functions = {
        "constant": lambda x, i, v: _written(x, torch.tensor([-1]), 0.0),
        "rows": lambda x, i, v: _written(x, i, v),
        "columns": lambda x, i, v: _written(x, (slice(None), i), 5.0),
        "pairs": lambda x, i, v: _written(x, (i, torch.tensor([-1, -3])), 5.0),
        "outer": lambda x, i, v: _written(x, (i[:, None], i), 5.0),
        "added": lambda x, i, v: x.index_put((i,), v, accumulate=True),
        "of 32 bits": lambda x, i, v: x.index_put((i.int(),), v),
        "put": lambda x, i, v: x.put(i, v[0, :2], True),
        "filled": lambda x, i, v: x.index_fill(1, i, 2.0),
        "read": lambda x, i, v: (x[i], x[:, i], x[torch.tensor([0, -1])], x.take(i)),
    }
    check({name: gradients(function) for name, function in functions.items()}, x, index, rows)
    check({"booleans": lambda x, i, v: (x > 5).index_put((i,), torch.tensor(True))}, x, index, rows)


def test_an_error_names_the_index_that_was_given() -> None:
    compiled = repro_mlir.compile(
        repro_mlir.capture(Applied(lambda x, i: _written(x, i, 1.0)), (torch.zeros(4, 3), torch.tensor([0]))),
        "reference",
    )
    with pytest.raises(StepFailed, match="got -5"):
        compiled({}, torch.zeros(4, 3), torch.tensor([-5]))


def test_no_indices() -> None:
    none, table = torch.zeros(0, dtype=torch.int64), torch.randn(5, 3)
    functions = {
        "embedding": lambda i, w: F.embedding(i, w, padding_idx=1),
        "of two dimensions": lambda i, w: F.embedding(i.reshape(2, 0), w),
        "read": lambda i, w: (w[i], w.index_select(0, i), w.take(i)),
        "written": lambda i, w: (w.index_put((i,), torch.tensor(1.0)), w.index_fill(0, i, 1.0)),
        "bags": lambda i, w: F.embedding_bag(i, w, torch.tensor([0, 0]), mode="mean"),
        "bags of two dimensions": lambda i, w: F.embedding_bag(i.reshape(0, 3), w, mode="sum"),
    }
    check({name: gradients(function) for name, function in functions.items()}, none, table)


def test_sparse_gradients_are_refused() -> None:
    model = torch.nn.Embedding(5, 3, sparse=True)
    trainer = repro_mlir.Trainer(
        model, lambda out, y: (out - y).sum(), torch.optim.SGD(model.parameters(), lr=0.1), target="reference"
    )
    with pytest.raises(CaptureError, match="sparse=True is not supported: expected sparse=False"):
        trainer.step(torch.tensor([1]), torch.zeros(1, 3))
