# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro certify-device: compares a million results of each tensor core instruction with the accumulation rule of the
GPU's class."""

from __future__ import annotations

import argparse
import json
import sys

from repro_mlir.base.command_line import Status
from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command

_NOTES = """exit status:
  0  every result has the bits of the class: code with tensor cores runs on such devices with this driver
  1  results of some instructions differ: code with these instructions is refused
  2  no answer: no GPU, or the class of the GPU is not known
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro certify-device`."""
    command = add_command(
        commands,
        "certify-device",
        _certify_device,
        "compare the tensor cores of a GPU with their rules",
        "Compares the tensor cores of a GPU with the class of its architecture, and writes a certificate.",
    )
    command.epilog = _NOTES
    command.add_argument("--device", type=int, default=0, metavar="N", help="the number of the GPU (0)")
    command.add_argument("-o", "--output", metavar="FILE", help="also write the certificate to this file")


def _certify_device(options: argparse.Namespace) -> int:
    from repro_mlir.certification import certify
    from repro_mlir.runner.certificates import path_of, withdraw_certificate, write_certificate
    from repro_mlir.runner.device import Device

    device = Device(options.device)
    path = path_of(device)
    # The certificate of an earlier run becomes invalid now, even if this run fails.
    withdraw_certificate(device)
    try:
        certificate, differing = certify(device)
    finally:
        device.close()
    for line in differing:
        tell(f"repro: {line}", stream=sys.stderr)
    status = Status.WRONG if differing else Status.RIGHT
    if certificate.instructions:
        for each in filter(None, (path, options.output)):
            write_certificate(certificate, each)
    if options.json:
        tell(json.dumps({"certificate": certificate.as_json(), "differing": differing}))
        return status
    if not certificate.instructions:
        return status
    unit = certificate.unit
    tell(f"device   {certificate.device}, CUDA {certificate.driver}")
    tell(f"class    {unit.name}: blocks of {unit.terms}, {unit.fraction} bits of fraction")
    for instruction in certificate.instructions:
        tell(f"equal    {instruction.results:,} results of {instruction.opcode}, {' and '.join(instruction.images)}")
    tell(f"file     {path}")
    return status
