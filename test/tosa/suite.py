# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs one test of TOSA's conformance suite: loads its graph as a program, runs it and compares with reference
results."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from repro_mlir import Program, ReproError, compile

TARGETS = ("reference", "cpu", "cpu:x86-64-v2")


class Failed(Exception):
    """Raised if a test does not pass; the message is the reason."""


def tool(environment: Path, name: str, *arguments: object, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    """Runs a tool of the package tosa-tools."""
    folder = (environment / "bin").absolute()
    command = [str(folder / name), *map(str, arguments)]
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        command, env={"PATH": path}, capture_output=True, text=True, timeout=seconds, errors="replace"
    )


def graph(environment: Path, test: Path) -> Path:
    """Converts a test's flatbuffer to MLIR text with the suite's own tool and returns the path of the text."""
    empty, module = test / "empty.mlir", test / "test.mlir"
    empty.write_text("module {}\n")
    option = f"--tosa-deserialize=tosa-flatbuffer-filename={test / 'test.tosa'}"
    done = tool(
        environment, "tosa-opt", option, empty, "--mlir-print-elementsattrs-with-hex-if-larger=-1", "-o", module
    )
    if done.returncode:
        raise Failed(f"tosa-opt: {last_line(done.stderr)}")
    return module


def last_line(text: str) -> str:
    return ([line for line in text.splitlines() if line.strip()] or [""])[-1]


def run(environment: Path, test: Path) -> None:
    """Runs a test on all targets, compares their bits, and verifies the results.

    Raises:
      Failed: the program is refused, targets differ in a bit, or the suite's verification of the results fails.
    """
    described = json.loads((test / "desc.json").read_text())
    module = graph(environment, test)
    try:
        program = Program.load(module)
    except ReproError as error:
        raise Failed(str(error).replace(f"{module}: the program cannot be imported: ", "")) from None
    inputs = [np.load(test / name) for name in described["ifm_file"]]
    found = []
    for target in TARGETS:
        outputs = compile(program, target)({}, *inputs)[1]
        found.append([outputs[kind.name] for kind in program.outputs])
    for target, outputs in zip(TARGETS, found, strict=True):
        for ours, other in zip(found[0], outputs, strict=True):
            if ours.tobytes() != other.tobytes():
                raise Failed(f"{target} differs from {TARGETS[0]}")
    verify(environment, test, described, found[0])


def verify(environment: Path, test: Path, described: dict[str, Any], outputs: list[np.ndarray]) -> None:
    """Verifies the results with the suite's tools: against those of its f64 reference model, within the test's
    tolerance."""
    (schema,) = environment.glob("lib/python3.*/site-packages/bin/tosa.fbs")
    options = ["--tosa_level", "NONE", "--operator_fbs", schema, "--precise_mode=1"]
    done = tool(environment, "tosa_reference_model", *options, "--test_desc", test / "desc.json")
    if done.returncode:
        raise Failed(f"tosa_reference_model: {last_line(done.stderr)}")
    for name, file, ours in zip(described["ofm_name"], described["ofm_file"], outputs, strict=True):
        np.save(test / "ours.npy", ours)
        options = ["--test_desc", test / "desc.json", "--ofm_name", name, "--imp_result_file", test / "ours.npy"]
        options += ["--ref_result_file", test / file]
        bounds = test / f"bounds_{file}"
        if bounds.exists():
            options += ["--bnd_result_file", bounds]
        done = tool(environment, "tosa_verify", *options)
        if done.returncode:
            raise Failed(f"tosa_verify: {last_line(done.stdout + done.stderr)}")
