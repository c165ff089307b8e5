# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The package can be imported again in the same process, as notebooks and reloaders do."""

import pytest
from support.forked_python import run_python

pytest.importorskip("torch_mlir")

TRAIN = """
import gc, importlib, sys, warnings
import torch
warnings.simplefilter("error")

def train():
    import repro_mlir
    model = repro_mlir.initialize(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.3)), 0)
    trainer = repro_mlir.Trainer(
        model, torch.nn.functional.cross_entropy, torch.optim.AdamW(model.parameters()), target="reference"
    )
    trainer.step(torch.ones(5, 3), torch.arange(5) % 4)
    return trainer.state_hash()

def forget():
    for name in [name for name in sys.modules if name.startswith("repro_mlir")]:
        del sys.modules[name]
    gc.collect()

first = train()
"""


def run(code: str) -> None:
    done = run_python(["-c", TRAIN + code])
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_import_again() -> None:
    run("""
import repro_mlir
before = repro_mlir.Trainer
for _ in range(3):
    forget()
    assert train() == first
    import repro_mlir
    assert repro_mlir.Trainer is not before
""")


@pytest.mark.exhaustive
def test_the_bindings_of_a_later_import_are_kept_too() -> None:
    """The second import also loads a module that the first one did not load."""
    run("""
assert "repro_mlir.dialects.scf" not in sys.modules
for _ in range(2):
    forget()
    import repro_mlir.dialects.scf
    assert train() == first
""")


def test_reload() -> None:
    run("""
import repro_mlir
import repro_mlir.frontends.torch.base.repro_operations
for module in (repro_mlir, repro_mlir.base.errors, repro_mlir.frontends.torch.base.repro_operations):
    importlib.reload(module)
assert train() == first
""")


@pytest.mark.exhaustive
def test_import_again_before_anything_is_used() -> None:
    run("""
for _ in range(2):
    forget()
    import repro_mlir
assert train() == first
""")


def test_operators_of_another_version() -> None:
    run("""
forget()
import repro_mlir.frontends.torch.base.repro_operations as operations
from repro_mlir import ReproError
import repro_mlir.frontends.torch.capture.programs
name = next(iter(operations._writers))._schema.name.removeprefix("repro::")
try:
    operations.define(f"{name}(Tensor x, int other) -> Tensor", meta=None, write=None)
except ReproError as error:
    assert "another version of repro_mlir has been imported in this process" in str(error)
else:
    raise AssertionError(name)
""")
