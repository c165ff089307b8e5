# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes a comparison as a self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from repro_mlir.pages import document, escaped, listed
from repro_mlir.tensor_dumps.comparison import Comparison
from repro_mlir.tensor_dumps.report import as_json

_FOLDER = Path(__file__).parent
_DRAWN = 2000
"""The maximum number of differing tensors, and of tensors and steps of one side, that the page contains."""


def page(comparison: Comparison) -> str:
    """Returns the page as HTML text: the first difference, the differing tensors in order, with a histogram of
    distances for each, and the tensors that only one side has."""
    data = as_json(comparison)
    data["differences"] = data["differences"][:_DRAWN]
    data["drawn"] = _DRAWN
    names = [escaped(name) for name in comparison.names]
    facts = (
        ("first", f"<code>{names[0]}</code>"),
        ("second", f"<code>{names[1]}</code>"),
        *((("steps", " and ".join(f"{count:,}" for count in comparison.steps)),) if any(comparison.steps) else ()),
        ("compared tensors", f"{comparison.compared:,}"),
        ("differ", f"{comparison.different:,}"),
        ("only in one", f"{sum(comparison.alone):,}"),
    )
    different = _note(comparison.different, "differ")
    listed_rows = sum(len(each) for each in comparison.missing) + sum(len(each) for each in comparison.missing_steps)
    alone = _note(listed_rows + sum(comparison.unlisted), "are only in one side")
    body = f"""<header>
<h1 id="title"></h1>
{listed(facts)}
</header>
<noscript><p class="note">This page is drawn by a script that is in it. repro diff --json prints the same data.</p>
</noscript>
<main>
<section data-different>
<h2>Differing tensors</h2>
<p class="soft">The order is that of the first side. Each dot is a tensor. Select a dot or a name to see its first
differing element and its histogram.</p>
{different}
<div class="panel" id="chart"></div>
<div id="tensors" data-label="Differing tensors"></div>
</section>
<section data-different>
<h2 id="tensor-title" aria-live="polite"></h2>
<p class="soft" id="tensor-summary"></p>
<div class="scroll" id="element"></div>
<h3 id="histogram-title"></h3>
<div class="panel" id="histogram"></div>
</section>
<section data-alone>
<h2>Tensors of one side</h2>
{alone}
<div id="alone" data-label="Tensors that only one side has"></div>
</section>
</main>"""
    title = f"Difference of {comparison.names[0]} and {comparison.names[1]}"
    return document(title, body, data, [_FOLDER / "page.css", _FOLDER / "page.js"])


def _note(count: int, what: str) -> str:
    """Returns a note if the page does not list all tensors; else an empty text."""
    left = count - _DRAWN
    return f'<p class="note">The page lists the first {_DRAWN:,}; {left:,} more {what}.</p>' if left > 0 else ""
