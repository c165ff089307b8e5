# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Formats the mapping of a step onto a machine of many cores as lines of text."""

from __future__ import annotations

from collections.abc import Mapping as Names
from typing import Any

from repro_mlir.roofline.cores.mapping import Mapping, Phase
from repro_mlir.roofline.report.text import time_text

_PLURALS = {
    "state": "states",
    "input": "inputs",
    "output": "outputs",
    "temporary": "temporaries",
    "constant": "constants",
}
_BOUND_NAMES = {"compute": "compute", "dram": "DRAM", "bisection": "bisection"}


def lines_of(mapping: Mapping, most: int) -> list[str]:
    """Formats the memory, the bounds and the times of a step, and tables of the largest tensors and of the phases with
    the longest times.

    Args:
      most: the maximum number of tensors, and of phases.
    """
    data, phases = mapping.data, mapping.phases
    columns, rows = data["chips"]
    chips = f"{columns} x {rows} chips" if columns * rows > 1 else "1 chip"
    dram = ", ".join(f"{_PLURALS[kind]} {size:,}" for kind, size in mapping.dram.items() if size)
    of_core = max(phases, key=lambda each: each.memory, default=None)
    lines = [
        f"machine    {data['machine']}: {data['cores_available']:,} cores on {chips}",
        f"memory     {sum(mapping.dram.values()):,} of {data['dram_bytes_available']:,} bytes of DRAM: {dram}",
    ]
    if of_core is not None:
        lines.append(f"of a core  {of_core.memory:,} of {data['data_bytes']:,} data bytes, in {_name(of_core)}")
    lines.append("code       not checked: the kernels are code for this processor, not for a core")
    lines.append(f"cores      {_use(mapping)}")
    lines.append(f"bound      {time_text(data['bound_seconds'])} a step: {_bounds(data['bounds'])}")
    lines.append(f"predicted  {time_text(data['seconds'])} a step, {len(data['launches']):,} launches")
    if mapping.simulated is not None:
        lines += _simulated_lines(mapping.simulated)
    lines += ["", *_tensor_lines(data, most), "", *_phase_lines(phases, data["seconds"], most)]
    return lines


def _use(mapping: Mapping) -> str:
    """Returns the number of the cores that run kernels, and the part of the predicted time in which they do."""
    busy = [seconds for _, _, seconds in mapping.data["cores"]]
    used = [seconds for seconds in busy if seconds]
    whole = mapping.data["seconds"]
    if not used or not whole:
        return "none is used"
    return (
        f"{len(used):,} of {len(busy):,} are used; they run kernels for {sum(used) / len(used) / whole:.0%} of the "
        f"predicted time, the busiest one for {max(used) / whole:.0%}"
    )


def _bounds(bounds: Names[str, float]) -> str:
    return ", ".join(f"{_BOUND_NAMES[name]} {time_text(seconds)}" for name, seconds in bounds.items())


def _simulated_lines(report: Names[str, Any]) -> list[str]:
    whole = report["seconds"]
    cores, links = report["cores"], [link for link in report["links"] if link["kind"] != "channel"]
    channels = [link for link in report["links"] if link["kind"] == "channel"]
    factor = whole / report["bound_seconds"] if report["bound_seconds"] else 1.0
    lines = [
        f"simulated  {time_text(whole)} a step, {factor:.2f} times the bound {time_text(report['bound_seconds'])}: "
        f"{_bounds(report['bounds'])}"
    ]
    if cores and whole:
        parts = (
            f"{name} {sum(core[key] for core in cores) / len(cores) / whole:.0%}"
            for key, name in (("run", "kernels"), ("synchronize", "synchronization"), ("wait", "waiting"))
        )
        lines.append(f"of it      {', '.join(parts)}, on average over {len(cores):,} cores")
    for name, found in (("channel", channels), ("link", links)):
        if found and whole:
            busiest = max(found, key=lambda link: link["busy"])
            where = ", ".join(map(str, busiest["from"]))
            kind = "channel" if name == "channel" else busiest["kind"]
            lines.append(
                f"{name:10} the busiest is the {kind} at ({where}): {busiest['busy'] / whole:.0%} of the time, "
                f"{busiest['bytes']:,} bytes"
            )
    return lines


def _tensor_lines(data: Names[str, Any], most: int) -> list[str]:
    tensors = sorted(data["tensors"], key=lambda each: -each["bytes"])
    rows: list[tuple[str, ...]] = [("tensor", "kind", "bytes", "address")]
    for each in tensors[:most]:
        name = each["name"] or f"({_PLURALS[each['kind']]})"
        rows.append((name, each["kind"], f"{each['bytes']:,}", f"{each['address']:,}"))
    lines = _table(rows, "<<>>")
    if len(tensors) > most:
        lines.append(f"{len(tensors) - most:,} others")
    return lines


def _phase_lines(phases: list[Phase], whole: float, most: int) -> list[str]:
    order = sorted(phases, key=lambda each: -each.seconds)
    heads = ("predicted", "part", "bound", "launches", "cores", "cycles", "DRAM bytes", "core bytes", "phase")
    rows: list[tuple[str, ...]] = [heads]
    for each in order[:most]:
        bound = f"{_BOUND_NAMES[each.bound]} {time_text(each.bounds[each.bound])}"
        part = f"{each.seconds / whole:.0%}" if whole else ""
        numbers = (f"{each.launches:,}", f"{each.cores:,}", f"{each.cycles:,.0f}", f"{each.dram_bytes:,.0f}")
        rows.append((time_text(each.seconds), part, bound, *numbers, f"{each.memory:,}", _name(each)))
    lines = _table(rows, ">><>>>>><")
    if len(order) > most:
        lines.append(f"{len(order) - most:,} others")
    return lines


def _name(phase: Phase) -> str:
    return " of ".join(part for part in (phase.operation, phase.source) if part)


def _table(rows: list[tuple[str, ...]], alignments: str) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(alignments))]
    cells = zip(alignments, widths, strict=True)
    form = "  ".join(f"{{:{alignment}{width}}}" for alignment, width in cells)
    return [form.format(*row).rstrip() for row in rows]
