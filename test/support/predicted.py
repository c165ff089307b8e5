# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs for the tests of performance predictions, and descriptions of machines that do not exist."""

from __future__ import annotations

from pathlib import Path

from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import to_bytes
from repro_mlir.roofline import NUMBERS, Accelerator, CpuMachine
from repro_mlir.roofline.machines import ACCELERATOR_NUMBERS
from repro_mlir.roofline.machines.files import write_entries

from support.builder import COLUMN, Builder, Value

MACHINE = CpuMachine(
    name="made-up",
    level="x86-64-v3",
    l1_bytes=32768,
    l2_bytes=1 << 20,
    l3_bytes=1 << 24,
    scheduling_model="znver4",
    modelled_vector_bits=512,
    issue_width=6,
    clock_hz=4e9,
    cores=8,
    l2_bandwidth=1e11,
    l3_bandwidth=5e10,
    memory_bandwidth=1e10,
    shared_l3_bandwidth=2e11,
    shared_memory_bandwidth=4e10,
    launch_seconds=2e-8,
    wake_seconds=1e-6,
)
SOURCES = dict.fromkeys((*NUMBERS, "scheduling_model"), "made up")

GPU = Accelerator(
    name="made-up-gpu",
    architecture="sm_90",
    multiprocessors=100,
    clock_hz=1e9,
    f32_flops=100 * 128 * 2 * 1e9,
    tf32_matrix_flops=4e14,
    f16_matrix_flops=8e14,
    f8_matrix_flops=1.6e15,
    f4_matrix_flops=0.0,
    int8_matrix_ops=1.6e15,
    issue_width=4,
    special_rate=16.0,
    registers=65536,
    threads=2048,
    blocks=32,
    shared_bytes=233472,
    shared_bandwidth=128.0,
    l2_bytes=4e7,
    memory_bytes=8e10,
    l2_bandwidth=5e12,
    memory_bandwidth=2e12,
    launch_seconds=2e-6,
    node_devices=8,
    node_bandwidth=4e11,
    network_bandwidth=5e10,
    node_seconds=3e-6,
    network_seconds=1e-5,
    issue_efficiency=0.9,
    matrix_efficiency=0.8,
    vector_efficiency=0.9,
    memory_efficiency=0.9,
    link_efficiency=0.8,
    watts=700.0,
)

EMPTY = "func.func @main() attributes {repro.num_state = 0 : i64} {\n  return\n}"


def product(size: int, twice: bool = False) -> str:
    """Returns the product of two square matrices, or with `twice` the product of this product and the first matrix."""
    b, shape = Builder(), (size, size)
    x, y, zero = b.argument(shape, "f32"), b.argument(shape, "f32"), b.constant("0.0", None, "f32")
    (zeros,) = b.generic(shape, [], "", "f32", yields=[zero.name])

    def times(left: Value, right: Value) -> Value:
        inputs, body = [(left, "d0, d2"), (right, "d2, d1")], "%r0 = math.fma %x0, %x1, %a0 : f32"
        return b.fold(COLUMN, "ppr", inputs, [(zeros, "d0, d1")], body)[0]

    once = times(x, y)
    return b.program(times(once, x) if twice else once)


def doubled(elements: int) -> str:
    """Returns an element-wise program that doubles its state in each step."""
    return streamed(elements, ' {repro.name = "x"}', 1)


def streamed(elements: int, name: str = "", states: int = 0) -> str:
    """Returns an element-wise program that doubles its only argument, an input or a state; `name` is the argument's
    attributes."""
    shape = f"tensor<{elements}xf32>"
    return f"""
#map = affine_map<(i) -> (i)>
func.func @main(%x: {shape}{name}) -> ({shape}{name}) attributes {{repro.num_state = {states} : i64}} {{
  %empty = tensor.empty() : {shape}
  %y = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}} ins(%x : {shape})
      outs(%empty : {shape}) {{
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  }} -> {shape}
  return %y : {shape}
}}
"""


def planes(planes: int, groups: int) -> str:
    """Returns a program that transposes the two outer dimensions of a tensor: it reads planes of 4 KB in scattered
    order and writes them in sequence."""
    b = Builder()
    x = b.argument((planes, groups, 1024), "f32")
    body = "%r0 = arith.addf %x0, %x0 : f32"
    return b.program(*b.generic((groups, planes, 1024), [(x, "d1, d0, d2")], body, "f32"))


def program_of(text: str) -> Program:
    """Returns the canonical program of an MLIR text, without values for its initial state."""
    return read_signature(to_bytes(text))


def write_gpu(path: Path, architecture: str | None) -> None:
    """Writes the description of the invented device `GPU` to a file, with another architecture if one is given."""
    values = {name: getattr(GPU, name) for name in ACCELERATOR_NUMBERS}
    sizes = {"multiprocessors": values.pop("multiprocessors")}
    write_entries(path, architecture, sizes, values, dict.fromkeys(ACCELERATOR_NUMBERS, "made up"))
