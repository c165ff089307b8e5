# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Applies a precision recipe to a program."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.precision.formats import ELEMENTS, F32, FORWARD, NUMBERS, Format
from repro_mlir.precision.recipe import OPERANDS, Recipe, RolePrecision
from repro_mlir.precision.recipe_json import recipe_of
from repro_mlir.precision.roles import Described, StepShape, describe, shape_of, shape_of_microbatch
from repro_mlir.program.accumulators import Accumulator, set_accumulators
from repro_mlir.program.canonical import examine, read_module, write_module
from repro_mlir.program.contractions import Contraction
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.program.passes import run_passes

if TYPE_CHECKING:
    from repro_mlir.program import Program

Step = TypeVar("Step", "Program", MicrobatchProgram)

RANDOM = ("seed", "step")
"""(R1) The names of the state tensors that random numbers are drawn from."""

HISTORY, SCALE = "amax_history.", "scale."
"""(Q6) The prefixes of the names of amax histories and delayed scales."""

_CHOSEN = ("#repro.exact", "#repro.fdpa")
"""(K4, M4) Orders of a sum that the program has chosen explicitly."""

_NAMED = 20
"""The maximum number of layers that a message names."""


@float_environment()
def apply_precision(
    program: Step, recipe: Recipe | str | Mapping[str, Any], *, loss: str | None = None, seed: int = 0
) -> Step:
    """Returns a program whose contractions read operands in the formats of a recipe. The new program has another hash.

    Weights, the optimizer and all other operations are unchanged; gradients are those of the original step, evaluated
    at the quantized values (straight-through).

    Args:
      program: a canonical training step or inference program, from any frontend, or a step in microbatches.
      recipe: a `Recipe`, the name of one (`NAMED_RECIPES`), its JSON, or the path of a JSON file.
      loss: the name of the output that is the loss; by default `loss`, else the only output that is a float scalar.
      seed: for stochastic rounding in a program that draws no random numbers itself: the program gets the state
        tensors `seed` and `step`, and each step increments `step`.
    Raises:
      ReproError: no contraction matches the recipe, a rule matches no layer, a format does not fit a contraction, a
        contraction is in blocks already, or no result is the loss; or the recipe has delayed scales (Q6), but the
        program is for inference or is a step in microbatches.
    """
    return applied(program, recipe_of(recipe), loss=loss, seed=seed)


_OF_INFERENCE = "inference has no steps: expected scales of the present tensor, or Trainer.evaluate"
_OF_MICROBATCHES = (
    "a microbatch does not have the amax of its batch: expected no microbatches, or scales of the present tensor"
)


def applied(
    program: Step, recipe: Recipe, *, loss: str | None = None, seed: int = 0, is_evaluation: bool = False
) -> Step:
    """Implements `apply_precision`. If `is_evaluation`, a recipe that matches no contraction returns the program
    unchanged, and (Q6) delayed scales are read but not updated."""
    if isinstance(program, MicrobatchProgram):
        shape = shape_of_microbatch(program, loss)
        random = _random_state(program.state, recipe)
        if recipe.is_stochastic and random is None:
            raise ReproError("stochastic rounding in microbatches needs random numbers: expected a program with them")
        if random is not None and program.random != random[1]:
            raise ReproError("(B1) expected the microbatches to be counted by the state tensor `step`")
        data, asked = _quantized(
            program.part, program.state, recipe, shape, random, is_evaluation, no_scales=_OF_MICROBATCHES
        )
        part = _with_accumulators(dataclasses.replace(program.part, data=data), asked)
        return dataclasses.replace(program, part=part)
    return _applied_whole(program, recipe, shape_of(program, loss), seed, is_evaluation)


def _applied_whole(program: Program, recipe: Recipe, shape: StepShape, seed: int, is_evaluation: bool) -> Program:
    random = _random_state(program.state, recipe)
    is_inference = len(program.examined.kept) == len(program.state)
    no_scales = _OF_INFERENCE if is_inference and not is_evaluation else ""
    data, asked = _quantized(program, program.state, recipe, shape, random, is_evaluation, no_scales=no_scales)
    found = examine(data)
    added = found.arguments[len(program.state) : found.num_state]
    state = (*program.state, *added)
    initial = program.initial
    if initial or not program.state:
        initial = (*initial, *(_initial(kind, seed) for kind in added))
    return _with_accumulators(dataclasses.replace(program, data=data, state=state, initial=initial), asked)


def _initial(kind: TensorType, seed: int) -> np.ndarray:
    """(R1), (Q6) Returns the initial value of a state tensor that a recipe adds."""
    if kind.name in RANDOM:
        return np.array(signed_seed(seed) if kind.name == RANDOM[0] else 0, np.int64)
    return np.full(kind.shape, 1 if kind.name.startswith(SCALE) else 0, np.float32)


def _random_state(state: Sequence[TensorType], recipe: Recipe) -> tuple[int, int] | None:
    """Returns the indices of seed and step in the state; None if the program has none, or if the recipe draws no random
    numbers."""
    names = [kind.name for kind in state]
    found = [names.index(name) for name in RANDOM if name in names]
    if not found or not recipe.is_stochastic:
        return None
    if len(found) != 2 or any((state[i].element, state[i].shape) != ("i64", ()) for i in found):
        raise ReproError("(R1) expected seed and step in the state as i64 of shape []: rename tensors with these names")
    return found[0], found[1]


def _quantized(
    program: Program,
    state: Sequence[TensorType],
    recipe: Recipe,
    shape: StepShape,
    random: tuple[int, int] | None,
    is_evaluation: bool,
    *,
    no_scales: str,
) -> tuple[bytes, list[RolePrecision | None]]:
    """Rewrites the program for a recipe. Returns the new serialized program, and the precision that the recipe requests
    for each contraction. If `no_scales` is not empty, it is the reason why the program cannot have delayed scales
    (Q6)."""
    from repro_mlir import ir

    with ir.Context():
        module = read_module(program.data)
        described = describe(module, shape)
        check_rules(described, state, recipe)
        asked = requests(described, recipe)
        if not any(asked):
            if is_evaluation:
                return program.data, asked
            raise ReproError(f"the recipe {recipe.name!r} matches no contraction of the program")
        if not is_evaluation and "product" not in recipe.roles:
            _warn_of_computed_weights(described, recipe)
        if shape.has_new_state and not is_evaluation:
            kept = {state[i].name for i in program.examined.kept}
            _warn_of_gradients(described, recipe, {kind.name for kind in state} - kept)
        names = scale_names(described, asked, recipe)
        if names and no_scales:
            raise ReproError(f"(Q6) {no_scales}")
        if is_evaluation and any(described[number].layer is None for number, _ in names):
            raise ReproError(
                "(Q6) expected scales of the present tensor for products: an evaluation may have other products than "
                "the step, and their scales have no names of layers"
            )
        for number, (each, precision) in enumerate(zip(described, asked, strict=True)):
            if precision is not None:
                written = {name: str(ir.StringAttr.get(names.get((number, name), ""))) for name in each.operands}
                text = _attribute(each, precision, described, written, is_evaluation)
                each.operation.attributes["repro.precision"] = ir.Attribute.parse(text)
        options = "" if random is None else f"{{random={random[0]},{random[1]}}}"
        run_passes(module, f"repro-quantize-contractions{options}", "a contraction cannot have the precision")
        return write_module(module), asked


def _with_accumulators(program: Program, asked: Sequence[RolePrecision | None]) -> Program:
    """(M4) Returns the program with the requested accumulators. Contractions in blocks (Q4) are left out before
    numbering, since `Contraction.index` does not count them."""
    chosen: dict[str | Accumulator, set[int]] = {}
    left = [each for each in asked if each is None or each.block_step is None]
    for number, each in enumerate(left):
        if each is not None and isinstance(each.accumulator, str | Accumulator):
            chosen.setdefault(each.accumulator, set()).add(number)
    for accumulator, numbers in chosen.items():
        program = set_accumulators(program, accumulator, functools.partial(_is_among, numbers))
    return program


def _is_among(numbers: set[int], contraction: Contraction) -> bool:
    return contraction.index in numbers


def check_rules(described: Sequence[Described], state: Sequence[TensorType], recipe: Recipe) -> None:
    """Raises ReproError for a rule whose pattern matches neither a layer nor a matrix of the state. The pattern may
    match any matrix, because another program of the same model may use that matrix as a layer's weight."""
    layers = dict.fromkeys(each.layer for each in described if each.role == "fprop" and each.layer is not None)
    known = [*layers, *(kind.name for kind in state if len(kind.shape) > 1)]
    for rule in recipe.rules:
        if rule.layers is not None and not any(rule.matches(name, -1, 0) for name in known):
            names = [*layers][:_NAMED]
            more = f" and {len(layers) - len(names)} more" if len(layers) > len(names) else ""
            raise ReproError(
                f"a rule of the recipe {recipe.name!r} is for the layers {rule.layers[:200]!r}, and the program has "
                f"none of them: it has {', '.join(names) or 'none'}{more}"
            )


def _warn_of_computed_weights(described: Sequence[Described], recipe: Recipe) -> None:
    """Warns about layers whose weight is computed from parameters, as by `weight_norm`: a recipe cannot name such a
    weight."""
    left = [each for each in described if each.has_computed_weight]
    if left:
        warnings.warn(
            f"the recipe {recipe.name!r} does not change {len(left)} layers whose weights are computed from "
            f"parameters: {left[0].location}; their contractions have the role product",
            stacklevel=2,
        )


def _warn_of_gradients(described: Sequence[Described], recipe: Recipe, trained: Collection[str]) -> None:
    """Warns about weights whose gradient stays in f32. The gradient of a weight that is read in parts, such as a fused
    QKV weight, is not the result of one contraction."""
    having = {each.layer for each in described if each.role == "wgrad"}
    layers = [each for each in described if each.role == "fprop" and each.layer in trained and each.layer not in having]
    count = len({each.layer for each in described if each.role == "fprop"})
    left = {each.layer for each in layers if recipe.precision_of("wgrad", each.layer, each.number, count) is not None}
    if left:
        warnings.warn(
            f"the recipe {recipe.name!r} leaves gradients of {len(left)} weights in f32, as they are sums of several "
            f"parts or no contraction computes them: {', '.join(sorted(map(str, left))[:_NAMED])}",
            stacklevel=2,
        )


def requests(described: Sequence[Described], recipe: Recipe) -> list[RolePrecision | None]:
    """Returns the precision that the recipe requests for each contraction; None for unchanged contractions.

    Raises:
      ReproError: an accumulator does not support the operands, or is requested for a contraction whose accumulator the
        program has already chosen; or stochastic rounding is requested for a recomputed forward pass.
    """
    layers = len({each.layer for each in described if each.role == "fprop"})
    found = [
        None if each.role == "other" else recipe.precision_of(each.role, each.layer, each.number, layers)
        for each in described
    ]
    for number, (each, asked, formats) in enumerate(zip(described, found, formats_of(described, found), strict=True)):
        if asked is None:
            continue
        if asked.accumulator is not None:
            _check_accumulator(each, asked, formats)
        is_again = each.role == "fprop" and each.forward != number
        if is_again and any(format.is_stochastic for format in asked.operands.values()):
            raise ReproError(
                f"{each.layer}: expected stochastic rounding of gradients only: a forward pass that is computed again "
                "would use other random bits"
            )
    return found


def scale_names(
    described: Sequence[Described], asked: Sequence[RolePrecision | None], recipe: Recipe
) -> dict[tuple[int, str], str]:
    """(Q6) Returns the name of each delayed scale; a key is a pair of the number of a contraction and the name of an
    operand.

    Tensors that are the same operand of a layer, in the same format, share a scale. Its name is `<layer>.<operand>`. If
    the roles of a layer have an operand in several delayed formats, the format of the first role in `OPERANDS` has this
    name; the other formats have `<layer>.<role>.<operand>`, even if the step lacks some roles. For contractions without
    a layer, `<layer>` is `product.<number>`, in program order.

    Raises:
      ReproError: two scales would have the same name.
    """
    layers = len({each.layer for each in described if each.role == "fprop"})
    owners: dict[str, tuple[str, str, str]] = {}
    found: dict[tuple[int, str], str] = {}
    products = 0
    for number, (each, precision) in enumerate(zip(described, asked, strict=True)):
        subject = f"product.{products}" if each.layer is None else each.layer
        products += each.role == "product"
        for operand, format in ({} if precision is None else precision.operands).items():
            if not format.is_delayed or operand not in each.operands:
                continue
            role = None if each.layer is None else _role_of_second_format(recipe, each, operand, format, layers)
            name = f"{subject}.{operand}" if role is None else f"{subject}.{role}.{operand}"
            owner = subject, operand, format.mlir()
            if owners.setdefault(name, owner) != owner:
                raise ReproError(f"(Q6) two scales would have the name {name!r}: rename a layer")
            found[number, operand] = name
    return found


def _role_of_second_format(recipe: Recipe, each: Described, operand: str, format: Format, layers: int) -> str | None:
    """Returns None if `format` is the first delayed format that the roles of a layer have for an operand, else the
    first role that has this format. Roles that the step does not contain count too, so names do not depend on the
    step."""
    roles = {role: recipe.precision_of(role, each.layer, each.number, layers) for role in OPERANDS}
    formats = {role: one.operands.get(operand, F32) for role, one in roles.items() if one}
    delayed = {role: one.mlir() for role, one in formats.items() if one.is_delayed}
    first = next(role for role, one in delayed.items() if one == format.mlir())
    return None if first == next(iter(delayed)) else first


def formats_of(described: Sequence[Described], asked: Sequence[RolePrecision | None]) -> list[tuple[Format, Format]]:
    """Returns the formats of the two factors of each contraction. `forward` is replaced by the format of that operand
    in the forward pass."""

    def format_of(number: int, name: str) -> Format:
        precision = asked[number]
        found = F32 if precision is None else precision.operands.get(name, F32)
        return format_of(described[number].forward, name) if found.element == FORWARD else found

    return [
        (format_of(number, each.operands[0]), format_of(number, each.operands[1]))
        for number, each in enumerate(described)
    ]


def _check_accumulator(each: Described, asked: RolePrecision, formats: tuple[Format, Format]) -> None:
    where = each.layer or each.role
    if each.order.startswith(_CHOSEN):
        raise ReproError(f"{where}: expected no accumulator, as the contraction already has the order {each.order}")
    if asked.block_step is not None:
        elements = [asked.operands.get(name, F32).element for name in each.operands]
        if not set(elements) <= set(ELEMENTS):
            raise ReproError(
                f"(Q4) {where}: expected formats of blocks for both operands of the accumulator {asked.accumulator}, "
                f"got {' and '.join(elements)}"
            )
        if asked.block_accumulator is not None:
            try:
                asked.block_accumulator.resolved(formats)
            except ReproError as error:
                raise ReproError(f"{where}: {error}") from None
    elif isinstance(asked.accumulator, str):
        # Matrix units read operands as they are stored. They would first round an f32 operand, and would interpret the
        # codes of blocks as numbers.
        pairs = [
            (own, own != "f32") if format == F32 else (format.element, format.element in NUMBERS)
            for format, own in zip(formats, each.elements, strict=True)
        ]
        if not all(is_taken for _, is_taken in pairs):
            raise ReproError(
                f"{where}: {asked.accumulator} multiplies {', '.join(NUMBERS)}, got "
                f"{' and '.join(element for element, _ in pairs)}: use an accumulator with parameters or, if both "
                "operands are in blocks, a BlockAccumulator"
            )


def _attribute(
    each: Described,
    precision: RolePrecision,
    described: Sequence[Described],
    scales: Mapping[str, str],
    is_evaluation: bool,
) -> str:
    parts = []
    for side, name in zip(("left", "right"), each.operands, strict=True):
        format = precision.operands.get(name, F32)
        if format.element == FORWARD:
            first = described[each.forward]
            parts.append(f"{side} = {{forward = array<i64: {each.forward}, {first.operands.index(name)}>}}")
        elif format != F32:
            parts.append(f"{side} = {format.mlir(scales[name], frozen=is_evaluation)}")
    if precision.result not in (None, "f32"):
        parts.append(f"result = {precision.result}")
    if precision.block_step is not None:
        parts.append(f'blocks = "{precision.block_step}"')
    if precision.block_accumulator is not None:
        left, right = (precision.operands[name] for name in each.operands)
        parts.append(f"accumulator = {precision.block_accumulator.resolved((left, right)).mlir}")
    return f"{{{', '.join(parts)}}}"
