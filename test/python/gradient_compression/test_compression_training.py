# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Trainers with compressed gradients: checkpoints, receipts and refusals."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError
from repro_mlir.gradient_compression import Blocks, OneBit, PowerSGD, TopK
from support.compression_methods import METHODS

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

ROWS = 24
X = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(ROWS) % 3
LOSS = torch.nn.functional.cross_entropy


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


def make(method: Any, model: Any = None, **options: Any) -> Any:
    model = network() if model is None else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return repro_mlir.Trainer(
        model, LOSS, optimizer, **{"microbatches": 4, "threads": 1} | options, gradient_compression=method
    )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.exhaustive("qsgd", "blocks", "one_bit")
def test_a_checkpoint_contains_the_residuals(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = make(METHODS[name])
    for _ in range(2):
        whole.step(X, Y)
    whole.save_checkpoint(path)
    first = whole.step(X, Y)
    again = make(METHODS[name])
    again.load_checkpoint(path)
    assert again.step(X, Y) == first and again.state_hash() == whole.state_hash()
    copied = make(METHODS[name])
    copied.step(X, Y)
    copied.load_state_dict(whole.state_dict())
    assert (copied.step(X, Y), copied.state_hash()) == (whole.step(X, Y), whole.state_hash())


def test_states_that_do_not_fit() -> None:
    plain, top_k, one_bit = make(None), make(TopK(0.5)), make(OneBit())
    for each in (plain, top_k, one_bit):
        each.step(X, Y)
    before, state = top_k.state_hash(), top_k.state_dict()
    name, kept = "residual.0.weight", state["gradient_compression"]
    right = torch.zeros(4, 8, 6)
    for entry, message in (
        (None, "the state has no gradient_compression, which the trainer keeps"),
        ([], "gradient_compression: expected a dict of tensors, got a list"),
        (one_bit.state_dict()["gradient_compression"], "gradient_compression: the state has other settings"),
        (kept | {"residual.0.weights": right}, "gradient_compression: unexpected residual.0.weights"),
        (kept | {3: right}, "gradient_compression: unexpected 3"),
        (kept | {name: right.double()}, f"{name}: expected elements of f32"),
        (kept | {name: 3}, f"{name}: expected an array, got a int"),
        (kept | {name: right[0]}, rf"{name}: expected shape \[4, 8, 6\], got \[8, 6\]"),
        (kept | {name: right.to_sparse()}, f"{name}: .*sparse"),
        (kept | {name: right.to("meta")}, f"{name}: .*meta"),
        (kept | {name: torch._neg_view(right)}, f"{name}: .*the negative bit"),
    ):
        changed = {key: value for key, value in state.items() if key != "gradient_compression"}
        with pytest.raises(ReproError, match=message):
            top_k.load_state_dict(changed | ({} if entry is None else {"gradient_compression": entry}))
        assert top_k.state_hash() == before
    with pytest.raises(ReproError, match=r"but the trainer keeps none: pass gradient_compression= to Trainer"):
        make(None).load_state_dict(state)
    with pytest.raises(ReproError, match=r"residual.0.*: expected shape \[2, 8, .*\], got \[4, 8"):
        make(TopK(0.5), microbatches=2).load_state_dict(state)
    # The names and shapes of tensors are the same for these methods, so the states differ only in the method's name.
    for other in (TopK(0.25), Blocks.named("mxfp8")):
        with pytest.raises(ReproError, match="the state has other settings than the trainer"):
            make(other).load_state_dict(state)
    own = one_bit.state_dict()["gradient_compression"]
    partial = {name: value for name, value in own.items() if not name.startswith("mean_residual.0")}
    with pytest.raises(ReproError, match=r"missing mean_residual\.0"):
        one_bit.load_state_dict(one_bit.state_dict() | {"gradient_compression": partial})
    # A state without residuals can be loaded, because the trainer's residuals are still zero.
    top_k.load_state_dict(make(None).state_dict())


def test_residuals_start_at_zero_without_an_entry() -> None:
    trainer = make(TopK(0.2))
    for _ in range(2):
        trainer.step(X, Y)
    state = copy.deepcopy(trainer.state_dict())
    trainer.step(X, Y)
    kept = trainer.state_hash()
    kept_own = state["gradient_compression"]
    zeros = {name: value if name == "definition" else torch.zeros_like(value) for name, value in kept_own.items()}
    hashes = []
    for entry in ({}, zeros):
        trainer.load_state_dict(state | {"gradient_compression": entry})
        trainer.step(X, Y)
        hashes.append(trainer.state_hash())
    assert hashes[0] == hashes[1] != kept


@pytest.mark.parametrize("name", ["top_k", "one_bit", "power_sgd"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.diagonal
@pytest.mark.exhaustive("False", "power_sgd")
def test_a_layer_that_is_frozen_for_some_steps(name: str, first: bool, tmp_path: Path) -> None:
    """A run in which a layer is frozen for some steps can be resumed from each of its checkpoints."""
    frozen = (first, not first, first)
    model = network()
    whole = make(METHODS[name], model)
    for number, is_frozen in enumerate(frozen):
        model[2].requires_grad_(not is_frozen)
        whole.step(X, Y)
        whole.save_checkpoint(tmp_path / f"{number}.safetensors")
    for number in range(2):
        model = network()
        again = make(METHODS[name], model)
        model[2].requires_grad_(not frozen[number])
        again.load_checkpoint(tmp_path / f"{number}.safetensors")
        for is_frozen in frozen[number + 1 :]:
            model[2].requires_grad_(not is_frozen)
            again.step(X, Y)
        assert again.state_hash() == whole.state_hash()


@pytest.mark.parametrize("name", ["one_bit", "qsgd", "power_sgd"])
@pytest.mark.exhaustive("power_sgd", "one_bit")
def test_receipts(name: str, tmp_path: Path) -> None:
    from repro_mlir.cli.main import main

    paths = [tmp_path / "first.receipt", tmp_path / "second.receipt"]
    for path in paths:
        options = repro_mlir.ReceiptOptions(path, microbatches_every=1)
        with make(METHODS[name], receipt=options, clip_norm=1.0 if path is paths[0] else 2.0) as trainer:
            trainer.fit([(X, Y)], 3)
    assert repro_mlir.verify(paths[0], target="reference").steps
    assert main(["verify", str(paths[0]), "--microbatches", "all"]) == 0
    assert main(["dispute", str(paths[0]), str(paths[0])]) == 0
    assert main(["dispute", str(paths[0]), str(paths[1]), "--terms", str(paths[0])]) == 1


def test_a_receipt_goes_on(tmp_path: Path) -> None:
    whole, path = make(OneBit()), tmp_path / "run.receipt"
    whole.fit([(X, Y)], 4)
    with make(OneBit(), receipt=path) as trainer:
        trainer.fit([(X, Y)], 2)
    with make(OneBit(), receipt=repro_mlir.ReceiptOptions(path, resume=True)) as trainer:
        trainer.fit([(X, Y)], 4)
        assert trainer.state_hash() == whole.state_hash()


def test_a_failed_step_keeps_the_residuals() -> None:
    trainer = make(TopK(0.5))
    trainer.step(X, Y)
    before, wrong = trainer.state_hash(), Y.clone()
    wrong[-1] = 7
    with pytest.raises(ReproError):
        trainer.step(X, wrong)
    assert trainer.state_hash() == before


def test_with_a_precision_recipe() -> None:
    """Compression does not change which contractions a recipe applies to. The random numbers of the compression have
    other sites than those of the recipe."""
    gradient = {"element": "f8E5M2", "tile": [1, 32], "scale": "rceil", "rounding": "sr8"}
    recipe = {"name": "stochastic", "dgrad": {"gradient": gradient}, "wgrad": {"gradient": gradient}}
    hashes = []
    for target in ("reference", "cpu"):
        trainer = make(Blocks.named("nvfp4"), precision=recipe, target=target)
        trainer.step(X, Y)
        hashes.append(trainer.state_hash())
    assert hashes[0] == hashes[1]
    sites = re.findall(r"site = (\d+)", trainer.program.part.text)
    # Sites of the gradients of four parameters, and of operands of three contractions.
    assert len(sites) == len({*sites}) >= 6
    roles = [
        [each.role for each in repro_mlir.precision_summary(make(method).prepare(X, Y), recipe).contractions]
        for method in (None, TopK(0.5), Blocks.named("nvfp4"))
    ]
    assert roles[0] == roles[1] == roles[2]


def test_options_that_are_refused() -> None:
    for options, message in (
        ({"microbatches": None}, "expected microbatches=N, 1 for the whole batch"),
        (
            {"loss_scale": torch.amp.GradScaler("cpu"), "autocast": torch.float16},
            "expected either gradient_compression or loss_scale",
        ),
    ):
        with pytest.raises(ReproError, match=message):
            make(TopK(0.5), **options).step(X, Y)
    with pytest.raises(ReproError, match="expected a method among"):
        make("bottom_k")
    with pytest.raises(ReproError, match="expected a gradient that power_sgd compresses"):
        make(PowerSGD(8)).step(X, Y)
    model = torch.nn.Linear(6, 3, dtype=torch.bfloat16)
    rule = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = repro_mlir.Trainer(model, LOSS, rule, microbatches=2, gradient_compression="one_bit")
    with pytest.raises(ReproError, match="the gradient of weight: expected f32 for one_bit, got bf16"):
        trainer.step(X.bfloat16(), Y)
