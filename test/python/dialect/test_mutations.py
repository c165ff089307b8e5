# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Malformed IR is refused with an error, and no text crashes the compiler."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir import ir
from support.mutations import mutate

ROOT = Path(__file__).resolve().parents[3]
TOOL = Path(repro_mlir.__path__[0]) / "_mlir_libs" / "repro-opt"
MUTATIONS = int(os.environ.get("REPRO_MUTATIONS", "6000"))

# Known crashes of upstream MLIR: frames of the stack and the reason of the crash. A crash is ignored if its stack
# contains all frames of an entry. Every other crash is a bug of this project.
UPSTREAM = {
    (
        "OperationParser::resolveSSAUse",
    ): "a result number such as %0#2147483647 makes the parser allocate as many entries",
    ("mlir::Region::~Region()", "repro::FoldOp::parse"): (
        "a format that fails after a region destroys it, and asserts if a value of the region was used outside before"
    ),
}


def read_corpus() -> list[list[str]]:
    """Returns two lists of MLIR texts from the dialect's lit tests: valid functions, each in custom and in generic
    syntax, and invalid modules."""
    functions, invalid = [], []
    context = ir.Context()
    context.attach_diagnostic_handler(lambda _: True)
    for file in sorted((ROOT / "test" / "Dialect" / "Repro").glob("*.mlir")):
        for piece in re.split(r"^// -----$", file.read_text(), flags=re.M):
            lines = [line for line in piece.split("\n") if line.strip() and not line.lstrip().startswith("//")]
            text = "\n".join(lines)
            try:
                module = ir.Module.parse(text, context)
            except ir.MLIRError:
                invalid.append(text)
                continue
            for operation in module.body.operations:
                functions += [operation.get_asm(), operation.get_asm(print_generic_op_form=True)]
    return [functions, invalid]


@pytest.fixture(scope="module")
def corpus() -> list[list[str]]:
    functions, invalid = read_corpus()
    assert len(functions) > 50 and len(invalid) > 100
    return [functions, invalid]


def limit_memory() -> None:
    """Limits this child process to 8 GiB of memory, because a mutated size may be huge."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def run_tool(text: str) -> subprocess.CompletedProcess[str]:
    """Runs repro-opt on `text` in its own process."""
    return subprocess.run(
        [TOOL, "-canonicalize"], input=text, capture_output=True, text=True, timeout=60, preexec_fn=limit_memory
    )


def test_no_mutation_crashes(corpus: list[list[str]], tmp_path: Path) -> None:
    corpus_file, progress = tmp_path / "corpus.json", tmp_path / "progress"
    corpus_file.write_text(json.dumps(corpus))
    crashes, upstream, valid, first = [], 0, 0, 0
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(Path(repro_mlir.__path__[0]).parent), *sys.path]))
    program = [sys.executable, ROOT / "test" / "support" / "mutations.py"]
    while first < MUTATIONS:
        worker = subprocess.run(
            [*program, corpus_file, str(first), str(MUTATIONS), progress],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
            preexec_fn=limit_memory,
        )
        if worker.returncode == 0:
            valid += int(worker.stdout)
            break
        assert worker.returncode < 0, worker.stderr
        number = int(progress.read_text())
        text = mutate(corpus, number)
        stack = run_tool(text).stderr
        if any(all(frame in stack for frame in frames) for frames in UPSTREAM):
            upstream += 1
        else:
            crashes.append(f"mutation {number}: signal {-worker.returncode}\n{text}\n{stack}")
        assert len(crashes) < 20, "\n\n".join(crashes)
        first = number + 1
    assert not crashes, "\n\n".join(crashes)
    # Some mutations must be valid: if the parser refused all of them, no verifier would run.
    assert valid + upstream > MUTATIONS // 50


def test_tool_refuses_with_an_error(corpus: list[list[str]]) -> None:
    for number in range(MUTATIONS, MUTATIONS + 40):
        result = run_tool(mutate(corpus, number))
        assert result.returncode in (0, 1), f"{mutate(corpus, number)}\n{result.stderr}"
        assert result.returncode == 0 or "error:" in result.stderr
