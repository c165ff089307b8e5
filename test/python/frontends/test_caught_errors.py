# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps that catch errors: an error that only a trace raises is refused; one that eager PyTorch raises is caught."""

import contextlib
import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
import torch.utils.checkpoint
from repro_mlir.frontends.torch import CaptureError, capture_training
from torch import Tensor, nn

F = nn.functional
X = torch.linspace(-1, 2, 24).reshape(4, 6)
REFUSAL = r"^test_caught_errors\.py:\d+: .*; the step catches this error"


class Swallows:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return True


class Lazy:
    def __init__(self, x: Tensor) -> None:
        self.x = x

    @property
    def scale(self) -> float:
        try:
            return float(self.x.mean())
        except Exception:
            raise AttributeError("scale") from None


def returns_in_finally(x: Tensor) -> float:
    try:
        return float(x.mean())
    finally:
        return 1.0  # noqa: B012


def bare(x: Tensor) -> float:
    try:
        return float(x.mean())
    except:  # noqa: E722
        return 1.0


def in_exit(x: Tensor) -> float:
    with Swallows():
        return float(x.mean())
    return 1.0


def called_by_pytorch(x: Tensor) -> Tensor:
    def distance(a: Tensor, b: Tensor) -> Tensor:
        scale = 1.0
        with contextlib.suppress(Exception):
            scale = float(a.norm())
        return (a - b).norm(dim=-1) * scale

    return F.triplet_margin_with_distance_loss(x, x + 1, x * 2, distance_function=distance)


def suppressed(look: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def scale(x: Tensor) -> Any:
        with contextlib.suppress(Exception):
            return look(x)
        return 1.0

    return scale


LOOKS: dict[str, Callable[[Tensor], Any]] = {
    "float": lambda x: float(x.mean()),
    "int": lambda x: int(x.sum()),
    "if": lambda x: 2.0 if x.sum() > 0 else 3.0,
    "any": lambda x: any(x.mean(0) > 0),
    "sorted": lambda x: sorted([x[0], x[1]], key=lambda row: row.sum())[0],
    "numpy": lambda x: x.numpy().mean(),
    "function of NumPy": lambda x: float(np.sqrt(x.abs()).sum()),
    "DLPack": lambda x: np.from_dlpack(x).mean(),
    "text": lambda x: float(f"{x.mean():.2f}"),
    "text of item": lambda x: float("%.2f" % x.mean().item()),  # noqa: UP031
    "branch on item": lambda x: 2.0 if x.sum().item() > 0 else 3.0,
    "key": lambda x: {0: 2.0}.get(x.argmax().item(), 3.0),
    "JSON": lambda x: float(json.dumps(x.mean().item())),
    "method of float": lambda x: float.fromhex(x.mean().item().hex()),
    "attribute of float": lambda x: x.mean().item().imag + 2.0,
    "equal": lambda x: 2.0 if torch.equal(x, x.abs()) else 3.0,
    "nonzero": lambda x: len(x.nonzero()) / 8,
    "memory": lambda x: 2.0 + (x.data_ptr() == 0),
    "storage": lambda x: sum(x.untyped_storage().tolist()),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": lambda x: copy.deepcopy(x) * 2,
    "generator": lambda x: torch.rand(3, generator=torch.Generator().manual_seed(1)).sum(),
}

SWALLOWS: dict[str, Callable[[Tensor], Any]] = {
    **{name: suppressed(look) for name, look in LOOKS.items()},
    "bare except": bare,
    "finally": returns_in_finally,
    "__exit__": in_exit,
    "getattr": lambda x: getattr(Lazy(x), "scale", 1.0),
    "hasattr": lambda x: 2.0 if hasattr(Lazy(x), "scale") else 1.0,
    "callback": called_by_pytorch,
    "func.grad": lambda x: torch.func.grad(lambda y: (y * suppressed(LOOKS["float"])(y)).sum())(x),
    "vmap": lambda x: torch.vmap(lambda y: y * suppressed(LOOKS["float"])(y))(x),
}


class Scaled(nn.Module):
    def __init__(self, scale: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))
        self._scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self._scale(x)


@pytest.mark.parametrize("name", SWALLOWS)
def test_refusal_that_a_step_catches(name: str) -> None:
    with pytest.raises(CaptureError, match=REFUSAL):
        repro_mlir.capture(Scaled(SWALLOWS[name]), (X,))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient * suppressed(LOOKS["numpy"])(gradient)


def hooked(y: Tensor) -> Tensor:
    y.register_hook(lambda gradient: gradient * suppressed(LOOKS["if"])(gradient))
    return y


def mean(output: Tensor, _: Tensor) -> Tensor:
    return output.mean()


@pytest.mark.parametrize(
    "output",
    [
        lambda y: Reverse.apply(y),
        hooked,
        lambda y: torch.utils.checkpoint.checkpoint(
            lambda z: z * suppressed(LOOKS["float"])(z), y, use_reentrant=False
        ),
        lambda y: y * suppressed(LOOKS["float"])(y),
    ],
)
def test_refusal_that_a_training_step_catches(output: Callable[[Tensor], Tensor]) -> None:
    model = Scaled(lambda _: 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(CaptureError, match=REFUSAL):
        capture_training(model, lambda y, _: output(y).sum(), optimizer, (X, X))


class Careful(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad, alpha=suppressed(lambda g: 0.1 if g.norm() > 1 else 0.2)(parameter.grad))


def test_refusal_that_an_optimizer_catches() -> None:
    model = Scaled(lambda _: 1.0)
    with pytest.raises(CaptureError, match=REFUSAL):
        capture_training(model, mean, Careful(model.parameters()), (X, X))


def test_refusal_that_is_replaced_by_an_error_of_the_user() -> None:
    def scale(x: Tensor) -> float:
        try:
            return float(x.mean())
        except Exception as error:
            raise ValueError("no mean") from error

    with pytest.raises(CaptureError, match=REFUSAL):
        repro_mlir.capture(Scaled(scale), (X,))


def attribute(x: Tensor) -> float:
    return getattr(x, "nothing", 2.0)


def missing_module(_: Tensor) -> float:
    try:
        import nothing_of_this_name
    except ImportError:
        return 2.0
    return nothing_of_this_name.SCALE


def gradient_numpy(x: Tensor) -> float:
    with torch.enable_grad():
        return float(nn.Parameter(x).sum().numpy())


FAILURES: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda x: x @ x,
    "dimension": lambda x: x.sum(5),
    "index": lambda x: x[:, 9],
    "stack": lambda x: torch.stack([x[0], x[1, :3]]),
    "indices": lambda x: F.embedding(x, x),
    "convolution": lambda x: F.conv2d(x, x),
    "type": lambda x: torch.add(x, "a"),
    "elements": lambda x: float(x),
    "truth": lambda x: bool(x),
    "length": lambda x: len(x.sum()),
    "numpy of a gradient": gradient_numpy,
    "backward": lambda x: x.sum().backward(),
    "error of the user": lambda x: [][x.shape[0]],
}


@pytest.mark.parametrize(
    "scale", [attribute, missing_module, *map(suppressed, FAILURES.values())], ids=["attribute", "import", *FAILURES]
)
def test_error_of_eager_pytorch_is_caught(scale: Callable[[Tensor], Any]) -> None:
    model = Scaled(scale)
    program = repro_mlir.capture(model, (X,))
    _, outputs = repro_mlir.compile(program, target="reference")(program.initial_state(), X)
    np.testing.assert_array_equal(outputs["output"], model(X).detach().numpy())


def test_computed_number_is_a_python_number() -> None:
    model = Scaled(lambda x: k if isinstance(k := x.sum().item(), float) and not isinstance(k, Tensor) else 1.0)
    program = repro_mlir.capture(model, (X,))
    _, outputs = repro_mlir.compile(program, target="reference")(program.initial_state(), X)
    np.testing.assert_allclose(outputs["output"], model(X).detach().numpy(), rtol=1e-6)


def test_backward_within_a_step() -> None:
    def loss(output: Tensor, _: Tensor) -> Tensor:
        output.square().mean().backward(retain_graph=True)
        return output.mean()

    model = Scaled(lambda _: 1.0)
    with pytest.raises(CaptureError, match=r"the step calls backward\(\), which adds to the gradients"):
        capture_training(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), (X, X))


def test_checkpoint_recomputes_functions_that_a_trace_replaces() -> None:
    def output(y: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(
            lambda z: F.gaussian_nll_loss(z, z + 1, z * z + 1), y, use_reentrant=False
        )

    model = Scaled(lambda _: 1.0)
    with repro_mlir.Trainer(
        model, lambda y, _: output(y), torch.optim.SGD(model.parameters(), lr=0.1), target="reference"
    ) as trainer:
        found = trainer.step(X, X)
    assert found == pytest.approx(output(X).item(), rel=1e-6)
