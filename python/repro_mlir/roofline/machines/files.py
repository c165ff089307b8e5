# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machine files: values by name, each with its source (docs/schemas/machine.schema.json)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, shown
from repro_mlir.base.files import json_text
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.storage import write_file

_FOLDER = Path(__file__).parent / "data"
_LIMIT = 1 << 16
# The limits lie beyond the values of any machine, and keep predicted times and page coordinates finite.
_LEAST, _MOST = 1e-12, 1e18


@dataclass(frozen=True)
class MachineFile:
    """The contents of a machine file.

    Attributes:
      name: the file name without its extension.
      where: the file's name in error messages.
      extends: the CPU level or GPU architecture whose code the machine runs; None if the machine runs no code of the
        compiler.
      sizes, performance: the values, by name.
      sources: the origin of each value, by name.
    """

    name: str
    where: str
    extends: str | None
    sizes: dict[str, Any]
    performance: dict[str, Any]
    sources: dict[str, str]


def machine_names() -> list[str]:
    """Returns the names of the machines that the package includes."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def read_file(name: str) -> MachineFile:
    """Reads a machine file, of this package or of the user.

    Args:
      name: a machine name, or a path if it ends with `.json`.
    Raises:
      ReproError: no such machine, or a file that does not describe a machine.
    """
    if name.endswith(".json"):
        data, where = read_regular(name, _LIMIT), name
    else:
        check_among("machine", name, machine_names())
        data, where = (_FOLDER / f"{name}.json").read_bytes(), name
    try:
        given = json_text.parse(data, where, _LIMIT)
        check_keys("the file", given, ("extends", "sizes", "performance"), ("performance",))
        extends = given.get("extends")
        if extends is not None and not isinstance(extends, str):
            raise ReproError(f"expected extends as a level or an architecture, got {shown(extends)}")
        parts = [_entries(each, given.get(each, {})) for each in ("sizes", "performance")]
    except ReproError as error:
        raise ReproError(_prefixed(where, str(error))) from None
    sizes, performance = ({key: entry["value"] for key, entry in part.items()} for part in parts)
    sources = {key: entry["source"] for part in parts for key, entry in part.items()}
    return MachineFile(Path(name).stem, where, extends, sizes, performance, sources)


def _entries(what: str, given: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(given, dict):
        raise ReproError(f"expected {what} as an object, got {shown(given)}")
    for key, entry in given.items():
        check_keys(key, entry, ("value", "source"), ("value", "source"))
        if not isinstance(entry["source"], str) or not entry["source"].strip():
            raise ReproError(f"{key}: expected a source that says where the value is from")
    return given


def _prefixed(where: str, message: str) -> str:
    return message if message.startswith(where) else f"{where}: {message}"


def in_file(file: MachineFile, error: ReproError) -> ReproError:
    """Returns the error with the name of the file as prefix."""
    return ReproError(_prefixed(file.where, str(error)))


def check_keys(what: str, given: Any, known: Collection[str], required: Collection[str]) -> None:
    """Raises ReproError if `given` is not an object, has a key not in `known`, or lacks a `required` key."""
    if not isinstance(given, dict):
        raise ReproError(f"expected {what} as an object, got {shown(given)}")
    for key in given:
        check_among(f"a key of {what}", key, known)
    for key in required:
        if key not in given:
            raise ReproError(f"expected the key {key} in {what}")


def check_number(name: str, value: object, may_be_zero: bool = False) -> None:
    """Raises ReproError unless `value` is a number from 1e-12 to 1e18, or 0 if `may_be_zero`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (_LEAST <= value <= _MOST or (may_be_zero and value == 0)):  # type: ignore[operator]
        return
    zero = "0 or " if may_be_zero else ""
    raise ReproError(f"expected {name} as {zero}a number from {_LEAST:g} to {_MOST:g}, got {shown(value)}")


def changed_numbers(current: Mapping[str, float], changes: Mapping[str, str], whole: Sequence[str]) -> dict[str, Any]:
    """Returns the changed parameters of a machine.

    Args:
      current: all parameters, by name.
      changes: maps the name of a parameter to a number, or to a factor such as `2x` or `0.5x`.
      whole: the names of integer parameters.
    Raises:
      ReproError: a name that is not in `current`, or a malformed value.
    """
    found: dict[str, Any] = {}
    for name, text in changes.items():
        check_among("what is set", name, current)
        match = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(x?)", text)
        try:
            value = float(match.group(1)) if match else math.nan
        except ValueError:
            value = math.nan
        changed = current[name] * value if match and match.group(2) else value
        if not math.isfinite(changed):
            raise ReproError(f"{name}: expected a number, or a factor such as 2x, got {shown(text)}")
        found[name] = int(changed) if name in whole and changed == int(changed) else changed
    return found


def write_entries(
    path: str | Path, extends: str | None, sizes: Mapping[str, Any], performance: Mapping[str, Any],
    sources: Mapping[str, str],
) -> None:  # fmt: skip
    """Writes a machine file.

    Args:
      sources: the origin of each value, by name.
    """
    found: dict[str, Any] = {} if extends is None else {"extends": extends}
    for part, values in (("sizes", sizes), ("performance", performance)):
        found[part] = {key: {"value": value, "source": sources[key]} for key, value in values.items()}
    write_file(path, (json.dumps(found, indent=2) + "\n").encode())
