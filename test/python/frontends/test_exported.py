# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures programs of torch.export as models."""

from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

nn = torch.nn


def model() -> Any:
    layers = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.GELU(), nn.Linear(5, 2)
    return repro_mlir.initialize(nn.Sequential(*layers), 1).eval()


X = torch.linspace(-1, 2, 12).reshape(3, 4)


def test_the_program_is_that_of_the_model() -> None:
    exported = torch.export.export(model(), (X,))
    program, expected = repro_mlir.capture(exported), repro_mlir.capture(model(), (X,))
    assert (program.hash, program.state) == (expected.hash, expected.state)
    _, outputs = repro_mlir.compile(program)(program.initial_state(), X)
    torch.testing.assert_close(next(iter(outputs.values())), model()(X))


def test_P0_of_any_size() -> None:
    """An exported program with a dynamic size is captured once per size. A row has the same bits in each captured
    program."""
    exported = torch.export.export(model(), (X,), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=64)},))
    rows = []
    for size in (1, 3, 7):
        x = X[:1].expand(size, 4).contiguous()
        program = repro_mlir.capture(exported, x)
        _, outputs = repro_mlir.compile(program)(program.initial_state(), x)
        rows += [row.numpy().tobytes() for row in next(iter(outputs.values()))]
    assert len(rows) == 11 and len({*rows}) == 1


def test_inputs_by_name() -> None:
    class Two(nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a - 2 * b

    by_name = torch.export.export(Two(), (), {"a": X, "b": X + 1})
    assert len(repro_mlir.capture(by_name).inputs) == 2
    mixed = torch.export.export(Two(), (X,), {"b": X + 1})
    with pytest.raises(ReproError, match="its example inputs are absent or partly named"):
        repro_mlir.capture(mixed)


def test_it_cannot_be_trained() -> None:
    with pytest.raises(ReproError, match="got an ExportedProgram, which is inference only"):
        repro_mlir.capture(torch.export.export(model(), (X,)), None, None, X)
