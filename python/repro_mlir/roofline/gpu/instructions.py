# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Estimates the machine code of a PTX instruction: issued instructions, busy units and latency."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from repro_mlir.roofline.gpu.architecture import LATENCIES
from repro_mlir.roofline.gpu.ptx import Instruction

_WIDE = {"b64", "s64", "u64", "f64"}
_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f32x2"}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_ELEMENTS = {"s8": "int8", "u8": "int8", "e4m3": "f8", "e5m2": "f8", "bf16": "f16"}


@dataclass(frozen=True)
class Cost:
    """The cost of a warp instruction; the emulator counts the transfers of memory accesses.

    Attributes:
      kind: the type under which the instruction is counted, such as "f32 fma" or "shared load".
      issued: the number of machine instructions.
      units: instructions by unit; for matrix units, operations by format, such as "matrix f16".
      latency: cycles until the result is available, excluding global-memory latency.
    """

    kind: str
    issued: float = 1
    units: dict[str, float] = field(default_factory=dict)
    latency: float = LATENCIES["integer"]


def _chain(kind: str, others: float, **units: float) -> Cost:
    """Returns the cost of a chain of dependent instructions, of which `others` use no modelled unit."""
    latency = sum(LATENCIES[unit] * number for unit, number in units.items())
    return Cost(kind, others + sum(units.values()), units, latency)


_SEQUENCES = {
    "div.rn.f32": _chain("special", 1, special=2, f32=5),
    "rcp.rn.f32": _chain("special", 1, special=1, f32=3, integer=3),
    "sqrt.rn.f32": _chain("special", 2, special=1, f32=4, integer=2),
    "div.rn.f64": _chain("f64", 2, special=1, f64=8, f32=1, integer=2),
    "rcp.rn.f64": _chain("f64", 2, special=1, f64=6, integer=2),
    "sqrt.rn.f64": _chain("f64", 2, special=1, f64=9, integer=3),
}
"""The costs of PTX instructions that ptxas expands, from machine code of ptxas 13.0 for sm_90: the instructions on the
path of normal numbers."""

# The number of machine instructions of a 64-bit integer operation, from machine code of ptxas 13.0 for sm_90;
# operations that are not listed have two.
_LONG = {
    "mul.lo": 4,
    "mad.lo": 4,
    "mul.hi": 7,
    "mad.hi": 8,
    "min": 4,
    "max": 4,
    "bfe": 3,
    "clz": 5,
    "div": 70,
    "rem": 70,
}
_SHORT = {"bfe": 2, "div": 22, "rem": 18}
_SPECIAL = {"ex2", "lg2", "sin", "cos", "rsqrt", "rcp", "sqrt", "tanh", "popc", "clz", "bfind", "div"}
_MEMORY = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}


def cost_of(instruction: Instruction) -> Cost:
    """Returns the cost of an instruction."""
    name = instruction.name
    if name == "mov":
        # Reads of special registers, such as the thread index, cost an instruction; other moves only rename
        # registers.
        is_read = bool(re.search(r"%(?!r|p|f|rd|fd|rs)[a-z]+", instruction.operands))
        return Cost("other", 1 if is_read else 0, latency=LATENCIES["special"] if is_read else 0)
    return _cost(instruction.opcode)


@cache
def _cost(opcode: str) -> Cost:
    parts = opcode.split(".")
    name, types = parts[0], set(parts[1:])
    if opcode in _SEQUENCES:
        return _SEQUENCES[opcode]
    if name == "mma":
        return _matrix(opcode, parts)
    if name in _MEMORY or name in ("ldmatrix", "stmatrix", "cp"):
        return _access(name, types)
    if name in ("bar", "barrier"):
        return Cost("barrier", latency=LATENCIES["barrier"])
    if name in ("bra", "brx", "ret", "exit", "trap", "membar", "fence", "call", "prefetch"):
        return Cost("control")
    if name == "shfl":
        return Cost("shuffle", 1, {"load_store": 1}, LATENCIES["shuffle"])
    if name == "cvta":
        return Cost("other", 0, latency=0)
    if name == "cvt":
        return _conversion(parts)
    if "pred" in types:
        return _chain("integer", 0, integer=1)
    return _arithmetic(name, parts, types)


def _arithmetic(name: str, parts: list[str], types: set[str]) -> Cost:
    is_float = bool(types & _FLOATS)
    if name in _SPECIAL and (is_float or "approx" in types or name in ("popc", "bfind")):
        return _chain("special", 0, special=1)
    if "f64" in types and name != "selp":
        extra = {"integer": 3.0} if name in ("min", "max") else {}
        return _chain("f64", 0, f64=1, **extra)
    if is_float and name in ("add", "sub", "mul", "fma", "mad"):
        pair = 2 if "f32x2" in types else 1
        kind = "f32 " + {"sub": "add", "mad": "fma"}.get(name, name)
        return Cost(kind, 1, {"f32": pair}, LATENCIES["f32"])
    is_wide = bool(types & _WIDE)
    key = f"{name}.{parts[1]}" if len(parts) > 1 and parts[1] in ("lo", "hi", "wide") else name
    number: float = 1
    if not is_float:
        number = _LONG.get(key, 1 if key.endswith("wide") else 2) if is_wide else _SHORT.get(key, 1)
    # The instructions on the two halves of a 64-bit number are partly independent, so at most three latencies add up.
    return Cost("integer", number, {"integer": number}, LATENCIES["integer"] * min(number, 3))


def _conversion(parts: list[str]) -> Cost:
    to, come = parts[-2], parts[-1]
    if not {to, come} & (_FLOATS | {"f64"}):
        # Between integers, a conversion reinterprets registers or extends the sign.
        return Cost("other", 0, latency=0) if "s" not in to + come else _chain("integer", 0, integer=1)
    unit = "wide_conversion" if {to, come} & _WIDE else "conversion"
    if come in ("bf16", "f16") and to == "f32":
        return _chain("conversion", 0, integer=1)
    return _chain("conversion", 0, **{unit: 1.0})


def _access(name: str, types: set[str]) -> Cost:
    if "param" in types or "const" in types:
        return Cost("other", 1, latency=LATENCIES["integer"])
    kind = _MEMORY.get(name, "load")
    if "shared" in types or name in ("ldmatrix", "stmatrix"):
        return Cost(f"shared {kind}", latency=LATENCIES["shared"])
    if "local" in types:
        return Cost(f"local {kind}", 1, {"load_store": 1}, LATENCIES["l1"])
    return Cost(f"global {kind}", latency=0)


def _matrix(opcode: str, parts: list[str]) -> Cost:
    shape = _SHAPE.search(opcode)
    m, n, k = (int(each) for each in shape.groups()) if shape else (16, 8, 16)
    # The four type suffixes are those of the result, both factors and the addend.
    element = _ELEMENTS.get(parts[-3], parts[-3])
    units = {f"matrix {element}": 2.0 * m * n * k}
    return Cost(f"matrix {element} m{m}n{n}k{k}", 1, units, LATENCIES["matrix"])
