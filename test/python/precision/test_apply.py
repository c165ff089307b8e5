# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares programs to which a recipe was applied with steps that call the low-precision rules one by one."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import Accumulator, ReproError
from repro_mlir.execute import qemu
from repro_mlir.precision import (
    BlockAccumulator,
    Format,
    Hadamard,
    Recipe,
    RolePrecision,
    Rule,
    apply_precision,
    blocks,
    by_blocks,
    named_recipe,
    nvfp4,
    precision_summary,
    qat,
)
from repro_mlir.precision.recipe import OPERANDS
from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa, named_accumulator
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    ELEMENT_FORMATS,
    F8E4M3FN,
    F16,
    BinaryFormat,
    decode,
)
from repro_mlir.reference.low_precision.block_contraction import (
    Step,
    block_contraction,
    scale_products,
    scaled_contraction,
    tensor_factor,
)
from repro_mlir.reference.low_precision.block_quantization import BlockFormat, Quantized, dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import ROUNDINGS, Rounding, round_elements, site_bits, stochastic
from repro_mlir.reference.low_precision.block_scales import SCALE_RULES
from repro_mlir.reference.low_precision.f32_operations import multiply
from repro_mlir.reference.low_precision.hadamard import hadamard
from support import kit
from support.contracting_models import Checkpointed, Convolutions, Scores
from support.recipes import of_roles
from support.two_layers import TwoLayers, contract
from torch import nn
from torch.nn import functional as F

BATCH, WIDE, HIDDEN, OUT = 32, 48, 80, 16
RATE = np.float32(0.125)
LAYERS = TwoLayers(BATCH, WIDE, HIDDEN, OUT, float(RATE))
SEED = 5

Operand = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def program() -> repro_mlir.Program:
    return LAYERS.captured()


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BATCH, WIDE)) * np.exp2(rng.integers(-6, 6, (BATCH, 1)))
    return x.astype(np.float32), rng.standard_normal((BATCH, OUT)).astype(np.float32)


# --- The rules by hand ---


def rounded(x: np.ndarray, element: BinaryFormat) -> np.ndarray:
    return decode(round_elements(x, element, Rounding(saturate=False)), element)


def tf32(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def form_of(format: Format) -> BlockFormat:
    assert format.tile is not None and format.scale is not None
    bits = format.rounding.bits
    rounding = stochastic(bits) if bits else ROUNDINGS["rne"]
    return BlockFormat(ELEMENT_FORMATS[format.element], format.tile, SCALE_RULES[format.scale.rule], rounding)


def quantized(format: Format, x: np.ndarray, site: int, step: int) -> Quantized:
    """Returns an operand [M, K], transformed if the format says so, and quantized in blocks along K."""
    if format.hadamard is not None:
        signs = format.hadamard.signs
        x = hadamard(x, np.array(signs), len(signs), format.hadamard.to_bf16)
    bits = format.rounding.bits
    return quantize(x, form_of(format), random=site_bits(x.shape, bits, SEED, site, step) if bits else None)


def by_hand(format: Format, site: int, step: int) -> Operand:
    """Returns the function that applies a format to an operand [M, K] by the low-precision rules."""
    if format.element == "bf16":
        return lambda x: rounded(x, BF16)
    if format.element == "f16":
        return lambda x: rounded(x, F16)
    if format.element == "tf32":
        return tf32
    if format.element == "f32":
        return lambda x: x
    return lambda x: dequantize(quantized(format, x, site, step), form_of(format))


def by_class(of: BlockAccumulator, format: Format) -> Fdpa | LateFdpa:
    """(M3) Returns the accumulator for the sums within a block: that of the class `of.within` for the format."""
    assert isinstance(of.within, str)
    element = ELEMENT_FORMATS[format.element]
    assert isinstance(element, BinaryFormat)
    found = named_accumulator(of.within, element)
    assert isinstance(found, Fdpa | LateFdpa)
    return found


def contract_scaled(
    first: tuple[Quantized, Format], second: tuple[Quantized, Format], of: BlockAccumulator
) -> np.ndarray:
    """(M5) Returns the product [M, N] of block-scaled operands [M, K] and [N, K], in an accumulator that multiplies
    products by block scales."""
    operands, of_scales, elements = [], [], []
    for made, format in (first, second):
        rows, columns = form_of(format).tile
        assert rows is not None and columns is not None and format.scale is not None
        operands.append((made.codes, np.repeat(made.scales, rows, axis=0)[: len(made.codes)]))
        of_scales.append(F8E4M3FN if format.scale.element == "f8E4M3FN" else None)
        elements.append(form_of(format).element)
    by = by_class(of, first[1])
    assert isinstance(by, Fdpa)
    pairs = (elements[0], elements[1]), (of_scales[0], of_scales[1])
    total = np.float32(0) + scaled_contraction(*operands, *pairs, columns, by)
    if first[0].tensor is None or second[0].tensor is None:
        return total
    return np.float32(0) + multiply(total, tensor_factor(first[0].tensor, second[0].tensor))


def contract_blocks(
    first: tuple[Quantized, Format],
    second: tuple[Quantized, Format],
    step: str,
    by: Fdpa | LateFdpa | None,
) -> np.ndarray:
    """(Q4), (M5) Returns the product [M, N] of block-scaled operands [M, K] and [N, K]; block sums are multiplied by
    the scales."""
    scales = []
    for made, format in (first, second):
        form = form_of(format)
        # (Q2) A scale is converted to f32 by dequantizing the code of 1 with it.
        ones = round_elements(np.ones(made.scales.shape, np.float32), form.element)
        values = dequantize(dataclasses.replace(made, codes=ones), dataclasses.replace(form, tile=(1, 1)))
        rows, columns = form.tile
        count, length = made.codes.shape
        scales.append(np.repeat(values, rows or count, axis=0)[:count])
    block = columns or length
    elements = form_of(first[1]).element, form_of(second[1]).element
    products = scale_products(scales[0], scales[1])
    return np.float32(0) + block_contraction(first[0].codes, second[0].codes, products, elements, block, Step(step), by)


def step_by_hand(
    recipe: Recipe, weights: list[np.ndarray], x: np.ndarray, target: np.ndarray, step: int = 0
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Computes a step by the low-precision rules and returns the new weights and the output. Sites of stochastic
    rounding are numbered in the order of the contractions."""
    sites = iter(range(100))

    def multiply(role: str, **operands: np.ndarray) -> np.ndarray:
        precision = recipe.roles[role]
        formats = [precision.operands[name] for name in operands]
        places = [next(sites) if format.is_stochastic else -1 for format in formats]
        given = list(zip(formats, operands.values(), places, strict=True))
        if precision.block_step is not None:
            left, right = ((quantized(format, value, site, step), format) for format, value, site in given)
            of = precision.block_accumulator
            if of is not None and of.step == "scaled":
                return contract_scaled(left, right, of)
            return contract_blocks(left, right, precision.block_step, None if of is None else by_class(of, left[1]))
        return contract(*(by_hand(format, site, step)(value) for format, value, site in given))

    first, second = weights
    active = np.maximum(multiply("fprop", activation=x, weight=first), np.float32(0))
    output = multiply("fprop", activation=active, weight=second)
    # Operands are transposed so that K is their last dimension: wgrad sums over the batch, dgrad over the layer's
    # outputs.
    g_second = multiply("wgrad", gradient=target.T.copy(), activation=active.T.copy())
    d_active = multiply("dgrad", gradient=target, weight=second.T.copy())
    d_hidden = np.where(active <= 0, np.float32(0), d_active)
    g_first = multiply("wgrad", gradient=d_hidden.T.copy(), activation=x.T.copy())
    return [first - RATE * g_first, second - RATE * g_second], {"output": output}


def run(
    program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray], steps: int = 1, target: str = "reference"
) -> dict[str, np.ndarray]:
    executable = repro_mlir.compile(program, target)
    state = program.initial_state()
    for _ in range(steps):
        state, _ = executable(state, RATE, *batch)
    return {name: np.array(value) for name, value in state.items()}


COMBINED = of_roles(
    "combined",
    fprop={"activation": Format("tf32"), "weight": Format("f16")},
    dgrad={"gradient": Format("f32"), "weight": Format("bf16")},
    wgrad={"activation": Format("f32"), "gradient": Format("tf32")},
)


def float8(tile: str) -> Recipe:
    """Returns a recipe in which all operands are f8E4M3FN, with one scale for the whole extent of K."""
    format = blocks("f8E4M3FN", tile, "float8")
    return Recipe(
        f"fp8_{tile}",
        {role: RolePrecision(dict.fromkeys(OPERANDS[role], format)) for role in ("fprop", "dgrad", "wgrad")},
    )


RECIPES = {
    **{name: named_recipe(name) for name in ("bf16", "f16", "tf32", "fp8_tensorwise", "fp8_rowwise")},
    **{name: named_recipe(name) for name in ("mxfp8", "mxfp6", "mxfp4", "mxint8", "deepseek_v3")},
    "nvfp4": nvfp4(skip_last=0),
    "combined": COMBINED,
    **{
        f"blocks_{name}": named_recipe(f"blocks_{name}")
        for name in ("mxfp8", "mxfp6", "mxfp4", "mxint8", "deepseek_v3")
    },
    "blocks_nvfp4": by_blocks(nvfp4(skip_last=0)),
    "blocks_split": by_blocks(nvfp4(skip_last=0), "blocks_split"),
    "blocks_fp8_rowwise": by_blocks(float8("row")),
    "blocks_fp8_tensorwise": by_blocks(float8("tensor")),
    **{name: named_recipe(name) for name in ("blackwell_mxfp8", "blackwell_mxfp6", "blackwell_mxfp4")},
    "blackwell_nvfp4": by_blocks(nvfp4(skip_last=0), "blackwell_nvfp4"),
    "deepseek_v3_promoted": named_recipe("deepseek_v3_promoted"),
    "split_hopper_mma": by_blocks("mxfp8", BlockAccumulator("split", "hopper_mma")),
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


IN_UNITS = [*(name for name in RECIPES if name.startswith("blackwell_")), "deepseek_v3_promoted", "split_hopper_mma"]
COMPILED = ["bf16", "tf32", "mxfp8", "fp8_rowwise", "nvfp4", *(name for name in RECIPES if name.startswith("blocks_"))]
COMPILED += IN_UNITS


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.diagonal(
    name=["bf16", "tf32", "fp8_rowwise", "blocks_mxfp8", "blocks_deepseek_v3", "blocks_split", "blackwell_nvfp4"]
)
def test_a_compiled_step_has_the_bits_of_the_reference(
    name: str, program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    changed = apply_precision(program, RECIPES[name], seed=SEED)
    expected, found = run(changed, batch, steps=2), run(changed, batch, steps=2, target="cpu")
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


TARGETS = [*(f"cpu:{level}" for level in kit.levels()), "ptx-emulator"]
TARGETS += ["cpu:aarch64"] if qemu.is_available() else []


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "blocks_mxint8", "blocks_nvfp4", *IN_UNITS])
@pytest.mark.diagonal(
    name=["mxfp8", "nvfp4", "blocks_nvfp4", "blackwell_mxfp4", "deepseek_v3_promoted", "split_hopper_mma"]
)
@pytest.mark.exhaustive("mxfp8", "nvfp4", "split_hopper_mma")
def test_a_step_has_the_same_bits_on_every_target(
    name: str, program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    changed = apply_precision(program, RECIPES[name], seed=SEED)
    expected = run(changed, batch)
    for target in TARGETS:
        found = run(changed, batch, target=target)
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value, err_msg=f"{target}: {key}")


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


def test_convolutions_have_blocks_along_channels() -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(40, 6, 3, stride=2, padding=1, bias=False)
    x = torch.randn(2, 40, 5, 5).numpy()
    program = repro_mlir.capture(model, torch.from_numpy(x))
    form = named_recipe("mxfp4").roles["fprop"].operands["weight"]

    def along_channels(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(by_hand(form, -1, 0)(np.moveaxis(values, 1, -1).copy()), -1, 1).copy()

    plain = repro_mlir.compile(program, "reference")
    (name,) = (kind.name for kind in program.state)
    _, expected = plain({name: along_channels(program.initial[0])}, along_channels(x))
    changed = apply_precision(program, "mxfp4")
    _, found = repro_mlir.compile(changed, "reference")(changed.initial_state(), x)
    (a,), (b,) = expected.values(), found.values()
    np.testing.assert_array_equal(a, b)


def product(left: Format, right: Format, result: str | None = None) -> Recipe:
    return Recipe("product", {"product": RolePrecision({"left": left, "right": right}, result)})


TURNED = Format("bf16", hadamard=Hadamard((1, -1) * 8))
SQUARE = blocks("f4E2M1FN", "nvfp4_square", "nvfp4")


@pytest.mark.parametrize(
    ("model", "shape", "recipe"),
    [
        (Convolutions, (16, 3, 6, 6), nvfp4(skip_last=0)),
        (Convolutions, (16, 3, 6, 6), named_recipe("qat_mxfp4")),
        (Scores, (3, 16, 16), product(SQUARE, SQUARE)),
        (Scores, (3, 16, 16), product(TURNED, TURNED)),
        (Scores, (3, 16, 16), by_blocks(product(SQUARE, SQUARE))),
        (
            Scores,
            (3, 16, 16),
            by_blocks(product(blocks("f8E4M3FN", "tensor", "float8"), blocks("f8E4M3FN", "row", "float8"))),
        ),
        (Scores, (3, 16, 16), by_blocks(nvfp4(skip_last=0))),
        (Checkpointed, (6, 16), named_recipe("blocks_mxfp4")),
        (Scores, (3, 16, 16), product(blocks("f8E4M3FN", "tensor", "float8"), Format("tf32"), "f16")),
        (Checkpointed, (6, 16), named_recipe("qat_mxfp8")),
        (Checkpointed, (6, 16), named_recipe("mxfp8")),
    ],
)
@pytest.mark.exhaustive("recipe5")
def test_other_layers_have_the_same_bits_everywhere(
    model: type[nn.Module], shape: tuple[int, ...], recipe: Recipe
) -> None:
    torch.manual_seed(0)
    module = model()
    target = torch.randint(4, shape[:1])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    given = torch.randn(shape)
    plain = repro_mlir.capture(module, nn.functional.cross_entropy, optimizer, (given, target))
    changed = apply_precision(plain, recipe)
    results = {}
    for name, program, where in (("reference", changed, "reference"), ("cpu", changed, "cpu"), ("plain", plain, "cpu")):
        state, _ = repro_mlir.compile(program, where)(program.initial_state(), RATE, given.numpy(), target.numpy())
        results[name] = b"".join(np.array(value).tobytes() for value in state.values())
    assert results["reference"] == results["cpu"] != results["plain"]


def test_a_step_that_is_computed_again_has_the_bits_of_the_first() -> None:
    """If a layer is recomputed, its operands are quantized with the same random bits as in the forward pass."""

    class Kept(Checkpointed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(x))

    states = []
    for model in (Checkpointed, Kept):
        torch.manual_seed(0)
        module = model()
        given, target = torch.randn(6, 16), torch.randint(4, (6,))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        program = repro_mlir.capture(
            module, nn.functional.cross_entropy, optimizer, (given, target), precision="qat_mxfp8"
        )
        state, _ = repro_mlir.compile(program, "cpu")(program.initial_state(), RATE, given.numpy(), target.numpy())
        states.append({name: np.array(value) for name, value in state.items()})
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)


def test_results_are_rounded(program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]) -> None:
    recipe = Recipe("results", {"fprop": RolePrecision(result="bf16")})
    x, _ = batch
    first, second = program.initial
    active = np.maximum(rounded(contract(x, first), BF16), np.float32(0))
    expected = rounded(contract(active, second), BF16)
    changed = apply_precision(program, recipe)
    executable = repro_mlir.compile(changed, "reference")
    _, outputs = executable(changed.initial_state(), RATE, *batch)
    np.testing.assert_array_equal(outputs["output"], expected)


def test_equal_formats_of_a_tensor_are_made_once(program: repro_mlir.Program) -> None:
    square = dataclasses.replace(nvfp4().roles["fprop"].operands["weight"])
    recipe = of_roles(
        "weights", fprop={"weight": square}, dgrad={"weight": square}, rules=(Rule("0.weight", skip=True),)
    )
    text = apply_precision(program, recipe).text
    # The transposed weight, which the forward pass reads, and the weight are different tensors, so both are quantized.
    assert text.count("repro.quantize") == 2
    rows = of_roles("rows", wgrad={"gradient": Format("bf16")}, dgrad={"gradient": Format("bf16")})
    assert apply_precision(program, rows).text.count("arith.truncf") == 3


def test_the_hash_is_that_of_the_recipe_and_not_of_its_name(program: repro_mlir.Program) -> None:
    again = dataclasses.replace(named_recipe("mxfp8"), name="another")
    assert apply_precision(program, again).hash == apply_precision(program, "mxfp8").hash
    assert LAYERS.captured(precision="mxfp8").hash == apply_precision(program, "mxfp8").hash


def test_a_summary_lists_unchanged_contractions(program: repro_mlir.Program) -> None:
    summary = precision_summary(program, nvfp4(skip_last=1))
    assert [each.layer for each in summary.untouched] == ["2.weight"] * 3
    table = str(summary)
    assert "0.weight  fprop  activation f4E2M1FN 1x16 nvfp4 rne, weight f4E2M1FN 16x16 nvfp4 rne" in table
    assert table.endswith("3 of 5 are left as they are")


SIGNS = Hadamard((1,) * 16)
ROW, INTEGERS = blocks("f4E2M1FN", "mx", "rceil"), blocks("mxint8", "mx", "floor")
BF16_TURNED = Format("bf16", hadamard=SIGNS)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe("none", {}), "the recipe 'none' matches no contraction"),
        (named_recipe("bf16").with_rules(Rule("*", skip=True)), "matches no contraction"),
        (of_roles("p", product={"left": Format("bf16")}), "matches no contraction"),
        (
            of_roles("one", fprop={"weight": BF16_TURNED}),
            "cannot have the precision: .*expected the same transform of both factors",
        ),
        (
            of_roles(
                "again", fprop={"activation": BF16_TURNED, "weight": BF16_TURNED}, dgrad={"weight": Format("forward")}
            ),
            "they are those of a transform",
        ),
        (
            of_roles(
                "ragged", fprop={"activation": Format("bf16", hadamard=Hadamard((1, -1) * 16)), "weight": BF16_TURNED}
            ),
            "expected the same transform",
        ),
        (
            by_blocks(of_roles("one", fprop={"weight": SQUARE})),
            "formats of blocks for both operands .*f32",
        ),
        (by_blocks(named_recipe("fp8_rowwise")), r"\(Q4\) expected codes of f8E4M3FN, f6 or f4, .*got 'f8E5M2'"),
        (
            by_blocks(of_roles("two", fprop={"activation": ROW, "weight": SQUARE})),
            r"\(Q4\) expected blocks of one size along K, got 32 and 16",
        ),
        (
            by_blocks(of_roles("both", fprop={"activation": ROW, "weight": INTEGERS})),
            r"\(Q4\) expected codes of mxint8 of both factors",
        ),
        (
            by_blocks("deepseek_v3", "blackwell_mx"),
            r"\(M5\) expected scales of f8E8M0FNU for the accumulator blackwell_mx, got f32",
        ),
        (
            by_blocks("mxfp4", "blackwell_nvfp4"),
            r"\(M5\) expected scales of f8E4M3FN for the accumulator blackwell_nvfp4, got f8E8M0FNU",
        ),
        (by_blocks("mxfp8", "blackwell_mxf4"), "blackwell_mxf4 does not multiply f8E4M3FN"),
        (by_blocks("mxint8", "blackwell_mx"), "blackwell_mx does not multiply i8"),
        (by_blocks("mxfp4", BlockAccumulator("fused", "hopper")), "hopper does not multiply f4E2M1FN"),
        (
            by_blocks("fp8_tensorwise", BlockAccumulator("fused", "hopper")),
            r"\(Q4\) expected codes of f8E4M3FN, f6 or f4, .*got 'f8E5M2'",
        ),
        (
            by_blocks("mxfp4", BlockAccumulator("scaled", Accumulator(128, 35, "rz_f32", -133, group=64))),
            r"\(M5\) expected blocks of whole groups of 64 products, got blocks of 32",
        ),
        (
            Recipe("one", {"fprop": RolePrecision({"weight": SQUARE}, accumulator="blackwell_nvfp4")}),
            "formats of blocks for both operands .*f32",
        ),
        (
            Recipe("unit", {"fprop": RolePrecision(accumulator="hopper")}),
            "hopper multiplies bf16, f16, tf32, got f32 and f32",
        ),
        (
            Recipe("blocks", {"fprop": RolePrecision({"activation": ROW, "weight": ROW}, accumulator="blackwell")}),
            "got f4E2M1FN and f4E2M1FN: .* if both operands are in blocks, a BlockAccumulator",
        ),
        (
            Recipe(
                "again",
                {"wgrad": RolePrecision({"activation": Format("forward"), "gradient": Format("tf32")}, None, "hopper")},
            ),
            # The message has the element types in the order of the two operands.
            "2.weight: hopper multiplies bf16, f16, tf32, got tf32 and f32",
        ),
        (
            Recipe(
                "codes",
                {
                    "fprop": RolePrecision({"activation": blocks("f8E4M3FN", "tensor", "float8")}),
                    "wgrad": RolePrecision(
                        {"activation": Format("forward"), "gradient": Format("tf32")}, accumulator="hopper"
                    ),
                },
            ),
            "got tf32 and f8E4M3FN",
        ),
        (
            named_recipe("bf16").with_rules(Rule("haed.*", skip=True)),
            r"for the layers 'haed.\*', and the program has none of them: it has 0.weight, 2.weight",
        ),
    ],
)
def test_recipes_that_do_not_fit_are_refused(recipe: Recipe, message: str, program: repro_mlir.Program) -> None:
    with pytest.raises(ReproError, match=message):
        apply_precision(program, recipe)


@pytest.mark.parametrize(("element", "fraction", "terms"), [("bf16", 25, 16), ("tf32", 25, 8)])
def test_M4_class_of_an_accumulator(element: str, fraction: int, terms: int, program: repro_mlir.Program) -> None:
    operands = {"activation": Format(element), "weight": Format(element)}
    recipe = Recipe("hopper", {"fprop": RolePrecision(operands, accumulator="hopper")})
    changed = apply_precision(program, recipe)
    wanted = f"#repro.fdpa<terms = {terms}, fraction = {fraction}, round = rz_f32, floor = -133>"
    for each in repro_mlir.contractions(changed):
        assert (each.order == wanted) == (each.role == "fprop"), each
    assert "hopper" in str(precision_summary(program, recipe))


def test_M4_class_of_an_accumulator_for_operands_of_the_program_and_of_the_forward_pass(
    program: repro_mlir.Program,
) -> None:
    """An accumulator is chosen by the types that the contraction reads. It does not matter whether the program or the
    recipe has rounded the operands to these types."""
    autocast = LAYERS.captured(autocast=torch.bfloat16)
    changed = apply_precision(autocast, Recipe("unit", {"fprop": RolePrecision(accumulator="hopper")}))
    by_hand = repro_mlir.set_accumulators(autocast, "hopper", lambda each: each.role == "fprop")
    assert changed.hash == by_hand.hash != autocast.hash
    recipe = Recipe(
        "again",
        {
            "fprop": RolePrecision({"activation": Format("tf32"), "weight": Format("tf32")}),
            "wgrad": RolePrecision({"activation": Format("forward"), "gradient": Format("tf32")}, None, "hopper"),
        },
    )
    orders = {each.role: each.order for each in repro_mlir.contractions(apply_precision(program, recipe))}
    assert "#repro.fdpa<terms = 8" in orders["wgrad"] and "#repro.order" in orders["fprop"]


@pytest.mark.parametrize("accumulator", ["hopper", Accumulator(16, 24, "rz_f32", -132), "blocks"])
def test_a_sum_is_chosen_once_K4_M4(accumulator: Any, program: repro_mlir.Program) -> None:
    operand = blocks("f8E4M3FN", "mx", "rceil") if accumulator == "blocks" else Format("bf16")
    asked = RolePrecision({"activation": operand, "weight": operand}, accumulator=accumulator)
    recipe = Recipe("both", {"fprop": asked})
    with pytest.raises(
        ReproError,
        match=r"0\.weight: expected no accumulator, as the contraction already has the order #repro.exact<digits = 2>",
    ):
        LAYERS.captured(exact_digits=2, precision=recipe)
    others = repro_mlir.set_accumulators(program, Accumulator(8, 24, "rz_f32", -132))
    with pytest.raises(
        ReproError, match=r"0\.weight: expected no accumulator, as the contraction already has the order #repro.fdpa"
    ):
        apply_precision(others, recipe)


@pytest.mark.parametrize("name", ["mxfp8", "qat_mxfp4", "blocks_mxfp8"])
def test_a_recipe_is_applied_once(name: str, program: repro_mlir.Program) -> None:
    with pytest.raises(ReproError, match=r"expected (operands that are not|no contraction) in blocks"):
        apply_precision(apply_precision(program, Recipe("part", {"fprop": named_recipe(name).roles["fprop"]})), "mxfp8")
    gradients = Recipe("rest", {"wgrad": named_recipe("mxfp8").roles["wgrad"]})
    both = Recipe("both", {"fprop": named_recipe("mxfp8").roles["fprop"], **gradients.roles})
    forward = apply_precision(program, Recipe("part", {"fprop": named_recipe("mxfp8").roles["fprop"]}))
    assert apply_precision(forward, gradients).hash == apply_precision(program, both).hash


def test_R1_random_numbers_of_a_step_that_stays() -> None:
    """(R1) If the step number of a program does not change, each run would round with the same random bits, so the
    recipe is refused."""

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 4, bias=False)
            self.register_buffer("seed", torch.tensor(0))
            self.register_buffer("step", torch.tensor(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + 0 * (self.seed + self.step)

    recipe = of_roles("sr", fprop={"weight": blocks("f8E5M2", "mx", "rceil", "sr8")})
    program = repro_mlir.capture(Counted(), torch.zeros(2, 32))
    with pytest.raises(ReproError, match=r"\(R1\) expected a step that counts, got one that stays: state #2"):
        apply_precision(program, recipe)


def test_qat_in_blocks_reads_their_values_in_gradients(
    program: repro_mlir.Program, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    """(Q4) Training with contractions of codes has the values of training with dequantized operands, except for the
    order of sums in the forward pass."""
    recipe = qat(by_blocks("mxfp8"))
    changed = apply_precision(program, recipe)
    assert changed.text.count("repro.block_contraction") == 2
    assert changed.text.count("repro.dequantize") >= 2
    expected = run(changed, batch)
    for name, value in run(changed, batch, target="cpu").items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    # This gradient does not depend on the result of the forward pass, so its bits are known.
    x, target = batch
    second = program.initial[1]
    of_row = by_hand(blocks("f8E4M3FN", "mx", "rceil"), -1, 0)
    d_active = contract(target, of_row(second).T.copy())
    hidden = contract(of_row(x), of_row(program.initial[0]))
    # No element is so close to 0 that another order of sums could change its sign, which would change the gradient of
    # the ReLU.
    assert np.abs(hidden).min() > 1e-5
    d_hidden = np.where(hidden <= 0, np.float32(0), d_active)
    expected_first = program.initial[0] - RATE * contract(d_hidden.T.copy(), of_row(x).T.copy())
    np.testing.assert_array_equal(expected["0.weight"], expected_first)


def test_a_rule_may_be_for_a_layer_that_this_form_does_not_compute() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.aid = nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.aid(self.body(x)) if self.training else self.body(x)

    model = Heads()
    recipe = named_recipe("mxfp8").with_rules(Rule("aid.*", skip=True))
    program = repro_mlir.capture(model.eval(), torch.zeros(2, 32))
    assert apply_precision(program, recipe).hash == apply_precision(program, "mxfp8").hash
    with pytest.raises(ReproError, match=r"it has body\.weight"):
        precision_summary(program, recipe.with_rules(Rule("aid.wieght", skip=True)))


class Normalized(nn.Module):
    """A model with a layer whose weight is computed from parameters, and a layer in f64."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))
        self.second = nn.Linear(32, 32)
        self.third = nn.Linear(32, 4).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x))
        return self.third(F.scaled_dot_product_attention(x, x, x).double())


class Parts(nn.Module):
    """A model with three projections of the step's input by parts of one weight, which is frozen unless
    `is_trained`."""

    def __init__(self, is_trained: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(24, 8), requires_grad=is_trained)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (F.linear(x, weight) for weight in self.weight.chunk(3))
        return self.head(q * k + v)


def test_gradients_that_no_recipe_reaches_are_said() -> None:
    batch = torch.zeros(8, 8), torch.zeros(8, dtype=torch.int64)

    def program(is_trained: bool) -> repro_mlir.Program:
        model = Parts(is_trained)
        return repro_mlir.capture(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batch)

    with pytest.warns(UserWarning, match="leaves gradients of 1 weights in f32, .*: weight$"):
        apply_precision(program(True), "mxfp8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply_precision(program(False), "mxfp8")


def test_contractions_that_no_recipe_changes_are_reported() -> None:
    program = repro_mlir.capture(Normalized(), torch.zeros(2, 32))
    summary = precision_summary(program, "mxfp8")
    assert len(summary.f64) == 1 and str(summary).endswith("1 of f64 are not among them: no recipe changes them")
    assert [(each.role, each.layer) for each in summary.contractions if each.role == "fprop"] == [
        ("fprop", "second.weight")
    ]
    with pytest.warns(UserWarning, match="does not change 1 layers whose weights are computed from parameters"):
        changed = apply_precision(program, "mxfp8")
    product = named_recipe("mxfp8").roles["fprop"].operands
    recipe = of_roles("p", product={"left": product["activation"], "right": product["weight"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert apply_precision(program, recipe).hash != changed.hash


def test_M4_accumulator_with_parameters(program: repro_mlir.Program) -> None:
    narrow = Accumulator(32, 13, "rz_e8m13", -132, chunk=128)
    recipe = Recipe("narrow", {"wgrad": RolePrecision(accumulator=narrow)})
    orders = {each.role: each.order for each in repro_mlir.contractions(apply_precision(program, recipe))}
    assert "chunk = 128" in orders["wgrad"] and "#repro.order" in orders["fprop"]
