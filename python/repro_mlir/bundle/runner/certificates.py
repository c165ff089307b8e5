# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Which devices are known to add as the class of their code does (M3): certificates, each a file (docs/gpu.md).

Matrix instructions on floats run on no other device: what they add is told by no manual.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.printing import foreign
from repro_mlir.bundle.runner.device import Device
from repro_mlir.bundle.runner.manifest import parse_json

TENSOR_CORES = "+tensor-cores"
"""Behind an architecture: code with matrix instructions on floats."""

VARIABLE = "REPRO_CERTIFICATES"
"""The environment variable that names the folder of certificates."""

FORMAT = 2

LEAST_RESULTS = 1 << 20
"""Results of an instruction that a certificate must have compared."""

_MATRIX = re.compile(r"\b(?:mma|wmma|wgmma|tcgen05)\b[\w.:]*")
"""Of an opcode with blanks or comments inside only what is before them, which no certificate knows."""
_FLOAT8 = re.compile(r"\.e[45]m[32]\b")
_EXACT = tuple(f".s32.{left}8.{right}8.s32" for left in "su" for right in "su")
"""Products of bytes, whose sums are exact on every device."""
_LARGEST = 1 << 16
_MOST = (1 << 53) - 1

IMAGES = "cubin", "PTX"
"""The forms of code that a device loads."""


@dataclass(frozen=True)
class Unit:
    """(M3) A class of matrix units.

    Attributes:
      terms, fraction: how it adds products of f16 and bf16 to an f32.
      float8: the class of its `mma.sync` of f8; None where none is known.
    """

    name: str
    terms: int
    fraction: int
    float8: str | None = None


_AMPERE = Unit("ampere", 8, 24)
UNITS = {
    "sm_75": Unit("turing", 8, 24),
    "sm_80": _AMPERE,
    "sm_86": _AMPERE,
    "sm_89": Unit("ada", 8, 24, "ada"),
    "sm_90": Unit("hopper", 16, 25, "hopper_mma"),
    "sm_100": Unit("blackwell", 16, 25, "blackwell_mma"),
    "sm_120": Unit("blackwell", 16, 25),
}
"""For which class the code of an architecture is."""


@dataclass(frozen=True)
class Instruction:
    """What was compared of one instruction.

    Attributes:
      images: "cubin" and "PTX", as far as they were run.
      results: how many were compared, of each image.
      vectors: BLAKE3 of the operands.
      outcome: BLAKE3 of the results, NaNs being canonical (V4).
    """

    opcode: str
    images: tuple[str, ...]
    results: int
    vectors: str
    outcome: str


@dataclass(frozen=True)
class Certificate:
    """A device whose matrix instructions gave the bits of a class.

    Attributes:
      device: the name of the model.
      driver: as `Driver.identity` has it.
      unit: the class.
    """

    device: str
    driver: str
    unit: Unit
    instructions: tuple[Instruction, ...]

    def as_json(self) -> dict[str, Any]:
        """The contents of its file."""
        return {"format": FORMAT, **asdict(self)}


_SHAPE = shapes.record(
    {
        "format": shapes.number(1, _MOST),
        "device": shapes.text,
        "driver": shapes.text,
        "unit": shapes.record(
            {
                "name": shapes.text,
                "terms": shapes.number(1),
                "fraction": shapes.number(1),
                "float8": shapes.nullable(shapes.text),
            }
        ),
        "instructions": shapes.array(
            shapes.record(
                {
                    "opcode": shapes.text,
                    "images": shapes.array(shapes.choice(*IMAGES)),
                    "results": shapes.number(1, _MOST),
                    "vectors": shapes.digest,
                    "outcome": shapes.digest,
                }
            )
        ),
    }
)


def without_tensor_cores(architecture: str) -> str:
    """The architecture itself, such as "sm_90"."""
    return architecture.removesuffix(TENSOR_CORES)


def unit_of(architecture: str) -> Unit:
    """The class that code for an architecture, with TENSOR_CORES or not, is for. ReproError: none is known."""
    name = without_tensor_cores(architecture)
    if name not in UNITS:
        raise ReproError(f"no class of matrix units is known for {name}")
    return UNITS[name]


def directory() -> Path:
    """The folder of certificates: REPRO_CERTIFICATES, else one in the user's data directory."""
    if path := os.environ.get(VARIABLE):
        return Path(path)
    base = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "share") / "repro-mlir" / "certificates"
    except RuntimeError:
        raise ReproError(f"this user has no folder: expected {VARIABLE} to name that of certificates") from None


def path_of(device: Device) -> Path:
    """The file of the certificate for such a device with such a driver."""
    return directory() / (re.sub(r"[^A-Za-z0-9.]+", "-", f"{device.name} {device.driver.identity()}") + ".json")


def read_certificate(path: str | Path) -> Certificate:
    """A certificate from its file. ReproError for a file that is none."""
    value = parse_json(read_regular(path, _LARGEST, follow=True), str(path))
    _SHAPE(value, str(path))
    if value["format"] != FORMAT:
        raise ReproError(f"{path}: expected a certificate of format {FORMAT}, got {value['format']}")
    instructions = tuple(Instruction(**each | {"images": tuple(each["images"])}) for each in value["instructions"])
    unit = Unit(**value["unit"])
    if unit not in UNITS.values():
        raise ReproError(f"{path}: the unit {foreign(unit.name)} is another one than code is for, or unknown")
    return Certificate(value["device"], value["driver"], unit, instructions)


def write_certificate(certificate: Certificate, path: str | Path) -> None:
    """Writes the file of a certificate, and its folder. ReproError where that cannot be."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None
    write_file(path, (json.dumps(certificate.as_json(), indent=1) + "\n").encode())


def withdraw_certificate(device: Device) -> None:
    """Removes the certificate for such a device with such a driver. ReproError where that cannot be."""
    path = path_of(device)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ReproError(f"cannot remove {path}: {error.strerror}") from None


def certificate_for(device: Device, architecture: str) -> Certificate:
    """The certificate by which a device runs code with tensor cores for an architecture.

    Raises:
      ReproError: there is none, or the device adds in another class than the code is for.
    """
    path, wanted = path_of(device), f"{device.name} with driver {device.driver.identity()}"
    if not path.is_file():
        raise ReproError(
            f"tensor cores need a certificate of {wanted}, which repro certify-device writes: there is no {path}"
        )
    found = read_certificate(path)
    if (found.device, found.driver) != (device.name, device.driver.identity()):
        raise ReproError(
            f"{path}: expected a certificate of {wanted}, got one of "
            f"{foreign(found.device)} with {foreign(found.driver)}"
        )
    unit = unit_of(architecture)
    if (found.unit.terms, found.unit.fraction) != (unit.terms, unit.fraction):
        raise ReproError(
            f"{device.name} adds in the class {found.unit.name}, the code for {architecture} in {unit.name}: expected "
            "code for the device's own architecture, or without tensor cores"
        )
    return found


def matrix_instructions(ptx: bytes) -> set[str]:
    """The opcodes in a PTX module that multiply matrices of floats, comments counting as code."""
    return {opcode for opcode in _MATRIX.findall(ptx.decode(errors="replace")) if not opcode.endswith(_EXACT)}


def certified_images(device: Device, architecture: str, ptx: bytes) -> tuple[str, ...]:
    """Which forms of code a device may load: all without matrix instructions on floats, else those that were compared.

    Raises:
      ReproError: the code has such instructions, and the device no certificate for one of them.
    """
    opcodes = matrix_instructions(ptx)
    if not opcodes:
        return IMAGES
    certificate, unit = certificate_for(device, architecture), unit_of(architecture)
    known = {each.opcode: each.images for each in certificate.instructions if each.results >= LEAST_RESULTS}
    if missing := sorted(opcodes - known.keys()):
        raise ReproError(f"{path_of(device)}: expected {LEAST_RESULTS:,} results of {missing[0]}")
    # How classes add f8 does not follow from how they add f16.
    if certificate.unit.float8 != unit.float8 and any(map(_FLOAT8.search, opcodes)):
        raise ReproError(
            f"{device.name} adds f8 in the class {certificate.unit.float8}, the code for {architecture} in "
            f"{unit.float8}: expected code for the device's own architecture, or without tensor cores"
        )
    images = tuple(image for image in IMAGES if all(image in known[opcode] for opcode in opcodes))
    if not images:
        raise ReproError(f"{path_of(device)}: no form of code was compared of all of {', '.join(sorted(opcodes))}")
    return images
