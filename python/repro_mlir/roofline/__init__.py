# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of a step from its compiled code and the parameters of a machine (docs/guides/roofline.md)."""

from repro_mlir.roofline.ceilings import Ceilings
from repro_mlir.roofline.cpu.calibration import Calibration, calibrate
from repro_mlir.roofline.cpu.ledger import Ledger, measure
from repro_mlir.roofline.cpu.prediction import CAUSES, Code, LaunchPrediction, StepPrediction
from repro_mlir.roofline.gpu.ledger import GpuLedger, read_measured
from repro_mlir.roofline.gpu.prediction import GPU_CAUSES, GpuCode, GpuLaunchPrediction, GpuStepPrediction
from repro_mlir.roofline.ledger import LedgerEntry
from repro_mlir.roofline.machines import (
    NUMBERS,
    Accelerator,
    CpuMachine,
    machine_names,
    read_machine,
    write_cpu_machine,
)
from repro_mlir.roofline.prediction import predict, read_code
from repro_mlir.roofline.sweep_points import SweepPoint, sweep
from repro_mlir.roofline.transformer import (
    Parallelism,
    Training,
    TransformerConfig,
    predict_decoding,
    predict_training,
    read_transformer,
)

__all__ = [
    "CAUSES",
    "GPU_CAUSES",
    "NUMBERS",
    "Accelerator",
    "Calibration",
    "Ceilings",
    "Code",
    "CpuMachine",
    "GpuCode",
    "GpuLaunchPrediction",
    "GpuLedger",
    "GpuStepPrediction",
    "LaunchPrediction",
    "Ledger",
    "LedgerEntry",
    "Parallelism",
    "StepPrediction",
    "SweepPoint",
    "Training",
    "TransformerConfig",
    "calibrate",
    "machine_names",
    "measure",
    "predict",
    "predict_decoding",
    "predict_training",
    "read_code",
    "read_machine",
    "read_measured",
    "read_transformer",
    "sweep",
    "write_cpu_machine",
]
