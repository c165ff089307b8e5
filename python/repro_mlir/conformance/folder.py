# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The files of conformance vectors: vectors.json, which lists groups and arrays, and the elements of the arrays as raw
little-endian bytes.

Each group and each array is on a line of vectors.json of its own, so that a program without a JSON library can read the
file line by line (examples/vectors/read_vectors.c).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes, json_text
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.storage import make_empty_folder, write_file
from repro_mlir.base.printing import foreign
from repro_mlir.conformance.group import Array, Group, file_name

FORM = "repro-vectors"
FORM_VERSION = 1
"""The version of the form of the files."""

VERSION = 1
"""The version of the vectors. A change of any operand or result increases it."""

LICENSE = "Apache-2.0 WITH LLVM-exception"
MANIFEST = "vectors.json"

_DTYPES = ("uint8", "uint16", "uint32", "uint64", "int32", "float32", "float64")
_ROLES = ("input", "output", "kinds")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_MANIFEST_LIMIT = 16 << 20
_ARRAY_LIMIT = 64 << 20
_TOTAL_LIMIT = 1 << 30

_README = f"""# Conformance vectors, version {VERSION}

Operands and results of low-precision formats, accumulators of matrix units, random numbers, elementary functions and
sums in a defined order, computed by the reference interpreter of repro-mlir. License: {LICENSE}.

{MANIFEST} lists groups of cases. A group has the name of an operation, the parameters that all its cases share, and
arrays. The first dimension of each array numbers the cases. The elements of an array are in `file`, row-major,
little-endian, without a header; `dtype` and `shape` are those of NumPy, `sha256` is the hash of the file. `format` is
the number format of the elements, if they are not integers: f32, f64, or the format of codes. A code occupies one
element, in the low bits. Arrays with equal bytes share a file. The array `kinds` has the index in `kinds` of the group
for each case; no standard defines the results of the kinds in `open_kinds`.

Results are equal if their bits are equal, or if both are NaN. Codes of a block whose scale is NaN are not compared.
docs/guides/vectors.md of repro-mlir describes the operations; docs/reference/numerics.md defines the rules.
"""


def write_vectors(folder: str | Path, groups: Iterable[Group]) -> dict[str, int]:
    """Writes groups to a folder, which is created; equal groups give equal bytes.

    Returns:
      The numbers of groups, cases, files and bytes.
    Raises:
      ReproError: the folder exists and is not empty, or cannot be written.
    """
    path = make_empty_folder(folder)
    files: dict[bytes, str] = {}
    lines, totals = [], {"groups": 0, "cases": 0, "files": 2, "bytes": 0}
    for group in groups:
        arrays = [("kinds", "kinds", Array(group.kinds))]
        arrays += [(name, "input", array) for name, array in group.inputs.items()]
        arrays += [(name, "output", array) for name, array in group.outputs.items()]
        rows = []
        for name, role, array in arrays:
            data = np.ascontiguousarray(array.values, array.values.dtype.newbyteorder("<")).tobytes()
            if data not in files:
                files[data] = file_name(group.name, name)
                (path / files[data]).write_bytes(data)
                totals["files"] += 1
                totals["bytes"] += len(data)
            rows.append(json.dumps(_array_record(name, role, array, files[data], data)))
        lines.append(f'{json.dumps(_group_record(group))[:-1]}, "arrays": [\n' + ",\n".join(rows) + "\n]}")
        totals["groups"] += 1
        totals["cases"] += group.cases
    head = {"form": FORM, "form_version": FORM_VERSION, "version": VERSION, "license": LICENSE}
    text = f'{json.dumps(head)[:-1]}, "groups": [\n' + ",\n".join(lines) + "\n]}\n"
    write_file(path / "README.md", _README.encode())
    # The manifest is written last, so that a folder with a manifest is complete.
    write_file(path / MANIFEST, text.encode())
    totals["bytes"] += len(text.encode()) + len(_README.encode())
    return totals


def _group_record(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "operation": group.operation,
        "rule": group.rule,
        "cases": group.cases,
        "kinds": list(group.kind_names),
        "open_kinds": list(group.open_kinds),
        "parameters": group.parameters,
    }


def _array_record(name: str, role: str, array: Array, file: str, data: bytes) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "dtype": array.values.dtype.name,
        "format": array.format,
        "shape": list(array.values.shape),
        "file": file,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _parameter(value: Any, where: str) -> None:
    if not isinstance(value, str | int | float):
        raise ReproError(f"{where}: expected a string, a number or a truth value")


_ARRAY = json_shapes.record(
    {
        "name": json_shapes.text,
        "role": json_shapes.choice(*_ROLES),
        "dtype": json_shapes.choice(*_DTYPES),
        "format": json_shapes.text,
        "shape": json_shapes.array(json_shapes.number(1, _ARRAY_LIMIT)),
        "file": json_shapes.text,
        "bytes": json_shapes.number(1, _ARRAY_LIMIT),
        "sha256": json_shapes.digest,
    }
)
_GROUP = json_shapes.record(
    {
        "name": json_shapes.text,
        "operation": json_shapes.text,
        "rule": json_shapes.text,
        "cases": json_shapes.number(1, _ARRAY_LIMIT),
        "kinds": json_shapes.array(json_shapes.text),
        "open_kinds": json_shapes.array(json_shapes.text),
        "parameters": json_shapes.mapping(_parameter),
        "arrays": json_shapes.array(_ARRAY),
    }
)
_VECTORS = json_shapes.record(
    {
        "form": json_shapes.choice(FORM),
        "form_version": json_shapes.number(FORM_VERSION, FORM_VERSION),
        "version": json_shapes.number(1),
        "license": json_shapes.text,
        "groups": json_shapes.array(_GROUP),
    }
)


def read_vectors(folder: str | Path) -> list[Group]:
    """Returns the groups of a folder.

    Raises:
      ReproError: the folder has no vectors.json of this form, or a file is missing, damaged or too large.
    """
    path = Path(folder) / MANIFEST
    listed = json_text.parse(read_regular(path, _MANIFEST_LIMIT), str(path), _MANIFEST_LIMIT)
    _VECTORS(listed, str(path))
    total = sum(array["bytes"] for group in listed["groups"] for array in group["arrays"])
    if total > _TOTAL_LIMIT:
        raise ReproError(f"{path}: expected arrays of at most {_TOTAL_LIMIT:,} bytes together, got {total:,}")
    known: dict[tuple[str, str], bytes] = {}
    return [_read_group(Path(folder), record, f"{path}: {record['name']}", known) for record in listed["groups"]]


def _read_group(folder: Path, record: dict[str, Any], where: str, known: dict[tuple[str, str], bytes]) -> Group:
    arrays: dict[str, dict[str, Array]] = {role: {} for role in _ROLES}
    for each in record["arrays"]:
        array = _read_array(folder, each, where, known)
        if array.values.shape[:1] != (record["cases"],):
            raise ReproError(f"{where}: expected {record['cases']} cases in each array, got shape {each['shape']}")
        if any(each["name"] in named for named in arrays.values()):
            raise ReproError(f"{where}: expected one array {foreign(each['name'])}, got two")
        arrays[each["role"]][each["name"]] = array
    if not arrays["output"] or len(arrays["kinds"]) != 1:
        raise ReproError(f"{where}: expected an output and one array of kinds")
    kinds = arrays["kinds"].get("kinds", Array(np.zeros(0, np.uint8))).values
    if kinds.dtype != np.uint8 or kinds.shape != (record["cases"],) or (kinds >= len(record["kinds"])).any():
        raise ReproError(f"{where}: expected an array kinds with a number below {len(record['kinds'])} for each case")
    if not set(record["open_kinds"]) <= set(record["kinds"]):
        raise ReproError(f"{where}: expected open_kinds among {', '.join(record['kinds'])}")
    return Group(
        record["name"],
        record["operation"],
        record["rule"],
        record["parameters"],
        arrays["input"],
        arrays["output"],
        kinds,
        tuple(record["kinds"]),
        tuple(record["open_kinds"]),
    )


def _read_array(folder: Path, record: dict[str, Any], where: str, known: dict[tuple[str, str], bytes]) -> Array:
    name, dtype, shape = record["file"], np.dtype(record["dtype"]), tuple(record["shape"])
    if not _NAME.fullmatch(name):
        raise ReproError(f"{where}: expected the name of a file in the folder, got {name!r}")
    if math.prod(shape) * dtype.itemsize != record["bytes"]:
        raise ReproError(f"{where}: {name}: expected {dtype} elements of shape {shape} in {record['bytes']:,} bytes")
    key = name, record["sha256"]
    if key not in known:
        known[key] = read_regular(folder / name, _ARRAY_LIMIT)
        if hashlib.sha256(known[key]).hexdigest() != record["sha256"]:
            raise ReproError(f"{folder / name}: expected the bytes that {MANIFEST} lists: the file was changed")
    if len(known[key]) != record["bytes"]:
        raise ReproError(f"{folder / name}: expected {record['bytes']:,} bytes, got {len(known[key]):,}")
    values = np.frombuffer(known[key], dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    return Array(values, record["format"])
