# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Golden hashes: the results of both examples on every target, fixed by numerics v1.

A change that alters one of these hashes also changes the bits of other programs. For an intended change, golden.json
states the reason.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.bundle.writer import Steps, capture_steps
from repro_mlir.compilation import gpu as device_code
from repro_mlir.frontends.torch.scripts import Training
from support import assembling, kit

pytest.importorskip("torch_mlir")
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())["examples"]
ROOT = Path(__file__).resolve().parents[3]

Example = tuple[str, repro_mlir.Program, Steps]


@pytest.fixture(scope="module", params=GOLDEN)
def example(request: pytest.FixtureRequest) -> Iterator[Example]:
    """Yields an example's name, its program, and the inputs of each step."""
    steps = max(map(int, GOLDEN[request.param]))
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        given = importlib.import_module(request.param).training(steps)
        yield request.param, *capture_steps(Training(*given, *([{}] if len(given) == 4 else [])), steps)
    finally:
        sys.path.pop(0)
        sys.modules.pop(request.param, None)


def check(example: Example, target: str, last: int) -> None:
    """Runs `last` steps and compares the state hash after each step that has a golden hash."""
    name, program, steps = example
    expected = {step: digest for step, digest in GOLDEN[name].items() if int(step) <= last}
    executable = repro_mlir.compile(program, target, 2)
    state = program.initial_state()
    found = {}
    for number, inputs in enumerate(steps[:last], 1):
        executable(state, *inputs)
        if str(number) in expected:
            found[str(number)] = state_hash([(state[kind.name], kind.element) for kind in program.state])
    assert found == expected


@pytest.mark.parametrize("level", kit.levels())
def test_state_hashes(example: Example, level: str) -> None:
    """The initial state is drawn by (R2). Also tests that the powers of Adam's betas, which are inputs, do not come
    from a platform's libm: otherwise the hashes would differ between platforms."""
    # x86-64-v2 has no fma instruction and is slow, so only the golden hash of step 3 is compared.
    check(example, f"cpu:{level}", 3 if level == "x86-64-v2" else 120)


@pytest.mark.parametrize("architecture", device_code.architectures())
@pytest.mark.diagonal(architecture=["sm_75", "sm_90", "sm_120"])
def test_ptxas_takes_the_device_code(example: Example, architecture: str) -> None:
    name, program, _ = example
    assembling.check([device_code.compile(program.text, architecture).ptx], architecture, [name])


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.diagonal
def test_state_hashes_of_device_code(example: Example, architecture: str) -> None:
    check(example, f"ptx-emulator:{architecture}", 10)
