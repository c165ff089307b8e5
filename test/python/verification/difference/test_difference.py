# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro diff` names the step, the tensor and the operator at which two runs begin to differ."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import blake3
import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.cli import main as cli
from repro_mlir.frontends.torch.base.source_lines import caller_of
from repro_mlir.frontends.torch.compile_backend import eager
from repro_mlir.script_runs.batches import ScriptBatches
from repro_mlir.script_runs.eager_side import EagerSide, nodes_of
from repro_mlir.verification.difference.page import page
from repro_mlir.verification.difference.sides import TargetSide, compare_operators, find_difference
from repro_mlir.verification.elements import first_difference, ulp_distances
from repro_mlir.verification.operators import Operator, OperatorGraph, Tracer
from support.dispute_runs import faulty_tracer, graph, honest
from support.small_receipts import CHEATED, SCRIPT
from support.stored_bytes import file, sections

# --- Elements ---


def f32(*bits: int) -> np.ndarray:
    return np.array(bits, np.uint32).view(np.float32)


def test_ulps() -> None:
    kind = TensorType("x", "f32", (6,))
    first = f32(0x3F800000, 0x00000000, 0x80000001, 0x7F7FFFFF, 0x7FC00000, 0xFFC00001)
    second = f32(0x3F800003, 0x80000000, 0x00000001, 0x7F800000, 0x3F800000, 0x7FC00000)
    # -0 and +0 have different bits and a distance of 0 ulp; two NaNs are equal (V4).
    assert ulp_distances(first, second, kind).tolist() == [3, 0, 2, 1, -1, 0]
    found = first_difference(first, second, kind)
    assert found is not None and (found.index, found.ulps, found.count, found.max_ulps) == ((0,), 3, 5, 3)
    assert (found.first_bits, found.second_bits, found.first) == ("0x3f800000", "0x3f800003", "1.0")
    assert first_difference(first, first.copy(), kind) is None


def test_absolute_differences() -> None:
    """Elements that are not finite count for neither the difference nor the largest value."""
    kind = TensorType("x", "f64", (4,))
    first, second = np.array([3.0, -8.0, np.inf, np.nan]), np.array([3.5, -8.0, 1.0, 2.0])
    found = first_difference(first, second, kind)
    assert found is not None and (found.max_absolute, found.max_magnitude, found.ratio) == (0.5, 8.0, 0.0625)
    largest = np.finfo(np.float64).max
    found = first_difference(np.full(4, largest), np.full(4, -largest), kind)
    assert found is not None and found.max_absolute == largest and found.ratio == 1.0
    found = first_difference(np.zeros(4), np.full(4, 5e-324), kind)
    assert found is not None and found.max_absolute == 5e-324 and found.ratio is None
    found = first_difference(np.full(4, 5e-324), np.full(4, 1e300), kind)
    assert found is not None and found.ratio == largest


@pytest.mark.parametrize(
    ("element", "first", "second", "ulps", "text"),
    [
        ("bf16", np.array([[0x3F80]], np.uint16), np.array([[0x3F82]], np.uint16), 2, "1.0"),
        ("f8E5M2", np.array([[0x3C]], np.uint8), np.array([[0x3D]], np.uint8), 1, "1.0"),
        ("f64", np.array([[1.0]]), np.array([[-1.0]]), 9214364837600034816, "1.0"),
        ("i64", np.array([[7]]), np.array([[-3]]), 10, "7"),
        ("i1", np.array([[True]]), np.array([[False]]), 1, "True"),
    ],
)
def test_types(element: str, first: np.ndarray, second: np.ndarray, ulps: int, text: str) -> None:
    found = first_difference(first, second, TensorType("x", element, (1, 1)))
    assert found is not None and (found.index, found.ulps, found.first) == ((0, 0), ulps, text)


# --- Operators ---


class FaultySide:
    """A side of a comparison: the interpreter, but one bit of one operator's result is flipped at one step."""

    name = "faulty"

    def __init__(self, step: int, index: int, bit: int) -> None:
        self._right, self._wrong = Tracer(graph()), faulty_tracer(graph(), index, bit)
        self._step = step
        self._now = 0

    def results(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        self._now += 1
        return self._tracer().results(arrays)

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        yield from self._tracer().run(arrays)

    def source(self, operator: Operator) -> Operator:
        return operator

    def _tracer(self) -> Tracer:
        return self._wrong if self._now == self._step else self._right


KINDS = ("repro.fold", "linalg.generic", "repro.random", "repro.scatter", "tensor.pad", "repro.sort", "tensor.splat")


@pytest.mark.parametrize("name", KINDS)
def test_the_first_wrong_operator(name: str) -> None:
    operator = next(o for o in graph().operators if o.name == name)
    sides = TargetSide(graph(), "reference"), FaultySide(6, operator.index, 40)
    taken = iter(honest().inputs)
    found = find_difference(graph(), sides, lambda: next(taken), 20)
    assert found is not None and found.step == 6 and not found.given
    assert found.operators[0].operator == operator and found.operators[0].tensor.element.count == 1
    assert found.compared[0] == found.compared[1] and found.results
    assert sum(count for _, count in found.operators[0].tensor.histogram) == found.operators[0].tensor.element.size
    assert any(line.startswith(f"operator {operator.index} {name}") for line in found.lines())
    check_page(page(found))


def test_equal_targets() -> None:
    sides = TargetSide(graph(), "reference"), TargetSide(graph(), "cpu", 2)
    taken = iter(honest().inputs)
    assert find_difference(graph(), sides, lambda: next(taken), 10) is None


class Checker(HTMLParser):
    VOID = ("link", "meta", "rect", "path")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert {value for name, value in attributes if name in ("src", "href")} <= {"data:,"}, "nothing from elsewhere"
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def check_page(text: str) -> None:
    checker = Checker()
    checker.feed(text)
    assert not checker.open and {"svg", "table", "h1", "rect"} <= checker.seen


# --- Receipts and scripts ---


def test_receipts(folder: Path) -> None:
    assert repro_mlir.diff(folder / "honest", folder / "honest", targets=["reference"]) is None
    found = repro_mlir.diff(folder / "honest", folder / "cheat", targets=["reference"])
    # Both runs begin step 5 with equal state and inputs, so `diff` runs the step again and gets the result of the
    # honest run.
    assert found is not None and found.step == CHEATED and not found.given and not found.operators
    assert found.note.startswith(f"the results that {folder / 'cheat'} records for step {CHEATED} are not")
    assert "state inner.weight" in found.note or "output loss" in found.note
    found = repro_mlir.diff(folder / "honest", folder / "rate", targets=["reference"])
    assert found is not None and found.step == CHEATED and not found.note
    assert [tensor.name for tensor in found.given] == ["lr"]
    assert found.operators and found.operators[0].operator.line is not None
    check_page(page(found))
    with pytest.raises(ReproError, match="expected one target"):
        repro_mlir.diff(folder / "honest", folder / "rate", targets=["reference", "cpu"])


def test_origins_that_the_receipts_state_differently(folder: Path, tmp_path: Path) -> None:
    """A receipt can name any line for an operator: the identity of a program does not cover its origins."""
    other = shutil.copytree(folder / "cheat", tmp_path / "cheat")
    header = repro_mlir.Receipt(other).header
    program = other / header.program_file(0)
    body, *others = sections(program.read_bytes())
    program.write_bytes(file(body[1], *others[:-1]))
    text = (other / "receipt.json").read_text()
    digest = blake3.blake3(program.read_bytes()).hexdigest()
    (other / "receipt.json").write_text(text.replace(header.programs[0].digest, digest))
    notes = [repro_mlir.diff(folder / "honest", each, targets=["reference"]).note for each in (folder / "cheat", other)]
    told = "the files of the program have different names, messages or origins"
    assert told not in notes[0] and notes[1].startswith(told) and f"are those of {folder / 'honest'}" in notes[1]


def test_eager(folder: Path) -> None:
    script = folder / "script.py"
    found = repro_mlir.diff(script, targets=["eager", "reference"], steps=20)
    assert found is not None
    compared, computing = found.compared
    assert compared > computing * 2 / 3
    # Results of corresponding operators differ by rounding only; those of unrelated operators would differ by far more.
    assert all((each.tensor.element.max_ulps or 0) < 1 << 16 for each in found.operators)
    assert all(each.operator.line is not None for each in found.operators)
    check_page(page(found))
    assert repro_mlir.diff(script, targets=["eager", "cpu"], steps=5, ulps=1 << 22) is None


MOVES = {torch.ops.aten.permute.default, torch.ops.aten.expand.default, torch.ops.aten.view.default}
MOVES |= {torch.ops.aten.unsqueeze.default, torch.ops.aten.alias.default, torch.ops.aten.clone.default}
CONSTANTS = {torch.ops.aten.full.default, torch.ops.aten.scalar_tensor.default}

MEANS = """
import repro_mlir, torch

class Normalized(torch.nn.Module):
    def forward(self, x):
        centered = x - x.mean(dim=1, keepdim=True)
        return centered / (centered * centered).mean(dim=1, keepdim=True).sqrt()

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Normalized()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(self.norm(x)))

def training():
    model = repro_mlir.initialize(torch.nn.Sequential(Block(), Block(), torch.nn.Linear(4, 2)), 0)
    generator = torch.Generator().manual_seed(1)
    batch = torch.randn(6, 4, generator=generator), torch.randint(2, (6,), generator=generator)
    return model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), [batch]
"""


def plant(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Makes the node `name` of PyTorch's graph return values with a large error (times 1.5, plus 0.25)."""
    right = eager._Keeping.run_node

    def wrong(self: eager._Keeping, node: torch.fx.Node) -> object:
        value = right(self, node)
        if node.name != name:
            return value
        value = value * 1.5 + 0.25
        if node.name in self._keep:
            self._keep[node.name] = value.clone()
        return value

    monkeypatch.setattr(eager._Keeping, "run_node", wrong)


def test_a_planted_difference_is_attributed_to_its_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants an error in each node of the graph: it must be attributed to an operator of the node's module, and not to
    one that only moves data."""
    script = tmp_path / "script.py"
    script.write_text(MEANS)
    batches = ScriptBatches(str(script))
    program, captured = batches.program, batches.imported.bindings
    running = eager.EagerGraph(program, captured)
    names = nodes_of(eager.with_node_names(program, captured, batches.options))
    modules = {i: running.modules[name] for i, name in enumerate(names) if name in running.modules}
    graph = OperatorGraph(program, modules)
    sides = EagerSide(graph, names, running), TargetSide(graph, "reference")
    inputs = batches.take()
    nodes = [node for node in captured.graph.graph.nodes if caller_of(node) and node.meta["val"].dtype == torch.float32]
    # Leaves out operators that subtract nearly equal values: rounding alone makes them exceed this limit.
    ulps = 1 << 20
    natural, _, _ = compare_operators(sides, [[*program.initial, *inputs]] * 2, ulps)
    noisy = {each.operator.index for each in natural}
    drowned = {names[index] for index in noisy}
    assert len(noisy) < 8
    seen, wrong = set(), []
    for node in nodes:
        if (
            node.target in MOVES | CONSTANTS
            or node.name in drowned
            or (kind := (str(node.target), caller_of(node))) in seen
        ):
            continue
        seen.add(kind)
        with monkeypatch.context() as patched:
            plant(patched, node.name)
            found = find_difference(graph, sides, lambda: inputs, 1, ulps)
        assert found is not None, kind
        operator = next(each.operator for each in found.operators if each.operator.index not in noisy)
        told = operator.module in str(operator) and operator.line
        if operator.module != caller_of(node) or not told or graph.moves(operator):
            wrong.append((kind, operator))
        # The page draws the operators in `equal` as equal, so none of them may be listed as different.
        assert not found.equal & {each.operator.index for each in found.operators}
    assert not wrong
    assert {module for _, module in seen} >= {"module 0.norm", "module 0.linear", "module 1", "module 2"}
    assert {target for target, _ in seen} >= {"aten.sum.dim_IntList", "aten.mm.default", "aten.sqrt.default"}


@pytest.mark.exhaustive
def test_digits_cnn_names_no_data_movement() -> None:
    example = Path(__file__).resolve().parents[4] / "examples" / "digits_cnn.py"
    found = repro_mlir.diff(example, targets=["eager", "cpu"])
    assert found is not None and found.operators
    for each in found.operators:
        assert not found.graph.moves(each.operator), each
        assert each.operator.module or each.operator.location, each
    first = found.operators[0].operator
    assert first.name in ("repro.fold", "linalg.generic") and first.module.startswith("module ")
    compared, computing = found.compared
    assert compared > computing / 2
    check_page(page(found))


def test_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, html = str(folder / "script.py"), tmp_path / "difference.html"
    assert cli.main(["diff", script, "--targets", "reference,cpu", "--steps", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"equal": True}
    arguments = ["diff", str(folder / "honest"), str(folder / "rate"), "--targets", "reference"]
    assert cli.main([*arguments, "--html", str(html), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["step"] == CHEATED and report["given"][0]["name"] == "lr"
    assert report["given"][0]["first"]["first_bits"] == "0x3dcccccd"
    check_page(html.read_text())
    assert cli.main(arguments) == 1
    assert "given    lr: f32: 1 of 1 elements differ" in capsys.readouterr().out


def test_mistakes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, receipt, ragged = str(folder / "script.py"), str(folder / "honest"), tmp_path / "ragged.py"
    # Batches of different sizes need different programs, and `diff` refuses runs of different programs.
    growing = SCRIPT.replace("while True:", "for size in range(6, 9):").replace("torch.randn(6,", "torch.randn(size,")
    ragged.write_text(growing.replace("(6,)", "(size,)"))
    mistakes = {
        (script,): "expected two receipts, or a script and two targets",
        (script, "--targets", "cpu"): "expected two receipts, or a script and two targets",
        (receipt, receipt, receipt): "expected two receipts or one script, got 3 paths",
        (receipt, script): "expected a receipt, got a Python script",
        (receipt, "--targets", "cpu,reference"): "expected two receipts or one Python script, got one receipt",
        (script, "--targets", "cpu,nowhere"): "unknown target 'nowhere'",
        (receipt, receipt, "--targets", "nowhere"): "unknown target 'nowhere'",
        (script, "--targets", "cpu,eager", "--ulps", "-1"): "expected --ulps of at least 0",
        (script, "--targets", "cpu,eager", "--html", str(tmp_path)): "Is a directory",
        (
            str(ragged),
            "--targets",
            "cpu,reference",
            "--steps",
            "2",
        ): "needs another program than batch 1: compare fewer steps",
    }
    for arguments, message in mistakes.items():
        assert cli.main(["diff", *arguments]) == 2, arguments
        captured = capsys.readouterr()
        assert captured.err.startswith("repro: error: ") and captured.err.count("\n") == 1 and not captured.out
        assert message in captured.err, captured.err
