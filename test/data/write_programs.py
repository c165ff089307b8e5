# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes programs with the inputs and results of steps into a new folder next to this file.

    python test/data/write_programs.py programs-2

Stored files never change: later versions must read them (test/python/program/test_stored_corpus.py).
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import repro_mlir
import torch
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import to_bytes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from support import every_operator  # noqa: E402
from support.stored_samples import (  # noqa: E402
    ACCUMULATED_BLOCKS,
    BLOCK_CONTRACTIONS,
    BLOCKS,
    MANY_FORMS,
    PACKED_CODES,
)

CHECKS = """
func.func @main(%seen: tensor<i64> {repro.name = "seen"}, %table: tensor<5xf32> {repro.name = "table"},
                %rows: tensor<3xi64> {repro.name = "rows"}, %limit: tensor<i64> {repro.name = "limit"})
    -> (tensor<i64>, tensor<3xf32> {repro.name = "chosen"}) attributes {repro.num_state = 1 : i64} {
  %one = arith.constant 1 : i64
  %n = tensor.extract %seen[] : tensor<i64>
  %most = tensor.extract %limit[] : tensor<i64>
  %next = arith.addi %n, %one : i64
  %new = tensor.from_elements %next : tensor<i64>
  %left = arith.cmpi sle, %next, %most : i64
  cf.assert %left, "expected a step within the limit"
  %e = tensor.empty() : tensor<3xf32>
  %chosen = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%rows : tensor<3xi64>) outs(%e : tensor<3xf32>) {
  ^bb0(%row: i64, %out: f32):
    %known = arith.cmpi ne, %row, %one : i64
    cf.assert %known, "expected no row 1"
    %i = arith.index_cast %row : i64 to index
    %x = tensor.extract %table[%i] : tensor<5xf32>
    linalg.yield %x : f32
  } -> tensor<3xf32>
  return %new, %chosen : tensor<i64>, tensor<3xf32>
}
"""


AGAIN = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<6xf32> {repro.name = "x"}) -> (tensor<6xf32>, tensor<6xf32>)
    attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<6xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%a: f32, %out: f32):
    %s = repro.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %kept = repro.barrier %x : tensor<6xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%kept : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%a: f32, %out: f32):
    %s = repro.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %0, %1 : tensor<6xf32>, tensor<6xf32>
}
"""


class Attention(torch.nn.Module):
    """A model without parameters, so that its program has no state."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(query @ key.transpose(-2, -1) / 2, dim=-1)
        return torch.nn.functional.gelu(weights @ value)


def eighths(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-16, 17, shape).astype(np.float32) / 8


Written = Iterator[tuple[str, Program, list[list[np.ndarray]]]]
"""Yields a name, a program, and the inputs of several steps, each of which begins in the initial state."""


def programs() -> Written:
    yield "every-operation", every_operator.every_operator(), every_operator.inputs(2)
    forms = read_signature(to_bytes(MANY_FORMS))
    yield "forms", forms, [[eighths((5, 7)).astype(np.float16), eighths((3, 5, 2)) > 0]]
    checks = read_signature(to_bytes(CHECKS))
    table = np.array([0.5, 1.5, -2.5, 3.5, np.nan], np.float32)
    steps = [([4, 0, 2], 7), ([4, 0, 2], -1), ([3, 1, 2], 7), ([3, 5, 2], 7), ([-1, 0, 2], 7)]
    given = [[table, np.array(rows), np.array(limit)] for rows, limit in steps]
    yield "checks", Program(**vars(checks) | {"initial": (np.array(3),)}), given
    arrays = [eighths(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6))]
    yield "inference", repro_mlir.capture(Attention().eval(), tuple(map(torch.from_numpy, arrays))), [arrays]


def programs_2() -> Written:
    yield "computed-again", read_signature(to_bytes(AGAIN)), [[eighths((6,))]]


def programs_3() -> Written:
    given = [eighths((4, 6)), np.array(5.5, np.float32), np.arange(1, 5, dtype=np.float32), np.array(7)]
    yield "tensors-in-blocks", read_signature(to_bytes(BLOCKS)), [given]


def programs_4() -> Written:
    codes = [np.arange(size, dtype=np.uint8).reshape(shape) for size, shape in ((48, (2, 4, 6)), (60, (2, 5, 6)))]
    scales = [np.arange(119, 135, dtype=np.uint8).reshape(2, 4, 2), np.arange(52, 60, dtype=np.uint8).reshape(2, 2, 2)]
    blocks = [codes[0] % 16, scales[0], codes[1], scales[1]]
    integers = [np.arange(-12, 12, dtype=np.int8).reshape(4, 6), np.float32([[0.5]])]
    integers += [np.arange(-15, 15, dtype=np.int8).reshape(5, 6), eighths((5, 1))]
    given = [*blocks, *integers, eighths((2, 4, 5)), eighths((4, 5))]
    yield "block-contractions", read_signature(to_bytes(BLOCK_CONTRACTIONS)), [given]


def programs_5() -> Written:
    codes = np.arange(30, dtype=np.uint8).reshape(2, 3, 5) % 16
    given = [codes, np.arange(-128, 128, 22, dtype=np.int8).reshape(4, 3)]
    yield "packed-codes", read_signature(to_bytes(PACKED_CODES)), [given]


def programs_6() -> Written:
    codes = [
        np.arange(size, dtype=np.uint8).reshape(shape) % 16 for size, shape in ((320, (2, 4, 40)), (400, (2, 5, 40)))
    ]
    scales = [np.arange(44, 68, dtype=np.uint8).reshape(2, 4, 3), np.arange(120, 132, dtype=np.uint8).reshape(2, 2, 3)]
    eight = np.arange(160, dtype=np.uint8).reshape(4, 40) % 127
    given = [codes[0], scales[0], codes[1], scales[1], eight, np.float32([[0.75, -3]]), eighths((2, 4, 5))]
    yield "accumulated-blocks", read_signature(to_bytes(ACCUMULATED_BLOCKS)), [[*given, eighths((4, 4))]]


FOLDERS = {
    "programs": programs,
    "programs-2": programs_2,
    "programs-3": programs_3,
    "programs-4": programs_4,
    "programs-5": programs_5,
    "programs-6": programs_6,
}


def record(program: Program, steps: list[list[np.ndarray]]) -> dict[str, object]:
    """Runs each step from the initial state on the reference interpreter. Returns the names of the program's tensors
    and, for each step, the hashes of its results or its failure."""
    executable, results = repro_mlir.compile(program, "reference"), []
    for inputs in steps:
        try:
            state, outputs = executable(program.initial_state(), *inputs)
        except StepFailed as error:
            # Keeps the part of the message that is equal on all targets: an assertion's text, or the location of an
            # out-of-range index without its column.
            place, _, reason = str(error).partition(": ")
            results.append(reason if f'"{reason}"' in CHECKS else place.rpartition(":")[0])
            continue
        named = [(kind, state[kind.name]) for kind in program.state]
        named += [(kind, outputs[kind.name]) for kind in program.outputs]
        results.append([tensor_hash(array, kind.element) for kind, array in named])
    names = {role: [kind.name for kind in getattr(program, role)] for role in ("state", "inputs", "outputs")}
    return {"program": program.hash, **names, "steps": results}


def write(folder: Path) -> None:
    # Source locations contain the path of the script as it was given, so the path must be relative.
    os.chdir(HERE)
    folder.mkdir()
    expected = {}
    for name, program, steps in FOLDERS[folder.name]():
        program.save(folder / f"{name}.repro")
        np.savez_compressed(
            folder / f"{name}.npz",
            **{f"{step}-{i}": x for step, arrays in enumerate(steps) for i, x in enumerate(arrays)},
        )
        expected[name] = record(program, steps)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write(HERE / sys.argv[1])
