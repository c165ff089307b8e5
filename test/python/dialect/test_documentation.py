# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The generated reference pages are up to date, and their examples are valid programs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir import ir

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs" / "reference" / "mlir"


def split_types(types: str) -> list[str]:
    """Returns the types in a list of types. Splits the list at each comma that is not inside brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(types):
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append(types[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, types[start:]] if part.strip()]


def free_values(example: str) -> dict[str, str]:
    """Returns the values that `example` uses but does not define, and their types as written at the uses."""
    # `site = ` is an attribute, not the definition of a value.
    text = example.replace(" site = ", " ")
    defined = set(re.findall(r"(%\w+)[^\n=]*=", text)) | set(re.findall(r"(%\w+): ", text))
    for line in re.findall(r"^\s*(%[\w, %]+?)\s*=", text, flags=re.M):
        defined |= set(re.findall(r"%\w+", line))
    values = {}
    uses = re.findall(r"\(([%\w, ]+) : ([^)]*)\)", example)
    uses += re.findall(r"^(?:%[\w, %]+ = )?[\w.]+ ((?:%\w+(?:, )?)+) : ([^\n]+)$", example, flags=re.M)
    # If an operation has a long attribute, its operands may be on the next line.
    uses += re.findall(r"^\s+((?:%\w+(?:, )?)+)(?: ?[\w =]*\([^)]*\))?\s+: ([^\n]+?) ->", example, flags=re.M)
    for names, types in uses:
        listed = split_types(types)
        for number, name in enumerate(re.findall(r"%\w+", names)):
            if name not in defined:
                values[name] = listed[min(number, len(listed) - 1)]
    return values


def wrap(example: str) -> str:
    """Returns MLIR text of a whole module that contains `example`: attributes, a function, a module, a plan, or
    operations."""
    if example.startswith("#"):
        attributes = re.split(r"^(?=#)", example, flags=re.M)[1:]
        return f"func.func private @example() attributes {{example = [{', '.join(attributes)}]}}"
    if example.startswith(("func.func", "module", "cores.plan")):
        return example
    arguments = ", ".join(f"{name}: {type}" for name, type in free_values(example).items())
    return f"func.func @example({arguments}) {{\n{example}\nreturn\n}}"


def examples() -> list[tuple[str, str]]:
    """Returns, for each MLIR example in the reference, the title of its section and its text."""
    found = []
    for file in sorted(REFERENCE.glob("*.md")):
        section = ""
        for part in re.split(r"^(?=#+ )", file.read_text(), flags=re.M):
            section = part.split("\n", 1)[0].strip("# ")
            found += [(section, text.strip()) for text in re.findall(r"```mlir\n(.*?)```", part, flags=re.S)]
    return found


def test_reference_is_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in examples()])
def test_example(text: str) -> None:
    module = wrap(text)
    with ir.Context():
        try:
            ir.Module.parse(module)
        except ir.MLIRError as error:
            pytest.fail(f"{error}\n{module}")


@pytest.mark.parametrize("dialect", ["launch", "repro"])
def test_every_operation_has_an_example(dialect: str) -> None:
    reference = (REFERENCE / f"{dialect}-dialect.md").read_text()
    operations = set(re.findall(rf"^### `({dialect}\.\w+)`", reference, flags=re.M))
    assert operations
    shown = {name for _, text in examples() for name in operations if re.search(rf"{re.escape(name)}\b", text)}
    assert operations == shown


def test_every_pass_has_a_lit_test() -> None:
    """Each pass is named, alone or in a pipeline, by the RUN line of a lit test."""
    passes = set(re.findall(r"^### `-([\w-]+)`", (REFERENCE / "passes.md").read_text(), flags=re.M))
    assert passes
    runs = [
        line
        for file in (ROOT / "test").rglob("*.mlir")
        for line in file.read_text().splitlines()
        if re.match(r"// RUN: ", line)
    ]
    assert {name for name in passes if not any(re.search(rf"(?<![\w]){name}(?![\w-])", run) for run in runs)} == set()


def test_rules_are_where_the_numerics_say() -> None:
    numerics = (ROOT / "docs" / "reference" / "numerics.md").read_text()
    defined = re.findall(r"^- \*\*\((\w\d)\)\*\*", numerics, flags=re.M)
    assert len(defined) == len(set(defined)) > 30
    rows = dict(re.findall(r"^\| (\w\d) \| (.*) \|$", numerics, flags=re.M))
    # (S6) lists what the compiler does not guarantee, so the table has no tests for it.
    assert set(rows) == set(defined) - {"S6"}
    for rule, row in rows.items():
        for name in re.split(r", | \| ", row):
            text = (ROOT / name).read_text()
            assert re.search(rf"\({rule}\)|(?<![A-Z0-9]){rule}_", text), f"{name} does not mention ({rule})"
