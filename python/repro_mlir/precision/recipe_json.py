# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Converts recipes to and from JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.base.files.json_text import parse
from repro_mlir.base.files.regular import read_regular
from repro_mlir.precision.formats import ELEMENTS, FORWARD, NUMBERS, UNTOUCHED, Format, Hadamard, Rounding, Scale
from repro_mlir.precision.named import NAMED_RECIPES, named_recipe
from repro_mlir.precision.recipe import MOST_RULES, OPERANDS, BlockAccumulator, Recipe, RolePrecision, Rule
from repro_mlir.program.accumulators import Accumulator

LIMIT = 1 << 20
"""The maximum size of a recipe in bytes."""

_PLAIN = (UNTOUCHED, FORWARD, *NUMBERS)
_OF_SCALES = ("infinity", "nan", "least", "largest", "history", "margin", "algorithm")


def recipe_of(given: Recipe | str | Mapping[str, Any]) -> Recipe:
    """Returns the recipe that a user has passed: a `Recipe`, a name, JSON (text or a mapping), or the path of a file.

    Raises:
      ReproError: the argument is none of these.
    """
    if isinstance(given, Recipe):
        return given
    if isinstance(given, Mapping):
        return _recipe(dict(given), "the recipe")
    if not isinstance(given, str):
        raise ReproError(f"expected a recipe, the name of one or its JSON, got a {type(given).__name__}")
    if given in NAMED_RECIPES:
        return named_recipe(given)
    if given.lstrip().startswith("{"):
        return recipe_from_json(given)
    if given.endswith(".json"):
        return recipe_from_json(read_regular(given, LIMIT, follow=True), given)
    return named_recipe(given)


def recipe_from_json(text: str | bytes, where: str = "the recipe") -> Recipe:
    """Parses a recipe from at most `LIMIT` bytes of JSON. Raises ReproError, which names the position, if the JSON is
    invalid."""
    return _recipe(parse(text, where, LIMIT), where)


def recipe_to_json(recipe: Recipe) -> str:
    """Returns the recipe as JSON, which `recipe_from_json` reads back."""
    value: dict[str, Any] = {"name": recipe.name, **_roles_as_json(recipe.roles)}
    if recipe.rules:
        value["rules"] = [_rule_as_json(rule) for rule in recipe.rules]
    return json.dumps(value, indent=1)


# --- Writing ---


def _set_fields(value: Any, *names: str) -> dict[str, Any]:
    """Returns those of the named fields of a dataclass that differ from their defaults."""
    fields = {each.name: each for each in dataclasses.fields(value)}
    found = {name: getattr(value, name) for name in names}
    return {name: each for name, each in found.items() if each != fields[name].default}


def format_as_json(format: Format) -> Any:
    """Returns a format as it is written in the JSON of a recipe."""
    if format.element in _PLAIN and format.hadamard is None:
        return format.element
    found: dict[str, Any] = {"element": format.element}
    if format.has_blocks:
        assert format.tile is not None and format.scale is not None
        found["tile"] = list(format.tile)
        parameters = _set_fields(format.scale, *_OF_SCALES)
        found["scale"] = {"rule": format.scale.rule, **parameters} if parameters else format.scale.rule
        rounding = _set_fields(format.rounding, "layout", "saturate", "nan", "signed_zero")
        direction = format.rounding.direction + (str(format.rounding.bits) if format.is_stochastic else "")
        found["rounding"] = {"direction": direction, **rounding} if rounding else direction
        if format.amax != "tensor":
            found["amax"] = format.amax
    if format.hadamard is not None:
        found["hadamard"] = {"signs": list(format.hadamard.signs), "to_bf16": format.hadamard.to_bf16}
    return found


def _roles_as_json(roles: Mapping[str, RolePrecision]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for role, precision in roles.items():
        value: dict[str, Any] = {name: format_as_json(format) for name, format in precision.operands.items()}
        if precision.result is not None:
            value["result"] = precision.result
        if precision.accumulator is not None:
            value["accumulator"] = _accumulator_as_json(precision.accumulator)
        found[role] = value
    return found


def _accumulator_as_json(given: str | Accumulator | BlockAccumulator) -> Any:
    if isinstance(given, str):
        return given
    if isinstance(given, BlockAccumulator):
        return {"step": given.step, "within": _accumulator_as_json(given.within)}
    fields = dataclasses.asdict(given)
    # The field `group` was added later. Its default is left out, so that the JSON of older recipes stays the same.
    return fields if given.group != 1 else {name: value for name, value in fields.items() if name != "group"}


def _rule_as_json(rule: Rule) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: value for name in ("layers", "first", "last") if (value := getattr(rule, name)) is not None
    }
    return found | ({"skip": True} if rule.skip else _roles_as_json(rule.roles))


# --- Reading ---


def _object(value: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReproError(f"{where}: expected an object, got {type(value).__name__}")
    for name in value:
        if name not in known:
            raise ReproError(f"{where}: unknown field {shown(name)}, expected {', '.join(known)}")
    return value


def _at(where: str, make: Any, *arguments: Any, **fields: Any) -> Any:
    """Calls `make`; if it raises ReproError, puts the position `where` at the beginning of the message."""
    try:
        return make(*arguments, **fields)
    except ReproError as error:
        raise ReproError(f"{where}: {error}") from None


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ReproError(f"{where}: expected an array, got {type(value).__name__}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ReproError(f"{where}: expected a string, got {type(value).__name__}")
    return value


def format_from_json(value: Any, where: str) -> Format:
    """Parses a format from a JSON value. Raises ReproError, which names the position, for an invalid value."""
    if isinstance(value, str):
        if value in ELEMENTS:
            raise ReproError(f"{where}: expected an object with the tile and scale of {value}")
        return _at(where, Format, value)
    given = _object(value, where, ("element", "tile", "scale", "rounding", "amax", "hadamard"))
    fields: dict[str, Any] = {"element": given.get("element")}
    if "tile" in given:
        fields["tile"] = tuple(_list(given["tile"], f"{where}.tile"))
    if "scale" in given:
        fields["scale"] = _scale(given["scale"], f"{where}.scale")
    if "rounding" in given:
        fields["rounding"] = _rounding(given["rounding"], f"{where}.rounding")
    if "amax" in given:
        fields["amax"] = given["amax"]
    if "hadamard" in given:
        inner = _object(given["hadamard"], f"{where}.hadamard", ("signs", "to_bf16"))
        signs = tuple(_list(inner.get("signs"), f"{where}.hadamard.signs"))
        fields["hadamard"] = _at(f"{where}.hadamard", Hadamard, signs, inner.get("to_bf16", False))
    return _at(where, Format, **fields)


def _scale(value: Any, where: str) -> Scale:
    if isinstance(value, str):
        return _at(where, Scale, value)
    given = _object(value, where, ("rule", *_OF_SCALES))
    return _at(where, Scale, **{"rule": None, **given})


def _rounding(value: Any, where: str) -> Rounding:
    if isinstance(value, str):
        return _at(where, Rounding.named, value)
    given = _object(value, where, ("direction", "layout", "saturate", "nan", "signed_zero"))
    named = _at(where, Rounding.named, _text(given.get("direction"), f"{where}.direction"))
    rest = {name: each for name, each in given.items() if name != "direction"}
    return _at(where, Rounding, **{"direction": named.direction, "bits": named.bits, **rest})


def _precision(value: Any, where: str, role: str) -> RolePrecision:
    given = _object(value, where, (*OPERANDS[role], "result", "accumulator"))
    operands = {name: format_from_json(given[name], f"{where}.{name}") for name in OPERANDS[role] if name in given}
    accumulator = _accumulator(given.get("accumulator"), f"{where}.accumulator")
    return _at(where, RolePrecision, operands, given.get("result"), accumulator)


def _accumulator(value: Any, where: str) -> str | Accumulator | BlockAccumulator | None:
    if value is None:
        return None
    if isinstance(value, dict) and "step" in value:
        given = _object(value, where, ("step", "within"))
        within = _plain_accumulator(given.get("within"), f"{where}.within")
        return _at(where, BlockAccumulator, given["step"], within)
    return _plain_accumulator(value, where)


def _plain_accumulator(value: Any, where: str) -> str | Accumulator:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise ReproError(f"{where}: expected a name or an object, got {type(value).__name__}")
    fields = dataclasses.fields(Accumulator)
    given = _object(value, where, tuple(each.name for each in fields))
    for each in fields:
        if each.name not in given and each.default is dataclasses.MISSING:
            raise ReproError(f"{where}: expected the field {each.name}")
    return _at(where, Accumulator, **given)


def _roles(given: Mapping[str, Any], where: str) -> dict[str, RolePrecision]:
    return {role: _precision(given[role], f"{where}.{role}", role) for role in OPERANDS if role in given}


def _rule(value: Any, where: str) -> Rule:
    given = _object(value, where, ("layers", "first", "last", "skip", *OPERANDS))
    places: dict[str, Any] = {name: given[name] for name in ("first", "last") if name in given}
    if "layers" in given:
        places["layers"] = _text(given["layers"], f"{where}.layers")
    return _at(where, Rule, **places, skip=given.get("skip", False), roles=_roles(given, where))


def _recipe(value: Any, where: str) -> Recipe:
    given = _object(value, where, ("name", *OPERANDS, "rules"))
    rules = _list(given.get("rules", []), f"{where}.rules")
    if len(rules) > MOST_RULES:
        raise ReproError(f"{where}: expected at most {MOST_RULES} rules, got {len(rules)}")
    read = tuple(_rule(each, f"{where}.rules[{i}]") for i, each in enumerate(rules))
    name = _text(given.get("name", ""), f"{where}.name")
    return _at(where, Recipe, name, _roles(given, where), read)
