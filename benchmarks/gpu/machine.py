# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes the machine that measures, and its limits."""

from __future__ import annotations

import datetime
import platform
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
from repro_mlir.base.errors import ReproError
from repro_mlir.runner import Device

# f32 multiply-adds per clock of one multiprocessor (CUDA C++ Programming Guide, throughput of native instructions).
_LANES = {(7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (12, 0): 128}


def peak_flops(device: Device) -> float:
    """Returns the peak number of f32 operations per second at the highest clock; 0 if the peak is unknown. A
    multiply-add counts as two operations."""
    try:
        return 2e3 * _LANES.get(device.capability, 0) * device.processors * device.clock_rate
    except ReproError:
        return 0


def torch_on_gpu() -> Any:
    """Returns the module torch, with TF32 disabled, if it is installed and finds a GPU; else None."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch


def describe(device: Device) -> dict[str, Any]:
    """Returns the date, and facts about the device, the driver and the software. If a fact cannot be determined, its
    value is the reason."""
    torch = torch_on_gpu()
    facts: dict[str, Callable[[], Any]] = {
        "date": lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": lambda: device.name,
        "architecture": lambda: device.architecture,
        "memory": lambda: device.memory_bytes,
        "processors": lambda: device.processors,
        "highest clock, kHz": lambda: device.clock_rate,
        "f32 peak, TFLOP/s": lambda: peak_flops(device) * 1e-12,
        "CUDA of the driver": device.driver.version,
        "driver": _driver_version,
        "python": platform.python_version,
        "numpy": lambda: np.__version__,
        "torch": lambda: torch.__version__ if torch else "none that sees the GPU",
    }
    found = {}
    for name, fact in facts.items():
        try:
            found[name] = fact()
        except (ReproError, OSError) as error:
            found[name] = str(error)
    return found


def _driver_version() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip() or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
