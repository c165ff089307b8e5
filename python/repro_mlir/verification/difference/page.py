# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Renders a difference as one self-contained HTML page."""

from __future__ import annotations

import html

from repro_mlir.base.printing import printable
from repro_mlir.verification.difference.report import Difference, OperatorDifference, TensorDifference
from repro_mlir.verification.elements import ulps_text
from repro_mlir.verification.operators import Operator, OperatorGraph, Value

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } code { font: 13px ui-monospace, monospace; }
svg text { font: 12px ui-monospace, monospace; } .note { color: #666; } svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } svg text { fill: #ddd; } }
"""

_SHOWN = 7
"""The number of operators that the drawing shows on each side of the first one that differs."""

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 250, 48, 70, 14
_COLORS = {"differs": "#d9534f", "equal": "#5a9e6f", "unknown": "#999999"}


def escape(text: str) -> str:
    """Escapes text for HTML, including characters that are invisible or change the writing direction."""
    return html.escape(printable(text))


def page(difference: Difference) -> str:
    """Returns the HTML page that describes a difference."""
    first, second = (escape(name) for name in difference.names)
    parts = [f"<h1>{first} and {second} part at step {difference.step}</h1>"]
    if difference.note:
        parts.append(f"<p>{escape(difference.note)}</p>")
    tensor = difference.first
    if tensor is not None:
        parts.append(_element(difference, tensor))
    if difference.operators and difference.graph is not None:
        parts.append(_drawing(difference.graph, difference.operators, difference.equal))
    if tensor is not None:
        parts.append(f"<h2>How far apart the elements of {escape(tensor.name)} are, in ulps</h2>")
        parts.append(_histogram(tensor))
    if difference.operators:
        parts.append(_operators(difference))
    for title, tensors in (("What the step was given", difference.given), ("What it gave", difference.results)):
        if tensors:
            parts.append(f"<h2>{title}</h2>" + _tensors(tensors))
    title = f"{first} and {second}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _element(difference: Difference, tensor: TensorDifference) -> str:
    element = tensor.element
    where = "given to the step" if difference.given else "a result"
    if difference.operators and not difference.given:
        operator = difference.operators[0].operator
        where = f"operator {operator.index}, <code>{escape(operator.name)}</code>"
        if operator.origin:
            where += f", from <code>{escape(operator.origin)}</code>"
    rows = [
        f"<tr><th>{escape(name)}</th><td><code>{bits}</code></td><td class=n>{escape(value)}</td></tr>"
        for name, bits, value in (
            (difference.names[0], element.first_bits, element.first),
            (difference.names[1], element.second_bits, element.second),
        )
    ]
    far = "" if element.ulps is None else f", {ulps_text(element.ulps)} apart"
    return (
        f"<p>First in <code>{escape(str(tensor.kind))}</code> ({where}), "
        f"element <code>{list(element.index)}</code>{far}; {element.count:,} of {element.size:,} "
        f"elements differ.</p><table>{''.join(rows)}</table>"
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
            f'<text x="140" y="{y + 14}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="150" y="{y + 3}" width="{max(length, 1 if count else 0):.1f}" height="15" fill="{color}"/>'
            f'<text x="{156 + length:.1f}" y="{y + 14}">{count:,}</text>'
        )
    return f'<svg viewBox="0 0 680 {22 * len(bars) + 4}" width="680" role="img">{"".join(rows)}</svg>'


def _operators(difference: Difference) -> str:
    rows = [
        f"<tr><td class=n>{each.operator.index}</td><td><code>{escape(each.operator.name)}</code></td>"
        f"<td><code>{escape(each.operator.origin)}</code></td><td><code>{escape(str(each.tensor.kind))}</code></td>"
        f"<td class=n>{each.tensor.element.count:,}</td><td class=n>{_far(each.tensor)}</td></tr>"
        for each in difference.operators
    ]
    compared, computing = difference.compared
    return (
        f"<h2>Operators that differ</h2><p class=note>{compared} of {computing} operators were compared.</p>"
        "<table><tr><th></th><th>operator</th><th>line</th><th>result</th><th>elements</th><th>ulps, at most</th></tr>"
        f"{''.join(rows)}</table>"
    )


def _tensors(tensors: tuple[TensorDifference, ...]) -> str:
    rows = [
        f"<tr><td><code>{escape(str(each.kind))}</code></td><td class=n>{each.element.count:,} of {each.element.size:,}"
        f"</td><td class=n>{_far(each)}</td></tr>"
        for each in tensors
    ]
    return f"<table><tr><th>tensor</th><th>elements</th><th>ulps, at most</th></tr>{''.join(rows)}</table>"


def _far(tensor: TensorDifference) -> str:
    return "NaN" if tensor.element.max_ulps is None else f"{tensor.element.max_ulps:,}"


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
    note = f"<p class=note>Not drawn: {more[0]} more inputs, {more[1]} more users.</p>" if any(more) else ""
    width = x[2] + _BOX_WIDTH
    return (
        f'<h2>Around it</h2><svg viewBox="-2 -2 {width + 4} {height + 4}" width="{width}" role="img">'
        f"{''.join(shapes)}</svg>{note}<p class=note>Red differs, green is equal, grey was not compared.</p>"
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
        f'<text x="{x + 10}" y="{y + 20:.1f}">{escape(_cut(title))}</text>'
        f'<text x="{x + 10}" y="{y + 37:.1f}" fill-opacity="0.7">{escape(_cut(below))}</text>'
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
