# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Renders the mapping of a step onto a machine of many cores as a self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro_mlir.pages import document, escaped, listed
from repro_mlir.roofline.cores.mapping import Mapping

_FOLDER = Path(__file__).parent
_SHARED = _FOLDER.parent / "report"

_MOST_INTERVALS = 20_000
"""The page contains at most this number of intervals of the simulated timeline."""


def mapping_page(program: str, mapping: Mapping) -> str:
    """Returns a page with the use of the cores, the timeline, the memory of a core over time, the phases and the
    tensors.

    Args:
      program: the name of the program.
    """
    data = mapping.data
    facts = (
        ("machine", data["machine"]),
        ("cores", f"{data['cores_available']:,}"),
        ("launches of a step", f"{len(data['launches']):,}"),
        ("DRAM", f"{sum(mapping.dram.values()):,} of {data['dram_bytes_available']:,} bytes"),
    )
    body = f"""<header>
<h1>Mapping of {escaped(program)}</h1>
{listed((name, escaped(str(value))) for name, value in facts)}
</header>
<noscript><p class="note">This page is drawn by a script that is in it.</p></noscript>
<main>
<section>
<h2>Cores</h2>
<p class="soft">A square is a core. Its color shows the part of the step in which the core runs kernels.</p>
<div class="keys" id="uses"></div>
<div class="panel" id="cores"></div>
</section>
<section>
<h2>Launches in time</h2>
<p class="soft">Predicted, one after the other, colored by what bounds the launch. The arrow keys walk through the
launches.</p>
<div class="keys" id="bounds"></div>
<div class="panel" id="timeline"></div>
</section>
<section data-simulated>
<h2>Cores in time</h2>
<p class="soft">Simulated. A row is a core. Transfers are drawn below the other intervals.</p>
<div class="keys" id="kinds"></div>
<div class="panel" id="simulated"></div>
<p class="soft" id="left-out"></p>
</section>
<section>
<h2>Memory of a core in time</h2>
<p class="soft">The bytes that the buffers, the scratch memory and the error word of a launch take in each of its cores.
The line at the top is the data memory of a core.</p>
<div class="panel" id="memory"></div>
</section>
<section>
<h2>Phases</h2>
<div id="phases" data-label="Phases"></div>
<h2>Tensors</h2>
<div id="tensors" data-label="Tensors"></div>
</section>
</main>"""
    files = [_SHARED / "page.css", _SHARED / "axes.js", _FOLDER / "page.js"]
    return document(f"Mapping of {program}", body, _shown(mapping), files)


def _shown(mapping: Mapping) -> dict[str, Any]:
    """Returns the data of the page. The longest intervals of a simulated timeline are in it, in the order of their
    begins."""
    found = mapping.described()
    if mapping.simulated is not None:
        timeline = mapping.simulated.get("timeline", [])
        longest = sorted(timeline, key=lambda each: each["begin"] - each["end"])[:_MOST_INTERVALS]
        shown = sorted(longest, key=lambda each: each["begin"])
        rows = [[each["kind"], each["core"], each["begin"], each["end"]] for each in shown]
        found["simulated"] = {**mapping.simulated, "timeline": rows, "left_out": len(timeline) - len(rows)}
    return found
