# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes how many blocks of a kernel are resident on a multiprocessor."""

from __future__ import annotations

import struct

from repro_mlir.base.errors import ReproError
from repro_mlir.roofline.gpu.architecture import ARCHITECTURES, PARTS, REGISTER_UNIT, SHARED_UNIT, WARP
from repro_mlir.roofline.machines.accelerator import Accelerator

# The tag of those records in the cubin section .nv.info that contain a symbol and its register count.
_REGISTERS = b"\x04\x2f"


def blocks_per_multiprocessor(
    kernel: str, threads: int, registers: int, shared_bytes: int, machine: Accelerator
) -> int:
    """Returns the number of blocks of a kernel that are resident on a multiprocessor, by the rules of the CUDA
    Occupancy Calculator.

    Args:
      kernel: the kernel's name in error messages.
      threads, shared_bytes: the number of threads and the bytes of shared memory of a block.
      registers: the number of registers of a thread.
      machine: a machine with an architecture.
    Raises:
      ReproError: a single block does not fit.
    """
    assert machine.architecture is not None
    warps = -(-threads // WARP)
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    reserved = ARCHITECTURES[machine.architecture].shared_reserved
    shared = -(-(shared_bytes + reserved) // SHARED_UNIT) * SHARED_UNIT
    most = {
        "blocks": machine.blocks,
        "threads": machine.threads // (warps * WARP),
        "registers": machine.registers // PARTS // max(of_warp, 1) * PARTS // warps if of_warp else machine.blocks,
        "shared_bytes": int(machine.shared_bytes) // shared if shared else machine.blocks,
    }
    scarce = min(most, key=lambda name: most[name])
    if not most[scarce]:
        raise ReproError(
            f"a block of {kernel} with {threads} threads, {registers} registers for each and {shared_bytes} bytes of "
            f"shared memory is more than the {scarce} of {machine.name} allow"
        )
    return most[scarce]


def registers_of(cubin: bytes) -> dict[str, int]:
    """Returns the number of registers per thread of each kernel in a cubin of ptxas; empty if the format is unknown.

    The file is 64-bit ELF; the record is EIATTR_REGCOUNT, as `cuobjdump -elf` names it.
    """
    try:
        (offset,) = struct.unpack_from("<Q", cubin, 0x28)
        size, number, names = struct.unpack_from("<3H", cubin, 0x3A)
        headers = [struct.unpack_from("<2I4Q2I2Q", cubin, offset + size * each) for each in range(number)]
        text = headers[names]
        sections = {_name(cubin, text[4] + header[0]): header for header in headers}
        info, symbols = sections[".nv.info"], sections[".symtab"]
        strings = headers[symbols[6]]
        found = {}
        data = cubin[info[4] : info[4] + info[5]]
        at = 0
        while at < len(data):
            # A record has either a value of two bytes, or a length of two bytes and a value of that length.
            length = struct.unpack_from("<H", data, at + 2)[0] if data[at] == 4 else 0
            if data[at : at + 2] == _REGISTERS:
                symbol, registers = struct.unpack_from("<2I", data, at + 4)
                (name,) = struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)
                found[_name(cubin, strings[4] + name)] = registers
            at += 4 + length
        return found
    except (struct.error, IndexError, KeyError, OverflowError, ValueError):
        return {}


def _name(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
