# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Formats predictions of transformers as text and JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from repro_mlir.roofline.transformer.prediction import DecodingPrediction, TrainingPrediction

_GIB = 1 << 30


def training_lines(name: str, prediction: TrainingPrediction) -> list[str]:
    """Formats the prediction of a training step as text.

    Args:
      name: the name of the transformer.
    """
    training, memory, machine = prediction.training, prediction.memory, prediction.machine
    parallelism, tokens = training.parallelism, training.batch * prediction.config.sequence
    degrees = ("tensor", "context", "pipeline", "virtual_stages", "data", "expert")
    used = [f"{each} {getattr(parallelism, each)}" for each in degrees if getattr(parallelism, each) > 1]
    parts = {each.name: getattr(memory, each.name) for each in dataclasses.fields(memory)}
    shown = ", ".join(f"{part} {bytes / _GIB:.1f}" for part, bytes in parts.items() if bytes)
    fits = "" if prediction.fits else "; it does not fit"
    return [
        f"transformer {name}, {prediction.config.parameters:,} parameters, {training.precision}",
        f"machine     {', '.join([f'{prediction.devices} x {machine.name}', *used])}",
        f"step        {prediction.seconds * 1e3:,.2f} ms for {training.batch:,} sequences of "
        f"{prediction.config.sequence:,} tokens, {training.microbatches} microbatches",
        f"speed       {prediction.device_tokens_per_second:,.1f} tokens per second and device; "
        f"{prediction.device_model_flops / 1e12:,.1f} Tflop/s of the model, {prediction.utilization:.1%} of the peak",
        f"memory      {memory.total / _GIB:.1f} of {machine.memory_bytes / _GIB:.1f} GiB: {shown}{fits}",
        *_energy_lines(prediction.joules, tokens),
        *_cause_lines(prediction.causes),
    ]


def decoding_lines(name: str, prediction: DecodingPrediction) -> list[str]:
    """Formats the prediction of a decoding step as text.

    Args:
      name: the name of the transformer.
    """
    machine, used = prediction.machine, prediction.weights + prediction.cache
    fits = "" if prediction.fits else "; it does not fit"
    return [
        f"transformer {name}, {prediction.config.parameters:,} parameters, {prediction.precision}",
        f"machine     {prediction.devices} x {machine.name}",
        f"step        {prediction.seconds * 1e3:,.3f} ms for a token of {prediction.batch:,} sequences, each behind "
        f"{prediction.cached_tokens:,}",
        f"speed       {prediction.tokens_per_second:,.1f} tokens per second",
        f"memory      {used / _GIB:.1f} of {machine.memory_bytes / _GIB:.1f} GiB: weights "
        f"{prediction.weights / _GIB:.1f}, cache {prediction.cache / _GIB:.1f}{fits}",
        *_energy_lines(prediction.joules, prediction.batch),
        *_cause_lines(prediction.causes),
    ]


def training_json(prediction: TrainingPrediction) -> dict[str, Any]:
    """Returns the prediction of a training step, including the requested configuration, as a JSON object."""
    memory = dataclasses.asdict(prediction.memory) | {"total": prediction.memory.total}
    return {
        "machine": prediction.machine.name,
        "transformer": dataclasses.asdict(prediction.config) | {"parameters": prediction.config.parameters},
        "training": dataclasses.asdict(prediction.training) | {"microbatches": prediction.training.microbatches},
        "devices": prediction.devices,
        "seconds": prediction.seconds,
        "causes": prediction.causes,
        "device_tokens_per_second": prediction.device_tokens_per_second,
        "device_model_flops": prediction.device_model_flops,
        "utilization": prediction.utilization,
        "memory": memory,
        "fits": prediction.fits,
        "joules": prediction.joules,
    }


def decoding_json(prediction: DecodingPrediction) -> dict[str, Any]:
    """Returns the prediction of a decoding step, including the requested configuration, as a JSON object."""
    return {
        "machine": prediction.machine.name,
        "transformer": dataclasses.asdict(prediction.config) | {"parameters": prediction.config.parameters},
        "batch": prediction.batch,
        "cached_tokens": prediction.cached_tokens,
        "precision": prediction.precision,
        "devices": prediction.devices,
        "seconds": prediction.seconds,
        "causes": prediction.causes,
        "tokens_per_second": prediction.tokens_per_second,
        "memory": {"weights": prediction.weights, "cache": prediction.cache},
        "fits": prediction.fits,
        "joules": prediction.joules,
    }


def _energy_lines(joules: float | None, tokens: int) -> list[str]:
    return [] if joules is None else [f"energy      {_rounded(joules)} J a step, {_rounded(joules / tokens)} J a token"]


def _rounded(number: float) -> str:
    """Formats an estimate with three significant digits, without an exponent."""
    if not number:
        return "0"
    digits = 2 - math.floor(math.log10(abs(number)))
    return f"{round(number, digits):,.{max(digits, 0)}f}"


def _cause_lines(causes: dict[str, float]) -> list[str]:
    whole = sum(causes.values())
    shown = [
        f"{cause:13} {seconds * 1e3:12,.3f} ms {seconds / whole:6.1%}" for cause, seconds in causes.items() if seconds
    ]
    return ["", *shown]
