# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of the peak memory and the compile time of training steps. Each measurement runs in a fresh process."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from case import OURS, SampledCase, Setting
from training_models import STEPS

_SCRIPT = Path(__file__).resolve().parent / "fresh_process.py"


def _run(what: str, step: str, setting: Setting, *options: str, cache: str | None = None) -> dict[str, float]:
    command = [sys.executable, str(_SCRIPT), what, step, "--level", setting.level, "--threads", str(setting.threads)]
    environment = os.environ | ({"REPRO_MLIR_CACHE": cache} if cache else {})
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def _memory(step: str, setting: Setting) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/step.repro"
        _run("compile", step, setting, "--program", program)
        ours = _run("memory", step, setting, "--program", program)
    theirs = _run("memory", step, setting, "--peer")
    return {
        OURS: [ours["peak"]],
        "torch": [theirs["peak"]],
        "ours with state": [ours["total"]],
        "torch with state": [theirs["total"]],
        "arena": [ours["arena"]],
    }


def _compile(step: str, setting: Setting) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        cold = _run("compile", step, setting, cache=folder)
        cached = _run("compile", step, setting, cache=folder)
    return {
        "capture": [cold["capture"], cached["capture"]],
        OURS: [cold["compile"]],
        "from cache": [cached["compile"]],
    }


def cases() -> list[SampledCase]:
    """Returns one benchmark of the peak memory for each step, and one of the seconds that capture and compilation of
    the GPT take. The peak memory is the resident memory in MB minus that before the first step."""
    return [
        *(
            SampledCase(
                f"memory {step.name}",
                "memory",
                step.shape,
                "MB",
                lambda setting, name=step.name: _memory(name, setting),
            )
            for step in STEPS.values()
        ),
        SampledCase("compile GPT", "compile", STEPS["GPT"].shape, "s", lambda setting: _compile("GPT", setting)),
    ]
