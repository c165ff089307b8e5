# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Golden hashes: what both examples give on every target, now and later, under numerics v1.

A change that moves one changes the bits of every program of that kind. Where that is meant, golden.json says why.
"""

import importlib
import json
import sys
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir import runtime

pytest.importorskip("torch_mlir")
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize("level", runtime.runnable_levels())
@pytest.mark.parametrize("name", GOLDEN["examples"])
def test_state_hashes(name: str, level: str, monkeypatch) -> None:
    """From a state drawn by (R2), over more steps than a power of beta by a platform's libm would survive."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    expected = GOLDEN["examples"][name]
    model, loss_fn, optimizer, batches, *rest = importlib.import_module(name).training(max(map(int, expected)))
    sys.modules.pop(name)
    target = f"cpu:{level}"
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target=target, threads=2, **(rest[0] if rest else {}))
    # x86-64-v2 has no fma and is slow: the first hash shows it.
    last = min(map(int, expected)) if level == "x86-64-v2" else max(map(int, expected))
    batches = iter(batches)
    for step in range(1, last + 1):
        trainer.step(*next(batches))
        if str(step) in expected:
            assert (step, trainer.state_hash()) == (step, expected[str(step)])
