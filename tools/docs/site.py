# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the site of the documentation (`make site`): build/site/index.html.

Sphinx reads a copy of the pages, in which README.md is the first page, links lead to the copy, and the navigation
follows the headings of docs/README.md. Every warning, such as one about a link to a page or a heading that does not
exist, is an error. The site needs no network. Runs in the environment of docs/requirements.txt.
"""

import argparse
import os
import re
import shutil
from pathlib import Path

from sphinx.cmd.build import main as build

ROOT = Path(__file__).resolve().parents[2]
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributors/contributing.md",
}
"""The pages of the site that are not at their place below docs/."""

LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
TEXT_LINK = re.compile(r"\[([^]]*)\]\(([^)\s#]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", flags=re.M | re.S)
DIAGRAM = re.compile(r"^```mermaid\n.*?^```$", flags=re.M | re.S)
ENTRY = re.compile(r"^- \[[^]]+\]\(([\w/.-]+\.md)\)", flags=re.M)


def pages() -> list[Path]:
    """Returns the pages of the site."""
    return [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in MOVED if "/" not in name)]


def place(page: Path) -> str:
    """Returns the path of a page or another file in the copy."""
    name = page.relative_to(ROOT).as_posix()
    if name in MOVED:
        return MOVED[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}"


def copied(page: Path, folder: Path) -> str:
    """Returns the text of a page with the links of the copy; copies the files to which the page links."""
    here = Path(place(page)).parent

    def moved(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        if "://" in link:
            return match[0]
        target = (page.parent / link).resolve()
        if target.suffix != ".md":
            (folder / place(target)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, folder / place(target))
        return os.path.relpath(place(target), here) + anchor

    picture = os.path.relpath("images/program.svg", here)
    text = DIAGRAM.sub(f"![diagram]({picture})\n\n[The diagram in full size]({picture})", page.read_text())
    # The site has no pages for folders, so links to folders become text.
    text = TEXT_LINK.sub(lambda match: match[1] if (page.parent / match[2]).is_dir() else match[0], text)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in FENCE.split(text))


def navigation(folder: Path) -> str:
    """Writes a page for each group of docs/README.md, and returns the tables of contents for the first page."""
    index = copied(ROOT / "docs" / "README.md", folder)
    tables = []
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        direct, *groups = re.split(r"^### ", section, flags=re.M)
        title = section.partition("\n")[0]
        entries = ENTRY.findall(direct)
        for group in groups:
            name, _, body = group.partition("\n")
            path = Path("groups", f"{re.sub(r'[^a-z]+', '-', name.lower())}.md")
            (folder / path).parent.mkdir(exist_ok=True)
            listed = LINK.sub(lambda link: f"../{link[0]}" if "://" not in link[0] else link[0], body)
            (folder / path).write_text(f"# {name}\n{listed}\n{_table('', ENTRY.findall(listed))}")
            entries.append(path.as_posix())
        if title == "Contributing":
            entries.insert(0, MOVED["CONTRIBUTING.md"])
        tables.append(_table(title, entries))
    return "\n".join([_table("", [MOVED["docs/README.md"], MOVED["CHANGELOG.md"]]), *tables])


def _table(caption: str, entries: list[str]) -> str:
    lines = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries, "```", ""]
    return "\n".join(lines)


def main() -> int:
    """Returns the exit status of Sphinx."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write the site")
    site = parser.parse_args().folder.resolve()
    copy = site.with_name(f"{site.name}-pages")
    shutil.rmtree(copy, ignore_errors=True)
    for page in pages():
        target = copy / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(copied(page, copy))
    shutil.copytree(ROOT / "docs" / "images", copy / "images", dirs_exist_ok=True)
    with (copy / MOVED["README.md"]).open("a") as first:
        first.write(f"\n{navigation(copy)}")
    settings = ROOT / "tools" / "docs" / "sphinx"
    return build(["-q", "-W", "--keep-going", "-j", "auto", "-c", str(settings), str(copy), str(site)])


if __name__ == "__main__":
    raise SystemExit(main())
