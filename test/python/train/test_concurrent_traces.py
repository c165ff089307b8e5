# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Several threads capture at the same time. A trace replaces functions that all threads use, and restores the functions
when it ends."""

import builtins
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import repro_mlir
import torch

pytest.importorskip("torch_mlir")


class Descent(torch.optim.Optimizer):
    """Gradient descent that calls `max` in its step: a builtin that a trace replaces."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(max(group["lr"], 0.0) * parameter.grad)


def test_threads_that_trace_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    shared = time.perf_counter, builtins.max, torch.get_rng_state, torch.nn.Module.__getattr__
    together = threading.Barrier(3)
    found: list[float | Exception] = []

    def train() -> None:
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5))
        trainer = repro_mlir.Trainer(
            model, torch.nn.functional.mse_loss, Descent(model.parameters()), target="reference"
        )
        together.wait()
        try:
            found.extend(trainer.step(torch.ones(2, 4), torch.zeros(2, 3)) for _ in range(2))
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    # Another thread may call functions that a trace replaces, such as time.perf_counter.
    while any(thread.is_alive() for thread in threads):
        time.perf_counter()
        time.sleep(0.001)
    assert len(found) == 6 and all(isinstance(each, float) for each in found), found
    assert shared == (time.perf_counter, builtins.max, torch.get_rng_state, torch.nn.Module.__getattr__)


def test_a_step_sees_the_globals_of_its_module_alone() -> None:
    count = len(globals())

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(output, target) * float(len(globals()))

    model = torch.nn.Linear(4, 3)
    trainer = repro_mlir.Trainer(model, loss, Descent(model.parameters()), target="reference")
    expected = torch.nn.functional.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 3)) * count
    torch.testing.assert_close(torch.tensor(trainer.step(torch.ones(2, 4), torch.zeros(2, 3))), expected.detach())


def test_torch_compile_after_its_first_use_in_a_trace() -> None:
    """Dynamo stores tables of the builtins when it is imported. Here this happens during a trace, which has replaced
    some builtins."""
    code = """
import torch
from repro_mlir.frontends.torch.trace.recording import Recording
with Recording().recorded():
    import torch._dynamo.convert_frame
def function(x):
    return torch.nn.functional.nll_loss(x, torch.ones(1, 5, 5, dtype=torch.int64), torch.tensor([1.0, 2.0]))
x = torch.ones(1, 2, 5, 5)
assert torch.compile(function, backend="eager", fullgraph=True)(x) == function(x)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
