# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs docs/guides/distributed.md: its first example in one process, the second on two ranks of torchrun, then its
tutorial."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked_python import run_python

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "distributed.md"


def test_examples(tmp_path: Path) -> None:
    alone, ranks, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S)
    script = tmp_path / "train.py"
    script.write_text(alone)
    done = run_python([str(script)])
    assert done.returncode == 0, done.stderr[-2000:]
    want = done.stdout.split()[1]
    # The second example has only a trainer; the first example supplies its model and its training step.
    before, after = re.split(r"^trainer = .*\n", alone, flags=re.M)
    given = ranks.replace("microbatches=8", "microbatches=8, accumulate=2")
    chosen = "loss_fn = torch.nn.functional.cross_entropy\n" + given
    script.write_text(before + chosen + after.replace("print(", "print(ranks.rank, "))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count(want) == 2


@pytest.mark.exhaustive
def test_the_layers_of_a_model_are_divided(tmp_path: Path) -> None:
    """Three ranks, on two types of targets, return the bits of one process. Each rank has a third of the rows of a
    weight."""
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S)
    (example,) = (each for each in examples if "infer" in each)
    told = """
import hashlib, sys
(output,) = outputs.values()
assert torch.allclose(output, model(x), atol=1e-5)
part = state if ranks is None else executable.parts(state)
digest = hashlib.sha256(output.numpy().tobytes()).hexdigest()
sys.stdout.write(f"{len(part['linear1.weight'])} {digest}\\n")
"""
    kind = 'ranks=ranks, threads=1, target="cpu:x86-64-v2" if ranks is not None and ranks.rank == 1 else "cpu")'
    script = tmp_path / "infer.py"
    found = []
    for start in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]):
        text = example.replace("ranks=ranks)", kind) + told
        script.write_text(text if start else text.replace("ranks = connect()", "ranks = None"))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *start, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append([line.split() for line in done.stdout.splitlines()])
    ((rows, digest),) = found[0]
    assert rows == "256" and sorted(found[1]) == [["85", digest], ["85", digest], ["86", digest]]


@pytest.mark.exhaustive
def test_the_tutorial(tmp_path: Path) -> None:
    tutorial = PAGE.read_text().split("\n## Tutorial", 1)[1]
    (script,) = re.findall(r"^```python\n(.*?)^```$", tutorial, flags=re.M | re.S)
    (tmp_path / "training.py").write_text(script)
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```$", tutorial, flags=re.M | re.S))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-ex", "-c", commands], cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "right    16 of 16 steps, 16 run on reference" in done.stdout
    assert "right    8 microbatches of 4 of 16 steps, 0 run on cpu" in done.stdout
    assert "the runs agree" in done.stdout
