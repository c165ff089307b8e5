# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the tensors of one side of a comparison, with their steps and names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.files import json_text
from repro_mlir.base.files.regular import open_regular
from repro_mlir.base.numerics.tensors import LONGEST_NAME
from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.tensor_files import SUFFIXES, Value, read_values

MANIFEST = "manifest.jsonl"
"""The default name of a manifest, and the name that `dump_hooks` gives it."""

_MOST_FILES = 1_000_000
_LINE_BYTES = 1 << 16
_MOST_STEP = 10**15
_LINE = shapes.record(
    {"file": shapes.text, "name": shapes.text},
    {"step": shapes.number(0, _MOST_STEP), "module": shapes.text, "tensor": shapes.text},
)
_FIELDS = {"{step}": r"(?P<step>[0-9]{1,15})", "{name}": r"(?P<name>.+)", "*": r"[^/]*"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor, a number or a text of one side.

    Attributes:
      step: the number of the step; None if the side has no steps.
      name: the name, which is unique within the step.
      module: the module that computed the tensor; "" if unknown.
      value: the value, or where it is stored.
    """

    step: int | None
    name: str
    module: str
    value: Value


@dataclass(frozen=True)
class Side:
    """The tensors of one side by step and name, in order: by step, and within a step in the order of the manifest, or
    of the names of files and then of each file.

    Attributes:
      path: the path as the user named it.
      entries: the tensors.
      ignored: the number of files that the pattern does not match.
    """

    path: str
    entries: Mapping[tuple[int | None, str], Entry]
    ignored: int = 0

    @property
    def steps(self) -> dict[int | None, None]:
        """The steps, in order."""
        return dict.fromkeys(step for step, _ in self.entries)


def list_side(path: str, pattern: str | None = None, manifest: str | None = None) -> Side:
    """Returns the tensors of a file or a folder.

    Args:
      path: a file, whose tensors belong to no step, or a folder.
      pattern: the paths of the files of a folder, relative to it: `{step}` stands for a number, `{name}` for any text,
        and `*` for any text without a slash. If a file contains several tensors, their names follow `{name}` and a
        slash. Without pattern and manifest, the folder's `MANIFEST` is read if there is one; otherwise all files with
        known suffixes are read, and their names are their paths without suffix.
      manifest: the path of a manifest, relative to the folder: a JSON object per line with the keys `file` (relative to
        the folder) and `name`, and optionally `step`, `module`, and `tensor` (the name of the tensor in its file).
    Raises:
      ReproError: a file cannot be read, is a symbolic link or lies outside of the folder; two tensors have the same
        step and name; or nothing was found.
    """
    if not os.path.isdir(path):
        if pattern is not None or manifest is not None:
            raise ReproError(f"{path}: expected a folder for --pattern and --manifest, got a file or nothing")
        return Side(
            path, _distinct(path, (Entry(None, name, "", each) for name, each in read_values(path, True).items()))
        )
    if pattern is None and manifest is None and os.path.lexists(os.path.join(path, MANIFEST)):
        manifest = MANIFEST
    if manifest is not None:
        return Side(path, _distinct(path, _listed(path, manifest)))
    files = _files(path)
    matches = _matching(files, pattern)
    if not matches:
        example = f"; its first file is {foreign(files[0])}" if files else "; it is empty"
        expected = f"that match {pattern!r}" if pattern else f"that end in {', '.join(SUFFIXES)}"
        raise ReproError(f"{path}: expected files {expected}, got none{example}")
    entries = _distinct(path, _matched(path, matches))
    return Side(path, entries, len(files) - len(matches))


def _distinct(path: str, entries: Iterator[Entry]) -> dict[tuple[int | None, str], Entry]:
    found: dict[tuple[int | None, str], Entry] = {}
    for entry in entries:
        key = entry.step, entry.name
        where = repr(foreign(entry.name)) + ("" if entry.step is None else f" of step {entry.step}")
        if key in found:
            raise ReproError(f"{path}: expected one tensor with the name {where}, got two: give {{name}} and {{step}}")
        if len(entry.name) > LONGEST_NAME:
            raise ReproError(f"{path}: expected names of at most {LONGEST_NAME} characters, got {where}")
        found[key] = entry
    if not found:
        raise ReproError(f"{path}: expected tensors, got none")
    return dict(sorted(found.items(), key=lambda item: -1 if item[0][0] is None else item[0][0]))


def _files(folder: str) -> list[str]:
    """Returns the paths of all files in a folder, relative to it and with slashes, in the natural order."""
    found = []

    def refuse(error: OSError) -> None:
        raise ReproError(f"cannot read {error.filename}: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=refuse):
        relative = PurePosixPath(os.path.relpath(place, folder).replace(os.sep, "/"))
        # os.walk does not enter linked folders. They count as files, so that they are refused or counted as ignored.
        names += [name for name in folders if os.path.islink(os.path.join(place, name))]
        found += [str(relative / name) for name in names]
        if len(found) > _MOST_FILES:
            raise ReproError(f"{folder}: expected at most {_MOST_FILES:,} files")
    return sorted(found, key=_natural)


def _natural(text: str) -> list[tuple[int, str]]:
    """Returns a sort key by which step2 comes before step10."""
    return [(int(part), "") if part.isdecimal() and len(part) < 20 else (-1, part) for part in re.split(r"(\d+)", text)]


def _matching(files: list[str], pattern: str | None) -> list[tuple[int | None, str, str]]:
    """Returns step, name and file of the files that match a pattern."""
    if pattern is None:
        return [(None, _stem(file), file) for file in files if file.endswith(SUFFIXES)]
    for field in ("{step}", "{name}"):
        if pattern.count(field) > 1:
            raise ReproError(f"--pattern: expected {field} at most once, got {pattern!r}")
    parts = re.split(r"(\{step\}|\{name\}|\*)", pattern)
    for part in parts:
        if part not in _FIELDS and ("{" in part or "}" in part):
            raise ReproError(f"--pattern: expected only the fields {{step}} and {{name}}, got {pattern!r}")
    form = re.compile("".join(_FIELDS.get(part, re.escape(part)) for part in parts))
    found = []
    for file in files:
        if match := form.fullmatch(file):
            groups = match.groupdict()
            step = groups.get("step")
            found.append((None if step is None else int(step), _stem(groups.get("name") or ""), file))
    return found


def _stem(name: str) -> str:
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


def _matched(folder: str, matches: list[tuple[int | None, str, str]]) -> Iterator[Entry]:
    for step, name, file in matches:
        for inner, value in read_values(os.path.join(folder, file), False).items():
            yield Entry(step, "/".join(filter(None, (name, inner))), "", value)


def _listed(folder: str, manifest: str) -> Iterator[Entry]:
    files: dict[str, dict[str, Value]] = {}
    seen: set[tuple[str, str]] = set()
    for line in _lines(os.path.join(folder, manifest)):
        file = line["file"]
        if file not in files:
            files[file] = read_values(_inside(folder, file), False)
        values = files[file]
        name = line.get("tensor", "")
        if name not in values:
            known = ", ".join(foreign(each) for each in list(values)[:5]) or "none"
            raise ReproError(
                f"{os.path.join(folder, manifest)}: expected a tensor {foreign(name)!r} in {foreign(file)}, got {known}"
            )
        # If lines could repeat a large tensor, the time would not be bounded by the size of the files.
        if (file, name) in seen:
            raise ReproError(
                f"{os.path.join(folder, manifest)}: expected {foreign(file)} once, got two lines for a tensor"
            )
        seen.add((file, name))
        yield Entry(line.get("step"), line["name"], line.get("module", ""), values[name])


def _lines(path: str) -> Iterator[dict[str, Any]]:
    """Yields the objects of a manifest."""
    with open_regular(path) as file:
        for number in range(1, _MOST_FILES + 2):
            text = file.readline(_LINE_BYTES + 1)
            if not text:
                return
            where = f"{path}: line {number}"
            if len(text) > _LINE_BYTES or number > _MOST_FILES:
                raise ReproError(f"{where}: expected at most {_MOST_FILES:,} lines of at most {_LINE_BYTES:,} bytes")
            if text.strip():
                value = json_text.parse(text, where)
                _LINE(value, where)
                yield value


def _inside(folder: str, file: str) -> str:
    """Returns the path of a file of a manifest. Raises ReproError if the file is not in the folder."""
    parts = file.split("/")
    # On Windows, a backslash separates folders, and a colon follows a drive and precedes a stream.
    is_plain = not set(parts) & {"", ".", ".."} and not set(file) & set("\0\\:" if os.name == "nt" else "\0")
    path = folder
    for part in parts[:-1] if is_plain else ():
        path = os.path.join(path, part)
        is_plain = is_plain and not os.path.islink(path)
    if not is_plain:
        raise ReproError(f"{folder}: expected a file in this folder, got {foreign(file)}")
    return os.path.join(folder, *parts)
