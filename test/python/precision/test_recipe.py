# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests recipes as Python objects: refused arguments, immutability, and recipes derived from other recipes."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from repro_mlir import Accumulator, ReproError
from repro_mlir.precision import (
    BlockAccumulator,
    Format,
    Hadamard,
    Recipe,
    RolePrecision,
    Rounding,
    Rule,
    Scale,
    blocks,
    by_blocks,
    named_recipe,
    nvfp4,
    qat,
    recipe_of,
)

BF16 = Format("bf16")
ROW = ("f4E2M1FN", (1, 16))
UNIT = Accumulator(16, 25, "rz_f32", -133)
# A value that no argument accepts; the type `Any` hides this from the type checker.
ANY: Any = 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RolePrecision(ANY), "expected operands as a mapping of names to a Format, got 5"),
        (lambda: RolePrecision({"activation": "bf16"}), "the operand 'activation' as a Format, got 'bf16'"),  # type: ignore[dict-item]
        (lambda: RolePrecision(accumulator=ANY), "an accumulator among volta, .*, got 5"),
        (lambda: RolePrecision(result=ANY), "a result among f32, .*, got 5"),
        (lambda: Recipe("x", {"fprop": "bf16"}), "the role fprop as a RolePrecision, got 'bf16'"),  # type: ignore[dict-item]
        (lambda: Recipe("x", ANY), "roles as a mapping"),
        (lambda: Recipe("x", {3: RolePrecision()}), "roles among fprop, .*, got 3"),  # type: ignore[dict-item]
        (lambda: Recipe("x", {}, ANY), "rules as a tuple"),
        (lambda: Recipe("x", {}, ("first",)), "a rule as a Rule, got 'first'"),  # type: ignore[arg-type]
        (lambda: Rule(layers=ANY, skip=True), "layers as a pattern"),
        (lambda: Rule(first=10**5000, skip=True), "first as a whole number .*, got a number of 16610 bits"),
        (
            lambda: Rule("a", roles={"product": RolePrecision({"left": BF16})}),
            "no role product in a rule, as it has no layer",
        ),
        (lambda: Format(*ROW, ANY), "a scale as a Scale or None, got 5"),
        (lambda: Format(*ROW, Scale("nvfp4"), ANY), "a rounding as a Rounding, got 5"),
        (lambda: Format("bf16", hadamard=ANY), "a transform as a Hadamard or None, got 5"),
        (lambda: Format("f4E2M1FN", ANY, Scale("nvfp4")), "a tile of rows and columns, got 5"),
        (lambda: Hadamard(None), "signs as a tuple of 16 or 32 numbers 1 or -1, got None"),  # type: ignore[arg-type]
        (lambda: Rounding.named(ANY), "a rounding as a string, got 5"),
        (lambda: Scale("float8", least=10**400), "a least amax that is normal in f32, got a number of 1329 bits"),
        (lambda: blocks("f4E2M1FN", ANY, "nvfp4"), "a tile among mx, .*, got 5"),
        (lambda: named_recipe(ANY), "a recipe among bf16, .*, got 5"),
        (lambda: qat(ANY), "expected a recipe, the name of one or its JSON, got a int"),
        (
            lambda: qat(Recipe("g", {"dgrad": RolePrecision({"weight": BF16})})),
            "expected a recipe that changes the forward pass, got",
        ),
        (lambda: by_blocks(ANY), "expected a recipe, the name of one or its JSON, got a int"),
        (
            lambda: by_blocks("mxfp8", "hopper"),
            "an accumulator of blocks among blocks, .*blackwell_nvfp4, got 'hopper'",
        ),
        (lambda: BlockAccumulator("exact", "hopper"), "a step among fused, split, scaled, got 'exact'"),
        (lambda: BlockAccumulator("scaled", "hopper"), "an accumulator of scaled products among .*, got 'hopper'"),
        (lambda: BlockAccumulator("fused", "blackwell_mx"), "an accumulator of fused products among .*'blackwell_mx'"),
        (lambda: BlockAccumulator("fused", ANY), "an accumulator of fused products among volta, .*, got 5"),
        (lambda: BlockAccumulator("fused", dataclasses.replace(UNIT, chunk=64)), r"\(M5\) .* without chunk and start"),
        (
            lambda: BlockAccumulator("split", dataclasses.replace(UNIT, start="init")),
            r"\(M5\) .*without chunk and start",
        ),
        (
            lambda: BlockAccumulator("fused", dataclasses.replace(UNIT, group=2)),
            r"\(M5\) .*expected group 1 except for scaled products, got 2",
        ),
        (lambda: BlockAccumulator("scaled", dataclasses.replace(UNIT, late=True)), r"\(M5\) .*not late"),
        (lambda: BlockAccumulator("scaled", Accumulator(4, None, "rne_f32", 0)), r"\(M5\) .*with a fraction"),
    ],
)
def test_invalid_arguments_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        make()


@pytest.mark.parametrize(
    ("accumulator", "name"),
    [
        ("blocks_split", "blocks_split_mxfp8"),
        (BlockAccumulator("split", "ada"), "split_ada_mxfp8"),
        (BlockAccumulator("split", "hopper"), "split_hopper_mxfp8"),
        (BlockAccumulator("fused", UNIT), "fused_mxfp8"),
    ],
)
def test_M5_recipes_in_blocks_have_names(accumulator: str | BlockAccumulator, name: str) -> None:
    assert by_blocks("mxfp8", accumulator).name == name
    assert by_blocks("mxfp8", accumulator, "mine").name == "mine"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"terms": 0}, "terms as a whole number from 1 to 128, got 0"),
        ({"terms": 10**50}, "terms as a whole number from 1 to 128, got a number of 167 bits"),
        ({"fraction": 9}, "fraction as a whole number from 10 to 40"),
        (
            {"round": "rz_f32 contractions=0 terms=4},repro-set-exact{digits=2"},
            "round among rz_f32, .*, got 'rz_f32 con",
        ),
        ({"floor": 301}, "floor as a whole number from -300 to 300"),
        ({"fraction": None}, "floor as a whole number from 0 to 0, got -132"),
        ({"late": 1}, "late as true or false"),
        ({"terms": 3, "late": True}, r"\(M4\) expected an even number of terms"),
        ({"chunk": 24}, r"\(M4\) expected a chunk that is a multiple of a block of 16"),
        ({"chunk": 2**63}, "chunk as a whole number"),
        ({"start": "zero contractions=2"}, "start among zero, init, got 'zero contractions=2'"),
        ({"start": "init", "chunk": 16}, r"\(M4\) expected no chunk with start 'init'"),
        ({"group": 0}, "group as a whole number from 1 to 128, got 0"),
        ({"group": 5}, r"\(M2\) expected a group that divides the 16 terms of a block, got 5"),
    ],
)
def test_M4_an_accumulator_has_the_values_of_its_attribute(fields: dict[str, Any], message: str) -> None:
    given = {"terms": 16, "fraction": 24, "round": "rz_f32", "floor": -132}
    with pytest.raises(ReproError, match=message):
        Accumulator(**given | fields)
    with pytest.raises(ReproError, match=f"fprop.accumulator: .*{message}"):
        recipe_of({"fprop": {"accumulator": given | fields}})


def test_a_recipe_stays_as_it_is() -> None:
    operands = {"activation": BF16}
    roles = {"fprop": RolePrecision(operands)}
    rules = [Rule("a", roles=roles)]
    recipe = Recipe("mine", roles, rules)
    tile = [1, 32]
    format = Format("f8E4M3FN", tile, Scale("rceil"), hadamard=Hadamard([1] * 16))  # type: ignore[arg-type]
    expected = pickle.loads(pickle.dumps(recipe))
    operands.clear()
    roles.clear()
    rules.clear()
    tile.clear()
    assert recipe == expected == copy.deepcopy(recipe) and len(recipe.rules) == 1
    assert recipe.roles["fprop"].operands == {"activation": BF16} == recipe.rules[0].roles["fprop"].operands
    assert format.tile == (1, 32) and format.hadamard == Hadamard((1,) * 16)
    with pytest.raises((AttributeError, TypeError)):
        recipe.roles.clear()  # type: ignore[attr-defined]
    assert dataclasses.replace(recipe, name="mine", rules=()).roles == recipe.roles
    assert dataclasses.asdict(recipe)["name"] == "mine"


def test_qat_keeps_rules_and_products_of_the_forward_pass() -> None:
    product = RolePrecision({"left": BF16})
    base = Recipe(
        "base",
        {"fprop": RolePrecision({"weight": BF16}), "product": product},
        (
            Rule("a", roles={"dgrad": RolePrecision({"gradient": BF16})}),
            Rule("*", skip=True),
        ),
    )
    recipe = qat(base)
    assert recipe.roles["product"] == product
    # Only the first rule that matches a layer applies, so the second rule has no effect here.
    assert recipe.precision_of("fprop", "a", 0, 2) == RolePrecision({"weight": BF16})
    assert recipe.precision_of("dgrad", "a", 0, 2) == RolePrecision({"weight": Format("forward")})
    assert recipe.precision_of("fprop", "b", 1, 2) is None
    assert qat("nvfp4") == qat(nvfp4())
    alone = qat(Recipe("alone", {}, (Rule("a", roles={"fprop": RolePrecision({"weight": BF16})}),)))
    assert alone.precision_of("fprop", "a", 0, 1) == RolePrecision({"weight": BF16})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, message in (
        ("missing.json", "cannot read missing.json: No such file"),
        ("a" * 5000 + ".json", "File name too long"),
        (str(tmp_path), "expected a recipe among"),
    ):
        with pytest.raises(ReproError, match=message):
            recipe_of(path)
    fifo = tmp_path / "fifo.json"
    os.mkfifo(fifo)
    with pytest.raises(ReproError, match="expected a regular file, got a FIFO"):
        recipe_of(str(fifo))
    with pytest.raises(ReproError, match="expected JSON in UTF-8"):
        recipe_of('{"name": "\ud800"}')
