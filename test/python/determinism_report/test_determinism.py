# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests `repro_mlir.determinism` and the command on real models: what PyTorch executes, what is refused, the shares."""

import copy
import json
import math
import re
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.cli.main import main
from repro_mlir.determinism_report.page import page
from repro_mlir.determinism_report.report import GRADES
from repro_mlir.determinism_report.rules import RULES, TERMINATORS
from repro_mlir.reference.stored import OPERATIONS

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"

REFUSED = """
import torch
from torch import nn

class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x, groups):
        pooled = torch.zeros(8, 16).index_add(0, groups, self.layer(x).relu())
        scale = torch.linalg.eigvals(pooled.detach()[:, :8]).real.amax()
        if pooled.sum() > 1000:
            pooled = pooled * 2
        return pooled * scale

def training():
    torch.manual_seed(0)
    model = Pooled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.randn(6, 16), torch.tensor([0, 1, 1, 3, 3, 3]), torch.randn(8, 16))
    return model, nn.functional.mse_loss, optimizer, [batch]
"""


def run(capsys, *words: str) -> tuple[int, dict]:
    status = main(["determinism", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_refused_script_names_each_operator_and_its_line(tmp_path: Path, capsys) -> None:
    script = tmp_path / "refused.py"
    script.write_text(REFUSED)
    status, found = run(capsys, str(script), "--html", str(tmp_path / "page.html"))
    assert status == 1 and found["program"] is None and found["defined"] == 0
    # The capture ends at the decision, and the operator that is refused before has a line of its own.
    assert "refused.py:13: control flow" in found["refusal"]
    (refused,) = found["refused"]
    assert (refused["name"], refused["place"]) == ("aten.linalg_eig", "refused.py:12")
    assert "complex" in refused["reason"]
    assert 0.8 < found["accepted"]["operators"] < 1 and 0.8 < found["accepted"]["arithmetic"] < 1
    eager = {(each["name"], each["cause"]): each for each in found["eager"]}
    added = eager["aten.index_add", "atomics on CUDA"]
    assert (added["cpu"], added["cuda"]) == ("same machine", "same run")
    assert added["places"] == [["refused.py:11", 1]]
    assert eager["aten.relu", "exact"]["cuda"] == "everywhere"
    html = (tmp_path / "page.html").read_text()
    assert "The compiler refuses the step" in html and "linalg_eig" in html


def test_an_example_is_defined_here_and_not_in_pytorch(capsys) -> None:
    status, found = run(capsys, str(EXAMPLES / "digits_cnn.py"))
    assert status == 0 and found["defined"] == 1 and found["refused"] == []
    assert re.fullmatch("[0-9a-f]{64}", found["program"])
    for device in ("cpu", "cuda"):
        for what in ("operators", "arithmetic"):
            assert math.isclose(sum(found["shares"][device][grade][what] for grade in GRADES), 1)
        assert found["shares"][device]["unknown"] == {"operators": 0, "arithmetic": 0}
    eager = {(each["name"], each["cause"]): each for each in found["eager"]}
    assert eager["aten.convolution", "atomics on CUDA"]["count"] == 2
    assert found["shares"]["cpu"]["everywhere"]["arithmetic"] < 0.01
    assert found["shares"]["cuda"]["same run"]["arithmetic"] > 0.8
    named = {each["name"]: each["rules"] for each in found["operations"]}
    assert "F1" in named["repro.fold"] and "R1" in named["repro.random"] and named["repro.exp"] == ["S5"]


def transformer() -> tuple:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(30, 8), torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.5)
    )
    optimizer = torch.optim.AdamW(model.parameters())

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        groups = torch.zeros(3, 8).index_add(0, torch.tensor([0, 2, 2, 0]), output.mean(1))
        return (groups - target).square().mean()

    return model, loss_fn, optimizer


def test_the_users_objects_stay_as_they_are() -> None:
    model, loss_fn, optimizer = transformer()
    batch = torch.randint(30, (4, 6)), torch.randn(3, 8)
    # A step of the user, so that there are gradients and states of the optimizer.
    loss_fn(model(batch[0]), batch[1]).backward()
    optimizer.step()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict(), [each.grad for each in model.parameters()]))
    gradients = [each.grad for each in model.parameters()]
    state = torch.get_rng_state()
    report = repro_mlir.determinism(model, loss_fn, optimizer, batch)
    assert report.program == repro_mlir.capture(model, loss_fn, optimizer, batch).hash
    assert torch.equal(torch.get_rng_state(), state)
    assert all(each.grad is given for each, given in zip(model.parameters(), gradients, strict=True))
    after = model.state_dict(), optimizer.state_dict(), gradients
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    causes = {each.name: each.cause for each in report.eager}
    assert causes["aten.embedding_dense_backward"] == "order" and causes["aten.bernoulli_"] == "random numbers"
    assert causes["aten.index_add"] == "atomics on CUDA"
    assert causes["aten.addcdiv_"] == "roundings" and causes["aten.sqrt"] == "exact"
    assert "100 % of the operations have defined bits" in str(report)


class WritesData(torch.optim.Optimizer):
    """Updates parameters by their `data`, whose writes no version of a tensor counts."""

    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for each in group["params"]:
                each.data.add_(each.grad.data, alpha=-0.1)


class AssignsBuffer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        return self.layer(x)


class AssignsData(AssignsBuffer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.data = torch.ones(())
        return self.layer(x)


@pytest.mark.parametrize("kind", [AssignsBuffer, AssignsData])
def test_writes_that_no_version_counts_are_undone(kind: type[AssignsBuffer]) -> None:
    model = kind()
    held = [*model.parameters(), *model.buffers()]
    before = copy.deepcopy(model.state_dict())
    batch = torch.ones(2, 3), torch.tensor([0, 1])
    report = repro_mlir.determinism(model, torch.nn.functional.cross_entropy, WritesData(model.parameters(), {}), batch)
    assert all(each is given for each, given in zip([*model.parameters(), *model.buffers()], held, strict=True))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert report.eager
    if kind is AssignsData:
        assert report.refusal is not None and "assigns to the data of a tensor" in report.refusal
        assert "refused    test_determinism.py" in str(report) and not report.refused


def test_unset_memory_is_no_result() -> None:
    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.empty(3)

    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.empty(3).fill_(2)

    found = {each.__name__: repro_mlir.determinism(each(), torch.ones(3)).eager for each in (Reads, Writes)}
    causes = {name: {each.name: each.cause for each in eager} for name, eager in found.items()}
    assert causes == {"Reads": {"aten.add": "unset memory"}, "Writes": {"aten.fill_": "exact", "aten.add": "exact"}}


def test_a_program_file_has_rules_and_no_operators_of_pytorch(tmp_path: Path, capsys) -> None:
    program = repro_mlir.capture(torch.nn.Linear(4, 2), torch.ones(3, 4))
    program.save(tmp_path / "linear.repro")
    status, found = run(capsys, str(tmp_path / "linear.repro"))
    assert status == 0 and found["program"] == program.hash
    assert found["eager"] == [] and found["shares"] is None
    assert "repro.fold" in {each["name"] for each in found["operations"]}


def test_a_refused_onnx_model_is_an_answer_and_a_damaged_one_an_error(tmp_path: Path, capsys) -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Unique", ["x"], ["y"])
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "unique",
        [onnx.helper.make_tensor_value_info("x", kind, [4])],
        [onnx.helper.make_tensor_value_info("y", kind, ["n"])],
    )
    onnx.save(onnx.helper.make_model(graph), tmp_path / "unique.onnx")
    status, found = run(capsys, str(tmp_path / "unique.onnx"))
    assert status == 1 and "Unique" in found["refusal"]
    assert main(["determinism", str(tmp_path / "missing.onnx")]) == 2


def test_wrong_inputs_are_errors(tmp_path: Path, capsys) -> None:
    script = tmp_path / "fails.py"
    script.write_text(REFUSED.replace("pooled * 2", "pooled @ pooled").replace("> 1000", "> -1e9"))
    assert main(["determinism", str(script)]) == 2
    assert "fails.py:14: " in capsys.readouterr().err
    with pytest.raises(ReproError, match="expected determinism"):
        repro_mlir.determinism(torch.nn.Linear(1, 1))
    with pytest.raises(ReproError, match="for training steps only"):
        repro_mlir.determinism(torch.nn.Linear(1, 1), torch.ones(1), clip_norm=1.0)
    with pytest.raises(ReproError, match=re.escape("expected a torch.nn.Module")):
        repro_mlir.determinism(None, torch.ones(1))


def test_each_operation_of_a_program_has_rules_that_exist() -> None:
    assert RULES.keys() == OPERATIONS.keys() - TERMINATORS
    text = (ROOT / "docs" / "reference" / "numerics.md").read_text()
    for rules in RULES.values():
        assert all(f"**({label})**" in text for label in rules.labels)


def test_an_operation_without_rules_is_unknown_and_not_defined(monkeypatch) -> None:
    model = torch.nn.Linear(4, 2)
    assert repro_mlir.determinism(model, torch.ones(3, 4)).defined == 1
    monkeypatch.delitem(RULES, "repro.fold")
    report = repro_mlir.determinism(model, torch.ones(3, 4))
    counts = {each.name: each.count for each in report.operations}
    assert [each.name for each in report.operations if not each.rules] == ["repro.fold"]
    assert report.defined == 1 - counts["repro.fold"] / sum(counts.values()) < 1
    assert "unknown" in str(report) and "100 % of the operations" not in str(report)


def test_a_page_escapes_what_the_user_wrote() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    Model.__name__ = "</script><b>"
    text = page(repro_mlir.determinism(Model(), torch.ones(2)))
    assert "</script><b>" not in text and "&lt;/script&gt;&lt;b&gt;" in text
