# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the probe for all formats. A probe is a step that also returns the operands and results of its contractions,
for a report."""

from __future__ import annotations

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.precision import (
    Format,
    Hadamard,
    Recipe,
    RolePrecision,
    apply_precision,
    blocks,
    by_blocks,
    nvfp4,
    recipe_of,
)
from repro_mlir.precision.formats import REUSED
from repro_mlir.precision_report.probe import ProbedOperand, probe_of, values_of
from torch import nn

TRANSFORMED = Format("bf16", hadamard=Hadamard((1,) * 16))
MIXED = Recipe(
    "mixed",
    {
        "fprop": RolePrecision({"activation": Format("bf16"), "weight": Format("tf32")}, result="bf16"),
        "dgrad": RolePrecision({"weight": REUSED, "gradient": blocks("f8E5M2", "mx", "floor", "sr8")}),
        "wgrad": RolePrecision({"activation": TRANSFORMED, "gradient": TRANSFORMED}),
    },
)
UNITS = Recipe(
    "units", {"fprop": RolePrecision({"activation": Format("bf16"), "weight": Format("bf16")}, accumulator="hopper")}
)
OWN = {"mixed": MIXED, "units": UNITS}


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((32, 48)).astype(np.float32), rng.standard_normal((32, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def plain(batch: tuple[np.ndarray, np.ndarray]) -> repro_mlir.Program:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 64, bias=False), nn.ReLU(), nn.Linear(64, 16, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return repro_mlir.capture(model, nn.functional.mse_loss, optimizer, tuple(map(torch.from_numpy, batch)))


def run(program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    state, outputs = repro_mlir.compile(program, "reference")(program.initial_state(), np.float32(0.1), *batch)
    found = {kind.name: values_of(kind, np.asarray(outputs[kind.name])) for kind in program.outputs}
    return {**{f"state {name}": value for name, value in state.items()}, **found}


@pytest.mark.parametrize(
    "recipe", ["bf16", "mxint8", "nvfp4", "fp8_rowwise", "qat_mxfp4", "blocks_nvfp4", "blackwell_nvfp4", *OWN]
)
def test_the_step_stays_as_it_is(plain: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray], recipe: str) -> None:
    """The probe has the state and the outputs of the step, and also returns the operands of each contraction."""
    chosen = OWN.get(recipe) or recipe_of(recipe)
    program = apply_precision(plain, chosen)
    probe = probe_of(plain, program, chosen)
    expected, found = run(program, batch), run(probe.program, batch)
    for name, value in expected.items():
        assert np.array_equal(found[name], value)
    assert len(probe.contractions) == 5 and probe.program.initial == program.initial
    for contraction in probe.contractions:
        for operand in contraction.operands:
            assert found[operand.before].shape == found[operand.after].shape


def test_operands_of_all_kinds(plain: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]) -> None:
    program = apply_precision(plain, MIXED)
    probe = probe_of(plain, program, MIXED)
    found = run(probe.program, batch)
    weights = [value for value in plain.initial_state().values()]
    operands: list[dict[str, ProbedOperand]] = [{each.name: each for each in c.operands} for c in probe.contractions]
    first, second, *gradients = operands
    assert np.array_equal(found[first["activation"].before], batch[0])
    assert np.array_equal(found[first["weight"].before], weights[0].T)
    for each in (first, second):
        x = found[each["activation"].before]
        assert np.array_equal(found[each["activation"].after], torch.from_numpy(x).bfloat16().float().numpy())
        bits = found[each["weight"].after].view(np.uint32)
        assert each["weight"].format == Format("tf32") and not (bits & 0x1FFF).any()
        assert not np.array_equal(found[each["weight"].before], found[each["weight"].after])
    # The result of the last contraction of the forward pass, rounded to bf16, is the output of the step.
    assert np.array_equal(found[probe.contractions[1].result], found["output"])
    assert not (found["output"].view(np.uint32) & 0xFFFF).any()
    # dgrad reads the weight that the forward pass has rounded, so rounding it again changes nothing.
    (dgrad,) = (each for each in gradients if each)
    assert set(dgrad) == {"gradient", "weight"} and dgrad["weight"].format == Format("tf32")
    for side in ("before", "after"):
        mine, other = (found[getattr(each["weight"], side)] for each in (dgrad, second))
        assert np.array_equal(np.sort(mine, axis=None), np.sort(other, axis=None))
    assert len(dgrad["gradient"].blocks) == 2 and dgrad["gradient"].statistics(found).blocks is not None


def test_the_same_tensor_in_the_same_format_is_known(plain: repro_mlir.Program) -> None:
    """In bf16, wgrad reads the same rounded tensors as other contractions, and each of these tensors has one key. In
    mxfp4, wgrad's operands have blocks along another dimension, so each of them has a key of its own."""
    for recipe, count in (("bf16", 8), ("mxfp4", 10)):
        probe = probe_of(plain, apply_precision(plain, recipe), recipe_of(recipe))
        keys = [operand.key for contraction in probe.contractions for operand in contraction.operands]
        assert len(keys) == 10 and len({*keys}) == count


class Transposed(nn.Module):
    """A linear layer whose result is transposed: one row per output feature."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bk,nk->nb", x, self.weight)


@pytest.mark.parametrize(
    ("recipe", "base"),
    [
        ("blocks_mxfp8", "mxfp8"),
        ("blocks_mxint8", "mxint8"),
        ("deepseek_v3_promoted", "deepseek_v3"),
        ("blackwell_mxfp4", "mxfp4"),
        (by_blocks(nvfp4(skip_last=0), "blackwell_nvfp4"), nvfp4(skip_last=0)),
    ],
    ids=["mxfp8", "mxint8", "promoted", "scaled", "scaled-and-multiplied"],
)
def test_contractions_in_blocks(
    plain: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray], recipe: str | Recipe, base: str | Recipe
) -> None:
    """(Q4), (M5) The operands are those of the base recipe. The result of the last forward contraction is the output of
    the step."""
    known = []
    for name in (recipe, base):
        probe = probe_of(plain, apply_precision(plain, name), recipe_of(name))
        found = run(probe.program, batch)
        assert np.array_equal(found[probe.contractions[1].result], found["output"])
        assert [len(each.operands) for each in probe.contractions] == [2] * 5
        known.append([(found[key] for key in operand.key) for operand in probe.contractions[0].operands])
    for mine, other in zip(*known, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(mine, other, strict=True))
    torch.manual_seed(0)
    x = torch.randn(32, 32)
    model = repro_mlir.capture(Transposed(), x)
    probe = probe_of(model, apply_precision(model, recipe), recipe_of(recipe))
    executable = repro_mlir.compile(probe.program, "reference")
    _, outputs = executable(model.initial_state(), x.numpy())
    result, expected = outputs[probe.contractions[0].result], outputs[model.outputs[0].name]
    # The result of the contraction also has a batch dimension, of extent 1.
    assert np.array_equal(result.reshape(expected.shape), expected)
