# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes a report on determinism as a self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from repro_mlir.determinism_report.report import Report
from repro_mlir.determinism_report.text import percent
from repro_mlir.pages import document, escaped, listed

_FOLDER = Path(__file__).parent


def page(report: Report) -> str:
    """Returns the page as HTML text: the shares as bars, what is refused, PyTorch's operators, and the rules here."""
    facts = [("defined here", percent(report.defined) + " of the step")]
    if report.program is not None:
        facts.append(("program", f"<code>{escaped(report.program)}</code>"))
    if report.eager:
        everywhere = report.shares("cpu")["everywhere"]
        facts.append(("the same on every machine in PyTorch", f"{percent(everywhere.arithmetic)} of the arithmetic"))
    refusal = f'<p class="note">The compiler refuses the step. {escaped(report.refusal)}</p>' if report.refusal else ""
    accepted = ""
    if report.accepted is not None:
        accepted = (
            f'<p class="soft">Each operator was tried alone. The compiler accepts {percent(report.accepted.operators)} '
            f"of the operators and {percent(report.accepted.arithmetic)} of the arithmetic.</p>"
        )
    body = f"""<header>
<h1>Determinism of {escaped(report.name)}</h1>
{listed(facts)}
{refusal}
</header>
<noscript><p class="note">This page is drawn by a script that is in it. repro determinism --json prints the same
data.</p></noscript>
<main>
<section data-refused>
<h2>Refused operators</h2>
{accepted}
<div id="refused" data-label="Refused operators"></div>
</section>
<section data-eager>
<h2>PyTorch</h2>
<p class="soft">Where the results of PyTorch's operators are the same bits, if their operands are. The first bar of a
device counts operators, the second their arithmetic.</p>
<div id="grades"></div>
<div class="panel" id="shares"></div>
<h2>PyTorch's operators</h2>
<p class="soft">One step, without views. Point at a cause or a place for more.</p>
<div id="operators" data-label="Operators that PyTorch executes"></div>
</section>
<section data-operations>
<h2>Rules here</h2>
<p class="soft">The operations of the program, and the rules of docs/reference/numerics.md that define their results on
every machine.</p>
<div id="operations" data-label="Operations of the program"></div>
</section>
</main>"""
    return document(
        f"Determinism of {report.name}", body, report.as_json(), [_FOLDER / "page.css", _FOLDER / "page.js"]
    )
