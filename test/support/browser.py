# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks the HTML of pages, and runs pages in a browser if one is installed."""

from __future__ import annotations

import html
import re
import shutil
import struct
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

OVERLAPS = """
const overlaps = [...document.querySelectorAll("svg")].flatMap(svg => {
  const boxes = [...svg.querySelectorAll("text")].map(each => each.getBoundingClientRect());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom));
});
say("overlaps", overlaps.length);
"""
"""A script that reports the number of overlapping labels in the drawings of a page."""

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")


class Structure(HTMLParser):
    """Records the open elements, the ids and the URLs (`src`, `href`) of a page."""

    EMPTY = ("meta", "link", "br", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Records an opened element, its URL and its id."""
        if tag not in self.EMPTY:
            self.open.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        """Checks that an end tag closes the innermost open element."""
        assert self.open.pop() == tag


def check_structure(text: str) -> None:
    """Checks that a page closes its elements and loads no URL, that ids are unique, and that the page's script uses
    only ids that exist."""
    structure = Structure()
    structure.feed(text)
    assert structure.open == [] and structure.loads == ["data:,"]
    asked = set(re.findall(r'\$\("([\w-]+)"\)', text))
    assert asked <= {*structure.ids} and len(structure.ids) == len({*structure.ids})


def run(page: Path, *options: str) -> str:
    """Runs the browser with these options on a page and returns its output. Fails if the page's script logs
    anything."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run([*command, profile, *options, page.as_uri()], capture_output=True, text=True, timeout=120)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    return done.stdout


def used(page: Path, script: str, width: int = 1280) -> list[str]:
    """Runs a script in the page. Returns a line "name: value" for each call of `say(name, value)` in the script."""
    begin = "<script>\nconst said = [], say = (name, value) => said.push(name + ': ' + value);\n"
    end = "document.body.innerHTML = '<pre id=said></pre>';\n"
    end += "document.getElementById('said').textContent = said.join('\\n');\n</script>\n</body>"
    other = page.with_name("used.html")
    other.write_text(page.read_text().replace("</body>", begin + "{\n" + script + "}\n" + end))
    (said,) = re.findall(
        '<pre id="said">(.*?)</pre>', run(other, f"--window-size={width},900", "--dump-dom"), re.DOTALL
    )
    return html.unescape(str(said)).splitlines()


def different_rows(page: Path, width: int, height: int) -> int:
    """Returns the number of different pixel rows in a screenshot of the page; an empty page has few."""
    picture = page.with_suffix(".png")
    run(page, f"--window-size={width},{height}", f"--screenshot={picture}")
    data = picture.read_bytes()
    found, at, parts = (0, 0), 8, []
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IHDR":
            found = struct.unpack(">II", data[at + 8 : at + 16])
        if kind == b"IDAT":
            parts.append(data[at + 8 : at + 8 + size])
        at += size + 12
    pixels = zlib.decompress(b"".join(parts))
    assert found == (width, height)
    row = len(pixels) // height
    return len({pixels[i * row : (i + 1) * row] for i in range(height)})
