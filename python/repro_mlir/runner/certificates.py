# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Certificates, each in a file, which state that a device's matrix instructions return the results of an accumulator
class (M3).

Matrix instructions on floats run only on certified devices (docs/guides/gpu.md), because no manual specifies how they
add.
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
from repro_mlir.base.files.storage import make_folder, write_file
from repro_mlir.base.printing import foreign
from repro_mlir.runner.device import Device
from repro_mlir.runner.manifest import parse_json

TENSOR_CORES = "+tensor-cores"
"""The suffix of an architecture for code with matrix instructions on floats."""

VARIABLE = "REPRO_CERTIFICATES"
"""The environment variable with the path of the folder of certificates."""

FORMAT = 2

LEAST_RESULTS = 1 << 20
"""The minimum number of compared results per instruction of a certificate."""

_MATRIX = re.compile(r"\b(?:mma|wmma|wgmma|tcgen05)\b[\w.:]*")
"""Matches the opcodes of matrix instructions. A match ends before a blank or comment within an opcode; no certificate
lists such a match."""
_FLOAT8 = re.compile(r"\.e[45]m[32]\b")
_EXACT = tuple(f".s32.{left}8.{right}8.s32" for left in "su" for right in "su")
"""Suffixes of the opcodes that multiply bytes as integers, whose sums are exact on every device."""
_LARGEST = 1 << 16
_MOST = (1 << 53) - 1

IMAGES = "cubin", "PTX"
"""The types of images that a device loads."""


@dataclass(frozen=True)
class Unit:
    """(M3) An accumulator class of tensor cores.

    Attributes:
      terms, fraction: the parameters `terms` and `fraction` of the class's accumulation rule for f16 and bf16 products
        and f32 sums.
      float8: the class for `mma.sync` of f8; None if it is unknown.
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
"""The accumulator class that the code for each architecture uses."""


@dataclass(frozen=True)
class ComparedInstruction:
    """The comparison of one instruction's results with those of the class, as a certificate records it.

    Attributes:
      images: which of "cubin" and "PTX" were loaded and compared.
      results: the number of results that were compared for each image.
      vectors: the BLAKE3 digest of the operands.
      outcome: the BLAKE3 digest of the results, with canonical NaNs (V4).
    """

    opcode: str
    images: tuple[str, ...]
    results: int
    vectors: str
    outcome: str


@dataclass(frozen=True)
class Certificate:
    """The certificate of a device whose matrix instructions returned the bits of a class.

    Attributes:
      device: the name of the GPU model.
      driver: the driver's identity, see `Driver.identity`.
      unit: the accumulator class.
      instructions: the instructions whose results were compared.
    """

    device: str
    driver: str
    unit: Unit
    instructions: tuple[ComparedInstruction, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns the contents of the certificate's file."""
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
    """Returns the name of an architecture without the suffix TENSOR_CORES, such as "sm_90"."""
    return architecture.removesuffix(TENSOR_CORES)


def unit_of(architecture: str) -> Unit:
    """Returns the accumulator class of tensor cores for an architecture, with or without TENSOR_CORES in its name.
    Raises ReproError if the class is unknown."""
    name = without_tensor_cores(architecture)
    if name not in UNITS:
        raise ReproError(f"no class of matrix units is known for {name}")
    return UNITS[name]


def directory() -> Path:
    """Returns the folder of the certificates: that of the environment variable REPRO_CERTIFICATES, or by default one in
    the user's data directory."""
    if path := os.environ.get(VARIABLE):
        return Path(path)
    base = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "share") / "repro-mlir" / "certificates"
    except RuntimeError:
        raise ReproError(f"this user has no home folder: set {VARIABLE} to a folder for certificates") from None


def path_of(device: Device) -> Path:
    """Returns the path at which the certificate for this device's model and driver is stored."""
    return directory() / (re.sub(r"[^A-Za-z0-9.]+", "-", f"{device.name} {device.driver.identity()}") + ".json")


def read_certificate(path: str | Path) -> Certificate:
    """Reads a certificate. Raises ReproError if the file is not a certificate."""
    value = parse_json(read_regular(path, _LARGEST, follow=True), str(path))
    # The format is checked before the structure, because another format may have another structure.
    found = value.get("format") if isinstance(value, dict) else None
    if type(found) is int and 0 < found <= _MOST and found != FORMAT:
        raise ReproError(f"{path}: expected a certificate of format {FORMAT}, got {found}")
    _SHAPE(value, str(path))
    instructions = tuple(
        ComparedInstruction(**each | {"images": tuple(each["images"])}) for each in value["instructions"]
    )
    unit = Unit(**value["unit"])
    if unit not in UNITS.values():
        raise ReproError(f"{path}: expected a class of matrix units that is known, got {foreign(unit.name)}")
    return Certificate(value["device"], value["driver"], unit, instructions)


def write_certificate(certificate: Certificate, path: str | Path) -> None:
    """Writes a certificate, and creates its folder if needed. Raises ReproError if the file cannot be written."""
    make_folder(Path(path).parent)
    write_file(path, (json.dumps(certificate.as_json(), indent=1) + "\n").encode())


def withdraw_certificate(device: Device) -> None:
    """Removes the certificate for this device's model and driver. Raises ReproError if it cannot be removed."""
    path = path_of(device)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ReproError(f"cannot remove {path}: {error.strerror}") from None


def certificate_for(device: Device, architecture: str) -> Certificate:
    """Returns the certificate that allows a device to run code with tensor cores for an architecture.

    Raises:
      ReproError: there is no certificate, or the accumulator class of the device is not that of the code.
    """
    path, wanted = path_of(device), f"{device.name} with driver {device.driver.identity()}"
    if not path.is_file():
        raise ReproError(f"{path} is missing: tensor cores need a certificate of {wanted}: run repro certify-device")
    found = read_certificate(path)
    if (found.device, found.driver) != (device.name, device.driver.identity()):
        raise ReproError(
            f"{path}: expected a certificate of {wanted}, got one of "
            f"{foreign(found.device)} with {foreign(found.driver)}"
        )
    unit = unit_of(architecture)
    if (found.unit.terms, found.unit.fraction) != (unit.terms, unit.fraction):
        raise ReproError(
            f"{device.name} adds as the class {found.unit.name}, the code for {architecture} as {unit.name}: use code "
            "for the device's own architecture, or without tensor cores"
        )
    return found


def matrix_instructions(ptx: bytes) -> set[str]:
    """Returns the opcodes of the instructions in a PTX module that multiply matrices of floats. Opcodes in comments
    count too."""
    return {opcode for opcode in _MATRIX.findall(ptx.decode(errors="replace")) if not opcode.endswith(_EXACT)}


def certified_images(device: Device, architecture: str, ptx: bytes) -> tuple[str, ...]:
    """Returns which of the cubin and the PTX a device may load: those that its certificate covers, or both if the code
    has no matrix instructions on floats.

    Raises:
      ReproError: the device has no certificate for a matrix instruction of the code.
    """
    opcodes = matrix_instructions(ptx)
    if not opcodes:
        return IMAGES
    certificate, unit = certificate_for(device, architecture), unit_of(architecture)
    known = {each.opcode: each.images for each in certificate.instructions if each.results >= LEAST_RESULTS}
    if missing := sorted(opcodes - known.keys()):
        raise ReproError(f"{path_of(device)}: expected {LEAST_RESULTS:,} results of {missing[0]}")
    # The class for f8 is compared too, because classes with equal additions of f16 products may add f8 products
    # differently.
    if certificate.unit.float8 != unit.float8 and any(map(_FLOAT8.search, opcodes)):
        raise ReproError(
            f"{device.name} adds f8 as the class {certificate.unit.float8}, the code for {architecture} as "
            f"{unit.float8}: use code for the device's own architecture, or without tensor cores"
        )
    images = tuple(image for image in IMAGES if all(image in known[opcode] for opcode in opcodes))
    if not images:
        raise ReproError(f"{path_of(device)}: neither PTX nor cubin covers all of {', '.join(sorted(opcodes))}")
    return images
