# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Accumulators of matrix units, and their selection for all or some contractions of a program (M4). Contractions with
block scales (M5) use accumulators too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_flag, check_kind, check_whole, shown
from repro_mlir.program.contractions import Contraction, contractions, with_sums

if TYPE_CHECKING:
    from repro_mlir.program import Program

ROUNDINGS = ("rz_f32", "rz_e8m13", "rne_f16", "rne_f32")
STARTS = ("zero", "init")


@dataclasses.dataclass(frozen=True)
class Accumulator:
    """(M4) The method by which a contraction sums its products: that of a real matrix unit or a hypothetical one.

    Attributes:
      terms: the number of products in a block, 1 to 128.
      fraction: the number of fraction bits kept relative to the largest exponent, 10 to 40; None keeps all bits.
      round: the rounding of the sum of a block: `rz_f32`, `rz_e8m13`, `rne_f16` or `rne_f32`.
      floor: the smallest exponent to which products are aligned, -300 to 300; 0 if `fraction` is None.
      late: (M3) whether the accumulator is added last: each 2 * `terms` products are summed in two halves, starting
        from +0, and this sum is then added to the accumulator. Requires an even number of terms.
      chunk: the number of elements in a chain of blocks; the totals of the chains are added in f32. 0 for a single
        chain.
      start: `zero` adds the initial value at the end, and `init` starts the single chain with it.
      group: (M2) the number of adjacent products that are first added exactly, a divisor of `terms`; more than 1 only
        in contractions with block scales as factors (M5).
    Raises:
      ReproError: `#repro.fdpa` does not support a value.
    """

    terms: int
    fraction: int | None
    round: str
    floor: int
    late: bool = False
    chunk: int = 0
    start: str = "zero"
    group: int = 1

    def __post_init__(self) -> None:
        check_whole("terms", self.terms, 1, 128)
        if self.fraction is not None:
            check_whole("fraction", self.fraction, 10, 40)
        check_among("round", self.round, ROUNDINGS)
        most = 0 if self.fraction is None else 300
        check_whole("floor", self.floor, -most, most)
        check_flag("late", self.late)
        check_whole("chunk", self.chunk, 0, 2**63 - 1)
        check_among("start", self.start, STARTS)
        if self.late and self.terms % 2:
            raise ReproError(f"(M4) expected an even number of terms with late, got {self.terms}")
        block = 2 * self.terms if self.late else self.terms
        if self.chunk % block:
            raise ReproError(f"(M4) expected a chunk that is a multiple of a block of {block} terms, got {self.chunk}")
        if self.start == "init" and self.chunk:
            raise ReproError(f"(M4) expected no chunk with start 'init', got {self.chunk}")
        check_whole("group", self.group, 1, 128)
        if self.terms % self.group:
            raise ReproError(f"(M2) expected a group that divides the {self.terms} terms of a block, got {self.group}")

    @property
    def mlir(self) -> str:
        """The MLIR attribute."""
        fraction = "" if self.fraction is None else f"fraction = {self.fraction}, "
        late = str(self.late).lower()
        return (
            f"#repro.fdpa<terms = {self.terms}, {fraction}round = {self.round}, floor = {self.floor}, late = {late}, "
            f"chunk = {self.chunk}, start = {self.start}, group = {self.group}>"
        )

    @staticmethod
    def named(name: str, element: str, result: str = "f32", *, chunk: int = 0, start: str = "zero") -> Accumulator:
        """Returns the accumulator of a class (M3); those of `SCALED_CLASSES` apply only to contractions in blocks.

        Args:
          name: the name of the class.
          element: the element type, such as `bf16`; `f32` means tf32.
          result: `f16` for units that add in f16, else `f32`.
          chunk, start: the attributes of the accumulator.
        Raises:
          ReproError: the class does not exist or does not support these types.
        """
        if not isinstance(name, str) or name not in CLASSES:
            raise ReproError(f"expected an accumulator or a name of a class ({', '.join(CLASSES)}), got {shown(name)}")
        check_kind("element", element, str, "the name of a type")
        check_kind("result", result, str, "the name of a type")
        by = CLASSES[name].get((element, result))
        if by is None:
            raise ReproError(f"{name} does not multiply {element} with results of {result}")
        return dataclasses.replace(by, chunk=chunk, start=start)


Entries = dict[tuple[str, str], Accumulator]
"""Accumulators by element type and result type; tf32 elements are named f32."""

_FLOAT8 = ("f8E4M3FN", "f8E5M2")
_FLOAT8_TO_4 = (*_FLOAT8, "f6E3M2FN", "f6E2M3FN", "f4E2M1FN")


def _to_f32(elements: tuple[str, ...], terms: int, fraction: int) -> Entries:
    return {(each, "f32"): Accumulator(terms, fraction, "rz_f32", -108 - fraction) for each in elements}


def _to_f16(elements: tuple[str, ...], terms: int, fraction: int, floor: int | None = None) -> Entries:
    least = 4 - fraction if floor is None else floor
    return {(each, "f16"): Accumulator(terms, fraction, "rne_f16", least) for each in elements}


def _float8_in_13_bits(terms: int, floor: int) -> Entries:
    to_f32 = {(each, "f32"): Accumulator(terms, 13, "rz_e8m13", -132) for each in _FLOAT8}
    return to_f32 | _to_f16(_FLOAT8, terms, 13, floor)


_TURING = _to_f32(("f16",), 8, 24) | _to_f16(("f16",), 8, 24)
_AMPERE = _TURING | _to_f32(("bf16",), 8, 24) | _to_f32(("f32",), 4, 24)
_WIDE = _to_f32(("f16", "bf16"), 16, 25) | _to_f32(("f32",), 8, 25) | _to_f16(("f16",), 16, 25)
_TWO_HMMA = {
    key: dataclasses.replace(by, late=True) for key, by in (_to_f32(_FLOAT8, 16, 25) | _to_f16(_FLOAT8, 16, 25)).items()
}
_GROUPS: Entries = {("f4E2M1FN", "f32"): Accumulator(64, 35, "rz_f32", -133, group=16)}

CLASSES: dict[str, Entries] = {
    "volta": _to_f32(("f16",), 4, 23) | _to_f16(("f16",), 4, 23),
    "turing": _TURING,
    "ampere": _AMPERE,
    "ada": _AMPERE | _float8_in_13_bits(16, floor=-20),
    "hopper": _WIDE | _float8_in_13_bits(32, floor=-21),
    "hopper_mma": _TWO_HMMA,
    "blackwell": _WIDE | _to_f32(_FLOAT8_TO_4, 32, 25) | _to_f16(_FLOAT8_TO_4, 32, 25),
    "blackwell_mma": _TWO_HMMA,
    "blackwell_mx": _to_f32(_FLOAT8_TO_4, 32, 25),
    "blackwell_mxf4": _GROUPS,
    "blackwell_nvfp4": _GROUPS,
}
"""(M3) The accumulator classes, by name."""

SCALED_CLASSES = {"blackwell_mx": "f8E8M0FNU", "blackwell_mxf4": "f8E8M0FNU", "blackwell_nvfp4": "f8E4M3FN"}
"""(M2) The classes whose products have block scales as factors, with the element type of the scales."""


def set_accumulators(
    program: Program, accumulator: str | Accumulator, select: Callable[[Contraction], bool] | None = None
) -> Program:
    """Returns the program with contractions whose products are added by an accumulator (M4). The results and thus the
    hash of the program change.

    Args:
      accumulator: an `Accumulator`, or the name of a class, such as `hopper`. With a class, each contraction uses the
        class's accumulator for its element type (tf32 if that is f32) and its result type (f16, else f32).
      select: a function that returns whether to change a contraction; by default all are changed.
    Raises:
      ReproError: the accumulator is invalid, or the class has no accumulator for a selected contraction.
    """
    chosen: dict[Accumulator, list[int]] = {}
    if isinstance(accumulator, str) and accumulator in SCALED_CLASSES:
        raise ReproError(f"(M5) {accumulator} needs scales of blocks: use it in a recipe with formats of blocks")
    if isinstance(accumulator, Accumulator) and accumulator.group != 1:
        raise ReproError(f"(M4) expected group 1 without scales of blocks, got {accumulator.group}")
    for each in contractions(program):
        if select is None or select(each):
            by = accumulator if isinstance(accumulator, Accumulator) else _resolve(accumulator, each)
            chosen.setdefault(by, []).append(each.index)
    if not chosen:
        return program
    passes = [_pass(by, numbers) for by, numbers in chosen.items()]
    return with_sums(program, passes, "a contraction cannot have the accumulator")


def _resolve(name: str, contraction: Contraction) -> Accumulator:
    result = "f16" if contraction.result == "f16" else "f32"
    try:
        x, y = (Accumulator.named(name, element, result) for element in contraction.elements)
        # Matrix units multiply operands of equal types, or of two f8 types.
        if x != y or (len(set(contraction.elements)) > 1 and not set(contraction.elements) <= set(_FLOAT8)):
            raise ReproError(f"{name} does not multiply {' by '.join(contraction.elements)}")
    except ReproError as error:
        at = f"contraction {contraction.index} at {contraction.location}"
        raise ReproError(f"{at} of {', '.join(contraction.operands)}: {error}") from None
    return x


def _pass(by: Accumulator, numbers: list[int]) -> str:
    options = dataclasses.asdict(by) | {"fraction": by.fraction or 0, "late": str(by.late).lower()}
    options["contractions"] = ",".join(map(str, numbers))
    del options["group"]
    return f"repro-set-accumulator{{{' '.join(f'{name}={value}' for name, value in options.items())}}}"
