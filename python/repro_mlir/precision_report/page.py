# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes a comparison of recipes as a self-contained HTML page, with the data and the script that draws it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro_mlir.pages import document, escaped, listed

_FOLDER = Path(__file__).parent
_MEASURES = {
    "result": "error of the result, against f32",
    "operand": "error of the operands (worst)",
    "saturated": "saturated elements (worst operand)",
    "underflowed": "elements that became zero (worst operand)",
    "limit": "blocks whose scale is at a limit (worst operand)",
    "nans": "NaN (worst operand)",
}


def page(data: Mapping[str, Any]) -> str:
    """Returns the page as HTML text.

    Args:
      data: the result of `Report.as_json`.
    """
    script = str(data["script"])
    facts = (
        ("steps", str(data["steps"])),
        ("target", escaped(str(data["target"]))),
        ("sampled steps", ", ".join(map(str, data["sampled"])) or "none"),
        ("state at the beginning (H3)", f"<code>{escaped(str(data['initial_state']))}</code>"),
    )
    note = f'<p class="note">{escaped(str(data["note"]))}</p>' if data["note"] else ""
    marks = ["a cross is the first loss that is not finite"]
    if any(run["validation"] for run in data["runs"]):
        marks.append("dots are the validation")
    if data["sampled"]:
        marks.append("triangles are the sampled steps")
    legend = ", ".join(marks)
    measures = "".join(f'<option value="{name}">{text}</option>' for name, text in _MEASURES.items())
    body = f"""<header>
<h1>Precision of {escaped(script)}</h1>
{listed(facts)}
{note}
</header>
<noscript><p class="note">This page is drawn by a script that is in it. The same data is in report.json.</p></noscript>
<main>
<section>
<h2>Losses</h2>
<p class="soft">One training, from the same state on the same batches. {legend[0].upper()}{legend[1:]}.</p>
<div class="bar"><div class="legend" id="legend" role="group" aria-label="Recipes that are drawn"></div>
<label>show <select id="loss-view"><option value="loss">loss</option><option value="log">loss, logarithmic</option>
<option value="difference">difference from f32</option></select></label>
<label>mean of <select id="loss-mean"><option value="1">1 step</option><option value="10">10 steps</option>
<option value="30">30 steps</option></select></label></div>
<div class="panel" id="losses"></div>
<h2>Runs</h2>
<p class="soft">Who trains the same gets the same hashes, on every target.</p>
<div id="runs" data-label="Runs"></div>
</section>
<section data-sampled>
<h2>Layers</h2>
<p class="soft">A sampled step is computed under the recipe and in f32, both from the state that the recipe's run has
there, on the same batch. A cell shows its operands below.</p>
<div class="bar"><label>role <select id="role"></select></label><label>step <select id="step"></select></label>
<label>measure <select id="measure">{measures}</select></label></div>
<div id="layers" data-label="Layers"></div>
<h2>Operands</h2>
<p><strong id="operands-title" aria-live="polite"></strong></p>
<p class="soft">Exponents of the elements before they are rounded. The dark band is what the format can hold, of blocks
under the median of the scales; the light one what it can hold under one or another. Red elements are outside of
both.</p>
<div class="charts" id="operands"></div>
<h2>All operands</h2>
<div class="bar"><label>recipe <select id="all-run"></select></label>
<label>step <select id="all-step"></select></label></div>
<div id="all" data-label="All operands"></div>
</section>
<section>
<h2>Weights at the end</h2>
<p class="soft">The 2-norm of the difference from the run in f32, relative to its weight.</p>
<div id="weights" data-label="Weights at the end"></div>
<h2>Left in f32</h2>
<p class="soft">Contractions that a recipe leaves as they are.</p>
<div id="left"></div>
</section>
</main>"""
    return document(f"Precision of {script}", body, data, [_FOLDER / "page.css", _FOLDER / "page.js"])
