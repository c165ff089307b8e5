# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Renders a difference as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro_mlir.pages import document, escaped
from repro_mlir.verification.difference.report import Difference, OperatorDifference, TensorDifference
from repro_mlir.verification.elements import ulps_text
from repro_mlir.verification.operators import Operator, OperatorGraph, Value

_FOLDER = Path(__file__).parent

_SHOWN = 7
"""The number of operators that the drawing shows on each side of the first one that differs."""

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 250, 48, 70, 14
_COLORS = {"differs": "#d9534f", "equal": "#5a9e6f", "unknown": "#999999"}


def page(difference: Difference) -> str:
    """Returns the HTML page that describes a difference."""
    first, second = (escaped(name) for name in difference.names)
    where = f"after step {difference.step}" if difference.is_change else f"from step {difference.step} on"
    parts = [f"<header><h1>{first} and {second} differ {where}</h1></header>", "<main>"]
    if difference.note:
        parts.append(f"<p>{escaped(difference.note)}</p>")
    tensor = difference.first
    if tensor is not None:
        parts.append(_element(difference, tensor))
    if difference.operators and difference.graph is not None:
        parts.append(_drawing(difference.graph, difference.operators, difference.equal))
    if tensor is not None:
        parts.append(f"<h2>Elements of {escaped(tensor.name)} by distance in ulps</h2>")
        parts.append(_histogram(tensor))
    if difference.operators:
        compared, computing = difference.compared
        parts.append("<h2>Operators that differ</h2>")
        parts.append(f'<p class="soft">{compared} of {computing} operators were compared.</p>')
        parts.append('<div id="operators" data-label="Operators that differ"></div>')
    for part, title in (("given", "Inputs and state that differ before the step"), ("results", "Results that differ")):
        if getattr(difference, part):
            parts.append(f'<h2>{title}</h2><div id="{part}" data-label="{title}"></div>')
    parts.append("</main><noscript>The tables need JavaScript. repro diff --json prints the same data.</noscript>")
    data = {
        "operators": [
            _row(each.tensor) | {"operator": each.operator.name, "index": each.operator.index}
            | {"origin": each.operator.origin}
            for each in difference.operators
        ],
        "given": [_row(each) for each in difference.given],
        "results": [_row(each) for each in difference.results],
    }  # fmt: skip
    files = [_FOLDER / "page.css", _FOLDER / "page.js"]
    return document(f"Difference of {' and '.join(difference.names)}", "\n".join(parts), data, files)


def _row(tensor: TensorDifference) -> dict[str, Any]:
    """Returns the fields of a row in a table of tensors."""
    element = tensor.element
    return {
        "tensor": str(tensor.kind),
        "count": element.count,
        "size": element.size,
        "ulps": element.max_ulps,
        "absolute": element.max_absolute,
        "ratio": element.ratio,
    }


def _element(difference: Difference, tensor: TensorDifference) -> str:
    element = tensor.element
    where = "given to the step" if difference.given else "a result"
    if difference.operators and not difference.given:
        operator = difference.operators[0].operator
        where = f"operator {operator.index}, <code>{escaped(operator.name)}</code>"
        if operator.origin:
            where += f", from <code>{escaped(operator.origin)}</code>"
    rows = [
        f"<tr><th>{escaped(name)}</th><td><code>{bits}</code></td><td class=n>{escaped(value)}</td></tr>"
        for name, bits, value in (
            (difference.names[0], element.first_bits, element.first),
            (difference.names[1], element.second_bits, element.second),
        )
    ]
    ratio = "" if element.ratio is None else f" ({element.ratio:.1e} of the largest value)"
    far = "" if element.ulps is None else f", {ulps_text(element.ulps)} apart"
    return (
        f"<p>First in <code>{escaped(str(tensor.kind))}</code> ({where}), "
        f"element <code>{list(element.index)}</code>{far}; {element.count:,} of {element.size:,} "
        f"elements differ, by at most {element.max_absolute:.2e}{ratio}.</p><table id=element>{''.join(rows)}</table>"
    )


def _histogram(tensor: TensorDifference) -> str:
    bars = tensor.histogram
    top = max(count for _, count in bars)
    rows = []
    for i, (label, count) in enumerate(bars):
        y = 22 * i
        length = 420 * count / top
        color = _COLORS["equal"] if label == "0" else _COLORS["differs"]
        rows.append(
            f'<text x="140" y="{y + 14}" text-anchor="end">{escaped(label)}</text>'
            f'<rect x="150" y="{y + 3}" width="{max(length, 1 if count else 0):.1f}" height="15" fill="{color}"/>'
            f'<text x="{156 + length:.1f}" y="{y + 14}">{count:,}</text>'
        )
    svg = f'<svg viewBox="0 0 680 {22 * len(bars) + 4}" width="680" role="img">{"".join(rows)}</svg>'
    return f'<div class="drawing">{svg}</div>'


def _drawing(graph: OperatorGraph, found: tuple[OperatorDifference, ...], equal: frozenset[int]) -> str:
    """Returns an HTML drawing of the first operator that differs, with the producers of its operands on the left and
    the users of its results on the right."""
    middle = found[0].operator
    differing = {each.operator.index for each in found}
    before = list(middle.inputs)[:_SHOWN]
    users = dict.fromkeys(i for value in middle.outputs for i in graph.users.get(value, ()))
    behind = [graph.operators[i] for i in users][:_SHOWN]
    returned = [i for i, value in enumerate(graph.results) if value.producer == middle.index]
    height = max(len(before), len(behind) + bool(returned), 1) * (_BOX_HEIGHT + _GAP_Y)

    def color(index: int | None) -> str:
        if index is None:
            return _COLORS["equal"]
        if index in differing:
            return _COLORS["differs"]
        return _COLORS["equal" if index in equal else "unknown"]

    def place(count: int, i: int) -> float:
        return height / 2 + (i - (count - 1) / 2) * (_BOX_HEIGHT + _GAP_Y) - _BOX_HEIGHT / 2

    x = [0, _BOX_WIDTH + _GAP_X, 2 * (_BOX_WIDTH + _GAP_X)]
    center = place(1, 0)
    shapes = [_box(x[1], center, color(middle.index), *_labels(middle))]
    for i, value in enumerate(before):
        y = place(len(before), i)
        shapes.append(_line(x[0] + _BOX_WIDTH, y, x[1], center))
        shapes.append(_box(x[0], y, color(value.producer), *_value_labels(graph, value)))
    ends = [(color(operator.index), *_labels(operator)) for operator in behind]
    if returned:
        program = graph.program
        kinds = (*program.state, *program.outputs)
        ends.append((_COLORS["differs"], "returned as", ", ".join(kinds[i].name for i in returned)))
    for i, (fill, *labels) in enumerate(ends):
        y = place(len(ends), i)
        shapes.append(_line(x[1] + _BOX_WIDTH, center, x[2], y))
        shapes.append(_box(x[2], y, fill, *labels))
    more = max(len(middle.inputs) - _SHOWN, 0), max(len(users) - _SHOWN, 0)
    note = f'<p class="soft">Not drawn: {more[0]} more inputs, {more[1]} more users.</p>' if any(more) else ""
    width = x[2] + _BOX_WIDTH
    return (
        "<h2>Operators around the first difference</h2>"
        f'<div class="drawing"><svg viewBox="-2 -2 {width + 4} {height + 4}" width="{width}" role="img">'
        f"{''.join(shapes)}</svg></div>{note}"
        '<p class="soft">Red: differs. Green: equal. Grey: not compared, since no result of the other run is known to '
        "correspond.</p>"
    )


def _labels(operator: Operator) -> tuple[str, str]:
    line = operator.line.rsplit("/", 1)[-1] if operator.line else ""
    shape = str(operator.outputs[0].kind).split(": ")[1] if operator.outputs else ""
    return f"{operator.index} {operator.name}", f"{shape} {line}"


def _value_labels(graph: OperatorGraph, value: Value) -> tuple[str, str]:
    if value.producer is not None:
        return _labels(graph.operators[value.producer])
    return value.name, "state" if value.position < len(graph.program.state) else "input"


def _box(x: float, y: float, color: str, title: str, below: str) -> str:
    return (
        f'<rect x="{x}" y="{y:.1f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" fill="{color}" '
        f'fill-opacity="0.18" stroke="{color}" stroke-width="1.5"/>'
        f'<text x="{x + 10}" y="{y + 20:.1f}">{escaped(_cut(title))}</text>'
        f'<text x="{x + 10}" y="{y + 37:.1f}" fill-opacity="0.7">{escaped(_cut(below))}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    y1, y2 = y1 + _BOX_HEIGHT / 2, y2 + _BOX_HEIGHT / 2
    bend = (x1 + x2) / 2
    return (
        f'<path d="M{x1} {y1:.1f} C{bend} {y1:.1f} {bend} {y2:.1f} {x2} {y2:.1f}" fill="none" stroke="#888" '
        'stroke-width="1.5"/>'
    )


def _cut(text: str) -> str:
    return text if len(text) <= 31 else text[:30] + "…"
