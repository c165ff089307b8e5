# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes kernels that measure the throughput of instructions (per cycle of a multiprocessor), the latency of
instructions, and bandwidths.

To measure throughput, 1,024 threads run 8 independent chains of instructions each; to measure latency, one warp runs
one chain. A kernel reads `%clock64` before and after its loop, between barriers. In both cases, the body of the loop
contains the template of a `Rate` CHAINS * DEPTH times.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.runner.plan import Kernel, Launch, Plan, write_plan

BLOCK = 1024
CHAINS = 8
DEPTH = 4
"""The number of links of each chain in one iteration when throughput is measured. The only chain of a latency
measurement has CHAINS * DEPTH links."""

ARENA = 1 << 30
MODES = ("throughput", "latency")


@dataclass(frozen=True)
class Rate:
    """One measurement.

    Attributes:
      name: the measured instruction, or a short sequence of instructions.
      ptx: one link of a chain of dependent instructions. {r}, {f}, {d} and {l} are the chain's registers (b32, f32, f64
        and b64); registers such as %fx have constant values.
      instructions: the number of measured instructions per link.
      iterations: the number of iterations of the loop.
      architecture: the first compute capability that supports the instructions, times 10.
    """

    name: str
    ptx: str
    instructions: int = 1
    iterations: int = 256
    architecture: int = 75


def _matrix(name: str, a: int, b: int, kind: str) -> Rate:
    """Returns the measurement of an mma instruction whose result is the accumulator of the next one. `a` and `b` are
    the numbers of registers of the factors."""
    left, right = (", ".join(["%rx", "%ry", "%rz", "%rw"][:count]) for count in (a, b))
    acc = ", ".join(f"{{{kind}{i}}}" for i in range(4))
    ptx = f"{name} {{{{{acc}}}}}, {{{{{left}}}}}, {{{{{right}}}}}, {{{{{acc}}}}};"
    return Rate(name, ptx, iterations=64, architecture=80)


RATES = [
    Rate("fma.rn.f32", "fma.rn.f32 {f}, {f}, %fx, %fy;"),
    Rate("add.rn.f32", "add.rn.f32 {f}, {f}, %fx;"),
    Rate("mul.rn.f32", "mul.rn.f32 {f}, {f}, %fx;"),
    Rate("min.f32", "min.f32 {f}, {f}, %fx;  max.f32 {f}, {f}, %fy;", 2),
    Rate("fma.rn.f64", "fma.rn.f64 {d}, {d}, %dx, %dy;"),
    Rate("add.rn.f64", "add.rn.f64 {d}, {d}, %dx;"),
    Rate("setp.lt.f64 and selp", "setp.lt.f64 %p, {d}, %dx;  selp.f64 {d}, %dy, {d}, %p;"),
    Rate("add.s32", "add.s32 {r}, {r}, %rx;  xor.b32 {r}, {r}, %ry;", 2),
    Rate("lop3.b32", "lop3.b32 {r}, {r}, %rx, %ry, 0xe8;  lop3.b32 {r}, {r}, %rz, %rw, 0xd4;", 2),
    Rate("shf.l.wrap.b32", "shf.l.wrap.b32 {r}, {r}, %rx, %ry;"),
    Rate("mad.lo.s32", "mad.lo.s32 {r}, {r}, %rx, %ry;"),
    Rate("mul.hi.u32", "mul.hi.u32 {r}, {r}, %rx;"),
    Rate("min.s32", "min.s32 {r}, {r}, %rx;  max.s32 {r}, {r}, %ry;", 2),
    Rate("setp.lt.s32 and selp", "setp.lt.s32 %p, {r}, %rx;  selp.b32 {r}, %ry, {r}, %p;"),
    Rate("prmt.b32", "prmt.b32 {r}, {r}, %rx, %ry;"),
    Rate("fma.rn.f32 and lop3.b32", "fma.rn.f32 {f}, {f}, %fx, %fy;  lop3.b32 {r}, {r}, %rx, %ry, 0xe8;", 2),
    Rate("mad.lo.s32 and lop3.b32", "mad.lo.s32 {r}, {r}, %rx, %ry;  lop3.b32 {r}, {r}, %rx, %ry, 0xe8;", 2),
    Rate("fma.rn.f32 and mad.lo.s32", "fma.rn.f32 {f}, {f}, %fx, %fy;  mad.lo.s32 {r}, {r}, %rx, %ry;", 2),
    Rate("add.s64", "add.s64 {l}, {l}, %lx;  xor.b64 {l}, {l}, %ly;", 2),
    Rate("mul.lo.s64", "mul.lo.s64 {l}, {l}, %lx;"),
    Rate("min.s64", "min.s64 {l}, {l}, %lx;  max.s64 {l}, {l}, %ly;", 2),
    Rate("shl.b64", "shl.b64 {l}, {l}, %rx;"),
    Rate("bfe.u32", "bfe.u32 {r}, {r}, %rx, %ry;"),
    Rate("clz.b32", "clz.b32 {r}, {r};"),
    Rate("popc.b32", "popc.b32 {r}, {r};"),
    Rate("brev.b32", "brev.b32 {r}, {r};"),
    Rate("div.u32", "div.u32 {r}, {r}, %rx;", iterations=32),
    Rate("rem.u32", "rem.u32 {r}, {r}, %rx;", iterations=32),
    Rate("div.u64", "div.u64 {l}, {l}, %lx;", iterations=8),
    Rate("cvt.rn.f32.s32", "cvt.rn.f32.s32 {f}, {r};  mov.b32 {r}, {f};"),
    Rate("cvt.rzi.s32.f32", "cvt.rzi.s32.f32 {r}, {f};  mov.b32 {f}, {r};"),
    Rate("cvt.rni.f32.f32", "cvt.rni.f32.f32 {f}, {f};  add.rn.f32 {f}, {f}, %fx;"),
    Rate("cvt.f64.f32 and cvt.rn.f32.f64", "cvt.f64.f32 {d}, {f};  cvt.rn.f32.f64 {f}, {d};", 2),
    Rate("cvt.rn.f64.s32 and cvt.rzi.s32.f64", "cvt.rn.f64.s32 {d}, {r};  cvt.rzi.s32.f64 {r}, {d};", 2),
    Rate("cvt.rn.f16.f32 and cvt.f32.f16", "cvt.rn.f16.f32 {h}, {f};  cvt.f32.f16 {f}, {h};", 2),
    Rate(
        "cvt.rn.bf16.f32",
        "cvt.rn.bf16.f32 {h}, {f};  mov.b32 {r}, {{{h}, {h}}};  mov.b32 {f}, {r};",
        architecture=80,
    ),
    Rate("ex2.approx.f32", "ex2.approx.ftz.f32 {f}, {f};"),
    Rate("rcp.approx.f32 and add", "rcp.approx.ftz.f32 {f}, {f};  add.rn.f32 {f}, {f}, %fx;"),
    Rate("rcp.rn.f32", "rcp.rn.f32 {f}, {f};", iterations=64),
    Rate("div.rn.f32", "div.rn.f32 {f}, {f}, %fx;", iterations=64),
    Rate("sqrt.rn.f32", "sqrt.rn.f32 {f}, {f};", iterations=64),
    Rate("rcp.rn.f64", "rcp.rn.f64 {d}, {d};", iterations=32),
    Rate("div.rn.f64", "div.rn.f64 {d}, {d}, %dx;", iterations=32),
    Rate("sqrt.rn.f64", "sqrt.rn.f64 {d}, {d};", iterations=32),
    Rate("shfl.sync.bfly.b32", "shfl.sync.bfly.b32 {r}, {r}, 1, 31, -1;"),
    Rate("bar.sync", "bar.sync 0;"),
    Rate("ld.shared.b32", "ld.volatile.shared.b32 {r}, [{r}];"),
    Rate("ld.shared.v4.b32", "ld.volatile.shared.v4.b32 {{{r}, %ra, %rb, %rc}}, [{r}];"),
    Rate("st.shared.b32", "st.volatile.shared.b32 [%rs], {r};"),
    Rate("st.shared.v4.b32", "st.volatile.shared.v4.b32 [%rs], {{{r}, {r}, {r}, {r}}};"),
    _matrix("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, "f"),
    _matrix("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, "f"),
    _matrix("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, "f"),
    _matrix("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, "f"),
    _matrix("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, "r"),
    _matrix("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 2, 1, "r"),
]


@dataclass(frozen=True)
class Chase:
    """Measures the latency of loads from pseudorandom addresses within the first `reach` bytes of the arena. Each
    address depends on the value that the previous load has returned; this value is always 0."""

    name: str
    ptx: str
    reach: int


CHASES = [
    Chase("load from L1", "ld.global.ca.b32", 1 << 14),
    Chase("load from L2", "ld.global.cg.b32", 1 << 24),
    Chase("load from memory", "ld.global.cg.b32", ARENA),
]


@dataclass(frozen=True)
class Stream:
    """Measures bandwidth: all multiprocessors read or write the first `reach` bytes of the arena `repeats` times, 16
    bytes per thread and access."""

    name: str
    reads: int
    writes: int
    reach: int
    repeats: int = 1


STREAMS = [
    Stream("write of memory", 0, 1, ARENA),
    Stream("read of memory", 1, 0, ARENA),
    Stream("copy in memory", 1, 1, ARENA),
    Stream("read of L2", 1, 0, 1 << 24, 32),
    Stream("copy in L2", 1, 1, 1 << 24, 32),
]
STREAM_BLOCKS = 8
"""The number of blocks of 256 threads per multiprocessor."""

EMPTY = 200
"""The number of consecutive launches of an empty kernel."""


def rates_of(architecture: str) -> list[Rate]:
    """Returns the entries of RATES that an architecture such as sm_90 supports."""
    return [rate for rate in RATES if rate.architecture <= _number(architecture)]


def _number(architecture: str) -> int:
    return int(architecture.removeprefix("sm_"))


def kernel_name(name: str, mode: str = "") -> str:
    """Returns the name of the kernel of a measurement."""
    return "".join(letter if letter.isalnum() else "_" for letter in f"rate_{name}_{mode}")


_HEAD = """
.visible .entry {name}(.param .u64 {name}_out, .param .u64 {name}_arena, .param .u64 {name}_error)
.maxntid 1024, 1, 1
{{
  .reg .pred %p, %more;
  .reg .b16 %h<{count}>;
  .reg .b32 %r<{count}>, %rx, %ry, %rz, %rw, %ra, %rb, %rc, %rs, %n, %t, %v<4>;
  .reg .f32 %f<{count}>, %fx, %fy;
  .reg .f64 %d<{count}>, %dx, %dy;
  .reg .b64 %l<{count}>, %lx, %ly, %out, %arena, %start, %end, %o, %a;
  .shared .align 16 .b8 {name}_shared[16384];
  ld.param.u64 %out, [{name}_out];
  cvta.to.global.u64 %out, %out;
  ld.param.u64 %arena, [{name}_arena];
  cvta.to.global.u64 %arena, %arena;
  mov.u32 %t, %tid.x;
  mov.u32 %rs, {name}_shared;
  shl.b32 %rx, %t, 4;
  add.u32 %rs, %rs, %rx;
  mov.u32 %ry, 0;
  st.shared.v4.b32 [%rs], {{%ry, %ry, %ry, %ry}};
  mov.u32 %rx, %ntid.x;
  add.u32 %ry, %rx, 77;
  shr.u32 %rz, %rx, 1;
  xor.b32 %rw, %rx, %t;
  cvt.rn.f32.u32 %fx, %rx;
  mul.rn.f32 %fx, %fx, 0f3a802008;
  cvt.rn.f32.u32 %fy, %t;
  cvt.f64.f32 %dx, %fx;
  cvt.f64.f32 %dy, %fy;
  cvt.u64.u32 %lx, %ry;
  cvt.u64.u32 %ly, %rw;
"""
_START = """
  mov.u32 %n, 0;
  bar.sync 0;
  mov.u64 %start, %clock64;
$next_{name}:
"""
_END = """
  add.u32 %n, %n, 1;
  setp.lt.u32 %more, %n, {iterations};
  @%more bra $next_{name};
  bar.sync 0;
  mov.u64 %end, %clock64;
  sub.s64 %start, %end, %start;
"""
_TAIL = """
  mov.u32 %ra, %ctaid.x;
  mul.wide.u32 %o, %ra, 8;
  add.u64 %out, %out, %o;
  setp.eq.u32 %p, %t, 0;
  @%p st.global.u64 [%out], %start;
  setp.eq.u32 %p, %rb, 0x12345679;
  @%p st.global.u64 [%out], %o;
  ret;
}}
"""


_SETUP = {
    "r": "add.u32 %r{i}, %t, {i};",
    "f": "add.u32 %ra, %t, {i};  cvt.rn.f32.u32 %f{i}, %ra;",
    "d": "add.u32 %ra, %t, {i};  cvt.rn.f64.u32 %d{i}, %ra;",
    "l": "add.u32 %ra, %t, {i};  cvt.u64.u32 %l{i}, %ra;",
    "h": "mov.u16 %h{i}, {i};",
}
_KEEP = {
    "r": "mov.b32 %ra, %r{i};",
    "f": "mov.b32 %ra, %f{i};",
    "d": "mov.b64 {{%ra, %rc}}, %d{i};\nxor.b32 %ra, %ra, %rc;",
    "l": "mov.b64 {{%ra, %rc}}, %l{i};\nxor.b32 %ra, %ra, %rc;",
    "h": "cvt.u32.u16 %ra, %h{i};",
}


def _rate_kernel(rate: Rate, mode: str) -> str:
    name = kernel_name(rate.name, mode)
    chains, depth = (CHAINS, DEPTH) if mode == "throughput" else (1, CHAINS * DEPTH)
    # Declares only the registers that the template uses. If all were declared, 1,024 threads would need too many
    # registers.
    letters = [letter for letter in "rfdlh" if re.search(rf"\{{{letter}\d?\}}", rate.ptx)]
    count = 4 * CHAINS if "0}" in rate.ptx else CHAINS
    setup = []
    for i in range(count):
        setup += [_SETUP[letter].format(i=i) for letter in letters]
        if "shared" in rate.name:
            setup.append(f"mov.u32 %r{i}, %rs;")
    if "shared" in rate.name:
        # Each thread uses words of its own. Each word contains its own address, so a load returns the address of the
        # next load.
        setup.append("st.shared.v4.b32 [%rs], {%rs, %rs, %rs, %rs};")
    body = []
    for _ in range(depth):
        for i in range(chains):
            registers = {letter: f"%{letter}{i}" for letter in "rfdlh"}
            registers |= {f"{letter}{j}": f"%{letter}{4 * i + j}" for letter in "rf" for j in range(4)}
            body.append(rate.ptx.format(**registers))
    keep = ["mov.u32 %rb, 0;"]
    for i in range(count):
        for letter in letters:
            keep += [*_KEEP[letter].format(i=i).splitlines(), "xor.b32 %rb, %rb, %ra;"]
    parts = [_HEAD.format(name=name, count=count), *(f"  {line}\n" for line in setup), _START.format(name=name)]
    parts += [*(f"  {line}\n" for line in body), _END.format(name=name, iterations=rate.iterations)]
    return "".join([*parts, *(f"  {line}\n" for line in keep), _TAIL.format(name=name)])


CHASE_LOADS = 512


def _chase_kernel(chase: Chase) -> str:
    name = kernel_name(chase.name, "latency")
    step = [
        "mad.lo.u32 %r0, %r0, 1664525, 1013904223;",
        "add.u32 %r0, %r0, %rb;",
        f"and.b32 %ra, %r0, {chase.reach - 4};",
        "cvt.u64.u32 %a, %ra;",
        "add.u64 %a, %arena, %a;",
        f"{chase.ptx} %rb, [%a];",
    ]
    parts = [_HEAD.format(name=name, count=1), "  mov.u32 %r0, 1;\n  mov.u32 %rb, 0;\n"]
    if chase.reach <= 1 << 14:
        # Reads all bytes once, so that they are in the cache when the measurement begins.
        parts += ["  mov.u32 %ra, 0;\n", f"$warm_{name}:\n", "  cvt.u64.u32 %a, %ra;\n  add.u64 %a, %arena, %a;\n"]
        parts += [f"  {chase.ptx} %rc, [%a];\n  add.u32 %rb, %rb, %rc;\n  add.u32 %ra, %ra, 32;\n"]
        parts += [f"  setp.lt.u32 %p, %ra, {chase.reach};\n  @%p bra $warm_{name};\n"]
    parts += [_START.format(name=name), *(f"  {line}\n" for line in step)]
    return "".join([*parts, _END.format(name=name, iterations=CHASE_LOADS), _TAIL.format(name=name)])


def _stream_kernel(stream: Stream) -> str:
    name = kernel_name(stream.name)
    half = stream.reach // 2 if stream.reads and stream.writes else stream.reach
    lines = [
        "mov.u32 %ra, %ctaid.x;",
        "mov.u32 %rb, %nctaid.x;",
        "mad.lo.u32 %rx, %ra, 256, %t;",
        "mul.wide.u32 %o, %rx, 16;",
        "mul.lo.u32 %rb, %rb, 256;",
        "mul.wide.u32 %ly, %rb, 16;",
        "mov.u32 %n, 0;",
        "mov.u32 %rc, 0;",
        "mov.u32 %v0, 0;  mov.u32 %v1, 0;  mov.u32 %v2, 0;  mov.u32 %v3, 0;",
        f"$again_{name}:",
        "mov.u64 %lx, %o;",
        f"$next_{name}:",
        "add.u64 %a, %arena, %lx;",
    ]
    if stream.reads:
        lines += ["ld.global.cg.v4.b32 {%v0, %v1, %v2, %v3}, [%a];"]
    if stream.reads and not stream.writes:
        lines += ["xor.b32 %rc, %rc, %v0;  xor.b32 %rc, %rc, %v1;  xor.b32 %rc, %rc, %v2;  xor.b32 %rc, %rc, %v3;"]
    if stream.writes:
        lines += [f"st.global.cg.v4.b32 [%a{f'+{half}' if stream.reads else ''}], {{%v0, %v1, %v2, %v3}};"]
    lines += [
        "add.u64 %lx, %lx, %ly;",
        f"setp.lt.u64 %p, %lx, {half};",
        f"@%p bra $next_{name};",
        "add.u32 %n, %n, 1;",
        f"setp.lt.u32 %more, %n, {stream.repeats};",
        f"@%more bra $again_{name};",
        "mov.u32 %rb, %rc;",
        "mov.u64 %start, 0;",
    ]
    text = "".join(f"  {line}\n" for line in lines)
    return _HEAD.format(name=name, count=1) + text + _TAIL.format(name=name)


def stream_bytes(stream: Stream) -> int:
    """Returns the number of bytes that a stream accesses."""
    return stream.reach * stream.repeats


def _module(architecture: str) -> str:
    version = "8.4" if _number(architecture) <= 90 else "8.8"
    head = f".version {version}\n.target {architecture}\n.address_size 64\n"
    kernels = [_rate_kernel(rate, mode) for rate in rates_of(architecture) for mode in MODES]
    empty = f".visible .entry {kernel_name('empty')}(.param .u64 a, .param .u64 b, .param .u64 c)\n{{\n  ret;\n}}\n"
    return "".join([head, *kernels, *map(_chase_kernel, CHASES), *map(_stream_kernel, STREAMS), empty])


def _plan(launches: list[tuple[str, int, int]], arena: int, outputs: int) -> bytes:
    """Returns a launch plan. Each launch is given by the name of a kernel, the number of blocks and the number of
    threads per block, and has its own output."""
    kernels = list(dict.fromkeys((name, threads) for name, _, threads in launches))
    return write_plan(
        Plan(
            processor="gpu",
            arena_size=arena,
            constant_size=0,
            states=(),
            inputs=(),
            outputs=tuple(TensorType(f"cycles {i}", "i64", (outputs,)) for i in range(len(launches))),
            messages=(),
            kernels=tuple(Kernel(name, block=(threads, 1, 1)) for name, threads in kernels),
            launches=tuple(
                Launch(kernels.index((name, threads)), False, (("output", i, 0), ("arena", 0, 0)), (blocks, 1, 1))
                for i, (name, blocks, threads) in enumerate(launches)
            ),
        )
    )


def save_rates(folder: Path, architecture: str, assemble: object) -> None:
    """Writes the PTX module with all kernels, and its cubin if possible. Launch plans depend on the device's number of
    multiprocessors, so the plans are made later."""
    folder.mkdir(parents=True)
    text = _module(architecture)
    (folder / "rates.ptx").write_text(text)
    if callable(assemble):
        (folder / "rates.cubin").write_bytes(assemble(text, architecture))
    (folder / "rates.json").write_text(json.dumps({"architecture": architecture}))


def rate_plan(architecture: str, multiprocessors: int) -> bytes:
    """Returns a launch plan. It launches the stream STREAMS[0], then the measurements of throughput and latency of each
    instruction (`rates_of`), in order, then the CHASES."""
    launches = []
    for rate in rates_of(architecture):
        launches += [(kernel_name(rate.name, "throughput"), multiprocessors, BLOCK)]
        launches += [(kernel_name(rate.name, "latency"), 1, 32)]
    launches += [(kernel_name(chase.name, "latency"), 1, 1) for chase in CHASES]
    return _plan([(kernel_name(STREAMS[0].name), 1, 256), *launches], ARENA, multiprocessors)


def stream_plan(stream: Stream, multiprocessors: int) -> bytes:
    """Returns the launch plan of one stream."""
    blocks = STREAM_BLOCKS * multiprocessors
    return _plan([(kernel_name(stream.name), blocks, 256)], ARENA, blocks)


def empty_plan(blocks: int) -> bytes:
    """Returns a launch plan with EMPTY launches of a kernel that does nothing."""
    return _plan([(kernel_name("empty"), blocks, 128)] * EMPTY, 256, 1)
