# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A text of a value that a trace does not have is an error with the user's line, and not a placeholder."""

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir.frontends.torch import CaptureError

BATCH = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])


def capture(look) -> str:
    """Captures a step whose loss function passes the loss and the target to `look`; returns the program's hash."""
    model = repro_mlir.initialize(torch.nn.Linear(3, 2))

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(output, target)
        look(loss, target)
        return loss

    return repro_mlir.capture(model, loss_fn, torch.optim.SGD(model.parameters()), BATCH).hash


@pytest.mark.parametrize(
    "look",
    [
        lambda loss, _: print(loss.item()),
        lambda loss, _: f"{loss.item()}",
        lambda loss, _: f"{loss.item():.3f}",
        lambda loss, _: f"{loss.item() + 1}",
        lambda loss, _: "%s" % [loss.item()],
        lambda loss, _: str(loss.detach().long().item()),
        lambda loss, _: str(loss.detach().item() > 1),
        lambda loss, _: print(loss),
        lambda loss, _: f"{loss}",
        lambda loss, _: f"{loss:.3f}",
    ],
)
def test_text_of_a_value(look, capsys) -> None:
    with pytest.raises(CaptureError, match=r"^test_texts_of_values\.py:\d+: the value of a tensor is formatted as te"):
        capture(look)
    assert capsys.readouterr().out == ""


def test_other_texts_and_uses() -> None:
    texts: list[str] = []

    def look(loss: torch.Tensor, target: torch.Tensor) -> None:
        texts.extend([f"{target.shape} {loss.dtype} {target.size(0)}", str(BATCH[1]), repr(loss.grad_fn is None)])
        loss.detach().item() + 1
        torch._check(loss.item() > -1, lambda: f"a loss of {loss.item()} or {loss}")

    plain = capture(lambda loss, _: None)
    assert capture(look) != plain
    assert texts[:3] == ["torch.Size([4]) torch.float32 4", "tensor([0, 1, 0, 1])", "False"]
    # The functions of PyTorch are the former ones after the trace.
    assert str(torch.tensor(2.0)) == "tensor(2.)" and torch.SymFloat.__repr__.__module__ == "torch"
    assert capture(lambda loss, _: None) == plain


def test_classes_with_a_second_dimension() -> None:
    model = torch.nn.Linear(3, 2)
    with pytest.raises(CaptureError, match=r"test_texts_of_values\.py:\d+: the classes have more .*squeeze\(1\)"):
        repro_mlir.capture(
            model,
            lambda output, target: F.cross_entropy(output, target),
            torch.optim.SGD(model.parameters()),
            (BATCH[0], BATCH[1][:, None]),
        )
