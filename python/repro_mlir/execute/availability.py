# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes the targets of `compile` and whether this machine can execute their code."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.compilation.cpu import native_level, runnable_levels
from repro_mlir.execute import qemu
from repro_mlir.execute.executable import targets
from repro_mlir.execute.ptx import DEFAULT_ARCHITECTURE
from repro_mlir.runner.device import Device
from repro_mlir.runner.driver import NoDevice
from repro_mlir.runner.execution import choose_architecture

_LEVELS = {
    "x86-64-v2": "x86-64 processors with SSE4.2",
    "x86-64-v3": "x86-64 processors with AVX2 and FMA",
    "x86-64-v4": "x86-64 processors with AVX-512",
    "x86-64-v4-vnni": "x86-64 processors with AVX-512 and its VNNI",
    "aarch64": "64-bit Arm processors with NEON",
    "aarch64-dotprod": "64-bit Arm processors with NEON and its dot products of bytes",
}

NATIVE, EMULATED, COMPILED = "native", "emulated", "compile only"


@dataclass(frozen=True)
class Target:
    """A target of `compile` on this machine.

    Attributes:
      name: the name, such as "cpu:x86-64-v3".
      description: the hardware or interpreter that runs the code.
      execution: "native", "emulated" or "compile only"; "compile only" means that this machine cannot execute the
        compiled code.
      detail: the processor or emulator that executes the code, or the reason why this machine cannot.
    """

    name: str
    description: str
    execution: str
    detail: str


def describe_targets() -> list[Target]:
    """Returns a description of each target in `targets()`, in that order."""
    try:
        device: Device | ReproError = Device()
    except ReproError as error:
        device = error
    try:
        return [Target(name, *_described(name, device)) for name in targets()]
    finally:
        if isinstance(device, Device):
            device.close()


def _described(name: str, device: Device | ReproError) -> tuple[str, str, str]:
    kind, _, variant = name.partition(":")
    if kind == "reference":
        return "the interpreter that defines the bits; slow", NATIVE, "in Python, without the compiler"
    if kind == "ptx-emulator":
        what = f"the code of NVIDIA GPUs of {variant or DEFAULT_ARCHITECTURE}, without a GPU"
        return what, EMULATED, "by the emulator of PTX"
    if kind == "cores":
        return f"the machine of many cores {variant}", EMULATED, "by a simulator"
    if kind == "cuda":
        what = f"NVIDIA GPUs from {variant} on" if variant else "the GPU of this machine"
        return what, *_on_gpu(variant, device)
    what = _LEVELS[variant] if variant else f"this machine's processor: {native_level()}"
    if not variant or variant in runnable_levels():
        return what, NATIVE, "by this processor"
    if not variant.startswith("aarch64"):
        return what, COMPILED, "this processor is none of these"
    if qemu.is_available():
        return what, EMULATED, f"by {qemu.EMULATOR}"
    return what, COMPILED, f"{qemu.COMPILER} and {qemu.EMULATOR} are not installed"


def _on_gpu(variant: str, device: Device | ReproError) -> tuple[str, str]:
    if isinstance(device, ReproError):
        # Leaves out the loader's message about a missing driver, which follows the colon.
        return COMPILED, str(device).partition(": ")[0] if isinstance(device, NoDevice) else str(device)
    names = [variant] if variant else [each.removeprefix("cuda:") for each in targets() if each.startswith("cuda:")]
    try:
        choose_architecture(names, device.capability, "the target")
    except ReproError as error:
        return COMPILED, str(error)
    return NATIVE, f"by the {device.name}"
