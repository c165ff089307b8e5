# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes the machine, the versions and the commit with which figures were measured."""

import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch


def describe_host() -> dict[str, Any]:
    """Returns the facts about the machine and the software on which measured figures depend."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        fields = dict(field.split(":", 1) for field in cpuinfo.read_text().splitlines() if ":" in field)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        model = f"{fields.get('model name', model)} (family {fields.get('cpu family')}, model {fields.get('model')})"
    return {
        "cpu": model,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "commit": _commit(),
        "commands": [shlex.join(["python", *sys.argv])],
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _commit() -> str:
    """Returns the commit that is measured; "unknown" outside of a clone."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
