# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the results of a library with the conformance vectors, case by case."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from repro_mlir.base.printing import foreign
from repro_mlir.conformance.group import Array, Arrays, Compute, Group
from repro_mlir.reference.low_precision.binary_formats import FORMATS, decode, decode_e8m0, unpack, unpack_e8m0


@dataclass(frozen=True)
class GroupScore:
    """The score of a library in one group.

    Attributes:
      cases, right: the numbers of cases that the standards and rules define, and of those that are right.
      open_cases, open_right: the same for the kinds that no standard defines.
      only_zero_signs: the number of wrong cases, open ones included, of which only signs of zeros are wrong.
      wrong_kinds: for each kind with a wrong case, the numbers of wrong cases and of all its cases.
      first_wrong: a description of the first wrong case; cases of open kinds count only if all others are right.
      error: the message of the library if it failed, else "".
    """

    name: str
    cases: int
    right: int
    open_cases: int = 0
    open_right: int = 0
    only_zero_signs: int = 0
    wrong_kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    first_wrong: str = ""
    error: str = ""


def score(group: Group, library: Compute) -> GroupScore | None:
    """Returns the score of a library in a group, or None if the library lacks the operation.

    Every case of a group is wrong if the library raises an exception, ends the program by sys.exit, or returns arrays
    of other shapes or dtypes.
    """
    is_open = np.isin(group.kinds, [group.kind_names.index(each) for each in group.open_kinds])
    cases, open_cases = int((~is_open).sum()), int(is_open.sum())
    try:
        with np.errstate(all="ignore"):
            results = library(group.operation, group.input_values(), dict(group.parameters))
            if results is None:
                return None
            got = {name: _converted(results.get(name), array, name) for name, array in group.outputs.items()}
    except (Exception, SystemExit) as error:
        reason = foreign(f"{type(error).__name__}: {error}")
        return GroupScore(group.name, cases, 0, open_cases, 0, error=reason)
    wrong = _wrong_elements(group, got)
    by_case = _any_of_case(wrong, group.cases)
    both_zero = {
        name: _is_zero(array.values, array.format) & _is_zero(got[name], array.format)
        for name, array in group.outputs.items()
    }
    only_signs = by_case & ~_any_of_case({name: mask & ~both_zero[name] for name, mask in wrong.items()}, group.cases)
    kinds = {}
    for number, kind in enumerate(group.kind_names):
        chosen = group.kinds == number
        if (by_case & chosen).any():
            kinds[kind] = int((by_case & chosen).sum()), int(chosen.sum())
    counted = by_case & ~is_open if (by_case & ~is_open).any() else by_case
    return GroupScore(
        group.name,
        cases,
        cases - int((by_case & ~is_open).sum()),
        open_cases,
        open_cases - int((by_case & is_open).sum()),
        int(only_signs.sum()),
        kinds,
        _described(group, got, wrong, int(counted.argmax())) if by_case.any() else "",
    )


def _converted(result: object, expected: Array, name: str) -> np.ndarray:
    """Returns a result of a library in the dtype of the expected one. Raises ValueError if it has another shape or is
    not of this kind."""
    if result is None:
        raise ValueError(f"expected a result named {name}")
    found, want = np.asarray(result), expected.values
    if found.shape != want.shape:
        raise ValueError(f"expected {name} of shape {want.shape}, got {found.shape}")
    if want.dtype.kind == "f":
        if found.dtype != want.dtype:
            raise ValueError(f"expected {name} of dtype {want.dtype}, got {found.dtype}")
        return found
    if found.dtype.kind not in "iub":
        raise ValueError(f"expected {name} of integers, got {found.dtype}")
    converted = found.astype(want.dtype)
    # Signed integers of the same width have the same bits; a wider integer must not lose any.
    if (converted.astype(found.dtype) != found).any():
        raise ValueError(f"expected {name} of integers that {want.dtype} contains, got {found.dtype}")
    return converted


def _is_nan(values: np.ndarray, form: str) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if form == "f8E8M0FNU":
        return unpack_e8m0(values).nan
    return unpack(values, FORMATS[form]).nan if form in FORMATS else np.zeros(values.shape, np.bool_)


def _is_zero(values: np.ndarray, form: str) -> np.ndarray:
    if values.dtype.kind == "f":
        return values == 0
    if form in FORMATS:
        found = unpack(values, FORMATS[form])
        return found.finite & (found.magnitude == 0)
    return np.zeros(values.shape, np.bool_)


def _any_of_case(masks: dict[str, np.ndarray], cases: int) -> np.ndarray:
    """Returns for each case whether an element of one of the masks is set."""
    found = np.zeros(cases, np.bool_)
    for mask in masks.values():
        found |= mask.reshape(cases, -1).any(axis=1)
    return found


def _bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "f" else values


def _wrong_elements(group: Group, got: Arrays) -> dict[str, np.ndarray]:
    """Returns a mask of the wrong elements of each output. NaNs are equal; codes of a block whose scale is NaN on both
    sides are not compared."""
    wrong = {}
    for name, array in group.outputs.items():
        both_nan = _is_nan(array.values, array.format) & _is_nan(got[name], array.format)
        wrong[name] = (_bits(array.values) != _bits(np.ascontiguousarray(got[name]))) & ~both_nan
    scales = group.outputs.get("scales")
    if group.operation == "quantize" and scales is not None and scales.values.ndim == 1 and "codes" in wrong:
        lost = _is_nan(scales.values, scales.format) & _is_nan(got["scales"], scales.format)
        wrong["codes"] &= ~lost.reshape(-1, *[1] * (wrong["codes"].ndim - 1))
    return wrong


def _shown(value: np.ndarray, form: str) -> str:
    """Returns an element as its bits and its value."""
    if value.dtype.kind == "f":
        return f"0x{int(_bits(value)):0{2 * value.dtype.itemsize}x} ({value.item()!r})"
    if form == "f8E8M0FNU":
        return f"0x{int(value):02x} ({float(decode_e8m0(value))!r})"
    return f"0x{int(value):02x} ({float(decode(value, FORMATS[form]))!r})" if form in FORMATS else str(int(value))


def _described(group: Group, got: Arrays, wrong: dict[str, np.ndarray], case: int) -> str:
    """Describes the first wrong element of a case: the expected and the given result, and the operands that have the
    same position in an array of one or of all elements of the case."""
    name = next(name for name, mask in wrong.items() if mask[case].any())
    place = tuple(int(i) for i in np.argwhere(wrong[name][case])[0])
    index = (case, *place)
    expected, form = group.outputs[name].values, group.outputs[name].format
    parts = []
    for each, array in group.inputs.items():
        if array.values.shape == expected.shape:
            parts.append(f"{each} = {_shown(array.values[index], array.format)}")
        elif array.values.ndim == 1:
            parts.append(f"{each} = {_shown(array.values[case], array.format)}")
        elif array.values.dtype.kind == "f":
            parts.append(f"greatest |{each}| = {_shown(np.abs(array.values[case]).max(), array.format)}")
    where = f"{name}[{', '.join(map(str, index))}]"
    result = f"{where}: expected {_shown(expected[index], form)}, got {_shown(got[name][index], form)}"
    return f"{group.kind_names[group.kinds[case]]}: {', '.join([result, *parts])}"
