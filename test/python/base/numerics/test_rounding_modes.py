# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V2) The caller's rounding mode and flushing of subnormals change no bit of a public function's result. Values that
the host converts, such as a learning rate to f32, are rounded to nearest even."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.base.files import json_text
from repro_mlir.frontends.torch.objects.checkpoint import load_checkpoint
from repro_mlir.program_training import ProgramTrainer
from support.float_environments import ENVIRONMENTS

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

RATES = (0.1, 0.3, 1e-3, 0.7, 1 / 3)


def everywhere(run: Callable[[], list[bytes]], refuses: str = "") -> None:
    """Checks that `run` returns equal results in each floating-point environment, except that `run` must raise an error
    in the environment named `refuses`."""
    want = run()
    for name, environment in ENVIRONMENTS.items():
        with environment():
            if name == refuses:
                with pytest.raises(ReproError, match="set_flush_denormal"):
                    run()
            else:
                assert run() == want, name


X = torch.arange(12.0).reshape(4, 3) / 7
Y = torch.arange(4) % 2
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.97)),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [("sgd", "cpu"), ("sgd", "ptx-emulator"), *((name, "reference") for name in OPTIMIZERS)],
)
def test_trainer(name: str, target: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    loss_fn = torch.nn.functional.cross_entropy
    optimizer = OPTIMIZERS[name](model.parameters())
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target=target, threads=1, clip_norm=0.7)
    trainer.step(X, Y)
    begin = copy.deepcopy(trainer.state_dict())

    def run() -> list[bytes]:
        trainer.load_state_dict(begin)
        for rate in RATES:
            optimizer.param_groups[0]["lr"] = rate
            trainer.step(X, Y)
        inputs = [array.tobytes() for array in trainer.read_inputs(X, Y)]
        return [trainer.state_hash().encode(), np.float64(trainer.evaluate(X, Y)).tobytes(), *inputs]

    everywhere(run, refuses="flush")


def test_program_trainer_and_executables(tmp_path: Path) -> None:
    from repro_mlir.program_training import adamw, mean_squared_error, training_step

    forward = repro_mlir.capture(torch.nn.Linear(3, 2), torch.zeros(4, 3))
    program = training_step(forward, mean_squared_error(), adamw(), train=["weight", "bias"])
    numbers = [kind.name for kind in program.inputs[: program.num_hyper_parameters]]
    x, y = X.numpy(), np.ones((4, 2), np.float32) / 3
    count = iter(range(100))

    def run() -> list[bytes]:
        found: list[bytes] = []
        for target in ("cpu", "reference", "ptx-emulator"):
            path = tmp_path / f"{next(count)}.receipt"
            receipt = repro_mlir.ReceiptOptions(path)
            given = dict.fromkeys(numbers, 0.1)
            with ProgramTrainer(program, given, target=target, threads=1, receipt=receipt) as trainer:
                for rate in RATES:
                    trainer.hyper_parameters["lr"] = rate
                    found.append(trainer.step(x, y)["loss"].tobytes())
                found.append(trainer.state_hash().encode())
            found.append((path / "steps.jsonl").read_bytes())
        repro_mlir.verify(path, target="reference")
        state = program.initial_state()
        _, outputs = repro_mlir.compile(program, "cpu", 1)(state, *[np.float64(0.1).item()] * len(numbers), x, y)
        return [*found, outputs["loss"].tobytes(), *(value.tobytes() for value in state.values())]

    everywhere(run)


def test_numbers_of_texts(tmp_path: Path) -> None:
    """Recipes, checkpoints and requests contain numbers as text, which `float` would round by the environment's
    rounding mode."""
    texts = [repr(float(x)) for x in np.random.default_rng(0).normal(size=200)] + [
        "0.1",
        "1e-3",
        "3e-4",
        "0.999",
        "1e-8",
    ]
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, eps=1e-8, betas=(0.9, 0.999))
    trainer = repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, optimizer, target="reference")
    path = tmp_path / "trainer.safetensors"
    trainer.step(X, Y)
    trainer.save_checkpoint(path)

    def run() -> list[bytes]:
        parsed = json_text.parse(f"[{','.join(texts)}]", "numbers")
        groups = load_checkpoint(path)["optimizer"]["param_groups"]
        return [np.array(parsed).tobytes(), str(groups).encode()]

    everywhere(run)


def test_torch_compile() -> None:
    def function(x: torch.Tensor, scale: float) -> torch.Tensor:
        return (x * scale + 0.1).exp() * (scale * 0.3)

    compiled = torch.compile(function, backend=repro_mlir.backend(threads=1), fullgraph=True, dynamic=False)
    known = torch.compile(lambda x: x * 0.1 + 1e-3, backend=repro_mlir.backend(threads=1), fullgraph=True)
    compiled(X, 0.1), known(X)
    everywhere(lambda: [compiled(X, 0.1).numpy().tobytes(), known(X).numpy().tobytes()])
    with ENVIRONMENTS["up"](), pytest.raises(Exception, match=r"\(V2\) capture expects the default floating-point"):
        torch.compile(lambda x: x * 0.7, backend=repro_mlir.backend(), fullgraph=True)(X)


def test_sampled_tokens() -> None:
    from repro_mlir.generation.sampling import Sampler, Sampling

    sampler = Sampler(40, "reference", None)
    logits = np.sin(np.arange(40, dtype=np.float32)) * 3
    choices = [Sampling(temperature=t, top_p=p, seed=3) for t in (0.1, 0.7, 1e-3) for p in (0.3, 0.9)]

    def run() -> list[bytes]:
        return [np.int64(sampler.choose(logits, each, i)).tobytes() for i in range(8) for each in choices]

    everywhere(run)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    from repro_mlir.frontends.jax import programs

    def step(w: Any, x: Any, lr: Any) -> Any:
        return (w - lr * (w * x + 0.1), (w * x).sum())

    w, x = np.arange(4, dtype=np.float32) / 3, np.ones(4, np.float32)
    imported = programs.import_function(step, w, x, 0.1, state=1)
    executable = repro_mlir.compile(repro_mlir.program.program_of(imported), "reference")

    def run() -> list[bytes]:
        state, found = imported.bindings.flatten_state(w), []
        for rate in RATES:
            state, outputs = executable(state, *imported.bindings.flatten_batch((x, rate)))
            found += [value.tobytes() for value in (*state.values(), *outputs.values())]
        return found

    everywhere(run)
    with ENVIRONMENTS["down"](), pytest.raises(ReproError, match=r"\(V2\) capture expects the default floating-point"):
        programs.capture(step, w, x, jax.numpy.float32(1), state=1)
