# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks formats, license headers, includes across targets, names of tests, the width and the language of prose; in
files that git tracks.

Prints one line per finding and exits with 1 if there is one. --fix lets clang-format and ruff rewrite files.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sysconfig.get_path("scripts"))
LICENSE = [
    "Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.",
    "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception",
]
WIDTH = 120
# Maps each folder of lib/Codegen to the folders that it must not include.
FOREIGN = {
    "lib/Codegen/CPU": "Codegen/GPU",
    "lib/Codegen/GPU": "Codegen/CPU",
    "lib/Codegen/Common": "Codegen/(CPU|GPU)",
    "lib/Codegen/Functions": "Codegen/(CPU|GPU)",
    "lib/Codegen/Schedule": "Codegen/(Common|CPU|GPU)",
}

# Folders whose comments and docstrings follow the rules of docs/style.md.
PLAIN = ("python/repro_mlir/",)
# Patterns that docs/style.md forbids, and what to write instead.
FORBIDDEN = (
    (re.compile(r"^(Of|Behind|Beside|What|Which|Whose)\b"), "a subject first"),
    (re.compile(r"(?<!there )(?<!There )\b(is|are|was|were) no (?!longer|more|less)[a-z]"), "is not a"),
    (re.compile(r"\b[sS]o many\b"), "the number of"),
    (re.compile(r"\banew\b"), "again"),
    (re.compile(r"\b[bB]eside\b"), "next to, in addition to"),
    (re.compile(r"\b[bB]ehind\b"), "after"),
)


def tracked(*suffixes: str) -> list[Path]:
    """Returns the existing files under version control that end in one of `suffixes`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name.endswith(suffixes) and not name.startswith(".venv/")]
    return [file for file in files if file.is_file()]


def check_cpp(fix: bool) -> list[str]:
    """Returns the files whose format is not that of the pinned clang-format."""
    findings = []
    files = tracked(".cpp", ".h", ".cu")
    for file in files:
        if fix:
            subprocess.run([TOOLS / "clang-format", "-i", file], check=True)
            continue
        result = subprocess.run([TOOLS / "clang-format", "--dry-run", "--Werror", file], capture_output=True, text=True)
        if result.returncode:
            line = result.stderr.split(":", 2)[1] if result.stderr.count(":") > 1 else "1"
            findings.append(f"{file.relative_to(ROOT)}:{line}: not in the format of .clang-format, run `make format`")
    return findings


def check_python(fix: bool) -> list[str]:
    """Returns ruff's findings in lint and format."""
    files = tracked(".py")
    findings = []
    for command in (
        ["check", "--output-format=concise", *(["--fix"] if fix else [])],
        ["format", *([] if fix else ["--check"])],
    ):
        result = subprocess.run([TOOLS / "ruff", *command, *files], cwd=ROOT, capture_output=True, text=True)
        if result.returncode:
            findings += [line for line in (result.stdout + result.stderr).splitlines() if ".py" in line]
    return findings


def check_licenses() -> list[str]:
    """Returns the sources without the two license lines in their first ten lines."""
    findings = []
    for file in tracked(".cpp", ".h", ".cu", ".td", ".py", ".css", ".js"):
        head = file.read_text().split("\n")[:10]
        if not any(head):
            continue
        for expected in LICENSE:
            if not any(expected in line for line in head):
                findings.append(f"{file.relative_to(ROOT)}:1: expected '{expected}' in the first ten lines")
    return findings


def check_includes() -> list[str]:
    """Returns the sources of one target, or shared by targets, that include a file of a forbidden target."""
    findings = []
    for file in tracked(".cpp", ".h"):
        name = str(file.relative_to(ROOT))
        for folder, foreign in FOREIGN.items():
            if not name.startswith(f"{folder}/"):
                continue
            for number, line in enumerate(file.read_text().split("\n"), 1):
                if re.match(rf'#include "(lib/)?{foreign}/', line):
                    findings.append(f"{name}:{number}: {folder} includes nothing of {foreign}")
    return findings


def check_test_names() -> list[str]:
    """Returns test files with equal names, because pytest imports each by its name."""
    names = Counter(file.name for file in tracked(".py") if file.name.startswith("test_"))
    return [f"{name}:1: {count} test files have this name" for name, count in names.items() if count > 1]


def check_prose() -> list[str]:
    """Returns prose lines of more than 120 columns, except tables, code and the generated docs/reference."""
    findings = []
    for file in tracked(".md"):
        name, is_code = str(file.relative_to(ROOT)), False
        for number, line in enumerate(file.read_text().split("\n"), 1):
            is_code ^= line.lstrip().startswith("```")
            is_prose = not is_code and not line.startswith("|") and not name.startswith("docs/reference/")
            if is_prose and len(line) > WIDTH:
                findings.append(f"{name}:{number}: {len(line)} columns, expected at most {WIDTH}")
    return findings


def prose_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the comments and docstrings of a Python file, each with its line; consecutive comments count as one."""
    text = file.read_text()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            match each:
                case ast.Expr(value=ast.Constant(value=str() as docstring)):
                    yield each.lineno, docstring.strip()
    former = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            # A line that continues a comment may begin with any word.
            yield line, ("" if line != former + 1 else "... ") + token.string.lstrip("# ")
            former = line


def check_language() -> list[str]:
    """Returns comments and docstrings in PLAIN that docs/style.md forbids."""
    findings = []
    for file in tracked(".py"):
        name = str(file.relative_to(ROOT))
        if not name.startswith(PLAIN):
            continue
        for line, prose in prose_of(file):
            words = re.sub(r"`[^`]*`", "``", prose)
            for pattern, instead in FORBIDDEN:
                if found := pattern.search(words):
                    findings.append(f"{name}:{line}: '{found.group()}', expected {instead} (docs/style.md)")
    return findings


def main() -> int:
    """Returns 0 without findings, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="rewrite files where a formatter can")
    fix = parser.parse_args().fix
    findings = check_cpp(fix) + check_python(fix)
    findings += check_licenses() + check_includes() + check_test_names() + check_prose() + check_language()
    print("\n".join(findings), end="\n" if findings else "")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
