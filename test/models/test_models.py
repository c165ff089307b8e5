# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Models of other packages: a step of training and inference as in eager mode, with the same bits on all targets."""

import copy
from typing import Any

import pytest
import repro_mlir
import torch
from zoo import CASES, Case

cross_entropy = torch.nn.functional.cross_entropy


def targets(case: Case) -> tuple[str, ...]:
    return ("cpu", "cpu:x86-64-v2", *(("reference",) if case.interpreted else ()))


def loss_of(model: Any, batch: Any) -> Any:
    return model(**batch).loss if isinstance(batch, dict) else cross_entropy(model(batch[0]), batch[1])


@pytest.mark.parametrize("name", CASES)
def test_training(name: str) -> None:
    case = CASES[name]
    model, batch = case.model(), case.batch()
    found = {}
    for target in targets(case):
        trained = copy.deepcopy(model)
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
        loss_fn = None if isinstance(batch, dict) else cross_entropy
        trainer = repro_mlir.Trainer(trained, loss_fn, optimizer, target=target)
        arguments = (batch,) if isinstance(batch, dict) else batch
        found[target] = [trainer.step(*arguments) for _ in range(2)], trainer.state_hash()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    expected = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert found["cpu"][0] == pytest.approx(expected, rel=1e-3)
    assert len({repr(each) for each in found.values()}) == 1, found


@pytest.mark.parametrize("name", CASES)
def test_inference(name: str) -> None:
    case = CASES[name]
    model, batch = case.model().eval(), case.batch()
    inputs = batch if isinstance(batch, dict) else batch[:1]
    program = repro_mlir.capture(model, inputs)
    with torch.no_grad():
        result = model(**batch) if isinstance(batch, dict) else model(batch[0])
    expected = result.logits if isinstance(batch, dict) else result
    arrays = [*inputs.values()] if isinstance(batch, dict) else [*inputs]
    found = []
    for target in targets(case):
        _, outputs = repro_mlir.compile(program, target)(program.initial_state(), *arrays)
        found.append({key: value.numpy().tobytes() for key, value in outputs.items()})
        ours = next(value for key, value in outputs.items() if value.shape == expected.shape)
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
    assert all(each == found[0] for each in found)
