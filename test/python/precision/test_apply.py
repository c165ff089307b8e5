# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs in the precision of a recipe, against a step that calls the rules of low precision by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.precision import (
    Format,
    Hadamard,
    Recipe,
    RolePrecision,
    Rule,
    apply_precision,
    named_recipe,
    nvfp4,
    precision_summary,
)
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    ELEMENT_FORMATS,
    F16,
    BinaryFormat,
    decode,
)
from repro_mlir.reference.low_precision.block_quantization import BlockFormat, dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import ROUNDINGS, Rounding, round_elements, site_bits, stochastic
from repro_mlir.reference.low_precision.block_scales import SCALE_RULES
from repro_mlir.reference.low_precision.f32_operations import multiply_add
from repro_mlir.reference.low_precision.hadamard import hadamard
from torch import nn

BATCH, WIDE, HIDDEN, OUT = 32, 48, 80, 16
RATE = np.float32(0.125)
SEED = 5

Operand = Callable[[np.ndarray], np.ndarray]


def product_sum(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss whose gradient is the target itself."""
    return (output * target).sum()


def captured(**options: Any) -> repro_mlir.Program:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDE, HIDDEN, bias=False), nn.ReLU(), nn.Linear(HIDDEN, OUT, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=float(RATE))
    batch = (torch.zeros(BATCH, WIDE), torch.zeros(BATCH, OUT))
    return repro_mlir.capture(model, product_sum, optimizer, batch, **options)


@pytest.fixture(scope="module")
def program() -> repro_mlir.Program:
    return captured()


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BATCH, WIDE)) * np.exp2(rng.integers(-6, 6, (BATCH, 1)))
    return x.astype(np.float32), rng.standard_normal((BATCH, OUT)).astype(np.float32)


# --- The rules by hand ---


def contract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(K1) a [M, K] and b [N, K] to [M, N]: one fma after the other along K, of at most 512."""
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        total = multiply_add(a[:, k, np.newaxis], b[np.newaxis, :, k], total)
    return total + np.float32(0)


def rounded(x: np.ndarray, element: BinaryFormat) -> np.ndarray:
    return decode(round_elements(x, element, Rounding(saturate=False)), element)


def tf32(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def by_hand(format: Format, site: int, step: int) -> Operand:
    """What a format does with an operand [M, K]."""
    if format.element == "bf16":
        return lambda x: rounded(x, BF16)
    if format.element == "f16":
        return lambda x: rounded(x, F16)
    if format.element == "tf32":
        return tf32
    if format.element == "f32":
        return lambda x: x
    assert format.tile is not None and format.scale is not None
    bits = format.rounding.bits
    rounding = stochastic(bits) if bits else ROUNDINGS["rne"]
    blocks = BlockFormat(ELEMENT_FORMATS[format.element], format.tile, SCALE_RULES[format.scale.rule], rounding)

    def operand(x: np.ndarray) -> np.ndarray:
        if format.hadamard is not None:
            signs = format.hadamard.signs
            x = hadamard(x, np.array(signs), len(signs), format.hadamard.to_bf16)
        random = site_bits(x.shape, bits, SEED, site, step) if bits else None
        return dequantize(quantize(x, blocks, random=random), blocks)

    return operand


def step_by_hand(
    recipe: Recipe, weights: list[np.ndarray], x: np.ndarray, target: np.ndarray, step: int = 0
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The new weights, and what is on the way. Sites are numbered in the order of the contractions."""
    sites = iter(range(100))

    def of(role: str, name: str) -> Operand:
        format = recipe.roles[role].operands[name]
        return by_hand(format, next(sites) if format.is_stochastic else -1, step)

    first, second = weights
    hidden = contract(of("fprop", "activation")(x), of("fprop", "weight")(first))
    active = np.maximum(hidden, np.float32(0))
    output = contract(of("fprop", "activation")(active), of("fprop", "weight")(second))
    # wgrad is along the batch, dgrad along the outputs of the layer.
    gradient = of("wgrad", "gradient")(target.T.copy())
    g_second = contract(gradient, of("wgrad", "activation")(active.T.copy()))
    d_active = contract(of("dgrad", "gradient")(target), of("dgrad", "weight")(second.T.copy()))
    d_hidden = np.where(active <= 0, np.float32(0), d_active)
    gradient = of("wgrad", "gradient")(d_hidden.T.copy())
    g_first = contract(gradient, of("wgrad", "activation")(x.T.copy()))
    return [first - RATE * g_first, second - RATE * g_second], {"output": output}


def run(
    program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray], steps: int = 1, target: str = "reference"
) -> dict[str, np.ndarray]:
    executable = repro_mlir.compile(program, target)
    state = program.initial_state()
    for _ in range(steps):
        state, _ = executable(state, RATE, *batch)
    return {name: np.array(value) for name, value in state.items()}


COMBINED = Recipe(
    "combined",
    {
        "fprop": RolePrecision({"activation": Format("tf32"), "weight": Format("f16")}),
        "dgrad": RolePrecision({"gradient": Format("f32"), "weight": Format("bf16")}),
        "wgrad": RolePrecision({"activation": Format("f32"), "gradient": Format("tf32")}),
    },
)

RECIPES = {
    **{name: named_recipe(name) for name in ("bf16", "f16", "tf32", "fp8_tensorwise", "fp8_rowwise")},
    **{name: named_recipe(name) for name in ("mxfp8", "mxfp6", "mxfp4", "mxint8", "deepseek_v3")},
    "nvfp4": nvfp4(skip_last=0),
    "combined": COMBINED,
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_step_is_the_one_by_hand(
    name: str, program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    recipe = RECIPES[name]
    changed = apply_precision(program, recipe, seed=SEED)
    assert changed.hash != program.hash
    expected = list(program.initial)
    for step in range(2):
        expected, _ = step_by_hand(recipe, expected, *batch, step)
    found = run(changed, batch, steps=2)
    for kind, value in zip(program.state, expected, strict=True):
        np.testing.assert_array_equal(found[kind.name], value, err_msg=kind.name)
    if recipe.is_stochastic:
        assert (int(found["seed"]), int(found["step"])) == (SEED, 2)
        assert [kind.name for kind in changed.state] == ["0.weight", "2.weight", "seed", "step"]
    else:
        assert changed.state == program.state


@pytest.mark.parametrize("name", ["bf16", "tf32", "mxfp8", "fp8_rowwise", "nvfp4"])
def test_a_compiled_step_has_the_bits_of_the_reference(
    name: str, program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    changed = apply_precision(program, RECIPES[name], seed=SEED)
    expected, found = run(changed, batch, steps=2), run(changed, batch, steps=2, target="cpu")
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_training_aware_of_quantization_reads_the_values_of_the_forward_pass(
    program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    recipe = named_recipe("qat_mxfp4")
    found = run(apply_precision(program, recipe), batch)
    of_row = by_hand(recipe.roles["fprop"].operands["weight"], -1, 0)
    x, target = batch
    first, second = program.initial
    hidden = contract(of_row(x), of_row(first))
    active = np.maximum(hidden, np.float32(0))
    d_active = contract(target, of_row(second).T.copy())
    d_hidden = np.where(active <= 0, np.float32(0), d_active)
    g_second = contract(target.T.copy(), of_row(active).T.copy())
    g_first = contract(d_hidden.T.copy(), of_row(x).T.copy())
    np.testing.assert_array_equal(found["2.weight"], second - RATE * g_second)
    np.testing.assert_array_equal(found["0.weight"], first - RATE * g_first)


def test_results_are_rounded(program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]) -> None:
    recipe = Recipe("results", {"fprop": RolePrecision(result="bf16")})
    x, _ = batch
    first, second = program.initial
    active = np.maximum(rounded(contract(x, first), BF16), np.float32(0))
    expected = rounded(contract(active, second), BF16)
    changed = apply_precision(program, recipe)
    executable = repro_mlir.compile(changed, "reference")
    _, outputs = executable(changed.initial_state(), RATE, *batch)
    np.testing.assert_array_equal(outputs["output"] if "output" in outputs else [*outputs.values()][-1], expected)


def test_equal_formats_of_a_tensor_are_made_once(program: repro_mlir.Program) -> None:
    square = dataclasses.replace(nvfp4().roles["fprop"].operands["weight"])
    recipe = Recipe(
        "weights",
        {"fprop": RolePrecision({"weight": square}), "dgrad": RolePrecision({"weight": square})},
        (Rule("0.weight", skip=True),),
    )
    text = apply_precision(program, recipe).text
    # The transpose that the forward pass reads is another tensor than the weight.
    assert text.count("repro.quantize") == 2
    rows = Recipe("rows", {"wgrad": RolePrecision({"gradient": Format("bf16")}), "dgrad": RolePrecision(
        {"gradient": Format("bf16")})})  # fmt: skip
    assert apply_precision(program, rows).text.count("arith.truncf") == 3


def test_the_hash_is_that_of_the_recipe_and_not_of_its_name(program: repro_mlir.Program) -> None:
    again = dataclasses.replace(named_recipe("mxfp8"), name="another")
    assert apply_precision(program, again).hash == apply_precision(program, "mxfp8").hash
    assert captured(precision="mxfp8").hash == apply_precision(program, "mxfp8").hash


def test_a_summary_says_what_is_left(program: repro_mlir.Program) -> None:
    summary = precision_summary(program, nvfp4(skip_last=1))
    assert [each.layer for each in summary.untouched] == ["2.weight"] * 3
    table = str(summary)
    assert "0.weight  fprop  activation f4E2M1FN 1x16 nvfp4 rne, weight f4E2M1FN 16x16 nvfp4 rne" in table
    assert table.endswith("3 of 5 are left as they are")


SIGNS = Hadamard((1,) * 16)
BF16_TURNED = Format("bf16", hadamard=SIGNS)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe("none", {}), "the recipe 'none' matches no contraction"),
        (named_recipe("bf16").with_rules(Rule("*", skip=True)), "matches no contraction"),
        (Recipe("p", {"product": RolePrecision({"left": Format("bf16")})}), "matches no contraction"),
        (
            Recipe("one", {"fprop": RolePrecision({"weight": BF16_TURNED})}),
            "cannot have the precision: .*expected the same transform of both factors",
        ),
        (
            Recipe(
                "again",
                {
                    "fprop": RolePrecision({"activation": BF16_TURNED, "weight": BF16_TURNED}),
                    "dgrad": RolePrecision({"weight": Format("forward")}),
                },
            ),
            "they are those of a transform",
        ),
        (
            Recipe(
                "ragged",
                {
                    "fprop": RolePrecision(
                        {"activation": Format("bf16", hadamard=Hadamard((1, -1) * 16)), "weight": BF16_TURNED}
                    )
                },
            ),
            "expected the same transform",
        ),
        (Recipe("unit", {"fprop": RolePrecision(accumulator="hopper")}), "accumulators of a recipe"),
    ],
)
def test_what_does_not_fit_is_refused(recipe: Recipe, message: str, program: repro_mlir.Program) -> None:
    with pytest.raises(ReproError, match=message):
        apply_precision(program, recipe)
