# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds small PTX kernels and runs them. A kernel applies one instruction to arrays of operands, or has a given
text."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from repro_mlir.execute import emulator

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
BITS = {"pred": 8, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32x2": 64}
"""The number of bits that some types take in memory; the names of other types, such as u32, contain it. A predicate
takes a byte."""


def bits_of(type_name: str) -> int:
    """Returns the number of bits that a value of a PTX type has in memory."""
    return BITS.get(type_name) or int(type_name[1:])


def dtype_of(type_name: str) -> np.dtype:
    """Returns the unsigned NumPy type that stores the bit patterns of a PTX type."""
    return np.dtype(f"u{bits_of(type_name) // 8}")


def register(type_name: str) -> str:
    """Returns the PTX type of the register for values of `type_name`."""
    return "pred" if type_name == "pred" else f"b{max(bits_of(type_name), 16)}"


def entry(body: str, parameters: int, registers: str = "", name: str = "kernel") -> str:
    """Returns a PTX module with one kernel of the given body. The kernel has pointer parameters p0, p1, ... and
    declares the registers that the tests use."""
    declared = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    return f"""{HEADER}
.visible .entry {name}({declared})
{{
  .reg .pred %p<16>;
  .reg .b16 %rs<16>;
  .reg .b32 %r<32>;
  .reg .b64 %rd<32>;
  {registers}
{body}
  ret;
}}
"""


def load_addresses(count: int, sizes: Sequence[int]) -> str:
    """Returns PTX lines that set %r0 to the global thread number, and %rd0, %rd1, ... to the address of this thread's
    element in each of the `count` arrays."""
    lines = [
        "  mov.u32 %r1, %ctaid.x;",
        "  mov.u32 %r2, %ntid.x;",
        "  mov.u32 %r3, %tid.x;",
        "  mad.lo.s32 %r0, %r1, %r2, %r3;",
    ]
    for i in range(count):
        lines += [
            f"  ld.param.u64 %rd{i}, [p{i}];",
            f"  mad.wide.u32 %rd{i}, %r0, {sizes[i]}, %rd{i};",
        ]
    return "\n".join(lines)


def instruction_kernel(lines: str, results: Sequence[str], sources: Sequence[str]) -> str:
    """Returns a kernel that loads one element of each source into %s0, %s1, ..., runs `lines` and stores the results
    %d0, %d1, ...

    The kernel's parameters are the arrays of the results, followed by those of the sources.
    """
    types = [*results, *sources]
    body = [load_addresses(len(types), [bits_of(name) // 8 for name in types])]
    names = [*(f"%d{i}" for i in range(len(results))), *(f"%s{i}" for i in range(len(sources)))]
    registers = " ".join(f".reg .{register(kind)} {name};" for name, kind in zip(names, types, strict=True))
    for i, kind in enumerate(sources):
        address = f"[%rd{len(results) + i}]"
        if kind == "pred":
            body.append(f"  ld.global.u8 %rs1, {address};\n  setp.ne.b16 %s{i}, %rs1, 0;")
        else:
            body.append(f"  ld.global.b{bits_of(kind)} %s{i}, {address};")
    body.append(lines)
    for i, kind in enumerate(results):
        if kind == "pred":
            body.append(f"  selp.b16 %rs2, 1, 0, %d{i};\n  st.global.u8 [%rd{i}], %rs2;")
        else:
            body.append(f"  st.global.b{bits_of(kind)} [%rd{i}], %d{i};")
    return entry("\n".join(body), len(types), registers)


def run_instruction(
    lines: str, results: Sequence[str], arrays: Sequence[np.ndarray], sources: Sequence[str], level: str = ""
) -> list[np.ndarray]:
    """Runs `lines` on each row of the source arrays and returns an array of bit patterns for each result."""
    size = len(arrays[0])
    padded = -(-size // 32) * 32  # whole warps; the elements after `size` are dropped
    module = emulator.load(instruction_kernel(lines, results, sources), level=level)
    given = [np.resize(array, padded).astype(dtype_of(kind)) for array, kind in zip(arrays, sources, strict=True)]
    outputs = [np.zeros(padded, dtype_of(kind)) for kind in results]
    launch(module, [*outputs, *given], grid=(padded // 32, 1, 1))
    return [output[:size] for output in outputs]


def launch(
    module: emulator.Module,
    arrays: Sequence[np.ndarray],
    *,
    grid: Sequence[int] = (1, 1, 1),
    block: Sequence[int] = (32, 1, 1),
    shared_bytes: int = 0,
    **options: object,
) -> None:
    """Runs the kernel named "kernel" on `arrays`, which are its pointer parameters and are called a0, a1, ... in
    messages. The arrays are aligned like a GPU's buffers."""
    memory = emulator.Memory()
    buffers = [aligned(array) for array in arrays]
    addresses = [memory.add(buffer, f"a{i}") for i, buffer in enumerate(buffers)]
    parameters = struct.pack(f"<{len(addresses)}Q", *addresses)
    module.launch("kernel", grid, block, shared_bytes, parameters, memory, **options)  # type: ignore[arg-type]
    for array, buffer in zip(arrays, buffers, strict=True):
        array[...] = buffer


def aligned(array: np.ndarray) -> np.ndarray:
    """Returns a copy at an address that is a multiple of 256."""
    storage = np.zeros(array.nbytes + 256, np.uint8)
    start = -storage.ctypes.data % 256
    copy = storage[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
