# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The formats that an operand of a contraction can have: 16-bit floats, tf32, and the block formats of
docs/guides/low-precision.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_flag, check_kind, check_whole, shown

NUMBERS = ("bf16", "f16", "tf32")
"""Formats without scales."""

ELEMENTS = ("f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "mxint8", "mxint8_full")
"""(Q1) Element types of block formats."""

Tile = tuple[int | None, int | None]

TILES: dict[str, Tile] = {
    "mx": (1, 32),
    "mx_square": (32, 32),
    "nvfp4": (1, 16),
    "nvfp4_square": (16, 16),
    "row": (1, None),
    "tensor": (None, None),
    "row128": (1, 128),
    "square128": (128, 128),
}
"""(Q2) Tiles by name: the rows and columns of a block; None is the whole extent."""

UNTOUCHED, FORWARD = "f32", "forward"

DIRECTIONS = ("rne", "away", "rz", "sr")
LAYOUTS = ("site", "ptx")
NAN_CODES = ("largest", "zero", "negative_zero")
INFINITIES = ("nan", "largest", "power")

_POWERS = ("floor", "ceil", "even", "rceil", "rceil_product")
_SINGLE = {
    "float8": "encoding = product, least = {}, inverse = true",
    "float8_power": "encoding = product, least = {}, inverse = true, power = true",
    "f32_product": "encoding = product, least = {}",
    "f32_reciprocal": "encoding = reciprocal, least = {}",
    "f32_power": "encoding = reciprocal, least = {}, power = true",
    "f32_quotient": "encoding = quotient, least = {}",
}
_SMALL = ("nvfp4", "nvfp4_quotient", "nvfp4_single")
DELAYED = "delayed"
"""(Q6) The scale rule that derives a scale from the amax of earlier steps."""

RULES = (*_POWERS, *_SMALL, *_SINGLE, DELAYED)
"""(Q2), (Q6) The names of the scale rules."""

ALGORITHMS = ("max", "most_recent")
"""(Q6) How the amax is selected from a history."""

_LARGEST_SIDE = 2**31
_MOST_HISTORY, _MOST_MARGIN = 65536, 32


@dataclass(frozen=True)
class Rounding:
    """(Q3) How elements are rounded.

    Attributes:
      direction: to nearest with ties to even (`rne`) or away from zero (`away`), toward zero (`rz`), stochastic (`sr`).
      bits: for `sr`: the number of random bits per element, 1 to 32.
      layout: for `sr`: how the random bits of a site are assigned to elements, `site` or `ptx`.
      saturate: whether values out of range become the largest finite value.
      nan: the replacement of NaN in a format that has no NaN: `largest`, `zero` or `negative_zero`.
      signed_zero: whether a value that rounds to zero keeps its sign.
    """

    direction: str = "rne"
    bits: int = 0
    layout: str = "site"
    saturate: bool = True
    nan: str = "largest"
    signed_zero: bool = True

    def __post_init__(self) -> None:
        check_among("direction", self.direction, DIRECTIONS)
        check_among("layout", self.layout, LAYOUTS)
        check_among("nan", self.nan, NAN_CODES)
        check_flag("saturate", self.saturate)
        check_flag("signed_zero", self.signed_zero)
        check_whole("bits", self.bits, 1 if self.is_stochastic else 0, 32 if self.is_stochastic else 0)
        if self.layout == "ptx" and self.bits != 16:
            raise ReproError(f"(Q3) expected 16 bits for the layout `ptx`, got {self.bits}")

    @property
    def is_stochastic(self) -> bool:
        """Whether rounding needs random bits."""
        return self.direction == "sr"

    @staticmethod
    def named(name: str) -> Rounding:
        """Returns the rounding that is called `rne`, `away`, `rz`, or `sr<n>` with n random bits."""
        check_kind("a rounding", name, str, "a string")
        if re.fullmatch(r"sr[1-9][0-9]?", name, re.ASCII):
            return Rounding("sr", int(name[2:]))
        if name not in DIRECTIONS or name == "sr":
            raise ReproError(f"expected a rounding rne, away, rz or sr<bits>, got {shown(name)}")
        return Rounding(name)

    @property
    def mlir(self) -> str:
        """The `#repro.rounding` attribute as MLIR text."""
        parts = [f"direction = {self.direction}"]
        if self.is_stochastic:
            parts += [f"bits = {self.bits}", f"layout = {self.layout}"]
        parts += [f"saturate = {_mlir(self.saturate)}", f"nan = {self.nan}", f"signed_zero = {_mlir(self.signed_zero)}"]
        return f"#repro.rounding<{', '.join(parts)}>"


@dataclass(frozen=True)
class Scale:
    """(Q2), (Q6) The rule that computes the scales of blocks.

    Attributes:
      rule: the name of the rule, one of `RULES`.
      infinity: for power-of-two rules: the scale of a block that contains an infinity: `nan`, `largest` or `power`.
      nan: for power-of-two rules: the byte of the scale of a block that contains a NaN.
      least: for power-of-two rules: the exponent of the power of two that divides elements if the byte is 0; for f32
        scales: the lower bound to which a smaller amax is raised.
      largest: for `nvfp4`: the value that the largest scale is mapped to, 448 or 256.
      history: for `delayed`: the number of past steps whose amax is kept, 1 to 65536, 16 by default.
      margin: for `delayed`: the scale is divided by 2^margin, -32 to 32, 0 by default.
      algorithm: for `delayed`: the amax of the history that is used, `max` (by default) or `most_recent`.
    """

    rule: str
    infinity: str | None = None
    nan: int | None = None
    least: int | float | None = None
    largest: int | None = None
    history: int | None = None
    margin: int | None = None
    algorithm: str | None = None

    def __post_init__(self) -> None:
        check_among("a rule of scales", self.rule, RULES)
        of_delayed = ("history", "margin", "algorithm")
        allowed = {"nvfp4": ("largest",), "nvfp4_quotient": (), "nvfp4_single": (), DELAYED: of_delayed}.get(
            self.rule, ("infinity", "nan", "least") if self.rule in _POWERS else ("least",)
        )
        for name in ("infinity", "nan", "least", "largest", *of_delayed):
            if getattr(self, name) is not None and name not in allowed:
                raise ReproError(f"(Q2) the rule {self.rule} has no parameter {name}")
        if self.history is not None:
            check_whole("history", self.history, 1, _MOST_HISTORY)
        if self.margin is not None:
            check_whole("margin", self.margin, -_MOST_MARGIN, _MOST_MARGIN)
        if self.algorithm is not None:
            check_among("algorithm", self.algorithm, ALGORITHMS)
        if self.infinity is not None:
            check_among("infinity", self.infinity, INFINITIES)
        if self.nan is not None:
            check_whole("nan", self.nan, 0, 255)
        if self.largest is not None and (type(self.largest) is not int or self.largest not in (448, 256)):
            raise ReproError(f"(Q2) expected a largest scale of 448 or 256, got {shown(self.largest)}")
        if self.least is not None and self.rule in _POWERS:
            check_whole("least", self.least, -127, 127)
        elif self.least is not None and (type(self.least) not in (int, float) or not 2**-126 <= self.least <= 2**127):
            raise ReproError(f"(Q2) expected a least amax that is normal in f32, got {shown(self.least)}")

    @property
    def has_tensor(self) -> bool:
        """Whether the rule reads the amax of the whole tensor."""
        return self.rule in ("nvfp4", "nvfp4_quotient")

    @property
    def is_delayed(self) -> bool:
        """(Q6) Whether the scale follows from earlier steps, and is therefore state."""
        return self.rule == DELAYED

    @property
    def steps(self) -> int:
        """(Q6) The number of steps whose amax is kept."""
        return 16 if self.history is None else self.history

    @property
    def element(self) -> str:
        """The element type in which a scale is stored."""
        return "f8E8M0FNU" if self.rule in _POWERS else "f8E4M3FN" if self.rule in _SMALL else "f32"

    @property
    def mlir(self) -> str:
        """The rule's attribute in MLIR, as text."""
        if self.is_delayed:
            return "#repro.given_scale"
        if self.rule in _POWERS:
            parts = [f"rule = {self.rule}", f"infinity = {self.infinity or 'nan'}"]
            parts.append(f"nan = {255 if self.nan is None else self.nan}")
            parts.append(f"least = {-127 if self.least is None else self.least}")
            return f"#repro.power_scale<{', '.join(parts)}>"
        if self.rule == "nvfp4":
            return f"#repro.two_level_scale<largest = {self.largest or 448}>"
        if self.rule in _SMALL:
            return f"#repro.quotient_scale<levels = {2 if self.has_tensor else 1}>"
        least = self.least if self.least is not None else 1e-12 if self.rule.startswith("float8") else 1e-4
        return f"#repro.f32_scale<{_SINGLE[self.rule].format(f'{float(least):.17e}')}>"


@dataclass(frozen=True)
class Hadamard:
    """(Q5) A Hadamard transform of neighbouring elements along K, applied before quantization.

    Attributes:
      signs: 16 or 32 factors, each 1 or -1; their number is the size of the transform.
      to_bf16: whether the transformed values are rounded to bf16.
    """

    signs: tuple[int, ...]
    to_bf16: bool = False

    def __post_init__(self) -> None:
        check_kind("(Q5) signs", self.signs, (tuple, list), "a tuple of 16 or 32 numbers 1 or -1")
        if len(self.signs) not in (16, 32) or any(type(sign) is not int or abs(sign) != 1 for sign in self.signs):
            raise ReproError(f"(Q5) expected 16 or 32 signs, each 1 or -1, got {len(self.signs)} values")
        object.__setattr__(self, "signs", tuple(self.signs))
        check_flag("to_bf16", self.to_bf16)


@dataclass(frozen=True)
class Format:
    """The format that an operand is converted to.

    Attributes:
      element: `f32`, which leaves the operand unchanged; `bf16`, `f16` or `tf32`; an element type of blocks
        (`ELEMENTS`); or `forward`, in a gradient contraction: the quantized values that the layer's forward contraction
        has read.
      tile: for blocks: the numbers of elements of a block along the other dimension and along K; None for the whole
        extent.
      scale: for blocks: the scale rule.
      rounding: for blocks: how elements are rounded.
      amax: for `nvfp4`: the amax of the whole `tensor`, or of each `row`.
      hadamard: the transform before quantization, or None.
    """

    element: str
    tile: Tile | None = None
    scale: Scale | None = None
    rounding: Rounding = field(default_factory=Rounding)
    amax: str = "tensor"
    hadamard: Hadamard | None = None

    def __post_init__(self) -> None:
        check_among("an element", self.element, (UNTOUCHED, FORWARD, *NUMBERS, *ELEMENTS))
        check_among("amax", self.amax, ("tensor", "row"))
        check_kind("a rounding", self.rounding, Rounding, "a Rounding")
        for name, value, kind in (("scale", self.scale, Scale), ("transform", self.hadamard, Hadamard)):
            if value is not None:
                check_kind(f"a {name}", value, kind, f"a {kind.__name__} or None")
        if not self.has_blocks:
            if self.tile is not None or self.scale is not None or self.rounding != Rounding() or self.amax != "tensor":
                raise ReproError(f"expected no tile, scale, rounding or amax for {self.element}, which has no blocks")
            if self.hadamard is not None and self.element in (UNTOUCHED, FORWARD):
                raise ReproError(f"(Q5) expected no Hadamard transform for {self.element}")
            return
        if self.tile is None or self.scale is None:
            raise ReproError(f"expected a tile and a scale for {self.element}")
        if not isinstance(self.tile, tuple | list) or len(self.tile) != 2:
            raise ReproError(f"expected a tile of rows and columns, got {shown(self.tile)}")
        object.__setattr__(self, "tile", tuple(self.tile))
        for side in self.tile:
            if side is not None:
                check_whole("a side of a tile", side, 1, _LARGEST_SIDE)
        if self.scale.rule in _SMALL and self.element != "f4E2M1FN":
            raise ReproError(f"(Q2) expected f4E2M1FN for the rule {self.scale.rule}, got {self.element}")
        if self.rounding.layout == "ptx" and self.element.startswith("mxint8"):
            raise ReproError("(Q3) expected floats for the layout `ptx`, got mxint8")
        if self.amax == "row" and (self.scale.rule != "nvfp4" or self.tile[0] != 1):
            raise ReproError("(Q2) expected the rule nvfp4 and blocks of one row for an amax of each row")
        if self.scale.is_delayed and self.tile != (None, None):
            raise ReproError(f"(Q6) expected no tile for a scale of former steps (of the tensor), got {self.tile}")

    @property
    def has_blocks(self) -> bool:
        """Whether the operand is quantized in blocks with scales."""
        return self.element in ELEMENTS

    @property
    def is_stochastic(self) -> bool:
        """Whether elements are rounded stochastically."""
        return self.rounding.is_stochastic

    @property
    def is_delayed(self) -> bool:
        """(Q6) Whether the scale of this format follows from earlier steps."""
        return self.scale is not None and self.scale.is_delayed

    @property
    def code_type(self) -> str:
        """The element type of the codes in a block format."""
        return "i8" if self.element.startswith("mxint8") else self.element

    @property
    def block_format(self) -> str:
        """The `#repro.block_format` attribute as MLIR text."""
        assert self.tile is not None and self.scale is not None
        rows, columns = (side or 0 for side in self.tile)
        return (
            f"#repro.block_format<element = {self.code_type}, rows = {rows}, columns = {columns}, "
            f"scale = {self.scale.mlir}, rounding = {self.rounding.mlir}, "
            f"symmetric = {_mlir(self.element != 'mxint8_full')}>"
        )

    def mlir(self, name: str = '""', *, frozen: bool = False) -> str:
        """Returns, as MLIR text, the description of a factor in the attribute `repro.precision`.

        Args:
          name: the name of the delayed scale in the state, as MLIR prints a string.
          frozen: whether that scale is read but not updated.
        """
        parts = [f"format = {self.block_format if self.has_blocks else self.element}"]
        if self.hadamard is not None:
            parts.append(f"hadamard = array<i64: {', '.join(map(str, self.hadamard.signs))}>")
            if self.hadamard.to_bf16:
                parts.append("hadamard_bf16")
        if self.amax == "row":
            parts.append("amax_of_rows")
        if self.is_delayed:
            assert self.scale is not None
            delayed = [f"name = {name}"]
            if not frozen:
                delayed.append(f"history = {self.scale.steps}")
                delayed.append(f"margin = {self.scale.margin or 0}")
                if self.scale.algorithm == "most_recent":
                    delayed.append("most_recent")
            parts.append(f"delayed = {{{', '.join(delayed)}}}")
        return f"{{{', '.join(parts)}}}"

    def __str__(self) -> str:
        if not self.has_blocks:
            return self.element + (f" after a transform of {len(self.hadamard.signs)}" if self.hadamard else "")
        assert self.tile is not None and self.scale is not None
        rows, columns = ("all" if side is None else str(side) for side in self.tile)
        rounding = self.rounding.direction + (str(self.rounding.bits) if self.is_stochastic else "")
        transform = f" after a transform of {len(self.hadamard.signs)}" if self.hadamard else ""
        return f"{self.element} {rows}x{columns} {self.scale.rule} {rounding}{transform}"


def _mlir(flag: bool) -> str:
    return "true" if flag else "false"


F32 = Format(UNTOUCHED)
REUSED = Format(FORWARD)
"""For gradient contractions: the values that the forward contraction read."""


def blocks(element: str, tile: str, rule: str, rounding: str = "rne") -> Format:
    """Returns a block format. `tile` names the shape of a block (docs/guides/low-precision.md), `rule` the scale rule
    and `rounding` the rounding."""
    check_among("a tile", tile, TILES)
    return Format(element, TILES[tile], Scale(rule), Rounding.named(rounding))
