# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The manifest of a bundle: its format, and the members that it requires (docs/reference/bundle.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.printing import foreign

FORMAT = 2
NUMERICS = 1
MANIFEST, STATE, INPUTS, SIGNATURE = "manifest.json", "state.safetensors", "inputs.safetensors", "signature.json"
PROGRAM = "program.repro"

_ARCHITECTURE = r"sm_[0-9]{2,3}[af]?(\+tensor-cores)?"
_RUNNER = re.compile(r"__main__\.py|repro_mlir(/[a-z0-9_]+)+\.py")

_LONGEST_RUN = 1 << 32

_TENSOR = {"name": shapes.text, "element": shapes.choice(*ELEMENTS), "shape": shapes.array(shapes.number(0))}
_OF_USER: dict[str, shapes.Shape] = {"unsigned": shapes.true, "complex": shapes.true}
_BITS = shapes.hexadecimal()
_INITIAL = {
    "file": shapes.record({"from": shapes.text}),
    "fill": shapes.record({"from": shapes.text, "bits": _BITS}),
    "uniform": shapes.record(
        {
            "from": shapes.text,
            "seed": shapes.number(-(1 << 63)),
            "site": shapes.number(0),
            "scale": shapes.hexadecimal(8),
        }
    ),
}


def _initial(value: Any, where: str) -> None:
    kind = value.get("from") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _INITIAL:
        raise ReproError(f"{where}: expected an initial value from {', '.join(_INITIAL)}")
    _INITIAL[kind](value, where)


_SHAPE = shapes.record(
    {
        "format": shapes.number(1),
        "numerics": shapes.number(1),
        "program": shapes.digest,
        "compiler": shapes.text,
        "num_hyper_parameters": shapes.number(0),
        "state": shapes.array(shapes.record(_TENSOR | {"initial": _initial}, _OF_USER)),
        "inputs": shapes.array(shapes.record(_TENSOR, _OF_USER)),
        "outputs": shapes.array(shapes.record(_TENSOR, _OF_USER)),
        "targets": shapes.mapping(
            shapes.record(
                {
                    "ptx": shapes.text,
                    "plan": shapes.text,
                    "constants": shapes.text,
                    "cubin": shapes.nullable(shapes.text),
                }
            )
        ),
        "steps": shapes.number(0),
        "initial_state": shapes.digest,
        "expected": shapes.nullable(
            shapes.record(
                {
                    "state": shapes.mapping(shapes.digest),
                    "tensors": shapes.mapping(shapes.array(shapes.digest)),
                    "outputs": shapes.mapping(shapes.array(shapes.digest)),
                }
            )
        ),
        "members": shapes.mapping(shapes.record({"bytes": shapes.number(0), "blake3": shapes.digest})),
    }
)


def parse_json(data: bytes, where: str) -> Any:
    """Parses a JSON value. Raises ReproError if the JSON is invalid or an object has a key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key occurs twice")
        return found

    try:
        return json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ReproError(f"{where} is damaged ({foreign(str(error))})") from None


def read_manifest(data: bytes, where: str) -> dict[str, Any]:
    """Parses a manifest and checks its structure, which docs/reference/bundle.md describes.

    Args:
      data: the bytes of manifest.json.
      where: the name of the bundle in messages.
    Raises:
      ReproError: the structure is wrong, the format or the numerics are not supported, or entries contradict each
        other.
    """
    place = f"{where}: {MANIFEST}"
    manifest = parse_json(data, place)
    if isinstance(manifest, dict):
        # The format is checked before the structure, because another format may have another structure.
        found = manifest.get("format"), manifest.get("numerics")
        if all(isinstance(each, int) for each in found) and found != (FORMAT, NUMERICS):
            raise ReproError(
                f"{where}: expected a bundle of format {FORMAT} and numerics {NUMERICS}, "
                f"got format {found[0]} and numerics {found[1]}"
            )
    _SHAPE(manifest, place)
    for role in ("state", "inputs", "outputs"):
        names = [entry["name"] for entry in manifest[role]]
        if len(set(names)) < len(names):
            raise ReproError(f"{place}: {role}: a name occurs twice")
    if manifest["num_hyper_parameters"] > len(manifest["inputs"]) or manifest["steps"] > _LONGEST_RUN:
        raise ReproError(f"{place}: expected no more hyper-parameters than inputs, and at most {_LONGEST_RUN:,} steps")
    for architecture, target in manifest["targets"].items():
        own = (target["ptx"], target["plan"]) == (f"{architecture}.ptx", f"{architecture}.plan")
        own = own and target["cubin"] in (None, f"{architecture}.cubin")
        own = own and re.fullmatch(rf"{_ARCHITECTURE}\.constants", target["constants"]) is not None
        if not own or not re.fullmatch(_ARCHITECTURE, architecture):
            raise ReproError(f"{place}: targets: expected members named after {foreign(architecture)}, got other names")
    _check_expected(manifest, place)
    return manifest


def _check_expected(manifest: Mapping[str, Any], place: str) -> None:
    expected = manifest["expected"]
    if expected is None:
        return
    if any(not re.fullmatch(r"[0-9]{1,10}", step) for step in (*expected["state"], *expected["tensors"])):
        raise ReproError(f"{place}: expected: the steps must be numbers")
    if any(len(digests) != len(manifest["state"]) for digests in expected["tensors"].values()):
        raise ReproError(f"{place}: expected: one hash is needed for each tensor of the state")
    if set(expected["outputs"]) != {entry["name"] for entry in manifest["outputs"]}:
        raise ReproError(f"{place}: expected: the outputs must be those of the program")


def needed_members(manifest: Mapping[str, Any]) -> set[str]:
    """Returns the names of the members that this manifest must list. It may list no others, except the modules of the
    runner."""
    needed = {PROGRAM}
    for target in manifest["targets"].values():
        needed |= {name for name in target.values() if name is not None}
    if any(entry["initial"]["from"] == "file" for entry in manifest["state"]):
        needed.add(STATE)
    if manifest["steps"] and manifest["inputs"]:
        needed.add(INPUTS)
    return needed


def is_runner_member(name: str) -> bool:
    """Returns whether a member is a module of the runner, which a bundle may contain."""
    return _RUNNER.fullmatch(name) is not None
