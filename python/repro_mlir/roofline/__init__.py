# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of a step from its compiled code and a machine's numbers (docs/roofline.md)."""

from .calibration import Calibration, calibrate
from .ledger import Ledger, LedgerEntry, measure
from .machine import NUMBERS, Machine, machine_names, read_machine, write_machine
from .prediction import CAUSES, Code, LaunchPrediction, StepPrediction, predict, read_code

__all__ = [
    "CAUSES",
    "NUMBERS",
    "Calibration",
    "Code",
    "LaunchPrediction",
    "Ledger",
    "LedgerEntry",
    "Machine",
    "StepPrediction",
    "calibrate",
    "machine_names",
    "measure",
    "predict",
    "read_code",
    "read_machine",
    "write_machine",
]
