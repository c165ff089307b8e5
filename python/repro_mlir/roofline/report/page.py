# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Renders predictions as self-contained HTML pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro_mlir.pages import document, escaped, listed
from repro_mlir.roofline.report.data import Case, as_json, sweep_as_json
from repro_mlir.roofline.sweep_points import SweepPoint

_FOLDER = Path(__file__).parent


def prediction_page(program: str, cases: Sequence[Case]) -> str:
    """Returns a page with the roofline of each kernel, the timeline of launches, the ledger and a machine comparison.

    Args:
      program: the name of the program.
    """
    shown: list[dict[str, Any]] = []
    for case in cases:
        if case.given is not None:
            shown.append({"label": case.given_label, **as_json(case.given, None)})
        shown.append({"label": case.label, **as_json(case.prediction, case.ledger)})
    memory = cases[0].prediction.memory
    facts = (
        ("compiled for", cases[0].prediction.setting),
        ("launches of a step", f"{len(shown[0]['launches']):,}"),
        ("memory", f"{sum(memory.values()):,} bytes"),
        *((f"of it {space}", f"{size:,} bytes") for space, size in memory.items()),
    )
    body = f"""<header>
<h1>Roofline of {escaped(program)}</h1>
{listed(facts)}
</header>
<noscript><p class="note">This page is drawn by a script that is in it.</p></noscript>
<main>
<section>
<h2>Time of a step</h2>
<p class="soft">Predicted, by cause. <span data-measured>The line across a bar is what was measured: hatched is what no
cause explains, red what was predicted beyond it.</span></p>
<div class="keys" id="causes"></div>
<div id="steps"></div>
<div id="ledger" data-label="Causes of the time of a step"></div>
</section>
<section>
<h2>Roofline</h2>
<p class="soft">A dot is a kernel, its area the time of its launches, its color the cause that takes most of it.
<span data-times>A ring is what was measured. </span>A kernel whose bytes come from one level stays below its line,
and all stay below the flat one.</p>
<div class="bar"><label data-several>machine <select id="machine"></select></label>
<label>bytes <select id="level"></select></label><label>operations <select id="unit"></select></label></div>
<div class="keys" id="lines"></div>
<div class="panel" id="roofline"></div>
<p class="soft" id="left-out" aria-live="polite"></p>
<h2>Kernels</h2>
<div id="kernels" data-label="Kernels"></div>
</section>
<section>
<h2>Launches in time</h2>
<p class="soft">One after the other, colored by the cause that takes most. The arrow keys walk through them.</p>
<div class="panel" id="timeline"></div>
</section>
<section data-several>
<h2>Kernels by machine</h2>
<div id="machines" data-label="Kernels by machine"></div>
</section>
</main>"""
    files = [_FOLDER / name for name in ("page.css", "axes.js", "page.js")]
    return document(f"Roofline of {program}", body, {"predictions": shown}, files)


def sweep_page(program: str, points: Sequence[SweepPoint], losses: Mapping[str, Sequence[float | None]]) -> str:
    """Returns a page that plots step times against the changed parameters, and losses against training time.

    Args:
      program: the name of the program file.
      losses: the losses of training runs, by the name of the program (`SweepPoint.program`).
    """
    body = f"""<header>
<h1>Sweep of {escaped(program)}</h1>
{listed([("points", f"{len(points):,}")])}
</header>
<noscript><p class="note">This page is drawn by a script that is in it.</p></noscript>
<main>
<section data-losses>
<h2>Loss against predicted time</h2>
<p class="soft">One training under each recipe, computed here with its bits. The time is what the machine is predicted
to take.</p>
<div class="bar"><label>machine <select id="point"></select></label>
<label>mean of <select id="loss-mean"><option value="1">1 step</option><option value="10">10 steps</option>
<option value="30">30 steps</option></select></label></div>
<div class="keys" id="recipes"></div>
<div class="panel" id="losses"></div>
</section>
<section>
<h2>Time of a step</h2>
<div class="bar"><label>by <select id="across"></select></label></div>
<div class="keys" id="series"></div>
<div class="panel" id="times"></div>
<h2>Points</h2>
<div id="points" data-label="Points"></div>
</section>
</main>"""
    files = [_FOLDER / name for name in ("page.css", "axes.js", "sweep.js")]
    return document(f"Sweep of {program}", body, sweep_as_json(points, losses), files)
