# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts of the examples, recorded at x86-64-v3 with two threads, verify on every other target."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir import ReceiptOptions, ReproError
from repro_mlir.base.errors import ReceiptWrong

pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
EXAMPLES = {"digits_cnn": "sklearn", "names_gpt": "names"}
STEPS = 6


@pytest.fixture(scope="module", params=EXAMPLES)
def receipt(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Records the first steps of an example and yields the receipt."""
    pytest.importorskip(EXAMPLES[request.param])
    sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
    model, loss_fn, optimizer, batches, *rest = importlib.import_module(request.param).training(STEPS)
    path = tmp_path_factory.mktemp(request.param) / "run.receipt"
    options = ReceiptOptions(path, checkpoint_every=3)
    extra = rest[0] if rest else {}
    try:
        with repro_mlir.Trainer(
            model, loss_fn, optimizer, target="cpu:x86-64-v3", threads=2, receipt=options, **extra
        ) as trainer:
            trainer.fit(batches, STEPS)
    except ReproError as error:
        pytest.skip(str(error))
    finally:
        sys.path.pop(0)
    yield path
    sys.modules.pop(request.param, None)


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        ("cpu:x86-64-v3", "all"),
        ("cpu:x86-64-v4", "all"),
        ("cpu:x86-64-v2", "sample:1"),
        ("cpu:aarch64", "4"),
        ("ptx-emulator", "sample:2"),
    ],
)
@pytest.mark.diagonal
@pytest.mark.exhaustive("cpu:x86-64-v4")
def test_other_targets_agree(receipt: Path, target: str, steps: str) -> None:
    try:
        verified = repro_mlir.verify(receipt, steps, target, 2)
    except ReproError as error:
        # The target cannot run here: qemu is missing, or the CPU lacks the target's instructions.
        if isinstance(error, ReceiptWrong) or not target.startswith("cpu:"):
            raise
        pytest.skip(str(error))
    assert verified.steps == STEPS and set(verified.chosen) <= set(verified.executed)


def test_the_reference_interpreter_agrees(receipt: Path) -> None:
    if "digits" not in receipt.parent.name:
        pytest.skip("a step of this model takes the interpreter long: examples/demo.py runs it there")
    assert repro_mlir.verify(receipt, "4", "reference").executed == (4,)
