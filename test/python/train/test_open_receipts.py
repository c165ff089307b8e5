# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""While a receipt is open, a trainer refuses to continue after a change of the set of state tensors, such as freezing a
parameter. The error message says what to do, and no step is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from repro_mlir import Trainer
from torch import nn

pytest.importorskip("torch_mlir")

BATCH = torch.arange(20, dtype=torch.float32).reshape(4, 5).sin(), torch.tensor([0, 1, 2, 0])


def _model() -> nn.Module:
    return repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 3)), 4)


def _adamw(model: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.05)


def _head_alone(model: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model[3].parameters(), lr=0.05)


def _frozen(model: Any) -> torch.optim.Optimizer:
    model[0].requires_grad_(False)
    return _adamw(model)


Change = Callable[[Any, Any], object]
CASES: dict[str, tuple[Callable[[Any], Any], Change, Change, str]] = {
    "freeze": (
        _adamw,
        lambda model, optimizer: model[0].requires_grad_(False),
        lambda model, optimizer: model[0].requires_grad_(True),
        r"model\.0\.weight\.requires_grad",
    ),
    "unfreeze": (
        _frozen,
        lambda model, optimizer: model[0].requires_grad_(True),
        lambda model, optimizer: model[0].requires_grad_(False),
        r"model\.0\.weight\.requires_grad",
    ),
    "group": (
        _head_alone,
        lambda model, optimizer: optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01}),
        lambda model, optimizer: optimizer.param_groups.pop(),
        r"optimizer\.param_groups",
    ),
    "mode": (
        _adamw,
        lambda model, optimizer: model.eval(),
        lambda model, optimizer: model.train(),
        r"model\.training",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refusals_name_the_remedy(name: str, tmp_path: Path) -> None:
    make, change, back, what = CASES[name]

    def new(receipt: str) -> tuple[nn.Module, Any, Trainer]:
        model = _model()
        optimizer = make(model)
        loss_fn = nn.functional.cross_entropy
        return model, optimizer, Trainer(model, loss_fn, optimizer, target="reference", receipt=tmp_path / receipt)

    model, optimizer, trainer = new("run")
    _, _, undisturbed = new("whole")
    with trainer, undisturbed:
        undisturbed.step(*BATCH)
        undisturbed.step(*BATCH)
        trainer.step(*BATCH)
        change(model, optimizer)
        message = f"^{what} has changed, and with it the state tensors, .*: change it back .*, or close "
        with pytest.raises(repro_mlir.ReproError, match=message + "the receipt and continue with another one"):
            trainer.step(*BATCH)
        assert (trainer.steps, trainer.cursor) == (1, 1)
        # The first remedy: change the state tensors back.
        back(model, optimizer)
        trainer.step(*BATCH)
        assert trainer.state_hash() == undisturbed.state_hash()
    assert (tmp_path / "run" / "steps.jsonl").read_bytes() == (tmp_path / "whole" / "steps.jsonl").read_bytes()
    # The second remedy: start another receipt.
    change(model, optimizer)
    after = tmp_path / "after"
    with Trainer(model, nn.functional.cross_entropy, optimizer, target="reference", receipt=after) as trainer:
        trainer.step(*BATCH)
    for path in (tmp_path / "run", after):
        repro_mlir.verify(path, target="reference", changes=False)


def test_an_evaluation_takes_the_place_of_a_change_of_the_mode(tmp_path: Path) -> None:
    model = _model()
    optimizer = _adamw(model)
    with Trainer(
        model, nn.functional.cross_entropy, optimizer, target="reference", receipt=tmp_path / "run"
    ) as trainer:
        trainer.step(*BATCH)
        assert trainer.evaluate(*BATCH) > 0
        trainer.step(*BATCH)
    assert repro_mlir.verify(tmp_path / "run", target="reference", changes=False).steps == 2


def test_a_resumed_receipt_that_is_prepared_has_the_steps_that_are_asked_for(tmp_path: Path) -> None:
    batches = [BATCH, (BATCH[0].flip(0), BATCH[1])]

    def trained(path: Path, steps: int, prepares: bool = False) -> Trainer:
        model = _model()
        options = repro_mlir.ReceiptOptions(path, resume=True, checkpoint_every=2)
        trainer = Trainer(model, nn.functional.cross_entropy, _adamw(model), receipt=options)
        if prepares:
            trainer.prepare(*BATCH)
        trainer.fit(batches, steps)
        trainer.close()
        return trainer

    want = trained(tmp_path / "whole.receipt", 6)
    trained(tmp_path / "cut.receipt", 4)
    found = trained(tmp_path / "cut.receipt", 6, prepares=True)
    assert (found.steps, found.state_hash()) == (6, want.state_hash())
