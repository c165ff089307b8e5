# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Accelerators, such as GPUs, as data (docs/contributors/machines.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_whole
from repro_mlir.compilation.gpu import architectures
from repro_mlir.roofline.machines.files import MachineFile, changed_numbers, check_keys, check_number, in_file


@dataclass(frozen=True)
class Accelerator:
    """A device with its own memory. Rates are peaks of dense arithmetic; 0 means that the device lacks the unit.

    Attributes:
      name: the name of the machine's file without its extension.
      architecture: the GPU architecture whose code the device runs; None if the compiler has no code for the device.
      multiprocessors: the number of cores that run thread blocks.
      clock_hz: the number of cycles per second under load.
      f32_flops: operations per second of vector units; a multiply-add counts as two operations.
      tf32_matrix_flops, f16_matrix_flops, f8_matrix_flops, f4_matrix_flops, int8_matrix_ops: operations per second of
        matrix units; bf16 has the rate of f16.
      issue_width: the number of warp instructions that a multiprocessor issues per cycle.
      special_rate: the number of special functions that a multiprocessor computes per cycle.
      registers, threads, blocks, shared_bytes: the limits of a multiprocessor.
      shared_bandwidth: bytes of shared memory that a multiprocessor transfers per cycle.
      l2_bytes, memory_bytes: the sizes of the L2 cache and of the device's memory.
      l2_bandwidth, memory_bandwidth: bytes per second of the L2 cache and of the device's memory.
      launch_seconds: the time between the starts of two empty launches on a stream.
      node_devices: the number of devices that the links of a node connect.
      node_bandwidth, network_bandwidth: bytes per second that a device sends within its node and to other nodes.
      node_seconds, network_seconds: the latency of an empty message within a node and to another node.
      issue_efficiency: the largest fraction of the cycles in which compiled kernels issue an instruction.
      matrix_efficiency, vector_efficiency, memory_efficiency, link_efficiency: the fractions of the peaks that large
        programs reach.
      watts: the power of the device under load, in watts.
    """

    name: str
    architecture: str | None
    multiprocessors: int
    clock_hz: float
    f32_flops: float
    tf32_matrix_flops: float
    f16_matrix_flops: float
    f8_matrix_flops: float
    f4_matrix_flops: float
    int8_matrix_ops: float
    issue_width: int
    special_rate: float
    registers: int
    threads: int
    blocks: int
    shared_bytes: float
    shared_bandwidth: float
    l2_bytes: float
    memory_bytes: float
    l2_bandwidth: float
    memory_bandwidth: float
    launch_seconds: float
    node_devices: int
    node_bandwidth: float
    network_bandwidth: float
    node_seconds: float
    network_seconds: float
    issue_efficiency: float
    matrix_efficiency: float
    vector_efficiency: float
    memory_efficiency: float
    link_efficiency: float
    watts: float

    def __post_init__(self) -> None:
        if self.architecture is not None:
            check_among("architecture", self.architecture, architectures())
        for name in ACCELERATOR_NUMBERS:
            check_number(name, getattr(self, name), may_be_zero=name not in _POSITIVE)
        for name in _WHOLE:
            check_whole(name, getattr(self, name), 1, 4096 if name == "multiprocessors" else 1 << 20)
        for name in ACCELERATOR_NUMBERS:
            if name.endswith("_efficiency") and getattr(self, name) > 1:
                raise ReproError(f"expected {name} of at most 1, got {getattr(self, name)}")

    def with_changes(self, changes: Mapping[str, str]) -> Accelerator:
        """Returns the device with changed parameters.

        Args:
          changes: maps the name of an attribute to a number, or to a factor such as `2x` or `0.5x`.
        Raises:
          ReproError: an attribute that is not numeric, or a malformed value.
        """
        current = {name: getattr(self, name) for name in ACCELERATOR_NUMBERS}
        return replace(self, **changed_numbers(current, changes, _WHOLE))


_WHOLE = ("multiprocessors", "issue_width", "registers", "threads", "blocks", "node_devices")
_POSITIVE = (
    "clock_hz", "f32_flops", "memory_bytes", "memory_bandwidth", "issue_efficiency", "matrix_efficiency",
    "vector_efficiency", "memory_efficiency", "link_efficiency",
)  # fmt: skip
ACCELERATOR_NUMBERS = tuple(each.name for each in fields(Accelerator) if each.name not in ("name", "architecture"))
"""The numeric attributes."""


def accelerator(file: MachineFile) -> Accelerator:
    """Returns the accelerator that a file describes.

    Raises:
      ReproError: the file does not describe an accelerator.
    """
    of_performance = [name for name in ACCELERATOR_NUMBERS if name != "multiprocessors"]
    try:
        check_keys("sizes", file.sizes, ("multiprocessors",), ("multiprocessors",))
        check_keys("performance", file.performance, of_performance, of_performance)
        return Accelerator(file.name, file.extends, **file.sizes, **file.performance)
    except ReproError as error:
        raise in_file(file, error) from None
