# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recipes as JSON: writing, reading, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from repro_mlir import Accumulator, ReproError
from repro_mlir.precision import (
    NAMED_RECIPES,
    BlockAccumulator,
    Format,
    Hadamard,
    Recipe,
    RolePrecision,
    Rounding,
    Rule,
    Scale,
    named_recipe,
    nvfp4,
    recipe_from_json,
    recipe_of,
    recipe_to_json,
)
from repro_mlir.precision.formats import RULES, TILES
from repro_mlir.precision.named import SIGNS_16
from repro_mlir.reference.low_precision import block_quantization, block_scales, hadamard

ROW = {"element": "f4E2M1FN", "tile": [1, 16], "scale": "nvfp4"}


def fprop(activation: Any) -> str:
    return json.dumps({"fprop": {"activation": activation}})


@pytest.mark.parametrize("name", NAMED_RECIPES)
def test_named_recipes_are_read_back(name: str) -> None:
    recipe = named_recipe(name)
    assert recipe.name == name
    assert recipe_from_json(recipe_to_json(recipe)) == recipe == recipe_of(name)


def test_everything_freely_combined_is_read_back(tmp_path: Path) -> None:
    scale = Scale("rceil", infinity="largest", nan=254, least=0)
    rounding = Rounding("sr", 11, saturate=False, nan="zero", signed_zero=False)
    odd = Format("f6E2M3FN", (3, None), scale, rounding, hadamard=Hadamard((1, -1) * 16))
    recipe = Recipe(
        "odd",
        {
            "fprop": RolePrecision({"activation": odd, "weight": Format("f16")}, "bf16", "hopper"),
            "wgrad": RolePrecision({"activation": Format("forward")}, accumulator=Accumulator(8, 24, "rz_f32", -132)),
            "product": RolePrecision({"left": Format("tf32"), "right": Format("mxint8_full", (1, 8), Scale("even"))}),
        },
        (
            Rule("blocks.*", roles={"dgrad": RolePrecision({"weight": Format("f32")})}),
            Rule(first=2, skip=True),
            Rule(last=1, roles={"fprop": RolePrecision(result="f32")}),
        ),
    )
    assert recipe_from_json(recipe_to_json(recipe)) == recipe == recipe_of(json.loads(recipe_to_json(recipe)))
    path = tmp_path / "odd.json"
    path.write_text(recipe_to_json(recipe))
    assert recipe_of(str(path)) == recipe


def test_M5_accumulators_of_blocks_are_read_back() -> None:
    groups = Accumulator(64, 35, "rz_f32", -133, group=16)
    recipe = Recipe(
        "units",
        {
            "fprop": RolePrecision(accumulator="blackwell_mx"),
            "dgrad": RolePrecision(accumulator=BlockAccumulator("split", "hopper")),
            "wgrad": RolePrecision(accumulator=BlockAccumulator("scaled", groups)),
            "product": RolePrecision(accumulator=BlockAccumulator("fused", Accumulator(8, 24, "rz_f32", -132))),
        },
    )
    assert recipe_from_json(recipe_to_json(recipe)) == recipe
    assert json.loads(recipe_to_json(recipe))["dgrad"]["accumulator"] == {"step": "split", "within": "hopper"}


def test_M5_older_accumulators_are_written_as_before() -> None:
    recipe = Recipe("made up", {"fprop": RolePrecision(accumulator=Accumulator(8, 24, "rz_f32", -132))})
    assert "group" not in json.loads(recipe_to_json(recipe))["fprop"]["accumulator"]


def test_names_are_those_of_the_reference_Q2_Q5() -> None:
    assert TILES == block_quantization.TILES
    # (Q6) The rule `delayed` is only in recipes: the reference interpreter quantizes with the scale that the program
    # computes.
    assert set(RULES) - {"delayed"} == set(block_scales.SCALE_RULES) - {"nvfp4_four_over_six", "given"}
    assert SIGNS_16 == hadamard.SIGNS_16


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "expected JSON"),
        ("[]", "expected an object, got list"),
        ('{"fprp": {}}', "unknown field 'fprp'"),
        ('{"fprop": {"gradient": "bf16"}}', "fprop: unknown field 'gradient'"),
        ('{"fprop": {}, "fprop": {}}', "a key occurs twice"),
        ('{"name": "x", "rules": {}}', "rules: expected an array"),
        ('{"rules": [{"layers": "a", "last": 1, "skip": true}]}', "expected one of layers, first and last"),
        ('{"rules": [{"layers": "a"}]}', "expected either skip or roles"),
        ('{"rules": [{"last": -1, "skip": true}]}', "expected last as a whole number"),
        (fprop("f8E4M3FN"), "expected an object with the tile and scale of f8E4M3FN"),
        (fprop("f7"), "expected an element among"),
        (fprop("forward"), "is not in the forward pass"),
        (fprop(ROW | {"size": 2}), "activation: unknown field 'size'"),
        (fprop(ROW | {"tile": [1]}), "expected a tile of rows and columns"),
        (fprop(ROW | {"tile": [1, 0]}), "expected a side of a tile"),
        (fprop(ROW | {"tile": [1, 1.5]}), "expected a side of a tile"),
        (fprop(ROW | {"element": "f8E5M2"}), "expected f4E2M1FN for the rule nvfp4, got f8E5M2"),
        (fprop(ROW | {"scale": "other"}), "expected a rule of scales among"),
        (fprop(ROW | {"scale": {"rule": "nvfp4", "nan": 3}}), "the rule nvfp4 has no parameter nan"),
        (fprop(ROW | {"scale": {"rule": "nvfp4", "largest": 7}}), "expected a largest scale of 448 or 256"),
        (fprop(ROW | {"rounding": "sr"}), "expected a rounding rne"),
        (fprop(ROW | {"rounding": "sr33"}), "expected bits as a whole number"),
        (fprop(ROW | {"rounding": "sr08"}), "expected a rounding rne"),
        (fprop(ROW | {"rounding": "sr\u0663"}), "expected a rounding rne"),
        (json.dumps({"rules": [{}] * 1001}), "expected at most 1000 rules, got 1001"),
        (fprop(ROW | {"rounding": {"direction": "rne", "bits": 3}}), "unknown field 'bits'"),
        (fprop(ROW | {"hadamard": {"signs": [1, 1]}}), "expected 16 or 32 signs"),
        (fprop({"element": "bf16", "tile": [1, 2]}), "which has no blocks"),
        (fprop({"element": "f32", "hadamard": {"signs": [1] * 16}}), "expected no Hadamard transform for f32"),
        (fprop(ROW | {"amax": "row", "tile": [2, 16]}), "expected the rule nvfp4 and blocks of one row"),
        ('{"fprop": {"result": "f64"}}', "expected a result among"),
        ('{"fprop": {"accumulator": 3}}', "accumulator: expected a name or an object"),
        ('{"fprop": {"accumulator": "h100"}}', "expected an accumulator among volta"),
        ('{"fprop": {"accumulator": {"step": "fused"}}}', "accumulator.within: expected a name or an object"),
        (
            '{"fprop": {"accumulator": {"step": "x", "within": "ada"}}}',
            "fprop.accumulator: expected a step among fused",
        ),
        (
            '{"fprop": {"accumulator": {"step": "fused", "within": {"terms": 8}}}}',
            "accumulator.within: expected the field fraction",
        ),
        ('{"fprop": {"accumulator": {"step": "fused", "by": "ada"}}}', "accumulator: unknown field 'by'"),
        ('{"fprop": {"accumulator": {"terms": 8}}}', "accumulator: expected the field fraction"),
        (
            '{"fprop": {"accumulator": {"terms": true, "fraction": 9, "round": "", "floor": 0}}}',
            "accumulator: expected terms as a whole number from 1 to 128, got True",
        ),
        ('{"fprop": {"accumulator": {"term": 8}}}', "accumulator: unknown field 'term', expected terms, fraction"),
        (
            '{"rules": [{"layers": "a", "product": {"left": "bf16"}}]}',
            r"rules\[0\]: expected no role product in a rule",
        ),
        ('{"rules": [' + ",".join(['{"last": 1, "skip": true}'] * 1001) + "]}", "expected at most 1000 rules"),
        ('"' + "x" * (1 << 20) + '"', "bytes"),
    ],
)
def test_other_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        recipe_from_json(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{\ud800", "the recipe: expected JSON in UTF-8"),
        ({"name": "\ud800"}, r"the name of a recipe as a string in Unicode, got '\\ud800'"),
        ({"rules": [{"layers": "\udfff", "skip": True}]}, r"layers as a pattern of names in Unicode, got '\\udfff'"),
        ({10**5000: 1}, "unknown field a number of 16610 bits, expected name"),
    ],
    ids=range(4),
)
def test_values_that_text_cannot_have_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        recipe_of(given)


@pytest.mark.parametrize("given", [3, None, "fp4", "qat_bf16"])
def test_values_that_are_not_recipes_are_refused(given: Any) -> None:
    with pytest.raises(ReproError, match="recipe"):
        recipe_of(given)


def test_rules_choose_by_name_and_place() -> None:
    recipe = nvfp4(skip_last=2).with_rules(
        Rule("head.*", roles={"fprop": RolePrecision({"weight": Format("bf16")})}), Rule(first=1, skip=True)
    )
    names = ["a.weight", "b.weight", "head.weight", "z.weight"]
    chosen = [recipe.precision_of("fprop", name, i, len(names)) for i, name in enumerate(names)]
    assert chosen[0] is None and chosen[3] is None
    assert chosen[1] == recipe.roles["fprop"]
    assert chosen[2] is not None and chosen[2].operands["weight"] == Format("bf16")
    assert chosen[2].operands["activation"] == recipe.roles["fprop"].operands["activation"]
    assert recipe.precision_of("product", None, -1, len(names)) is None
    assert nvfp4(0).rules == ()
