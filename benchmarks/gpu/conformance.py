# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests each PTX operation on many bit patterns. The GPU computes checksums of the results, and C code computes the
expected checksums.

The operands of pattern number i (u32) are computed from i. The hash function lowbias32 of Hash Prospector (`mix`) gives
32 bits per word. The kind of the pattern, also computed from i, determines whether these bits are used as they are, or
turned into numbers of similar magnitude, subnormals, values with few bits set, and so on. Thread t processes each
pattern whose number is t modulo the number of threads. It returns the sum, modulo 2^64, of the hashes of its results.
This sum does not depend on the order of the results.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from operations import C_TYPES, OPERATIONS, Operation
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.runner.certificates import matrix_instructions
from repro_mlir.runner.plan import Kernel, Launch, Plan, write_plan

BLOCK = 256
_WIDTHS = {"f32": 32, "s32": 32, "u32": 32, "b16": 16, "f64": 64, "s64": 64, "u64": 64}

_C_HEAD = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>

static uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}
static uint32_t word(uint32_t i, uint32_t j) { return mix(i ^ (j + 1) * 0x9e3779b9u); }
static uint32_t pattern_f32(uint32_t i, uint32_t j) {
  uint32_t h = word(i, j), kind = word(i, 99) & 7;
  if (kind == 4) return (h & 0x807fffffu) | (119 + (h >> 23 & 15)) << 23;
  if (kind == 5) return (h & 0x807fffffu) | (96 + (h >> 23 & 127)) << 23;
  if (kind == 6) return h & 0x80ffffffu;
  return kind == 7 ? h & 0xffc00001u : h;
}
static uint64_t pattern_f64(uint32_t i, uint32_t j) {
  uint32_t h = word(i, j), l = word(i, j + 16), kind = word(i, 99) & 7;
  if (kind == 4) h = (h & 0x800fffffu) | (1015 + (h >> 20 & 15)) << 20;
  if (kind == 5) h = (h & 0x800fffffu) | (767 + (h >> 20 & 511)) << 20;
  if (kind == 6) h &= 0x801fffffu;
  if (kind == 7) h &= 0xfff80000u, l &= 1;
  return (uint64_t)h << 32 | l;
}
static uint32_t pattern_32(uint32_t i, uint32_t j) {
  uint32_t h = word(i, j), kind = word(i, 99) & 7;
  if (kind == 6) return (uint32_t)((int32_t)h >> 24);
  return kind == 7 ? h & 0xc0000003u : kind == 5 ? h & 63 : h;
}
static uint64_t pattern_64(uint32_t i, uint32_t j) {
  uint32_t h = word(i, j), l = word(i, j + 16), kind = word(i, 99) & 7;
  if (kind == 6) h = (uint32_t)((int32_t)l >> 31);
  if (kind == 7) h &= 0xc0000000u, l &= 3;
  if (kind == 5) h = 0, l &= 63;
  return (uint64_t)h << 32 | l;
}
static uint16_t pattern_16(uint32_t i, uint32_t j) { return (uint16_t)word(i, j); }
static float as_float(uint32_t b) { float f; memcpy(&f, &b, 4); return f; }
static double as_double(uint64_t b) { double f; memcpy(&f, &b, 8); return f; }
static uint64_t bits_f32(float f) { uint32_t b; memcpy(&b, &f, 4); return f != f ? 0x7fc00000u : b; }
static uint64_t bits_f64(double f) { uint64_t b; memcpy(&b, &f, 8); return f != f ? 0x7ff8000000000000ull : b; }
static int leading_zeros(uint64_t x, int bits) { return x ? __builtin_clzll(x) - (64 - bits) : bits; }
static int32_t to_s32(double x) { return x != x ? 0 : x >= 0x1p31 ? INT32_MAX : x < -0x1p31 ? INT32_MIN : (int32_t)x; }
static uint32_t to_u32(double x) { return !(x > 0) ? 0 : x >= 0x1p32 ? UINT32_MAX : (uint32_t)x; }
static int64_t to_s64(double x) { return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x; }
static uint64_t to_u64(double x) { return !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x; }
static uint64_t reversed(uint64_t x) {
  uint64_t y = 0;
  for (int i = 0; i < 64; ++i) y |= (x >> i & 1) << (63 - i);
  return y;
}
static uint64_t field(uint64_t x, unsigned position, unsigned length) {
  x = position < 64 ? x >> position : 0;
  return length < 64 ? x & ((1ull << length) - 1) : x;
}
/* Likewise, but beyond the field and the width is its sign. */
static uint64_t signed_field(uint64_t x, unsigned bits, unsigned position, unsigned length) {
  if (length == 0) return 0;
  unsigned last = position + length - 1 < bits ? position + length - 1 : bits - 1;
  uint64_t sign = x >> last & 1, y = 0;
  for (unsigned i = 0; i < bits; ++i)
    y |= (i < length && position + i < bits ? x >> (position + i) & 1 : sign) << i;
  return y;
}
/* Four of the bytes of two words, or of the signs of bytes. */
static uint32_t permuted(uint32_t a, uint32_t b, uint32_t selectors) {
  uint32_t y = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned selector = selectors >> 4 * i & 15;
    uint32_t byte = ((uint64_t)b << 32 | a) >> 8 * (selector & 7) & 255;
    y |= (selector & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return y;
}
/* To nearest even from f32, by integers; NaN becomes the canonical one. */
static uint16_t to_bfloat(float f) {
  uint32_t b; memcpy(&b, &f, 4);
  return f != f ? 0x7fc0 : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static uint16_t to_half(double f) {
  uint16_t sign = signbit(f) ? 0x8000 : 0;
  double x = fabs(f);
  if (f != f) return 0x7e00;
  if (x >= 65520) return sign | 0x7c00;
  int exponent;
  frexp(x, &exponent);
  int unit = (x == 0 || exponent - 1 < -14 ? -14 : exponent - 1) - 10;
  double scaled = rint(ldexp(x, -unit)); /* exact but for rint */
  return sign | (uint16_t)(((unsigned)(unit + 24) << 10) + (unsigned)scaled);
}
static float from_half(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double x = exponent == 31 ? (fraction ? NAN : INFINITY)
                            : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
  return (float)(h >> 15 ? -x : x);
}
static uint64_t checksum(uint64_t bits, uint32_t i) {
  uint32_t s = mix((uint32_t)bits + mix(i));
  return mix((uint32_t)(bits >> 32) + s);
}
"""


def _c_function(number: int, operation: Operation) -> str:
    lines = [f"/* {operation.name} */"]
    lines += [f"void sums_{number}(uint32_t first, uint32_t threads, uint32_t steps, uint64_t *sums) {{"]
    lines += ["  for (uint32_t k = 0; k < steps; ++k)", "    for (uint32_t t = 0; t < threads; ++t) {"]
    lines += ["      uint32_t i = first + k * threads + t;"]
    for j, t in enumerate(operation.operands):
        width = _WIDTHS[t]
        pattern = f"pattern_{t if t[0] == 'f' else width}(i, {j})"
        if t[0] == "f":
            pattern = f"as_{C_TYPES[t]}({pattern})"
        lines.append(f"      {C_TYPES[t]} {'abc'[j]} = ({C_TYPES[t]}){pattern};")
    result = operation.result
    bits = f"bits_{result}(r)" if result[0] == "f" else f"(uint{_WIDTHS[result]}_t)r"
    lines += [f"      {C_TYPES[result]} r = ({C_TYPES[result]})({operation.c});"]
    lines += [f"      sums[t] += checksum({bits}, i);", "    }", "}"]
    return "\n".join(lines)


def expected_sums(operations: Sequence[Operation], threads: int, steps: int) -> dict[str, np.ndarray]:
    """Returns the expected sums of each operation, u64 [threads], keyed by the operation's name. C code, compiled with
    the system's compiler, computes the sums.

    Raises:
      RuntimeError: there is no C compiler, or it fails.
    """
    with tempfile.TemporaryDirectory(prefix="repro-conformance-") as folder:
        source, library = Path(folder) / "sums.c", Path(folder) / "sums.so"
        source.write_text(_C_HEAD + "\n".join(_c_function(n, o) for n, o in enumerate(operations)) + "\n")
        command = ["cc", "-O2", "-march=native", "-ffp-contract=off", "-fwrapv", "-w", "-shared", "-fPIC"]
        run = subprocess.run([*command, str(source), "-o", str(library), "-lm"], capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(f"cc failed: {run.stderr[:2000]}")
        loaded = ctypes.CDLL(str(library))
        found = {}
        for number, operation in enumerate(operations):
            sums = np.zeros(threads, np.uint64)
            loaded[f"sums_{number}"](
                ctypes.c_uint32(0), ctypes.c_uint32(threads), ctypes.c_uint32(steps), ctypes.c_void_p(sums.ctypes.data)
            )
            found[operation.name] = sums
        return found


def kernel_name(operation: Operation) -> str:
    """Returns the name of an operation's kernel."""
    return "op_" + re.sub(r"\W", "_", operation.name)


def ptx_module(operations: Sequence[Operation], threads: int, steps: int, architecture: int) -> str:
    """Returns a PTX module with a kernel for each operation. The parameters of a kernel are the addresses of u64
    sums[threads] and of an error word."""
    version = "6.4" if architecture < 80 else "7.8"
    head = f".version {version}\n.target sm_{architecture}\n.address_size 64\n"
    return head + "".join(_ptx_kernel(operation, threads, steps) for operation in operations)


def _mix(x: str) -> list[str]:
    """Returns PTX that applies the hash `mix` to the register `x` in place, and overwrites %h0."""
    lines = []
    for shift, factor in ((16, "0x7feb352d"), (15, "0x846ca68b"), (16, None)):
        lines += [f"shr.u32 %h0, {x}, {shift};", f"xor.b32 {x}, {x}, %h0;"]
        if factor:
            lines.append(f"mul.lo.u32 {x}, {x}, {factor};")
    return lines


def _word(to: str, j: int) -> list[str]:
    return [f"xor.b32 {to}, %i, {hex((j + 1) * 0x9E3779B9 & 0xFFFFFFFF)};", *_mix(to)]


def _choose(to: str, kind: int, value: str) -> str:
    return f"selp.b32 {to}, {value}, {to}, %k{kind};"


def _exponent(source: str, bits: int, base: int, mask: int, keep: str) -> list[str]:
    """Returns PTX that sets %h1 to the bits of `source` that `keep` selects, with a new exponent: `base` plus the bits
    of the old exponent that `mask` selects. The exponent field begins above the low `bits` bits."""
    return [
        f"shr.u32 %h1, {source}, {bits};",
        f"and.b32 %h1, %h1, {mask};",
        f"add.u32 %h1, %h1, {base};",
        f"shl.b32 %h1, %h1, {bits};",
        f"and.b32 %h2, {source}, {keep};",
        "or.b32 %h1, %h1, %h2;",
    ]


def _operand(t: str, j: int) -> list[str]:
    """Returns PTX that sets the register %{t}_{j} to operand number `j` of pattern %i; `t` is the operand's type. The
    predicates %k4 to %k7 say which kind the pattern has."""
    lines = _word("%x", j)
    if t == "b16":
        return [*lines, f"cvt.u16.u32 %b16_{j}, %x;"]
    if t == "f32":
        lines += [*_exponent("%x", 23, 119, 15, "0x807fffff"), "mov.b32 %y, %x;", _choose("%y", 4, "%h1")]
        lines += [*_exponent("%x", 23, 96, 127, "0x807fffff"), _choose("%y", 5, "%h1")]
        lines += ["and.b32 %h1, %x, 0x80ffffff;", _choose("%y", 6, "%h1")]
        lines += ["and.b32 %h1, %x, 0xffc00001;", _choose("%y", 7, "%h1")]
        return [*lines, f"mov.b32 %f32_{j}, %y;"]
    if _WIDTHS[t] == 32:
        lines += ["mov.b32 %y, %x;", "and.b32 %h1, %x, 63;", _choose("%y", 5, "%h1")]
        lines += ["shr.s32 %h1, %x, 24;", _choose("%y", 6, "%h1")]
        lines += ["and.b32 %h1, %x, 0xc0000003;", _choose("%y", 7, "%h1")]
        return [*lines, f"mov.b32 %{t}_{j}, %y;"]
    lines += [*_word("%l", j + 16), "mov.b32 %y, %x;"]
    if t == "f64":
        lines += [*_exponent("%x", 20, 1015, 15, "0x800fffff"), _choose("%y", 4, "%h1")]
        lines += [*_exponent("%x", 20, 767, 511, "0x800fffff"), _choose("%y", 5, "%h1")]
        lines += ["and.b32 %h1, %x, 0x801fffff;", _choose("%y", 6, "%h1")]
        lines += ["and.b32 %h1, %x, 0xfff80000;", _choose("%y", 7, "%h1")]
        lines += ["and.b32 %h1, %l, 1;", _choose("%l", 7, "%h1")]
    else:
        lines += ["shr.s32 %h1, %l, 31;", _choose("%y", 6, "%h1"), _choose("%y", 5, "0")]
        lines += ["and.b32 %h1, %x, 0xc0000000;", _choose("%y", 7, "%h1")]
        lines += ["and.b32 %h1, %l, 3;", _choose("%l", 7, "%h1"), "and.b32 %h1, %l, 63;", _choose("%l", 5, "%h1")]
    return [*lines, f"mov.b64 %{t}_{j}, {{%l, %y}};"]


def _result(t: str) -> list[str]:
    """Returns PTX that sets %x and %l to the low and the high half of the result's bits, from the register %{t}_9. A
    NaN becomes the canonical NaN."""
    if t == "f32":
        lines = ["mov.b32 %x, %f32_9;", "setp.nan.f32 %p, %f32_9, %f32_9;"]
        return [*lines, "selp.b32 %x, 0x7fc00000, %x, %p;", "mov.u32 %l, 0;"]
    if t == "f64":
        lines = ["mov.b64 {%x, %l}, %f64_9;", "setp.nan.f64 %p, %f64_9, %f64_9;"]
        return [*lines, "selp.b32 %x, 0, %x, %p;", "selp.b32 %l, 0x7ff80000, %l, %p;"]
    if t == "b16":
        return ["cvt.u32.u16 %x, %b16_9;", "mov.u32 %l, 0;"]
    if _WIDTHS[t] == 32:
        return [f"mov.b32 %x, %{t}_9;", "mov.u32 %l, 0;"]
    return [f"mov.b64 {{%x, %l}}, %{t}_9;"]


def _ptx_kernel(operation: Operation, threads: int, steps: int) -> str:
    registers = {name: f"%{t}_{j}" for j, (name, t) in enumerate(zip("abc", operation.operands, strict=False))}
    body = ["xor.b32 %x, %i, " + hex(100 * 0x9E3779B9 & 0xFFFFFFFF) + ";", *_mix("%x"), "and.b32 %x, %x, 7;"]
    body += [f"setp.eq.u32 %k{kind}, %x, {kind};" for kind in (4, 5, 6, 7)]
    for j, t in enumerate(operation.operands):
        body += _operand(t, j)
    body += [operation.ptx.format(d=f"%{operation.result}_9", p="%p", q="%q", **registers)]
    if operation.name.startswith("cvt.rn.") and operation.result == "b16":
        # f16 and bf16 values are in b16 registers, so NaNs are recognized by their bits. They become 0x7e00 or 0x7fc0.
        infinity, nan = ("0x7c00", "0x7e00") if "f16" in operation.name.split(".") else ("0x7f80", "0x7fc0")
        body += ["and.b16 %b16_8, %b16_9, 0x7fff;", f"setp.gt.u16 %p, %b16_8, {infinity};"]
        body += [f"selp.b16 %b16_9, {nan}, %b16_9, %p;"]
    body += _result(operation.result)
    body += ["mov.b32 %y, %i;", *_mix("%y"), "add.u32 %x, %x, %y;", *_mix("%x")]
    body += ["add.u32 %x, %x, %l;", *_mix("%x"), "cvt.u64.u32 %d, %x;", "add.u64 %sum, %sum, %d;"]
    name = kernel_name(operation)
    text = "\n".join(f"  {line}" for line in body)
    return f"""
.visible .entry {name}(.param .u64 {name}_sums, .param .u64 {name}_error)
{{
  .reg .pred %p, %q, %k<8>, %more;
  .reg .b16 %b16_<10>;
  .reg .b32 %i, %t, %n, %x, %y, %l, %h<3>, %s32_<10>, %u32_<10>;
  .reg .f32 %f32_<10>;
  .reg .f64 %f64_<10>;
  .reg .b64 %sums, %sum, %d, %cell, %s64_<10>, %u64_<10>;
  .shared .align 8 .b8 {name}_cells[{8 * BLOCK}];
  mov.u32 %t, %ctaid.x;
  mov.u32 %x, %tid.x;
  mov.u64 %cell, {name}_cells;
  mad.wide.u32 %cell, %x, 8, %cell;
  mad.lo.u32 %t, %t, {BLOCK}, %x;
  mov.u32 %i, %t;
  mov.u32 %n, 0;
  mov.u64 %sum, 0;
$next:
{text}
  add.u32 %i, %i, {threads};
  add.u32 %n, %n, 1;
  setp.lt.u32 %more, %n, {steps};
  @%more bra $next;
  ld.param.u64 %sums, [{name}_sums];
  cvta.to.global.u64 %sums, %sums;
  mul.wide.u32 %d, %t, 8;
  add.u64 %sums, %sums, %d;
  st.global.u64 [%sums], %sum;
  ret;
}}
"""


def launch_plan(operations: Sequence[Operation], threads: int) -> bytes:
    """Returns a launch plan (docs/reference/plan.md) that launches the kernel of each operation once and outputs its
    sums."""
    grid = (threads // BLOCK, 1, 1)
    plan = Plan(
        processor="gpu",
        arena_size=0,
        constant_size=0,
        states=(),
        inputs=(),
        outputs=tuple(TensorType(operation.name, "i64", (threads,)) for operation in operations),
        messages=(),
        kernels=tuple(Kernel(kernel_name(operation), block=(BLOCK, 1, 1)) for operation in operations),
        launches=tuple(Launch(n, False, (("output", n, 0),), grid) for n in range(len(operations))),
    )
    return write_plan(plan)


# Opcodes that move data or transfer control. They need no test of their own: an error in one would make almost every
# result wrong. ptxas may replace stores of fewer bits than a float has; operations.py tests these stores.
_MOVES = {"atom", "bar", "barrier", "bra", "cvta", "ld", "mov", "ret", "selp", "shfl", "st", "cp", "red", "membar"}


def uncovered(ptx: str) -> set[str]:
    """Returns the instructions of a PTX module that neither an operation of operations.py nor another test covers."""
    # The tests of `setp` on unsigned numbers also cover `setp` on bit patterns. The tests of `and`, `or`, `xor` and
    # `not` on bits also cover these operations on predicates.
    covered = {operation.name for operation in OPERATIONS}
    covered |= {name.replace(".u", ".b") for name in covered if name.startswith("setp")}
    covered |= {f"{name}.pred" for name in ("and", "or", "xor", "not")}
    covered |= matrix_instructions(ptx.encode())  # run_tensor_cores.py tests these
    found = set(re.findall(r"^\s+(?:@!?%\w+\s+)?([a-z][a-z0-9]*(?:\.[A-Za-z0-9_:]+)+)\s", ptx, re.MULTILINE))
    # mma.sync on bytes is exact. The tests of contractions in blocks and of exact contractions compare all of its sums.
    covered |= {name for name in found if name.startswith("mma.sync.") and name.endswith("8.s32")}
    return {name for name in found if name.split(".")[0] not in _MOVES} - covered


def fold(sums: np.ndarray, parts: int) -> np.ndarray:
    """Returns `parts` sums, each over a group of threads: few enough to store, but enough to locate a difference."""
    return sums.reshape(-1, parts).sum(0, dtype=np.uint64)


def prepare(folder: Path, threads: int, steps: int, assemble: object) -> None:
    """Writes the modules, their plans and the expected sums for `threads` * `steps` patterns.

    Args:
      folder: the output folder; it must not exist.
      threads: a multiple of 256.
      steps: patterns per thread.
      assemble: a function that assembles PTX for an architecture and returns the cubin; None to write only PTX.
    """
    folder.mkdir(parents=True)
    parts = min(threads, 64)
    expected = {name: fold(sums, parts).tolist() for name, sums in expected_sums(OPERATIONS, threads, steps).items()}
    (folder / "expected.json").write_text(
        json.dumps({"threads": threads, "steps": steps, "parts": parts, "sums": expected})
    )
    for architecture in (75, 90):
        operations = [operation for operation in OPERATIONS if operation.architecture <= architecture]
        text = ptx_module(operations, threads, steps, architecture)
        (folder / f"sm_{architecture}.ptx").write_text(text)
        (folder / f"sm_{architecture}.plan").write_bytes(launch_plan(operations, threads))
        if callable(assemble):
            (folder / f"sm_{architecture}.cubin").write_bytes(assemble(text, f"sm_{architecture}"))
