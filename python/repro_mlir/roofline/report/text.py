# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Formats the prediction of a step, and its measurement (ledger) if there is one, as lines of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from repro_mlir.roofline.causes import added_causes
from repro_mlir.roofline.cpu.ledger import Ledger
from repro_mlir.roofline.report.data import AnyLaunch, AnyLedger, AnyStep, Case
from repro_mlir.roofline.sweep_points import SweepPoint

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def lines_of(prediction: AnyStep, ledger: AnyLedger | None, most: int) -> list[str]:
    """Formats a table of the slowest kernels, and the causes of the time of the whole step.

    Args:
      most: the maximum number of kernels.
    """
    lines = [
        f"machine    {prediction.machine.name}, {prediction.setting}",
        f"predicted  {time_text(prediction.seconds)} a step, {len(prediction.launches)} launches",
    ]
    if ledger is not None:
        error = (prediction.seconds / ledger.seconds - 1) * 100 if ledger.seconds else 0.0
        launch = f", that of a launch by {ledger.median_error * 100:.1f} % (median by time)" if ledger.entries else ""
        off = f"the prediction is off by {error:+.1f} %{launch}"
        lines.append(f"measured   {time_text(ledger.seconds)} a step, {ledger.how}; {off}")
        part = f" ({ledger.unsigned_unknown / ledger.seconds:.1%})" if ledger.seconds else ""
        of_launches = " of launches" if ledger.entries else ""
        lines.append(f"unknown    {time_text(ledger.unsigned_unknown)}{part}{of_launches} without signs")
        if isinstance(ledger, Ledger):
            lines.append(f"counted    {ledger.counted}")
    parts = "".join(f", {space} {size:,}" for space, size in prediction.memory.items())
    lines.append(f"memory     {sum(prediction.memory.values()):,} bytes{parts}")
    if prediction.joules is not None:
        lines.append(f"energy     {prediction.joules:,.3g} J a step, at the power under load")
    lines += _work_lines(prediction)
    causes = prediction.causes if ledger is None else ledger.causes
    whole = prediction.seconds if ledger is None else ledger.seconds
    shown = (f"{cause} {time_text(seconds)} ({seconds / whole:.0%})" for cause, seconds in causes.items() if seconds)
    lines += [f"time       {', '.join(shown)}", ""]
    entries = ledger.entries if ledger else ()
    measured = "measured  " if entries else ""
    rows = [("kernel", "launches", "predicted", measured, "causes", "operation")]
    kernels = _kernels(prediction, ledger)
    for name, (launches, seconds) in sorted(kernels.items(), key=lambda item: -_weight(item[1]))[:most]:
        total = time_text(sum(each.seconds for each in launches))
        main = _shares(added_causes(each.causes for each in launches))
        taken = time_text(seconds) if entries else ""
        rows.append((name, str(len(launches)), total, taken, main, _operation(launches[0])))
    width = max(len(row[4]) for row in rows)
    lines += [f"{a:12} {b:>8} {c:>10} {d:>10} {e:{width}} {f}".rstrip() for a, b, c, d, e, f in rows]
    if len(kernels) > most:
        lines.append(f"{len(kernels) - most} others")
    return lines


def _work_lines(prediction: AnyStep) -> list[str]:
    """Returns one line for each arithmetic unit: its operations and the share of its peak."""
    lines = []
    for unit, peak in prediction.ceilings.arithmetic.items():
        work = sum(each.operations.get(unit, 0) for each in prediction.launches)
        if work:
            part = f", {work / prediction.seconds / peak:.0%} of the peak of {peak / 1e9:,.0f} G/s"
            lines.append(f"work       {work:,} operations of {unit.replace('_', ' ')} a step{part}")
    return lines


def comparison_lines(cases: Sequence[Case]) -> list[str]:
    """Returns one line for each machine, and one for the unchanged machine if parameters were changed."""
    rows = []
    for case in cases:
        if case.given is not None:
            rows.append((case.given_label, case.given))
        rows.append((case.label, case.prediction))
    width = max(len("machine"), *(len(label) for label, _ in rows))
    first = rows[0][1].seconds
    lines = [f"{'machine':{width}} {'predicted':>10} {'times':>7}  causes"]
    for label, found in rows:
        times = f"{found.seconds / first:.2f}x" if first else ""
        lines.append(f"{label:{width}} {time_text(found.seconds):>10} {times:>7}  {_shares(found.causes)}")
    return lines + _without_lines((label, found.facts.get("calls", ())) for label, found in rows)


def _without_lines(calls: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Returns one line for each prediction that excludes the time of routines. A pair in `calls` has the name of a
    prediction and its excluded routines."""
    return [f"{name}: without the time of {' and '.join(each)}" for name, each in dict(calls).items() if each]


def _kernels(prediction: AnyStep, ledger: AnyLedger | None) -> dict[str, tuple[list[AnyLaunch], float]]:
    """Returns, for each kernel, its launches and the measured time that these take together."""
    launches: defaultdict[str, list[AnyLaunch]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    predicted: Sequence[AnyLaunch] = prediction.launches
    for number, each in enumerate(predicted):
        launches[each.kernel].append(each)
        seconds[each.kernel] += ledger.entries[number].seconds if ledger and ledger.entries else 0.0
    return {name: (found, seconds[name]) for name, found in launches.items()}


def _operation(launch: AnyLaunch) -> str:
    """Returns what the kernel of a launch computes, and for which module, parameter or source line."""
    parts = launch.facts.get("operation"), launch.facts.get("source")
    return " of ".join(part for part in parts if part)


def _shares(causes: Mapping[str, float]) -> str:
    """Returns the causes with more than 5 % of the time as text, largest first."""
    whole = sum(causes.values())
    main = sorted((cause for cause, part in causes.items() if part > whole / 20), key=lambda cause: -causes[cause])
    return ", ".join(f"{cause} {causes[cause] / whole:.0%}" for cause in main)


def _weight(kernel: tuple[list[AnyLaunch], float]) -> float:
    launches, seconds = kernel
    return max(seconds, sum(each.seconds for each in launches))


def time_text(seconds: float) -> str:
    """Formats seconds in a suitable unit."""
    for unit, name in _UNITS:
        if abs(seconds) >= unit:
            return f"{seconds / unit:.2f} {name}"
    return f"{seconds * 1e9:.2f} ns"


def sweep_lines(points: Sequence[SweepPoint], losses: Mapping[str, Sequence[float | None]]) -> list[str]:
    """Returns one line for each point; with losses, the line also has the training time and the last loss."""
    names = list(dict.fromkeys(name for each in points for name in each.given))
    rows = [["machine", *(["recipe"] if any(each.program for each in points) else []), *names, "step"]]
    rows[0] += ["training", "loss"] if losses else []
    for each in points:
        row = [each.machine, *([each.program] if "recipe" in rows[0] else [])]
        row += [each.given.get(name, "") for name in names] + [time_text(each.seconds)]
        if losses:
            trained = losses[each.program]
            row.append(time_text(each.seconds * len(trained)))
            row.append("not finite" if trained[-1] is None else f"{trained[-1]:.6f}")
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines + _without_lines((f"{each.machine} {each.program}".rstrip(), each.calls) for each in points)
