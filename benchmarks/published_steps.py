# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts steps with published times, and writes docs/performance/roofline-published.md.

python benchmarks/published_steps.py [-o FILE]
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.roofline.transformer import (
    Operation,
    Parallelism,
    Product,
    Training,
    operation_seconds,
    predict_decoding,
    predict_training,
    read_transformer,
    training_memory,
)

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "performance" / "roofline-published.md"
GIB = 1 << 30
UNITS = {"seconds": "s", "device_tokens_per_second": "tokens/s/device", "tokens_per_second": "tokens/s"}

HEAD = """\
# Predictions compared with published figures

This page is for readers who judge the predictions of times. It compares predictions
([roofline.md](../guides/roofline.md)) with figures that others have published. `python benchmarks/published_steps.py`
writes the page from benchmarks/published_steps.json, which contains the configuration and the source of each row. A
positive error means that the predicted time, speed or memory is too large. A mean error is the mean of the absolute
values of errors.

No number was fitted to the published figures, but the person who chose settings such as `matrix_efficiency` knew the
figures. In the tables:

- `matrix_efficiency` is the share of a machine's peak that matrix products reach, as stated in a publication. If two
  values are published, the value that agrees better with one of the rows was chosen.
- *Looked at* marks a row whose error was known when a setting or an assumption was chosen. The mark names the choice.
- *Hold-outs* are rows that were added after all settings and assumptions had been fixed.
- *Blind* marks a row whose speed depends on something that the source does not state or that the prediction does not
  model ([below](#where-the-prediction-is-blind)).
- If a source states the memory bandwidth or the launch time of its machine, the prediction uses these values. The
  column *file's settings* shows the mean error with the values in the file that describes the machine.

"""

TAIL = """\

## Where the prediction is blind

- **Software.** Predictions assume well-tuned kernels. When torchao's rows were measured, kernels on the MI300X were
  much slower than well-tuned ones. LLMCompass measured each product alone; large products are then faster than within a
  training step.
- **Configurations that a source does not state.** The notes above the tables and the last columns show what is assumed.
- **Power.** If a device has a power limit below its rated power, its peaks are assumed to be lower in proportion.
- **Network.** The prediction does not model congestion, slow devices, or multiprocessors that work on exchanges instead
  of kernels. Therefore the predicted speeds of runs on 512 and 1,024 devices are too high.
- **Host.** The prediction assumes that the CPU of a machine never delays a launch.
- **Experts.** The prediction assumes that tokens are spread evenly over the experts, that one kernel computes all
  experts of a device, and that the CPU never waits for the number of tokens of an expert.
- **Memory.** The prediction does not count buffers of libraries, fragmentation of the allocator, or tensors that a
  framework keeps although the gradient does not need them.
"""


@dataclass(frozen=True)
class Result:
    """A row of the file of published figures, with its prediction in the row's unit. `by_file` is a prediction that
    takes the efficiencies and launch time from the machine's own file, not from the row."""

    row: dict[str, Any]
    predicted: float
    by_file: float

    @property
    def error(self) -> float:
        """The relative error of the prediction; positive if the prediction is too large."""
        return self.predicted / float(self.row["published"]) - 1

    @property
    def error_by_file(self) -> float:
        """The relative error of `by_file`; positive if this prediction is too large."""
        return self.by_file / float(self.row["published"]) - 1


def is_setting(name: str) -> bool:
    """Returns whether a machine parameter is a launch time, or an efficiency that software reaches; other parameters
    come from a data sheet."""
    return name.endswith("_efficiency") or name == "launch_seconds"


def machines(row: dict[str, Any]) -> tuple[Accelerator, Accelerator]:
    """Returns the machine with all changes of the row, and the machine with the efficiencies and launch time of its own
    file."""
    machine, changes = read_machine(row["machine"]), row.get("set", {})
    assert isinstance(machine, Accelerator)
    without = {name: value for name, value in changes.items() if not is_setting(name)}
    return machine.with_changes(changes), machine.with_changes(without)


def predict(row: dict[str, Any], machine: Accelerator) -> float:
    """Returns the predicted figure of a row."""
    if row["kind"] == "product":
        m, n, k = row["product"]
        moved = 2 * (m * k + k * n + m * n)
        return operation_seconds(Operation("product", "projection", moved, (Product(1, m, n, k, "bf16"),)), machine)
    config = replace(read_transformer(row["transformer"]), **row.get("config", {}))
    if row["kind"] == "decoding":
        return predict_decoding(config, machine, **row["decoding"]).tokens_per_second
    training = Training(**row["training"], parallelism=Parallelism(**row["parallelism"]))
    if row["kind"] == "memory":
        memory = training_memory(config, training)
        state = memory.weights + memory.gradients + memory.optimizer
        return {"state": state, "activations": memory.activations, "total": memory.total}[row["quantity"]] / GIB
    return float(getattr(predict_training(config, machine, training), row["quantity"]))


def results() -> list[Result]:
    """Returns the results of all rows, in the order of the file."""
    rows = json.loads((FOLDER / "published_steps.json").read_text())
    return [Result(row, *(predict(row, machine) for machine in machines(row))) for row in rows]


def mean_error(found: Iterable[Result]) -> float:
    """Returns the mean of the absolute values of the rows' relative errors."""
    return mean(each.error for each in found)


def mean(errors: Iterable[float]) -> float:
    """Returns the mean of the absolute values of these numbers."""
    sizes = [abs(each) for each in errors]
    return sum(sizes) / len(sizes)


def seen(found: list[Result]) -> list[Result]:
    """Returns the results for training steps whose rows do not have the entry `blind`: dense models with good kernels
    and a known configuration. The prediction is meant for such steps."""
    return [each for each in found if each.row["kind"] == "training" and "blind" not in each.row]


def page(found: list[Result]) -> str:
    """Returns the text of docs/performance/roofline-published.md."""
    groups = list(dict.fromkeys(each.row["group"] for each in found))
    lines = ["| figures | rows | mean error | file's settings | hold-outs | their mean error |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for group in groups:
        lines.append(summary(group, [each for each in found if each.row["group"] == group]))
    steps = [each for each in found if each.row["kind"] == "training"]
    lines.append(summary("**all training steps**", steps))
    lines.append(summary("**training steps that are not marked as blind**", seen(found)))
    lines.append(summary("**all rows**", found))
    for group in groups:
        lines += ["", f"## {group}", ""]
        of_group = [each for each in found if each.row["group"] == group]
        sources = dict.fromkeys(each.row["source"] for each in of_group)
        assumed = dict.fromkeys(each.row["assumed"] for each in of_group if "assumed" in each.row)
        lines += wrap(f"Source: {'; '.join(sources)}.", 120)
        for number, text in enumerate(assumed, 1):
            lines += wrap(f"Assumed ({number}): {text}.", 120)
        lines += ["", "| row | published | predicted | error | |", "| --- | --- | --- | --- | --- |"]
        lines += [line(each, list(assumed)) for each in of_group]
    return HEAD + "\n".join(lines) + "\n" + TAIL


def held_out(found: list[Result]) -> list[Result]:
    """Returns the results of the rows that were added after all settings and assumptions had been fixed. No setting was
    fitted to them."""
    return [each for each in found if each.row.get("held_out")]


def summary(name: str, found: list[Result]) -> str:
    """Returns a table row with the mean errors of a group of results, and of the hold-outs in the group."""
    others = held_out(found)
    is_changed = any(is_setting(each) for result in found for each in result.row.get("set", {}))
    cells = [
        name,
        str(len(found)),
        f"{mean_error(found) * 100:.1f} %",
        f"{mean(each.error_by_file for each in found) * 100:.1f} %" if is_changed else "",
        str(len(others) or ""),
        f"{mean_error(others) * 100:.1f} %" if others else "",
    ]
    return f"| {' | '.join(cells)} |"


def line(result: Result, assumed: list[str]) -> str:
    """Returns the table row of one result. Its notes refer to `assumed`, the numbered list of assumptions, by
    number."""
    row = result.row
    notes = [f"assumed ({assumed.index(row['assumed']) + 1})"] if "assumed" in row else []
    notes += [f"blind: {row['blind']}"] if "blind" in row else []
    notes += [f"looked at {row['looked_at']}"] if "looked_at" in row else []
    notes += ["hold-out"] if row.get("held_out") else []
    unit = UNITS.get(row["quantity"], "GiB")
    published, predicted = shown(float(row["published"]), unit), shown(result.predicted, unit)
    return f"| {row['name']} | {published} | {predicted} | {result.error * 100:+.1f} % | {'; '.join(notes)} |"


def shown(value: float, unit: str) -> str:
    """Formats a value with its unit. Times below half a second are in milliseconds, longer ones in seconds."""
    if unit == "s" and value < 0.5:
        return f"{value * 1e3:.4g} ms"
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    options = parser.parse_args()
    options.output.write_text(page(results()))


if __name__ == "__main__":
    main()
