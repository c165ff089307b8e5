# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that everything that documents name exists: files, folders, links, tests, passes, operations, options,
identifiers."""

from __future__ import annotations

import functools
import hashlib
import importlib
import re
import subprocess
from pathlib import Path

import mlir
import pytest
from repro_mlir import ir
from repro_mlir._mlir_libs import _repro

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TESTS = [file for file in sorted((ROOT / "test").rglob("*")) if file.suffix in (".py", ".mlir", ".json")]
PATH = r"(?<![\w/.-])((?:python|lib|dialects|docs|test|tools|examples|benchmarks)/[\w/.-]*\w)"
FUNCTIONS = {name for file in TESTS if file.suffix == ".py" for name in re.findall(r"def (test_\w+)", file.read_text())}


def _anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    # Removes code blocks first, because C++ lambdas look like links.
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        assert "://" in link or (page.parent / link).exists(), link
        target = page.parent / link if link else page
        assert not anchor or "://" in link or anchor in _anchors(target), f"{link}#{anchor}"


def test_diagram() -> None:
    """The picture of the site shows the diagram of architecture.md as it is now."""
    page = (ROOT / "docs" / "contributors" / "architecture.md").read_text()
    (diagram,) = re.findall(r"^```mermaid\n(.*?)^```", page, flags=re.M | re.S)
    picture = (ROOT / "docs" / "images" / "program.svg").read_text()
    assert hashlib.sha256(diagram.encode()).hexdigest() in picture, "render the diagram again with mermaid"


def test_index() -> None:
    """docs/README.md describes every page."""
    index = ROOT / "docs" / "README.md"
    described = re.findall(r"^- \[[^]]+\]\(([\w/.-]+)\): [^\n]", index.read_text(), flags=re.M)
    assert {str(page.relative_to(index.parent)) for page in PAGES if index.parent in page.parents} - set(described) == {
        "README.md"
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_first_sentence(page: Path) -> None:
    """A page begins with its title and a sentence; the title must not be followed by a heading, list, table or code."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.S).strip()
    assert re.match(r"# [^\n]+\n\n+[A-Z`_][^|]", text), text[:200]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_readers(page: Path) -> None:
    """The first paragraph of a page in docs says for whom the page is."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.S).strip()
    assert page.parent == ROOT or re.search(r"\b(is|are) for\b", re.split(r"\n\n+", text)[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths(page: Path) -> None:
    for path in re.findall(PATH, page.read_text()):
        # A last part in capitals, such as NAME, is a placeholder; the folder before it must exist.
        file = ROOT / re.sub(r"/[A-Z]+(\.\w+)?$", "", path)
        # A path without a suffix may stand for several files: `Name` for Name.h and Name.cpp.
        assert file.exists() or list(file.parent.glob(f"{file.name}.*")), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_tests(page: Path) -> None:
    files = {file.name for file in TESTS}
    for name in re.findall(r"\b(?:test_\w+|verify-[\w-]+)(?:\.py|\.mlir)?", page.read_text()):
        known = name in files if name.endswith((".py", ".mlir")) else name in FUNCTIONS or not name.startswith("test_")
        assert known, name


def test_make_targets() -> None:
    """Each make target that documents, hooks or CI use is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    callers = [*PAGES, ROOT / ".ci" / "run", ROOT / ".pre-commit-config.yaml", *(ROOT / ".github").rglob("*.*")]
    called = {
        (str(file.relative_to(ROOT)), name)
        for file in callers
        for name in re.findall(r"(?:`|run: |entry: |exec |^    )make ([a-z-]+)", file.read_text(), flags=re.M)
    }
    assert len(called) > 10 and {name for _, name in called} <= targets, called


# --- Names in backticks ---

NAME = re.compile(r"(--?)?[#@%]?[A-Za-z_][\w.:/-]*(\(\))?")
SUFFIXES = tuple(f".{each}" for each in "c cpp def h inc json jsonl md mlir py pyi td toml txt yaml yml".split())
EXAMPLES = {
    *("model.py:12", "train.py", "state.npz", "run.receipt", "model.rmb"),  # files of a user
    *("circle.py", "circle.precision/report.html", "circle.precision/report.json"),  # files of the tutorials
    *("answer-N.json", "question-N.json"),  # N is a number
}
"""Names of examples, which do not exist."""


@functools.cache
def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


@functools.cache
def _sources() -> dict[Path, str]:
    """Returns the text of each source by its path. Documents are not included: a name in a document must exist outside
    of the documents."""
    return {
        file: file.read_text(errors="replace")
        for file in _tracked()
        if file.suffix != ".md"
        and file.name not in ("requirements.lock", Path(__file__).name)
        and "results" not in file.parts
    }


@functools.cache
def _words() -> set[str]:
    return {word for text in _sources().values() for word in re.findall(r"\w+", text)}


@functools.cache
def _options() -> set[str]:
    """Returns the options of repro-opt, which include its passes and pipelines."""
    tool = Path(_repro.__file__).with_name("repro-opt")
    shown = subprocess.run([tool, "--help-hidden"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ +--([\w-]+)", shown, flags=re.M))


def _is_imported(name: str) -> bool:
    module, *rest = name.split(".")
    value = importlib.import_module(module)
    for part in rest:
        module = f"{module}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(module)
            except ImportError:
                return False
    return True


def _is_member(kind: str, member: str) -> bool:
    """Returns whether a source declares the class or struct `kind` and also contains the word `member`."""
    declared, used = re.compile(rf"\b(class|struct|def) {kind}\b"), re.compile(rf"\b{member}\b")
    return any(declared.search(text) and used.search(text) for text in _sources().values())


def _is_file(name: str) -> bool:
    """Returns whether `name` is a file or folder of the tree, a file name in the sources, or a header of MLIR."""
    name = name.removesuffix("/READER").rstrip("/")
    return (
        (ROOT / name).exists()
        or any(str(file).endswith(f"/{name}") for file in _tracked())
        or any(f'"{name}"' in text for text in _sources().values())
        or (Path(mlir.__path__[0]) / "include" / name).exists()
    )


def _is_operation(name: str) -> bool:
    with ir.Context() as context:
        context.load_all_available_dialects()
        return context.is_registered_operation(name)


def _exists(name: str) -> bool:
    """Returns whether a name in backticks is a file, a pass, an operation, a word of the sources, or a digest."""
    plain = name.removesuffix("()").lstrip("#@%")
    if plain in EXAMPLES or re.fullmatch("[0-9a-f]{64}", plain):
        return True
    if plain.startswith("-"):
        option = plain.lstrip("-").split("=")[0]
        return option in _options() or any(f"--{option}" in text for text in _sources().values())
    if ("/" in plain and (ROOT / plain.split("/")[0]).is_dir()) or plain.endswith(SUFFIXES):
        return _is_file(plain)
    if re.fullmatch(r"repro-[a-z-]+", plain):
        return plain in _options() or any(f'"{plain}' in text for text in _sources().values())
    if plain.startswith("repro_mlir."):
        return _is_imported(plain)
    if member := re.fullmatch(r"([A-Z]\w+)\.(\w+)", plain):
        return _is_member(*member.groups())
    if plain.startswith("repro."):
        return _is_operation(plain) or any(plain in text for text in _sources().values())
    # Words of one letter stand for numbers and are not looked up.
    words = [word for word in re.findall(r"[A-Za-z_]\w*", plain) if len(word) > 1]
    return _is_operation(plain) or _is_operation(f"builtin.{plain}") or all(word in _words() for word in words)


def _names(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    return {span for span in re.findall(r"`([^`\n]+)`", text) if NAME.fullmatch(span)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_backticks(page: Path) -> None:
    # The generated reference of the dialects also names traits of MLIR, so only its names that begin with "repro" are
    # checked.
    ours = "repro" if "mlir" in page.parts else ""
    assert not [name for name in sorted(_names(page)) if name.startswith(ours) and not _exists(name)]


@pytest.mark.parametrize(
    "name",
    [
        *("lib/Dialect/Repro/IR/FunctionOps.cpp", "NoFile.cpp", "repro-no-pass", "repro_mlir.no_function"),
        *(
            "Trainer.no_method",
            "repro.no_operation",
            "no_word_of_the_code()".replace("word", "w0rd"),
            "--no-such-0ption",
        ),
    ],
)
def test_names_that_are_not_there(name: str) -> None:
    assert not _exists(name)
