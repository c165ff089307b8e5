# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The cache of captures on disk: a graph with equal contents finds the entry, and a different graph does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.capture.inference import capture_inference
from repro_mlir.frontends.torch.capture.training import capture_training
from repro_mlir.frontends.torch.lower import graph_hash, lowering
from repro_mlir.frontends.torch.trace.tracing import record
from repro_mlir.program import program, program_of
from torch import nn


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list to which each lowered program's text is added from now on."""
    texts: list[str] = []
    lower = lowering.lower

    def note(*arguments: Any, **options: Any) -> str:
        texts.append(lower(*arguments, **options))
        return texts[-1]

    monkeypatch.setattr(lowering, "lower", note)
    return texts


class Net(nn.Module):
    def __init__(self, probability: float = 0.5, scale: float = 2.0) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.probability, self.scale = probability, scale
        self.table = [torch.tensor([1.0, 2.0])]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.norm(self.first(x)).relu(), self.probability, self.training)
        return self.last(x) * self.scale + self.table[0]


def capture(model: nn.Module, rows: int = 3, **options: Any) -> Any:
    torch.manual_seed(0)
    batch = torch.rand(rows, 4), torch.rand(rows, 2)
    return capture_training(model, F.mse_loss, torch.optim.Adam(model.parameters()), batch, CaptureOptions(**options))


def test_found_again(lowered: list[str]) -> None:
    first, again = capture(Net()), capture(Net())
    assert len(lowered) == 1
    assert again.text == first.text == lowered[0]
    assert (again.state, again.inputs, again.outputs) == (first.state, first.inputs, first.outputs)
    assert again.random == first.random and again.random is not None
    assert again.bindings.written == first.bindings.written
    assert "norm.running_mean" in again.bindings.written and "seed" not in again.bindings.written
    assert program_of(again).hash == program_of(first).hash
    # A program from the cache has no graph until `graph` is read, which builds it.
    assert str(again.bindings.graph.graph) == str(first.bindings.graph.graph)


def test_without_a_folder(lowered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    assert capture(Net()).text == capture(Net()).text
    assert len(lowered) == 2


def changed_table() -> Net:
    model = Net()
    model.table = [torch.tensor([1.0, 2.5])]
    return model


@pytest.mark.parametrize(
    "make",
    [lambda: Net(0.25), lambda: Net(scale=-2.0), lambda: Net(0.0), lambda: Net().eval(), changed_table],
)
def test_another_step(make: Callable[[], nn.Module], lowered: list[str]) -> None:
    first, other = capture(Net()), capture(make())
    assert len(lowered) == 2 and other.text != first.text


@pytest.mark.parametrize("options", [{"clip_norm": 1.0}, {"autocast": torch.bfloat16}, {"returns": ("gradients",)}])
@pytest.mark.exhaustive("options1")
def test_other_options(options: dict[str, Any], lowered: list[str]) -> None:
    first, other = capture(Net()), capture(Net(), **options)
    assert len(lowered) == 2 and other.text != first.text
    assert capture(Net(), rows=4).text != first.text


def test_names_count(lowered: list[str]) -> None:
    class Named(nn.Module):
        def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
            (x,) = inputs.values()
            return x.exp()

    first, other = (capture_inference(Named(), {name: torch.rand(3)}) for name in "xy")
    assert [each.inputs[0].name for each in (first, other)] == ["batch['x']", "batch['y']"]
    assert len(lowered) == 2 and first.text != other.text


def test_default_type_counts(lowered: list[str]) -> None:
    class Wide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.int64) / 3

    x = torch.arange(4)
    first = capture_inference(Wide(), x)
    torch.set_default_dtype(torch.float64)
    try:
        other = capture_inference(Wide(), x)
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(lowered) == 2
    assert [each.outputs[0].element for each in (first, other)] == ["f32", "f64"]
    # Reading `graph` builds it with the default type that was set during the capture, not with the present one.
    (output,) = (node for node in other.bindings.graph.graph.nodes if node.op == "output")
    assert output.args[0][0].meta["val"].dtype is torch.float64


def test_operators_of_the_user() -> None:
    """A custom operator's implementation can change at any time, so a graph that calls one is not cached."""
    library = torch.library.Library("contents_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2.0, "CompositeExplicitAutograd")
    x = torch.rand(3)
    assert graph_hash.contents_of(record(lambda x: x * 2.0, [x])) is not None
    assert graph_hash.contents_of(record(torch.ops.contents_test.twice.default, [x])) is None


def test_another_frontend(lowered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    capture(Net())
    monkeypatch.setattr("repro_mlir.frontends.torch.capture.imported_steps.frontend_identity", lambda: b"changed")
    capture(Net())
    assert len(lowered) == 2


def test_a_frontend_that_was_replaced_meanwhile(lowered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """If the frontend's files have changed since they were imported, captures are not cached under the new files'
    identity."""
    monkeypatch.setattr(graph_hash, "_IMPORTED", 0.0)
    monkeypatch.setattr(
        "repro_mlir.frontends.torch.capture.imported_steps.frontend_identity", graph_hash.frontend_identity.__wrapped__
    )
    assert capture(Net()).text == capture(Net()).text
    assert len(lowered) == 2


def test_program_is_found_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts: list[str] = []
    run = program.import_program

    def note(text: str, passes: str) -> bytes:
        texts.append(text)
        return run(text, passes)

    monkeypatch.setattr(program, "import_program", note)
    first, again = program_of(capture(Net())), program_of(capture(Net()))
    assert again.data == first.data and len(texts) == 1
    # REPRO_DUMP needs the passes to run, so the program is not taken from the cache.
    monkeypatch.setenv("REPRO_DUMP", str(tmp_path / "dumps"))
    assert program_of(capture(Net())).data == first.data and len(texts) == 2
