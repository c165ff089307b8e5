# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Error messages for mistakes of PyTorch users: one line with the location and the remedy, and no log output."""

import logging
import os
import random
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.frontends.torch import CaptureError, capture_training
from torch import nn

NAME = Path(__file__).name


def line_of(text: str) -> int:
    """Returns the number of the line of this file that ends with the comment `# text`."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def step(model, *batch, loss=F.cross_entropy, optimizer=None) -> None:
    given = torch.optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer
    repro_mlir.Trainer(model, loss, given, target="reference").step(*batch)


X, Y = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])


def message(call: Callable[[], object], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> str:
    with pytest.raises(CaptureError) as caught:
        call()
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    shown = "".join(traceback.format_exception(caught.value))
    assert "The above exception" not in shown and "site-packages/torch" not in shown
    text = str(caught.value)
    assert "\n" not in text and "repro-opt" not in text
    return text


class Power(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.pow(self.linear(x).abs(), 1.5)  # power


def test_float64(capfd, caplog) -> None:
    advice = "is defined for float32, not for float64 (S5): model.float() converts the model, x.float() a tensor"
    wide = X.double(), Y
    found = message(lambda: step(Power().double(), *wide), capfd, caplog)
    assert found == f"{NAME}:{line_of('power')}: powf {advice}"
    step(Power().double().float(), X, Y)


@pytest.mark.parametrize("use", [step, lambda m, *b, **o: repro_mlir.capture(m, F.cross_entropy, o["optimizer"], b)])
def test_classes_in_place_of_objects(capfd, caplog, use: Callable[..., object]) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for given, text in (
        ((Power, optimizer), "the model is the class Power, expected an instance: Power(...)"),
        ((model.forward, optimizer), "the model is a method, expected a torch.nn.Module"),
        (
            (model, torch.optim.SGD),
            "the optimizer is the class SGD, expected an instance: SGD(model.parameters(), ...)",
        ),
        ((model, "SGD"), "the optimizer is a str, expected a torch.optim.Optimizer"),
    ):
        assert message(lambda given=given: use(given[0], X, Y, optimizer=given[1]), capfd, caplog) == text


def test_the_class_of_a_model_for_inference(capfd, caplog) -> None:
    found = message(lambda: repro_mlir.capture(Power, (X,)), capfd, caplog)
    assert found == "the model is the class Power, expected an instance: Power(...)"


def test_the_class_of_a_loss(capfd, caplog) -> None:
    found = message(lambda: step(nn.Linear(3, 2), X, Y, loss=nn.CrossEntropyLoss), capfd, caplog)
    assert found == "the loss function is the class CrossEntropyLoss, expected an instance: CrossEntropyLoss()"
    step(nn.Linear(3, 2), X, Y, loss=nn.CrossEntropyLoss())


@pytest.mark.parametrize("use", [step, lambda m, *b: repro_mlir.capture(m, b[:1])], ids=["step", "capture"])
def test_a_lazy_layer(capfd, caplog, use: Callable[..., object]) -> None:
    model = nn.Sequential(nn.LazyLinear(2))
    assert message(lambda: use(model, X, Y), capfd, caplog) == (
        "0.weight of the model has no shape yet: call the model once, as in model(inputs), so that its lazy layers "
        "create their parameters, and then create the optimizer"
    )
    model(X)
    use(model, X, Y)


def test_a_loss_without_a_gradient(capfd, caplog) -> None:
    class WithoutGradient(nn.Linear):
        @torch.no_grad()
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    def detached(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target).detach()

    expected = (
        "the loss depends on no parameter that requires a gradient: remove detach(), torch.no_grad() or .data between "
        "the parameters and the loss"
    )
    assert message(lambda: step(nn.Linear(3, 2), X, Y, loss=detached), capfd, caplog) == expected
    assert message(lambda: step(WithoutGradient(3, 2), X, Y), capfd, caplog) == expected


class Scaled(nn.Linear):
    def forward(self, given: dict) -> torch.Tensor:
        return super().forward(given["x"] * given["factor"])


def test_a_constant_of_the_batch_that_differs(capfd, caplog) -> None:
    model = Scaled(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bindings = capture_training(model, F.cross_entropy, optimizer, ({"x": X, "factor": 2.0}, Y)).bindings
    found = message(lambda: bindings.flatten_batch(({"x": X, "factor": 4.0}, Y)), capfd, caplog)
    assert found == (
        "batch[0]['factor'] is 4.0, but was captured as the constant 2.0: pass values that differ between batches as "
        "tensors"
    )


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.qkv(x)  # product


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.attn(x)  # residual


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_shapes_that_do_not_fit(capfd, caplog) -> None:
    found = message(lambda: step(Net(), torch.ones(2, 3), Y[:2]), capfd, caplog)
    assert found.startswith(f"{NAME}:{line_of('product')}: module blocks.0.attn.qkv: RuntimeError: ")
    assert found.endswith(
        "[2, 3] X [4, 12]: Linear(in_features=4, out_features=12, bias=True) gets [2, 3] of torch.float32: change the "
        "layer or the shape of its input"
    )
    found = message(lambda: step(Net(), torch.ones(2, 4), Y[:2]), capfd, caplog)
    # The addition is in a module of the user, and not in a layer.
    assert found.startswith(f"{NAME}:{line_of('residual')}: module blocks.0: RuntimeError: ") and "gets" not in found
    found = message(lambda: step(nn.Sequential(nn.Conv2d(3, 4, 3)), torch.ones(2, 4, 8, 8), Y), capfd, caplog)
    assert found.startswith("module 0: RuntimeError: ") and "to have 3 channels, but got 4 channels" in found


def test_float_classes_of_a_loss(capfd, caplog) -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target)  # classes

    found = message(lambda: step(nn.Linear(3, 2), X, Y.float(), loss=loss), capfd, caplog)
    assert found == (
        f"{NAME}:{line_of('classes')}: indices or classes are a float tensor, expected integers: x.long() converts "
        "them; as probabilities, they have the shape of the model's output"
    )


def test_a_class_out_of_range() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target)  # range

    model = nn.Linear(3, 2)
    trainer = repro_mlir.Trainer(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), target="reference")
    for wrong, told in (([0, 1, 7, 1], "0 to 7"), ([-3, 1, 0, 1], "-3 to 1")):
        with pytest.raises(StepFailed) as caught:
            trainer.step(X, torch.tensor(wrong))
        assert str(caught.value).startswith(f"{NAME}:{line_of('range')}:")
        assert str(caught.value).endswith(f"; batch[1] has values from {told}: check the batch")
    trainer.step(X, Y)


def test_a_model_on_the_device_meta(capfd, caplog) -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 2))
    found = message(lambda: step(model, X, Y), capfd, caplog)
    assert found.startswith("module 0: a tensor is on the device meta, which has no values: build the model on the")


def test_a_loss_function_with_other_parameters(capfd, caplog) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x), y)

    found = message(lambda: step(nn.Linear(3, 2), X, Y, loss=loss), capfd, caplog)
    assert (
        found.startswith("the loss function has the parameters (model: ") and ", expected (output, target): " in found
    )


class OfNumpy(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return np.tanh(super().forward(x))  # numpy function


class ToNumpy(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.from_numpy(x.numpy()))  # to numpy


def test_numpy_in_a_step(capfd, caplog) -> None:
    for model, line, told in (
        (OfNumpy(3, 2), "numpy function", "a NumPy function is called on a tensor"),
        (ToNumpy(3, 2), "to numpy", ".numpy() is called on a tensor"),
    ):
        found = message(lambda model=model: step(model, X, Y), capfd, caplog)
        assert found.startswith(f"{NAME}:{line_of(line)}: control flow or a shape depends on tensor values: {told}")
        assert "use operations of torch" in found


class OfPowers(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.weight.sum().to(torch.float8_e8m0fnu).float()  # powers


class OfBits(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.weight.view(torch.int16).sum()  # bits


def test_unsupported_types(capfd, caplog) -> None:
    found = message(lambda: step(OfPowers(3, 2), X, Y), capfd, caplog)
    assert found == f"{NAME}:{line_of('powers')}: no rule converts to float8_e8m0fnu (V1)"
    found = message(lambda: step(OfBits(3, 2), X, Y), capfd, caplog)
    assert re.fullmatch(rf"{NAME}:{line_of('bits')}: operator aten\.view\.dtype is not supported", found)


class _Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


_SUBCLASS = torch.ones(()).as_subclass(_Tagged)


class _Calls(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)


def test_messages_do_not_mention_the_tools_of_a_trace(capfd, caplog, tmp_path: Path) -> None:
    path = tmp_path / "one.pt"
    torch.save(torch.ones(()), path)
    for function, text in (
        (
            lambda x: x * torch.load(path),
            "the memory of a tensor is read or written, as data_ptr, storage, pickle, copy.deepcopy and torch.load do",
        ),
        (lambda x: x * torch.get_rng_state().sum(), r"the step reads sum of the generator's state: expected"),
        (lambda x: x * torch.sin(_SUBCLASS), "a tensor of a subclass of torch.Tensor is read: convert it"),
    ):
        found = message(lambda f=function: repro_mlir.capture(_Calls(f), (X,)), capfd, caplog)
        assert re.match(rf"{NAME}:\d+: {text}", found)


def test_norm_along_a_dimension_of_one_element_and_conv_tbc() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.conv_tbc(x.reshape(4, 1, 3), torch.ones(2, 3, 2), torch.ones(2)) * x.sum().norm(dim=0)

    compiled = torch.compile(function, backend=repro_mlir.backend(target="reference"), fullgraph=True)
    torch.testing.assert_close(compiled(X), function(X))


def test_a_cumulative_average_and_classes_of_uint8(capfd, caplog) -> None:
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=None), nn.Linear(3, 2))
    found = message(lambda: step(model, X, Y), capfd, caplog)
    assert found.startswith("module 0: batch normalization with momentum=None")
    linear = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
    expected = F.cross_entropy(linear(X), Y).item()
    loss = repro_mlir.Trainer(linear, F.cross_entropy, optimizer, target="reference").step(X, Y.to(torch.uint8))
    assert float(loss) == pytest.approx(expected)


def test_targets_of_another_type(capfd, caplog) -> None:
    found = message(lambda: step(nn.Linear(3, 2), X, Y.int()), capfd, caplog)
    assert found == "loss function: the classes are integers of another type than int64: y.long() converts them"
    model, targets = nn.Linear(3, 2), torch.ones(4, 2, dtype=torch.int64)
    found = message(lambda: step(model, X, targets, loss=F.binary_cross_entropy_with_logits), capfd, caplog)
    assert found.startswith("loss function: the mean of integers is computed, expected floats: y.float() converts")
    found = message(lambda: step(nn.Embedding(3, 2), Y.short(), Y), capfd, caplog)
    assert found == "model: the indices have another type than int64: x.long() converts them"


def test_anomaly_mode(capfd, caplog) -> None:
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        found = message(lambda: step(nn.Linear(3, 2), X, Y), capfd, caplog)
    assert found.startswith("torch.autograd.detect_anomaly is active, which reads the values of each gradient: leave")


def test_dropout_in_an_evaluation(capfd, caplog) -> None:
    model = _Calls(lambda x: F.dropout(x, 0.5))  # drawing
    model.weight = nn.Parameter(torch.ones(()))
    trainer = repro_mlir.Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters()), target="reference")
    found = message(lambda: trainer.evaluate(X, Y), capfd, caplog)
    assert found.startswith(f"{NAME}:{line_of('drawing')}: the model draws random numbers in evaluation mode, expected")
    assert "F.dropout(x, p, self.training)" in found


def test_optimizer_of_a_replaced_layer(capfd, caplog) -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters())
    model[0] = nn.Linear(3, 2)
    found = message(lambda: step(model, X, Y, optimizer=optimizer), capfd, caplog)
    assert "make the optimizer from model.parameters() again if a layer was replaced" in found


def test_hook_without_a_result(capfd, caplog) -> None:
    model = nn.Linear(3, 2)
    model.weight.register_hook(lambda _: None)
    assert "returns= and metrics= of Trainer" in message(lambda: step(model, X, Y), capfd, caplog)


def test_random_numbers_of_a_generator() -> None:
    numpy, python = np.random.default_rng(1), random.Random(1)
    for call, name in ((lambda: numpy.random(), "numpy of"), (lambda: python.random(), "a random.Random")):
        with pytest.raises(
            ReproError, match=rf": the step draws random numbers from .*{name}.*: use torch's, without a"
        ):
            step(_Scaled(call), X, Y)


class _Scaled(nn.Linear):
    def __init__(self, call: Callable[[], float]) -> None:
        super().__init__(3, 2)
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.call()


def test_files_and_variables_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scale.txt"
    path.write_text("2")
    with pytest.raises(ReproError, match="the step calls open, which may return another value each time"):
        step(_Scaled(lambda: float(path.read_text())), X, Y)
    model = _Scaled(lambda: float(os.environ["SCALE_OF_A_TEST"]))
    optimizer = torch.optim.SGD(model.parameters())
    trainer = repro_mlir.Trainer(model, F.cross_entropy, optimizer, target="reference")
    with pytest.warns(RuntimeWarning, match=r"^os\.environ has changed again"):
        for scale in "123":
            monkeypatch.setenv("SCALE_OF_A_TEST", scale)
            trainer.step(X, Y)
