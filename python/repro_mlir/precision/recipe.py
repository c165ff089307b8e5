# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recipes, which say in which formats the contractions of a step read their operands, for each role and layer."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_flag, check_kind, check_text, check_whole, shown
from repro_mlir.precision.formats import F32, FORWARD, NUMBERS, Format
from repro_mlir.program.accumulators import CLASSES, SCALED_CLASSES, Accumulator

OPERANDS = {
    "fprop": ("activation", "weight"),
    "dgrad": ("gradient", "weight"),
    "wgrad": ("activation", "gradient"),
    "product": ("left", "right"),
}
"""The names of the operands that a recipe can specify, by role."""

_REUSABLE = (("dgrad", "weight"), ("wgrad", "activation"))

BLOCK_STEPS = {"blocks": "fused", "blocks_split": "split"}
"""(Q4) Maps each accumulator of contractions in blocks to the way in which a block's dot product is added to the sum.
"""

WITHIN_BLOCKS = tuple(name for name in CLASSES if name not in SCALED_CLASSES)
"""(M5) The accumulator classes that can add the products of a block."""

MOST_RULES = 1000

Value = TypeVar("Value")


class _Constant(Mapping[str, Value]):
    """An immutable copy of a mapping. `types.MappingProxyType` is not used because it cannot be copied or pickled."""

    def __init__(self, given: Mapping[str, Value]) -> None:
        self._given = dict(given)

    def __getitem__(self, name: str) -> Value:
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __repr__(self) -> str:
        return repr(self._given)


@dataclass(frozen=True)
class BlockAccumulator:
    """(M5) How a contraction in blocks adds its products in a matrix unit.

    Attributes:
      step: `fused` or `split`: how the result of the chain that adds a block's products is scaled and added to the sum.
        `scaled`: the scales are factors of the products, which one chain adds.
      within: the accumulator of the chain: the name of a class that supports the element types of the operands, or an
        `Accumulator`. For `scaled`: `blackwell_mx`, `blackwell_mxf4`, `blackwell_nvfp4`, or an `Accumulator` with a
        fraction.
    """

    step: str
    within: str | Accumulator

    def __post_init__(self) -> None:
        check_among("a step", self.step, (*BLOCK_STEPS.values(), "scaled"))
        if isinstance(self.within, Accumulator):
            self._check_made_up(self.within)
        else:
            known = tuple(SCALED_CLASSES) if self.step == "scaled" else WITHIN_BLOCKS
            check_among(f"an accumulator of {self.step} products", self.within, known)

    def _check_made_up(self, by: Accumulator) -> None:
        if by.chunk or by.start != "zero":
            raise ReproError(f"(M5) expected an accumulator without chunk and start, got {by}")
        if self.step == "scaled" and (by.fraction is None or by.late):
            raise ReproError(
                f"(M5) expected an accumulator with a fraction, and not late, for scaled products, got {by}"
            )
        if self.step != "scaled" and by.group != 1:
            raise ReproError(f"(M5) expected group 1 except for scaled products, got {by.group}")

    def resolved(self, formats: tuple[Format, Format]) -> Accumulator:
        """Returns the accumulator of the chain for operands in these two block formats.

        Raises:
          ReproError: the class does not support these element types or scales.
        """
        if isinstance(self.within, Accumulator):
            return self.within
        expected = SCALED_CLASSES.get(self.within)
        for format in formats:
            scale = None if format.scale is None else format.scale.element
            if expected is not None and scale != expected:
                raise ReproError(f"(M5) expected scales of {expected} for the accumulator {self.within}, got {scale}")
        first, second = (Accumulator.named(self.within, format.code_type) for format in formats)
        if first != second:
            raise ReproError(f"{self.within} does not multiply {formats[0].element} by {formats[1].element}")
        return first

    def __str__(self) -> str:
        return f"{self.step} blocks in {self.within}"


@dataclass(frozen=True)
class RolePrecision:
    """The requested precision for the contractions of one role. None leaves a field unspecified.

    Attributes:
      operands: the format of each operand, by name.
      result: `bf16`, `f16` or `tf32`: the type that the result is rounded to; `f32` does not round.
      accumulator: (M4) the class of an accumulator, such as `hopper`, for operands of f16, bf16 and tf32; or an
        `Accumulator`. For two operands in blocks: (Q4) `blocks` or `blocks_split`, with exact dot products of blocks;
        (M5) `blackwell_mx`, `blackwell_mxf4` or `blackwell_nvfp4`, whose scales are factors of the products; or a
        `BlockAccumulator`.
    """

    operands: Mapping[str, Format] = field(default_factory=dict)
    result: str | None = None
    accumulator: str | Accumulator | BlockAccumulator | None = None

    def __post_init__(self) -> None:
        check_kind("operands", self.operands, Mapping, "a mapping of names to a Format")
        for name, format in self.operands.items():
            check_kind(f"the operand {shown(name)}", format, Format, "a Format")
        object.__setattr__(self, "operands", _Constant(self.operands))
        if self.result is not None:
            check_among("a result", self.result, ("f32", *NUMBERS))
        if self.accumulator is not None and not isinstance(self.accumulator, Accumulator | BlockAccumulator):
            check_among("an accumulator", self.accumulator, (*CLASSES, *BLOCK_STEPS))
        by = self.accumulator
        if isinstance(by, BlockAccumulator) and by.step == "scaled" and isinstance(by.within, str):
            # A class name implies `scaled`, so the name alone is the canonical spelling of such a recipe.
            object.__setattr__(self, "accumulator", by.within)

    @property
    def block_step(self) -> str | None:
        """(Q4), (M5) How the dot products of blocks are scaled and added to the sum: `fused`, `split` or `scaled`; None
        if the contraction is not in blocks."""
        if self.block_accumulator is not None:
            return self.block_accumulator.step
        return BLOCK_STEPS.get(self.accumulator) if isinstance(self.accumulator, str) else None

    @property
    def block_accumulator(self) -> BlockAccumulator | None:
        """(M5) The accumulator of a contraction in blocks. None if dot products of blocks are exact, or if the
        contraction is not in blocks."""
        if isinstance(self.accumulator, BlockAccumulator):
            return self.accumulator
        if isinstance(self.accumulator, str) and self.accumulator in SCALED_CLASSES:
            return BlockAccumulator("scaled", self.accumulator)
        return None

    @property
    def is_empty(self) -> bool:
        """Whether this precision changes nothing."""
        is_plain = all(format == F32 for format in self.operands.values())
        return is_plain and self.result in (None, "f32") and self.accumulator is None

    def overridden(self, other: RolePrecision) -> RolePrecision:
        """Returns a copy of this precision in which the fields that `other` specifies have the values of `other`."""
        return RolePrecision(
            {**self.operands, **other.operands},
            self.result if other.result is None else other.result,
            self.accumulator if other.accumulator is None else other.accumulator,
        )

    def check(self, role: str) -> None:
        """Raises ReproError for operands that the role does not have, or that cannot have the format `forward`."""
        for name, format in self.operands.items():
            if name not in OPERANDS[role]:
                raise ReproError(f"expected operands {' and '.join(OPERANDS[role])} of {role}, got {shown(name)}")
            if format.element == FORWARD and (role, name) not in _REUSABLE:
                raise ReproError(f"expected a format for the {name} of {role}, which is not in the forward pass")


@dataclass(frozen=True)
class Rule:
    """An exception to the recipe for some layers.

    Attributes:
      layers: a pattern of weight names, such as `blocks.*.qkv.weight`.
      first, last: instead of a pattern, the number of layers at the beginning, or at the end, of the program.
      skip: whether the layers stay in f32, in all roles.
      roles: the precision of each role in these layers; it overrides that of the recipe.
    """

    layers: str | None = None
    first: int | None = None
    last: int | None = None
    skip: bool = False
    roles: Mapping[str, RolePrecision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.layers, self.first, self.last)) != 1:
            raise ReproError("expected one of layers, first and last in a rule")
        if self.layers is not None:
            check_text("layers", self.layers, "a pattern of names")
        for name, count in (("first", self.first), ("last", self.last)):
            if count is not None:
                check_whole(name, count, 0, 2**31)
        check_flag("skip", self.skip)
        object.__setattr__(self, "roles", _checked(self.roles))
        if self.skip == bool(self.roles):
            raise ReproError("expected either skip or roles in a rule")
        if "product" in self.roles:
            raise ReproError("expected no role product in a rule, as it has no layer")

    def matches(self, layer: str, number: int, count: int) -> bool:
        """Returns whether the rule applies to a layer, given its index `number` among `count` layers."""
        if self.layers is not None:
            return fnmatch.fnmatchcase(layer, self.layers)
        if self.first is not None:
            return number < self.first
        assert self.last is not None
        return number >= count - self.last


@dataclass(frozen=True)
class Recipe:
    """The precision of the contractions of a step. Weights, their updates and all other operations are unchanged.

    Attributes:
      name: for display.
      roles: the precision of each role: `fprop` (activation, weight), `dgrad` (gradient, weight), `wgrad` (activation,
        gradient), and `product` (left, right), which reads no weight.
      rules: exceptions for layers by name or position. For each layer, the first rule that matches applies.
    """

    name: str
    roles: Mapping[str, RolePrecision]
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        check_text("the name of a recipe", self.name, "a string")
        if len(self.name) > 200:
            raise ReproError(f"expected the name of a recipe of at most 200 characters, got {len(self.name)}")
        object.__setattr__(self, "roles", _checked(self.roles))
        check_kind("rules", self.rules, (tuple, list), "a tuple of rules")
        if len(self.rules) > MOST_RULES:
            raise ReproError(f"expected at most {MOST_RULES} rules, got {len(self.rules)}")
        for rule in self.rules:
            check_kind("a rule", rule, Rule, "a Rule")
        object.__setattr__(self, "rules", tuple(self.rules))

    @property
    def is_stochastic(self) -> bool:
        """Whether any format rounds stochastically, so that a step needs random numbers."""
        return any(self.is_stochastic_in(role) for role in OPERANDS)

    def is_stochastic_in(self, role: str) -> bool:
        """Returns whether a format of the role rounds stochastically."""
        return any(format.is_stochastic for format in self._formats(role))

    @property
    def is_delayed(self) -> bool:
        """(Q6) Whether any scale follows from earlier steps, so that a step has additional state."""
        return bool(self.histories)

    @property
    def histories(self) -> set[int]:
        """(Q6) The history lengths of all delayed scales; empty if there are none."""
        scales = [format.scale for role in OPERANDS for format in self._formats(role)]
        return {scale.steps for scale in scales if scale is not None and scale.is_delayed}

    def _formats(self, role: str) -> list[Format]:
        asked = [self.roles.get(role), *(rule.roles.get(role) for rule in self.rules)]
        return [format for each in asked if each is not None for format in each.operands.values()]

    def precision_of(self, role: str, layer: str | None, number: int, count: int) -> RolePrecision | None:
        """Returns the requested precision for contractions of a role in a layer; None if they are unchanged.

        Args:
          layer: the name of the layer's weight; None for a contraction without a layer.
          number, count: the index of the layer and the number of layers.
        """
        asked = self.roles.get(role)
        rule = None
        if layer is not None:
            rule = next((rule for rule in self.rules if rule.matches(layer, number, count)), None)
        if rule is not None and rule.skip:
            return None
        if rule is not None and role in rule.roles:
            other = rule.roles[role]
            asked = other if asked is None else asked.overridden(other)
        return None if asked is None or asked.is_empty else asked

    def with_rules(self, *rules: Rule) -> Recipe:
        """Returns this recipe with additional rules. The additional rules take precedence over the existing ones."""
        return dataclasses.replace(self, rules=(*rules, *self.rules))


def _checked(roles: Mapping[str, RolePrecision]) -> Mapping[str, RolePrecision]:
    """Checks the precision by role and returns an immutable copy. Raises ReproError for unknown roles, or for operands
    that a role does not have."""
    check_kind("roles", roles, Mapping, "a mapping of roles to a RolePrecision")
    for role, precision in roles.items():
        check_among("roles", role, OPERANDS)
        check_kind(f"the role {role}", precision, RolePrecision, "a RolePrecision")
        precision.check(role)
    return _Constant(roles)
