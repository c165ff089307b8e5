# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(J5), (V5): a training step that recomputes the tensors named in `recompute` has the same bits and a smaller
arena."""

import pytest
import repro_mlir
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.program import Program
from repro_mlir.program_training import ProgramTrainer, mean_squared_error, sgd, training_step

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

ROWS, WIDTH, LAYERS = 64, 16, 4


def _step(recompute: list[str]) -> Program:
    from repro_mlir.frontends.torch.capture.inference import capture_inference

    torch.manual_seed(0)
    layers = ((torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(LAYERS))
    model = torch.nn.Sequential(*(part for layer in layers for part in layer)).eval()
    imported = capture_inference(model, (torch.zeros(ROWS, WIDTH),), CaptureOptions())
    names = [name for name, _ in model.named_parameters()]
    loss = mean_squared_error()
    return training_step(imported, loss, sgd(), train=names, recompute=recompute)


def _arena(program: Program) -> int:
    return CpuBackend(cached_compile(program.data, "x86-64-v2"), 1).arena_bytes


@pytest.mark.parametrize("pattern", ["module [012456]", "module [135]"])
def test_no_bit_changes_and_less_is_kept(pattern: str) -> None:
    kept, again = _step([]), _step([pattern])
    assert kept.hash != again.hash
    random = torch.Generator().manual_seed(1)
    batch = [torch.randn(ROWS, WIDTH, generator=random) for _ in range(2)]
    hashes = set()
    for program in (kept, again):
        for target in ("cpu", "cpu:x86-64-v2", "ptx-emulator", "reference"):
            with ProgramTrainer(program, {"lr": 0.1}, target=target) as trainer:
                trainer.step(*batch)
                trainer.step(*batch)
                hashes.add(trainer.state_hash())
    assert len(hashes) == 1
    # Each recomputed layer has two tensors, of which at least one is no longer kept.
    assert _arena(again) <= _arena(kept) - 2 * ROWS * WIDTH * 4


@pytest.mark.parametrize("pattern", ["module 9", "a b,c{d}'\""])
def test_a_pattern_that_names_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(repro_mlir.ReproError, match=r"\(J5\) no operation comes from"):
        _step([pattern])
