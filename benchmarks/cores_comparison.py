# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares predictions for machines of many cores with published figures, as a table of Markdown.

    python benchmarks/cores_comparison.py PREDICTIONS.json PUBLISHED.json

PREDICTIONS.json is a file of cores_predictions.py. The error of a row is that of the middle of its range. The table
ends with the median of the errors and the rank correlation (Spearman's), of the rows of the kind `prediction`, and of
these together with the rows whose shape is assumed. Calibrations count in neither.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_KINDS = {"calibration": "calibration", "assumed shape": "assumed shape", "prediction": ""}


def _shown(numbers: Sequence[float]) -> str:
    return " to ".join(f"{number:,.0f}" if number >= 1000 else f"{number:.3g}" for number in numbers)


def error(predicted: Sequence[float], published: Sequence[float]) -> float:
    """The relative error of the middle of a range."""
    return statistics.mean(predicted) / statistics.mean(published) - 1


def _ranks(numbers: Sequence[float]) -> list[float]:
    """The rank of each number; equal numbers share the mean of their ranks."""
    return [sum(other < number for other in numbers) + (numbers.count(number) - 1) / 2 for number in numbers]


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation of the ranks."""
    return statistics.correlation(_ranks(x), _ranks(y))


def compare(predictions: dict[str, Any], published: dict[str, Any]) -> str:
    """Returns the table. Each published figure has a prediction."""
    known = {(row["machine"], row["name"]): row for row in predictions["rows"]}
    lines = ["| machine | figure | predicted | published | error | |", "| --- | --- | --- | --- | --- | --- |"]
    compared = []
    for row in published["rows"]:
        of = known[row["machine"], row["name"]]
        compared.append((of["kind"], of["predicted"], row["published"]))
        unit = of["unit"]
        cells = (
            row["machine"],
            row["name"],
            f"{_shown(of['predicted'])} {unit}",
            f"{_shown(row['published'])} {unit}",
            f"{100 * error(of['predicted'], row['published']):+.0f} %",
            _KINDS[of["kind"]],
        )
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    lines.append("")
    for kinds in (["prediction"], ["prediction", "assumed shape"]):
        pairs = [(p, q) for kind, p, q in compared if kind in kinds]
        errors = statistics.median(abs(error(p, q)) for p, q in pairs)
        ranks = rank_correlation(*zip(*((statistics.mean(p), statistics.mean(q)) for p, q in pairs), strict=True))
        what = " and ".join(kinds)
        lines.append(f"- {what}: {len(pairs)} rows, median error {100 * errors:.0f} %, rank correlation {ranks:.2f}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS.json")
    parser.add_argument("published", type=Path, metavar="PUBLISHED.json")
    options = parser.parse_args()
    print(compare(*(json.loads(path.read_text()) for path in (options.predictions, options.published))), end="")


if __name__ == "__main__":
    main()
