# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes self-contained HTML pages: one file contains the data and the scripts that draw the data."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from repro_mlir.base.printing import printable

_FOLDER = Path(__file__).parent


def escaped(text: str) -> str:
    """Escapes untrusted text for HTML, so that the text cannot end an element, and replaces control characters."""
    return html.escape(printable(text))


def listed(facts: Iterable[tuple[str, str]]) -> str:
    """Returns a description list, as HTML, of terms and descriptions that are HTML."""
    rows = "".join(f"<div><dt>{term}</dt><dd>{description}</dd></div>" for term, description in facts)
    return f'<dl class="facts">{rows}</dl>'


def document(title: str, body: str, data: Any, files: Sequence[Path]) -> str:
    """Returns a page as HTML text; its content security policy forbids the browser to load anything.

    Args:
      title: any text.
      body: HTML in which untrusted text is already `escaped`.
      data: the value of the global variable `D` of the scripts. JSON must be able to represent it; numbers must be
        finite.
      files: styles (.css) and scripts (.js) of this page, in order. They come after the styles and scripts that all
        pages have.
    Raises:
      ValueError: a number of the data is not finite.
    """
    # JSON escapes for <, > and & keep the data from ending the script element.
    text = json.dumps(data, allow_nan=False)
    embedded = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    parts = [_FOLDER / "base.css", _FOLDER / "base.js", *files]
    style, script = (
        "\n".join(path.read_text("utf-8") for path in parts if path.suffix == suffix) for suffix in (".css", ".js")
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{embedded}</script>
<script>{script}</script>
</body>
</html>
"""
