# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Accelerators as data: GPUs and others (docs/machines.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_whole
from repro_mlir.compilation.gpu import architectures
from repro_mlir.roofline.machines.files import MachineFile, changed_numbers, check_keys, check_number, in_file


@dataclass(frozen=True)
class Accelerator:
    """A device with memory of its own. Rates are peaks of dense arithmetic, and 0 where the device has none.

    Attributes:
      name: the machine's file without its ending.
      architecture: the GPU architecture whose code it runs; None for a device that the compiler has no code for.
      multiprocessors: cores that run blocks of threads.
      clock_hz: cycles per second under load.
      f32_flops: of vector units, a multiply-add being two.
      tf32_matrix_flops, f16_matrix_flops, f8_matrix_flops, f4_matrix_flops, int8_matrix_ops: of matrix units, f16 and
        bf16 being alike.
      issue_width: instructions of warps that begin in a cycle of a multiprocessor.
      special_rate: special functions in a cycle of a multiprocessor.
      registers, threads, blocks, shared_bytes: what a multiprocessor has at most.
      shared_bandwidth: bytes in a cycle of a multiprocessor.
      l2_bytes, memory_bytes: of the device.
      l2_bandwidth, memory_bandwidth: bytes per second.
      launch_seconds: from a launch to the next one of a stream.
      node_devices: how many devices a link of the node joins.
      node_bandwidth, network_bandwidth: bytes per second that a device sends, within a node and beyond it.
      node_seconds, network_seconds: of a message without bytes.
      issue_efficiency: the part of the cycles in which compiled kernels issue at most.
      matrix_efficiency, vector_efficiency, memory_efficiency, link_efficiency: the parts of the peaks that large
        programs reach.
      watts: of the device under load.
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
                raise ReproError(f"expected {name} as a part of 1, got {getattr(self, name)}")

    def with_changes(self, changes: Mapping[str, str]) -> Accelerator:
        """The device with other numbers.

        Args:
          changes: by attribute a number, or a factor as `2x` or `0.5x`.
        Raises:
          ReproError: an attribute that is no number, or another text.
        """
        current = {name: getattr(self, name) for name in ACCELERATOR_NUMBERS}
        return replace(self, **changed_numbers(current, changes, _WHOLE))


_WHOLE = ("multiprocessors", "issue_width", "registers", "threads", "blocks", "node_devices")
_POSITIVE = (
    "clock_hz", "f32_flops", "memory_bytes", "memory_bandwidth", "issue_efficiency", "matrix_efficiency",
    "vector_efficiency", "memory_efficiency", "link_efficiency",
)  # fmt: skip
ACCELERATOR_NUMBERS = tuple(each.name for each in fields(Accelerator) if each.name not in ("name", "architecture"))
"""The attributes that are numbers."""


def accelerator(file: MachineFile) -> Accelerator:
    """The accelerator that a file describes.

    Raises:
      ReproError: it describes none.
    """
    of_performance = [name for name in ACCELERATOR_NUMBERS if name != "multiprocessors"]
    try:
        check_keys("sizes", file.sizes, ("multiprocessors",), ("multiprocessors",))
        check_keys("performance", file.performance, of_performance, of_performance)
        return Accelerator(file.name, file.extends, **file.sizes, **file.performance)
    except ReproError as error:
        raise in_file(file, error) from None
