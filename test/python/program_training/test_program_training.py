# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps made from inference programs: they match PyTorch's, have the same bits on all targets, and have
receipts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.program import import_program
from repro_mlir.program.differentiation import differentiate
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program_training import (
    Optimizer,
    ProgramTrainer,
    adamw,
    cross_entropy,
    mean_squared_error,
    sgd,
    training_step,
)
from repro_mlir.reference.interpreter import Interpreter

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

STEPS = 4
LINEAR = ["weight", "bias"]


def _model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(36, 10)
    ).eval()


def _imported(model: Any, *inputs: Any) -> ImportedProgram[Any]:
    from repro_mlir.frontends.torch.capture.inference import capture_inference

    return capture_inference(model, inputs, CaptureOptions())


def _batches() -> list[tuple[Any, Any]]:
    random = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 1, 8, 8, generator=random), torch.randint(0, 10, (4,), generator=random)) for _ in range(STEPS)
    ]


OPTIMIZERS: dict[str, tuple[Optimizer, Callable[[Any], Any]]] = {
    "adamw": (adamw(weight_decay=0.1), lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
    "sgd": (sgd(), lambda p: torch.optim.SGD(p, lr=0.01)),
    "sgd_with_momentum": (
        sgd(momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_pytorch(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    model = _model()
    names = [name for name, _ in model.named_parameters()]
    program = training_step(_imported(model, _batches()[0][0]), cross_entropy(), ours, train=names)
    hashes = set()
    for target in ("cpu", "cpu:x86-64-v2", "ptx-emulator", "reference"):
        with ProgramTrainer(program, {"lr": 0.01}, target=target) as trainer:
            losses = [float(trainer.step(*batch)["loss"]) for batch in _batches()]
            hashes.add(trainer.state_hash())
    assert len(hashes) == 1
    optimizer = theirs(model.parameters())
    for (x, target), found in zip(_batches(), losses, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        assert found == pytest.approx(loss.item(), rel=1e-4)
    for parameter, value in model.named_parameters():
        np.testing.assert_allclose(trainer.state[parameter], value.detach().numpy(), 1e-3, 1e-4)


def test_a_training_step_has_a_receipt_that_verifies(tmp_path: Path) -> None:
    program = training_step(
        _imported(torch.nn.Linear(3, 2), torch.zeros(4, 3)),
        mean_squared_error(),
        adamw(),
        train=LINEAR,
    )
    random = np.random.default_rng(0)
    batches = [(random.random((4, 3), np.float32), random.random((4, 2), np.float32)) for _ in range(3)]
    options = repro_mlir.ReceiptOptions(tmp_path / "receipt", checkpoint_every=2)
    with ProgramTrainer(program, {"lr": 0.1}, receipt=options) as trainer:
        trainer.step(*batches[0])
        trainer.hyper_parameters["lr"] = 0.05
        trainer.step(*batches[1])
        # The receipt records this change of the state, too.
        trainer.state["weight"][0] = 0
        trainer.step(*batches[2])
    repro_mlir.verify(tmp_path / "receipt", target="reference")


def test_a_receipt_goes_on_where_it_stopped(tmp_path: Path) -> None:
    program = training_step(
        _imported(torch.nn.Linear(3, 2), torch.zeros(4, 3)),
        mean_squared_error(),
        sgd(momentum=0.5),
        train=LINEAR,
    )
    random = np.random.default_rng(0)
    batches = [(random.random((4, 3), np.float32), random.random((4, 2), np.float32)) for _ in range(4)]

    def train(name: str, count: int, resume: bool = False) -> str:
        options = repro_mlir.ReceiptOptions(tmp_path / name, checkpoint_every=1, resume=resume)
        with ProgramTrainer(program, {"lr": 0.1}, receipt=options) as trainer:
            for batch in batches[trainer.steps : count]:
                trainer.step(*batch)
            if count < len(batches):
                raise InterruptedError
        return trainer.state_hash()

    whole = train("whole", 4)
    with pytest.raises(InterruptedError):
        train("cut", 2)
    assert train("cut", 4, resume=True) == whole


def test_a_failed_step_changes_nothing() -> None:
    program = training_step(_imported(torch.nn.Linear(3, 2), torch.zeros(2, 3)), cross_entropy(), sgd(), train=LINEAR)
    trainer = ProgramTrainer(program, {"lr": 0.1})
    before = trainer.state_hash()
    with pytest.raises(repro_mlir.ReproError, match="index"):
        trainer.step(np.ones((2, 3), np.float32), np.array([0, 2]))
    assert trainer.state_hash() == before and trainer.steps == 0


def test_chosen_parameters_alone_are_trained() -> None:
    imported = _imported(torch.nn.Linear(3, 2), torch.zeros(2, 3))
    program = training_step(imported, mean_squared_error(), adamw(), train=["bias"])
    assert [kind.name for kind in program.state] == [
        "weight", "bias", "optimizer.step", "optimizer.first.bias", "optimizer.second.bias",
    ]  # fmt: skip
    trainer = ProgramTrainer(program, {"lr": 0.1})
    before = {name: value.copy() for name, value in trainer.state.items()}
    trainer.step(np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32))
    assert np.array_equal(before["weight"], trainer.state["weight"])
    assert not np.array_equal(before["bias"], trainer.state["bias"])


def test_invalid_trainings_are_refused() -> None:
    imported = _imported(torch.nn.Linear(3, 2), torch.zeros(2, 3))
    loss, optimizer = mean_squared_error(), sgd()
    with pytest.raises(repro_mlir.ReproError, match="no state tensor 'wait', expected one of weight, bias"):
        training_step(imported, loss, optimizer, train=["wait"])
    with pytest.raises(repro_mlir.ReproError, match="no output 'y'"):
        training_step(imported, loss, optimizer, train=LINEAR, output="y")
    for train in ([], ["bias", "weight", "bias"]):
        with pytest.raises(
            repro_mlir.ReproError, match="expected different names in train, at least one of weight, bias"
        ):
            training_step(imported, loss, optimizer, train=train)
    with pytest.raises(repro_mlir.ReproError, match="at least 2 dimensions for the loss"):
        flat = _imported(torch.nn.Linear(3, 2), torch.zeros(3))
        training_step(flat, cross_entropy(), optimizer, train=LINEAR)
    with pytest.raises(repro_mlir.ReproError, match="betas"):
        adamw(betas=(1.0, 0.9))
    with pytest.raises(repro_mlir.ReproError, match="momentum"):
        sgd(momentum=-1)
    program = training_step(imported, loss, optimizer, train=LINEAR)
    with pytest.raises(repro_mlir.ReproError, match="hyper-parameters"):
        ProgramTrainer(program, {})
    trainer = ProgramTrainer(program, {"lr": 0.1})
    with pytest.raises(repro_mlir.ReproError, match=r"expected \d+ inputs \("):
        trainer.step(np.zeros((2, 3), np.float32))
    batch = np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32)
    wrong: list[dict[str, Any]] = [{}, {"lr": 0.1, "Lr": 0.1}, {"lr": None}, {"lr": "0.1"}]
    for numbers in wrong:
        trainer.hyper_parameters = numbers
        with pytest.raises(repro_mlir.ReproError, match="hyper-parameter"):
            trainer.step(*batch)
    trainer.close()
    with pytest.raises(repro_mlir.ReproError, match="closed"):
        trainer.step(np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32))


def test_names_are_free() -> None:
    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wörter = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> Any:
            return x * self.wörter

    program = training_step(
        _imported(Scale(), torch.zeros(2)), mean_squared_error(), sgd(momentum=0.5), train=["wörter"]
    )
    assert program.state[0].name == "wörter" and program.state[2].name == "optimizer.momentum.wörter"


def test_changes_between_steps_are_checked(tmp_path: Path) -> None:
    program = training_step(
        _imported(torch.nn.Linear(3, 2), torch.zeros(2, 3)), mean_squared_error(), sgd(), train=LINEAR
    )
    batch = np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32)
    for receipt in (None, repro_mlir.ReceiptOptions(tmp_path / "receipt")):
        trainer = ProgramTrainer(program, {"lr": 0.1}, receipt=receipt)
        before = trainer.state["bias"]
        for wrong in (before.astype(np.float64), before[:1]):
            trainer.state["bias"] = wrong
            with pytest.raises(repro_mlir.ReproError, match="bias"):
                trainer.step(*batch)
        del trainer.state["bias"]
        with pytest.raises(repro_mlir.ReproError, match="expected the tensor 'bias' in the state, got none"):
            trainer.step(*batch)
        trainer.state["bias"] = before
        trainer.hyper_parameters["lr"] = 1e39
        with pytest.raises(repro_mlir.ReproError, match=r"lr: 1e\+39 is beyond the range of f32"):
            trainer.step(*batch)
        trainer.hyper_parameters["lr"] = 0.1
        trainer.step(*batch)
        trainer.close()
    repro_mlir.verify(tmp_path / "receipt")


def test_a_step_that_is_not_recorded_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = training_step(
        _imported(torch.nn.Linear(3, 2), torch.zeros(2, 3)), mean_squared_error(), sgd(), train=LINEAR
    )
    batch = np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32)
    options = repro_mlir.ReceiptOptions(tmp_path / "receipt", checkpoint_every=1)
    trainer = ProgramTrainer(program, {"lr": 0.1}, receipt=options)
    trainer.step(*batch)

    def fail(*_: Any) -> None:
        raise repro_mlir.ReproError("no space left")

    with monkeypatch.context() as patch, pytest.raises(repro_mlir.ReproError, match="no space"), trainer:
        patch.setattr(trainer._recorder, "commit", fail)
        trainer.step(*batch)
    with pytest.raises(repro_mlir.ReproError, match="closed"):
        trainer.step(*batch)
    options = repro_mlir.ReceiptOptions(tmp_path / "receipt", checkpoint_every=1, resume=True)
    with ProgramTrainer(program, {"lr": 0.1}, receipt=options) as trainer:
        assert trainer.steps == 1
        trainer.step(*batch)
    repro_mlir.verify(tmp_path / "receipt")


@pytest.mark.parametrize("name", ["LogSigmoid", "Softplus", "GELU", "SiLU", "Sigmoid", "Tanh", "Mish", "ELU"])
def test_slopes_at_zero_are_those_of_pytorch(name: str) -> None:
    """Compares the gradients at 0, where a formula with min(0, x) or |x| can give a wrong one."""
    imported = _imported(getattr(torch.nn, name)(), torch.zeros(1))
    data = import_program(differentiate(imported.text, [0], [0]))
    _, slope = Interpreter(data).run(np.zeros(1, np.float32), np.ones(1, np.float32))
    x = torch.zeros(1, requires_grad=True)
    getattr(torch.nn, name)()(x).backward()
    np.testing.assert_allclose(slope, x.grad.numpy(), 1e-6)
