# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Inputs that the frontend does not support raise a CaptureError with a one-line message."""

import resource
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from frontend_models import MLP
from graph_running import GraphTrainer, initial_state
from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.torch import CaptureError, capture_inference, capture_training
from repro_mlir.frontends.torch.lower import lowering_process
from repro_mlir.frontends.torch.optimizers.optimizer_rules import RULES, SGD
from support.applied import Applied
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

# Error messages name a file by its path relative to the folder from which it was imported.
NAME = Path(__file__).name
UNSUPPORTED = "operator aten.linalg_eig is not supported on complex numbers"

BATCH = (torch.randn(4, 16), torch.randint(0, 8, (4,)))


def _error(call) -> str:
    with pytest.raises(CaptureError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def test_subclass_of_an_optimizer_is_not_taken_for_it() -> None:
    class Mine(torch.optim.SGD):
        def step(self, closure=None) -> None:
            raise NotImplementedError

    model = MLP()
    message = _error(lambda: capture_training(model, F.cross_entropy, Mine(model.parameters()), BATCH))
    assert message.startswith(NAME) and message.endswith(": NotImplementedError")


def test_parameter_of_another_model() -> None:
    message = _error(lambda: capture_training(MLP(), F.cross_entropy, torch.optim.SGD(MLP().parameters()), BATCH))
    assert "parameter group 0" in message and "[32, 16]" in message


def test_unsupported_operator_names_its_line() -> None:
    message = _error(lambda: capture_inference(Applied(lambda x: torch.linalg.eigvals(x)), torch.randn(3, 3)))
    line = test_unsupported_operator_names_its_line.__code__.co_firstlineno + 1
    assert message == f"{NAME}:{line}: {UNSUPPORTED}"


def test_unsupported_operator_of_a_training_step_names_its_line() -> None:
    class Model(MLP):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            matrix = y.T @ y + torch.eye(8)
            return y * torch.linalg.eigvalsh(matrix).sum()

    model = Model()
    message = _error(lambda: capture_training(model, F.cross_entropy, torch.optim.SGD(model.parameters()), BATCH))
    line = Model.forward.__code__.co_firstlineno + 3
    assert message.startswith(f"{NAME}:{line}: operator aten."), message


def test_unsupported_operator_of_the_loss_names_its_line() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(output.T @ output).real.sum()

    model = MLP()
    message = _error(lambda: capture_training(model, loss, torch.optim.SGD(model.parameters()), BATCH))
    assert message == f"{NAME}:{loss.__code__.co_firstlineno + 1}: {UNSUPPORTED}"


def test_unsupported_operator_of_the_backward_pass_names_its_line() -> None:
    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
            scale = gradient.T @ gradient
            return gradient * torch.linalg.eigvals(scale).real.sum()

    model = nn.Sequential(MLP(), Applied(Odd.apply))
    message = _error(lambda: capture_training(model, F.cross_entropy, torch.optim.SGD(model.parameters()), BATCH))
    line = Odd.backward.__code__.co_firstlineno + 3
    assert message == f"{NAME}:{line}: {UNSUPPORTED}"


def test_unsupported_operator_of_an_optimizer_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(SGD):
        def update(self, slots, parameter: torch.Tensor, gradient: torch.Tensor, number) -> torch.Tensor:
            return parameter - torch.linalg.eigvals(gradient @ gradient.T).real.sum()

    monkeypatch.setitem(RULES, torch.optim.SGD, Odd.of)
    model = nn.Linear(16, 8, bias=False)
    message = _error(lambda: capture_training(model, F.cross_entropy, torch.optim.SGD(model.parameters()), BATCH))
    line = Odd.update.__code__.co_firstlineno + 1
    assert message == f"{NAME}:{line}: {UNSUPPORTED}"


def test_error_without_a_line_names_the_module() -> None:
    images = torch.randn(1, 1, 16, 16)
    # The parametrization computes the weight in PyTorch's own code, so the message names the module instead of a line
    # of the user's source.
    square = orthogonal(nn.Linear(16, 16))
    nested = nn.Sequential(nn.Linear(16, 16), nn.Sequential(nn.ReLU(), square))
    message = _error(lambda: capture_inference(nested, images))
    assert message == "module 1.1.parametrizations.weight.0: operator aten.linalg_matrix_exp is not supported"
    message = _error(lambda: capture_inference(nn.Sequential(nn.Sequential(nn.PixelShuffle(3))), images))
    assert message.startswith("module 0.0: RuntimeError: ")
    message = _error(lambda: capture_inference(square.parametrizations.weight[0], images[0, 0]))
    assert message == "model: operator aten.linalg_matrix_exp is not supported"


def test_control_flow_on_values() -> None:
    message = _error(lambda: capture_inference(Applied(lambda x: x if x.sum() > 0 else -x), torch.randn(3)))
    assert NAME in message and "control flow or a shape depends on tensor values" in message
    message = _error(lambda: capture_inference(Applied(lambda x: x[x > 0].clone()), torch.randn(3)))
    assert NAME in message


def test_error_in_the_model() -> None:
    message = _error(lambda: capture_inference(Applied(lambda x: x @ x), torch.randn(3, 4)))
    assert NAME in message and "RuntimeError" in message


def test_a_loss_that_is_not_a_scalar() -> None:
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters())
    assert "the loss has shape [4] of torch.float32, expected a scalar float: reduce it, as in loss.mean()" in _error(
        lambda: capture_training(model, lambda y, t: y.sum(1), optimizer, BATCH)
    )
    assert "the loss has shape [4, 8]" in _error(lambda: capture_training(model, None, optimizer, BATCH[:1]))
    detached = _error(lambda: capture_training(model, lambda y, t: y.detach().sum(), optimizer, BATCH))
    assert "the loss depends on no parameter that requires a gradient" in detached


def test_batch() -> None:
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters())
    assert "expected a tuple (*inputs, target)" in _error(
        lambda: capture_training(model, F.cross_entropy, optimizer, BATCH[0])
    )
    assert "batch is a tuple of 1 (a tuple: step(*batch) passes its entries), expected" in _error(
        lambda: capture_training(model, F.cross_entropy, optimizer, (BATCH,))
    )
    captured = capture_training(model, F.cross_entropy, optimizer, BATCH)
    trainer = GraphTrainer(captured)
    assert "batch[0] has shape [3, 16] of torch.float32, expected [4, 16] of torch.float32" in _error(
        lambda: trainer.step((torch.randn(3, 16), BATCH[1]))
    )
    assert "batch[1] has shape [4] of torch.int32" in _error(lambda: trainer.step((BATCH[0], BATCH[1].int())))
    assert "structure" in _error(lambda: trainer.step(BATCH[0]))
    assert "expected a tensor" in _error(lambda: trainer.step((BATCH[0], 3)))


def test_state_of_another_shape() -> None:
    model = MLP()
    captured = capture_training(model, F.cross_entropy, torch.optim.SGD(model.parameters()), BATCH)
    values = initial_state(captured)
    assert "expected 4" in _error(lambda: captured.bindings.write_state(values[:-1]))
    values[0] = values[0].T
    with pytest.raises(ReproError, match=r"^state 0.weight: expected shape \[32, 16\], got \[16, 32\]$"):
        captured.bindings.write_state(values)


def test_model_without_trainable_parameters() -> None:
    model = MLP().requires_grad_(False)
    assert "expected a model with a parameter that requires a gradient" in _error(
        lambda: capture_training(model, F.cross_entropy, torch.optim.SGD(MLP().parameters()), BATCH)
    )


def test_failure_leaves_torch_as_it_was() -> None:
    states = torch.get_rng_state, torch.random.get_rng_state
    _error(lambda: capture_inference(Applied(lambda x: torch.linalg.eigvals(x)), torch.randn(3, 3)))
    _error(lambda: capture_inference(Applied(lambda x: x @ x), torch.randn(3, 4)))
    assert (torch.get_rng_state, torch.random.get_rng_state) == states
    assert torch.backends.mkldnn.enabled


def _fake_passes(monkeypatch: pytest.MonkeyPatch, folder: Path, action: str) -> None:
    """Replaces torch-mlir's tool by a script that executes `action` if the program contains a tanh, and otherwise runs
    the tool."""
    tool = folder / "torch-mlir-opt"
    tool.write_text(
        f"#!{sys.executable}\n"
        "import os, subprocess, sys\n"
        "source = sys.stdin.buffer.read()\n"
        f"if b'aten.tanh' in source:\n {action}\n"
        f"sys.exit(subprocess.run([{str(lowering_process.OPT)!r}, *sys.argv[1:]], input=source).returncode)\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(lowering_process, "OPT", tool)


def test_lower_limits_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the caller has set a lower memory limit with ulimit, the child process gets this limit: only a privileged
    process may raise it."""
    own, most, given = resource.prlimit, 6 << 30, []

    def limit(process: int, kind: int, limits: tuple[int, int] | None = None) -> tuple[int, int]:
        if kind != resource.RLIMIT_AS:
            return own(process, kind) if limits is None else own(process, kind, limits)
        if limits is None:
            return most, most
        given.append(limits)
        return own(process, kind, limits)

    monkeypatch.setattr(lowering_process.resource, "prlimit", limit)
    # If the cache were on, the program could come from the cache, and no child process would start.
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    capture_inference(Applied(lambda x: x + 1), torch.randn(3))
    assert {*given} == {(most, most)}


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("os.abort()", "crashes torch-mlir"),
        ("while True: pass", "takes torch-mlir more than 1 s, the limit (capture_seconds of REPRO_MLIR_LIMITS)"),
        (
            # Does what LLVM does when memory runs out: prints a message and aborts.
            "try: bytes(3 << 30)\n except MemoryError:\n  print('out of memory', file=sys.stderr)\n  os.abort()",
            "takes torch-mlir more than 2,147,483,648 bytes of memory, the limit (memory_bytes of REPRO_MLIR_LIMITS)",
        ),
    ],
)
def test_operator_that_torch_mlir_does_not_survive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str, reason: str
) -> None:
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "memory_bytes=2G,capture_seconds=1")
    _fake_passes(monkeypatch, tmp_path, action)
    model = nn.Sequential(nn.Linear(16, 8), nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Linear(8, 8))
    assert _error(lambda: capture_inference(model, BATCH[0])) == f"module 1.1: operator aten.tanh {reason}"
