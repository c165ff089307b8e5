# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Each mistake of docs/guides/troubleshooting.md gives the message that the page shows."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "troubleshooting.md").read_text()
MESSAGES = re.findall(r"^\| `(.*?)` \|", PAGE, flags=re.M)
X, Y = torch.ones(6, 8), torch.arange(6) % 4
LOSSES: list[torch.Tensor] = []
cross_entropy = torch.nn.functional.cross_entropy


class Scaled(torch.nn.Module):
    """Multiplies the output of a linear layer by what a function returns."""

    def __init__(self, factor: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.factor = torch.nn.Linear(8, 4), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y * self.factor(x, y)


def step(
    factor: Any = lambda x, y: 1, loss: Any = cross_entropy, x=X, y=Y, optimizer: Any = torch.optim.SGD, **options: Any
) -> Any:
    model = Scaled(factor)
    made = optimizer(model.parameters(), lr=0.1) if isinstance(optimizer, type) else optimizer
    return repro_mlir.Trainer(model, loss, made, **options).step(x, y)


def sign(x: torch.Tensor, y: torch.Tensor) -> int:
    return 1 if y.sum() > 0 else -1


def equal_or_one(x: torch.Tensor, y: torch.Tensor) -> int:
    try:
        return int(torch.equal(x, x + 1))
    except RuntimeError:
        return 1


def within_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        step()


def write_a_receipt_twice() -> None:
    for _ in range(2):
        model = Scaled(lambda x, y: 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with repro_mlir.Trainer(model, cross_entropy, optimizer, receipt="run.receipt") as trainer:
            trainer.step(X, Y)


def call_the_optimizer() -> None:
    model = Scaled(lambda x, y: 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = repro_mlir.Trainer(model, cross_entropy, optimizer)
    trainer.step(X, Y)
    optimizer.step()


def verify_a_run_without_end() -> None:
    model = Scaled(lambda x, y: 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with repro_mlir.Trainer(model, cross_entropy, optimizer, receipt="run.receipt") as trainer:
        trainer.step(X, Y)
        repro_mlir.verify("run.receipt")


def resume_a_receipt(use: Callable[[repro_mlir.Trainer], object]) -> None:
    for resume in (False, True):
        torch.manual_seed(0)
        model = Scaled(lambda x, y: 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        options = repro_mlir.ReceiptOptions("run.receipt", resume=resume)
        with repro_mlir.Trainer(model, cross_entropy, optimizer, target="reference", receipt=options) as trainer:
            _ = use(trainer) if resume else trainer.step(X, Y)


def optimizer_of_another_model() -> torch.optim.Optimizer:
    return torch.optim.SGD(torch.nn.Linear(3, 5).parameters(), lr=0.1)


MISTAKES: dict[str, Callable[[], object]] = {
    "if": lambda: step(sign),
    "float": lambda: step(lambda x, y: float(x.sum())),
    "caught error": lambda: step(equal_or_one),
    "numpy": lambda: step(lambda x, y: torch.tensor(x.numpy())),
    "a row of selected rows": lambda: step(lambda x, y: y[y[:, 0] > 0][0]),
    "no lowering": lambda: step(lambda x, y: torch.linalg.svdvals(x).sum()),
    "random": lambda: step(lambda x, y: random.random()),
    "list of losses": lambda: step(lambda x, y: LOSSES.append(y.detach()) or 1),
    "text": lambda: step(lambda x, y: print(y)),
    "dimensions of classes": lambda: step(y=Y[:, None]),
    "no reduction": lambda: step(loss=lambda y, t: cross_entropy(y, t, reduction="none")),
    "item": lambda: step(loss=lambda y, t: cross_entropy(y, t).item()),
    "width": lambda: step(x=torch.ones(6, 9)),
    "float64": lambda: step(x=X.double()),
    "float target": lambda: step(y=torch.ones(6)),
    "optimizer of another model": lambda: step(optimizer=optimizer_of_another_model()),
    "LBFGS": lambda: step(optimizer=torch.optim.LBFGS),
    "autocast": within_autocast,
    "class out of range": lambda: step(y=torch.full((6,), 9)),
    "receipt exists": write_a_receipt_twice,
    "steps of a receipt": lambda: resume_a_receipt(lambda trainer: trainer.steps),
    "batches of a receipt": lambda: resume_a_receipt(lambda trainer: trainer.step(X, Y)),
    "item of a step's loss": lambda: step().item(),
    "backward of a step's loss": lambda: step().backward(),
    "scale of a step's loss": lambda: torch.amp.GradScaler("cpu").scale(step()),
    "leftover call": call_the_optimizer,
    "no end of a run": verify_a_run_without_end,
    "target": lambda: step(target="cpu:avx9"),
    "recipe": lambda: step(precision="mxfp9"),
}
COMMANDS = {
    "no receipt": ["verify", "notes"],
    "no file or folder": ["verify", "none.receipt"],
    "another kind of file": ["verify", "empty.py"],
    "no script": ["train", "none.py", "--steps", "1"],
    "no training()": ["train", "empty.py", "--steps", "1"],
    "no module": ["train", "imports.py", "--steps", "1"],
    "option": ["train", "empty.py", "--stesp", "1"],
    "learning rate": ["train", "empty.py", "--lr", "0.1"],
}
ELSEWHERE = ("expected the CUDA driver libcuda.so.1, …", "RuntimeWarning: … has no seal, …")
"""Messages that other tests test: the first, which a machine with a GPU does not give, in test/python/runner, and the
second, at the end of a process, in test/python/train/test_unsealed_receipts.py."""


def rows_of(message: str) -> list[str]:
    patterns = {row: ".*".join(map(re.escape, row.split("…"))) for row in MESSAGES}
    return [row for row, pattern in patterns.items() if re.fullmatch(rf"(.*: )?{pattern}.*", message, flags=re.S)]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_python(mistake: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AttributeError, ValueError) if "step's loss" in mistake else ReproError) as caught:
        MISTAKES[mistake]()
    assert len(rows_of(str(caught.value))) == 1, caught.value


@pytest.mark.parametrize("mistake", COMMANDS)
def test_mistakes_in_commands(mistake: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.py").write_text("")
    Path("imports.py").write_text("import no_such_module\n\ndef training(): ...\n")
    Path("notes").write_text("text")
    assert main(COMMANDS[mistake]) == 2
    message = capsys.readouterr().err.strip().removeprefix("repro: error: ")
    assert len(rows_of(message)) == 1, message


def test_each_message_has_a_mistake() -> None:
    assert len(MESSAGES) == len(set(MESSAGES)) == len(MISTAKES) + len(COMMANDS) + len(ELSEWHERE)
    assert set(ELSEWHERE) <= set(MESSAGES)
