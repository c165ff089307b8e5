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


def product(size: int) -> str:
    """Returns a program that multiplies two square matrices."""
    shape = f"tensor<{size}x{size}xf32>"
    maps = ", ".join(f"affine_map<(i, j, k) -> ({each})>" for each in ("i, k", "k, j", "i, j"))
    return f"""
func.func @main(%a: {shape}, %b: {shape}) -> {shape} attributes {{repro.num_state = 0 : i64}} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {shape}
  %zeros = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      outs(%empty : {shape}) {{
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  }} -> {shape}
  %r = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
    maps [{maps}] iterators [parallel, parallel, reduction] ins(%a, %b : {shape}, {shape}) outs(%zeros : {shape}) {{
  ^bb0(%x: f32, %y: f32, %s: f32):
    %f = math.fma %x, %y, %s : f32
    repro.yield %f : f32
  }} -> {shape}
  return %r : {shape}
}}
"""


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
    """Returns a program that transposes the two outer dimensions of a tensor: the program reads planes of 4 KB in
    scattered order and writes them in sequence."""
    read, written = (f"tensor<{a}x{b}x1024xf32>" for a, b in ((planes, groups), (groups, planes)))
    return f"""
func.func @main(%x: {read}) -> {written} attributes {{repro.num_state = 0 : i64}} {{
  %empty = tensor.empty() : {written}
  %y = linalg.generic {{
      indexing_maps = [affine_map<(i, j, k) -> (j, i, k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%x : {read}) outs(%empty : {written}) {{
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  }} -> {written}
  return %y : {written}
}}
"""


def program_of(text: str) -> Program:
    """Returns a program of the text, without values for its initial state."""
    return read_signature(to_bytes(text))


def write_gpu(path: Path, architecture: str | None) -> None:
    """Writes the description of the invented device `GPU` to a file, with another architecture if one is given."""
    values = {name: getattr(GPU, name) for name in ACCELERATOR_NUMBERS}
    sizes = {"multiprocessors": values.pop("multiprocessors")}
    write_entries(path, architecture, sizes, values, dict.fromkeys(ACCELERATOR_NUMBERS, "made up"))
