# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes Python state between two steps: the second step must use the new state or be refused.

For each type of state (state_kinds.py), the model's forward, the loss function or the optimizer's step reads a number
that depends on the state. The second step must return the bits of a trainer that is created after the change.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import decimal
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import repro_mlir
import torch
from forked import Result
from journal import Journal
from state_kinds import Kind, kinds

PLACES = ("forward", "loss", "optimizer")
BATCH = torch.arange(8, dtype=torch.float32).reshape(2, 4).sin(), torch.tensor([0, 1])


class Net(torch.nn.Module):
    """A linear layer whose result is multiplied by a number read from the state."""

    def __init__(self, read: Callable[[], Any] | None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        torch.nn.init.constant_(self.layer.weight, 0.25)
        torch.nn.init.constant_(self.layer.bias, 0.5)
        self.read = read

    def forward(self, x: Any) -> Any:
        output = self.layer(x)
        return output if self.read is None else output * self.read()


class Descent(torch.optim.Optimizer):
    """Gradient descent with a learning rate read from the state."""

    def __init__(self, parameters: Any, read: Callable[[], Any]) -> None:
        super().__init__(parameters, {"lr": 0.1})
        self.read = read

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad * (group["lr"] * self.read()))


def new_trainer(read: Callable[[], Any], place: str) -> tuple[repro_mlir.Trainer, torch.nn.Module]:
    """Returns a trainer and its model; `place` says what calls `read`: `forward`, `loss` or `optimizer`."""
    net = Net(read if place == "forward" else None)

    def loss_fn(output: Any, target: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(output, target)
        return loss * read() if place == "loss" else loss

    parameters = net.parameters()
    optimizer = Descent(parameters, read) if place == "optimizer" else torch.optim.SGD(parameters, lr=0.1)
    return repro_mlir.Trainer(net, loss_fn, optimizer, target="reference"), net


def outcome(kind: Kind, place: str) -> str:
    """Returns the outcome of a change: `taken` (the second step captured another program), `same` (it ran the same
    program), `refused: MESSAGE`, or `finding: ...`."""
    with restored():
        module = kind.module()
        trainer, net = new_trainer(module.read, place)
        try:
            first = trainer.step(*BATCH)
        except repro_mlir.ReproError as error:
            return _refusal(error)
        state = copy.deepcopy(net.state_dict())
        module.change()
        refusal = None
        try:
            ours = trainer.step(*BATCH), trainer.state_hash()
        except repro_mlir.ReproError as error:
            refusal = _refusal(error)
        fresh, other = new_trainer(module.read, place)
        other.load_state_dict(state)
        try:
            theirs = fresh.step(*BATCH), fresh.state_hash()
        except repro_mlir.ReproError as error:
            return refusal or f"finding: a new trainer refuses: {error}"
        if refusal is not None:
            return refusal
        if ours != theirs:
            return f"finding: stale: {ours[0]} {ours[1][:8]}, expected {theirs[0]} {theirs[1][:8]}"
        del first
        return "taken" if len(trainer._forms) > 1 else "same"


def _refusal(error: Exception) -> str:
    text = str(error)
    return f"finding: more than a line: {text!r}" if "\n" in text else f"refused: {text}"


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restores the modules, classes and settings that a change may have modified, when the `with` block ends."""
    import builtins

    owners = [torch, torch.nn, torch.nn.functional, torch.nn.ReLU, torch.nn.Module, torch.Tensor, math, builtins]
    former = [dict(vars(owner)) for owner in owners]
    code = torch.nn.ReLU.forward.__code__
    environment, path, dtype = dict(os.environ), [*sys.path], torch.get_default_dtype()
    threads, is_deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    benchmark, fast = torch.backends.cudnn.benchmark, torch.backends.mha.get_fastpath_enabled()
    try:
        # torch.testing._internal, which other tests import, forbids changes of the flags of torch.backends; this
        # context allows such changes.
        with (
            warnings.catch_warnings(),
            np.printoptions(),
            decimal.localcontext(),
            torch.backends.__allow_nonbracketed_mutation(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for owner, held in zip(owners, former, strict=True):
            for name, value in [*vars(owner).items()]:
                if name not in held:
                    delattr(owner, name)
                elif held[name] is not value:
                    setattr(owner, name, held[name])
        torch.nn.ReLU.forward.__code__ = code
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(is_deterministic)
        torch._C._set_cudnn_benchmark(benchmark)
        torch.backends.mha.set_fastpath_enabled(fast)


def cases() -> list[tuple[Kind, str]]:
    """Returns all pairs of a type of state and a function that reads it (forward, loss or optimizer)."""
    return [(kind, place) for kind in kinds() for place in PLACES]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kinds whose names contain this")
    parser.add_argument("--place", choices=PLACES, help="one of the places")
    parser.add_argument("--journal", type=Path, help="a file of what is done, from which the next run goes on")
    options = parser.parse_args(arguments)
    journal = Journal(options.journal or Path(os.devnull))
    found = cases()
    chosen = [
        number
        for number, (kind, place) in enumerate(found)
        if options.only in kind.name and options.place in (None, place)
    ]
    for number in journal.missing(chosen):
        kind, place = found[number]
        try:
            result = outcome(kind, place)
        except Exception as error:
            result = f"finding: {type(error).__name__}: {error}"
        journal.add(Result(number, result))
    done = {number: journal.outcomes[number] for number in chosen}
    for number, result in done.items():
        kind, place = found[number]
        is_right = result.startswith("refused") if kind.refused else result == "taken"
        if not is_right or options.only:
            print(f"{place}: {kind.name}: {result}")
    counts = Counter(result.partition(":")[0] for result in done.values())
    print(len(done), "cases of", len({found[number][0].name for number in done}), "kinds:", dict(counts))
    return int(any(result.startswith("finding") for result in done.values()))


if __name__ == "__main__":
    sys.exit(main())
