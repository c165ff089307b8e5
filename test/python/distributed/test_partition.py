# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(T1), (T2) Programs that are divided among ranks have the bits of one process."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from loopback import make_loopback
from partitioned_runs import alone, run
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.distributed import Ranks
from repro_mlir.program import Program
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.program.partition import Gather, partition
from repro_mlir.program.program import read_signature
from support import inputs as values
from support import random_programs

WIDTH, HEADS, BATCH, TOKENS = 24, 6, 2, 5


class Block(torch.nn.Module):
    """A block of GPT: attention and MLP."""

    def __init__(self, is_fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.is_fused = is_fused
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = torch.nn.ModuleList(
            [torch.nn.Linear(WIDTH, 3 * WIDTH)] if is_fused else [torch.nn.Linear(WIDTH, WIDTH) for _ in range(3)]
        )
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norms[0](x)
        found = self.qkv[0](h).chunk(3, -1) if self.is_fused else [each(h) for each in self.qkv]
        q, k, v = (each.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2) for each in found)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


class GatedMLP(torch.nn.Module):
    """The MLP of Llama, with bf16 weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.RMSNorm(10)
        self.gate, self.up = (torch.nn.Linear(10, 26, bias=False, dtype=torch.bfloat16) for _ in range(2))
        self.down = torch.nn.Linear(26, 10, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x).bfloat16()
        return x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h)).float()


def captured(model: torch.nn.Module, x: torch.Tensor) -> tuple[Program, dict[str, np.ndarray], list[np.ndarray]]:
    program = repro_mlir.capture(model.eval(), (x,))
    return program, program.initial_state(), [x.numpy()]


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.exhaustive("True")
def test_gpt_block_has_the_bits_of_one_process(is_fused: bool) -> None:
    program, state, inputs = captured(Block(is_fused), torch.randn(BATCH, TOKENS, WIDTH))
    want = alone(program, state, inputs)
    assert want == alone(program, state, inputs, "reference")
    for size, target in ((1, "reference"), (2, "cpu"), (3, "reference"), (4, "cpu"), (5, "reference")):
        found, executables, sent = run(program, size, state, inputs, targets=(target,))
        assert found == [want] * size, size
        for rank, each in enumerate(executables):
            gathers = [step for step in each.plan.steps if isinstance(step, Gather)]
            # Attention and the MLP each have two all-gathers: one before their last product, and one of the sum with
            # the residual.
            assert len(gathers) == (4 if size > 1 else 0)
            rows = BATCH * TOKENS
            heads, columns, hidden = (part(unit, size, rank) for unit in (HEADS, WIDTH, 4 * WIDTH))
            elements = heads * WIDTH // HEADS + 2 * columns + hidden if size > 1 else 0
            assert sent[rank] == (size - 1) * (4 * rows * elements + 256 * len(gathers) + 2 * 480)


def part(extent: int, size: int, rank: int) -> int:
    """Returns how many of `extent` elements belong to a rank."""
    return extent * (rank + 1) // size - extent * rank // size


@pytest.mark.parametrize("target", [("cpu", "cpu:x86-64-v2", "reference"), ("ptx-emulator", "cpu")])
def test_ranks_have_targets_of_their_own(target: tuple[str, ...]) -> None:
    program, state, inputs = captured(GatedMLP(), torch.randn(3, 10))
    want = alone(program, state, inputs)
    found, _, _ = run(program, 3, state, inputs, targets=target)
    assert found == [want] * 3


def test_special_values_move_as_they_are() -> None:
    program, state, _ = captured(GatedMLP(), torch.randn(7, 10))
    x = values.mixed("f32", (7, 10), 1)
    want = alone(program, state, [x])
    for size in (2, 3):
        for cut in (None, {}, {program.inputs[0].name: 0}, {"up.weight": 1, "down.weight": 0}):
            assert run(program, size, state, [x], cut, targets=("reference",))[0] == [want] * size, (size, cut)


def test_a_rank_holds_its_parts_alone() -> None:
    program, state, _ = captured(Block(is_fused=True), torch.randn(BATCH, TOKENS, WIDTH))
    _, executables, _ = run(program, 2, state, [np.zeros((BATCH, TOKENS, WIDTH), np.float32)])
    parts = [each.parts(state) for each in executables]
    heads = state["qkv.0.weight"].reshape(3, 2, WIDTH // 2, WIDTH)
    for rank in range(2):
        assert np.array_equal(parts[rank]["qkv.0.weight"], heads[:, rank].reshape(-1, WIDTH))
        assert parts[rank]["norms.0.weight"] is state["norms.0.weight"]
        assert executables[rank].keep(parts[rank]).step


class Lookup(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(7, 8)
        self.head = torch.nn.Linear(8, 6)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


def test_a_check_that_fails_on_one_rank_ends_the_step_on_all() -> None:
    tokens = torch.tensor([0, 1, 2, 6])
    program, state, inputs = captured(Lookup(), tokens)
    want = alone(program, state, inputs)
    cut = {program.inputs[0].name: 0}
    assert run(program, 2, state, inputs, cut)[0] == [want] * 2
    found, _, _ = run(program, 2, state, [np.array([0, 1, 2, 7])], cut)
    assert all(isinstance(each, StepFailed) for each in found), found
    assert "rank 1: " in str(found[0])


def test_ranks_that_disagree_are_named() -> None:
    program, state, inputs = captured(GatedMLP(), torch.randn(3, 10))

    def other_input(rank: int, state: dict[str, Any], inputs: list[np.ndarray]) -> None:
        if rank == 1:
            inputs[0] = inputs[0] + 1

    def other_state(rank: int, state: dict[str, Any], inputs: list[np.ndarray]) -> None:
        if rank == 2:
            state["down.weight"][0, 0] ^= 1

    for between, message in ((other_input, "1 of 3 have another batch"), (other_state, "2 of 3 have another state")):
        found, _, _ = run(program, 3, state, inputs, between=between)
        assert all(isinstance(each, ReproError) and message in str(each) for each in found), found


def test_invalid_cuts_are_refused() -> None:
    program, _, _ = captured(GatedMLP(), torch.randn(3, 10))
    for cut, message in (
        ({"sideways": 0}, "expected the name of a state tensor or an input, got 'sideways'"),
        ({"up.weight": 2}, "which has no dimension 2"),
        ({program.inputs[0].name: 0}, "expected an element for each of 4 ranks"),
        ({"up.weight": "0"}, "up.weight: expected a dimension as a whole number, got '0'"),
    ):
        with pytest.raises(ReproError, match=message) as error:
            partition(program, 4, 0, cut)
        assert "\n" not in str(error.value) and "pass pipeline" not in str(error.value)
    with pytest.raises(ReproError, match="cut selects what is divided among ranks: pass ranks too"):
        repro_mlir.compile(program, "reference", cut={"up.weight": 0})


def random_case(number: int) -> tuple[list[Any], list[Any]]:
    """Runs a random program on ranks and in one process. Returns the results of the ranks, and the expected results."""
    case = random_programs.program(number, checks=True)
    program = read_signature(to_bytes(case.program))
    kinds = [*program.state, *program.inputs]
    arrays = [
        np.ascontiguousarray(array).view(kind.dtype).reshape(kind.shape)
        for array, kind in zip(case.inputs, kinds, strict=True)
    ]
    state = {kind.name: array for kind, array in zip(program.state, arrays, strict=False)}
    inputs = arrays[len(state) :]
    choose = random.Random(~number)
    size = choose.choice([2, 3, 4, 5])
    cut = {}
    kept = examine(program.data).kept
    for kind in [*(kind for i, kind in enumerate(program.state) if i in kept), *program.inputs]:
        dimensions = [dim for dim, extent in enumerate(kind.shape) if extent >= size]
        if dimensions and choose.random() < 0.7:
            cut[kind.name] = choose.choice(dimensions)
    found, _, _ = run(program, size, state, inputs, cut, targets=("reference",))
    try:
        return found, [alone(program, state, inputs, "reference")] * size
    except StepFailed:
        return [each if not isinstance(each, StepFailed) else StepFailed for each in found], [StepFailed] * size


# Program 1463 has a check on which no result depends.
@pytest.mark.parametrize("numbers", [range(20), range(20, 40), [1463]])
def test_random_programs_have_the_bits_of_one_process(numbers: Sequence[int]) -> None:
    for number in numbers:
        found, want = random_case(number)
        assert found == want, number


def test_states_that_a_process_refuses_are_refused() -> None:
    program, state, inputs = captured(GatedMLP(), torch.randn(3, 10))
    shared = {**state, "up.weight": state["gate.weight"]}
    transposed = {**state, "up.weight": np.asfortranarray(state["up.weight"])}
    missing = {name: array for name, array in state.items() if name != "up.weight"}
    executable = repro_mlir.compile(program, "reference")
    parted = repro_mlir.compile(program, "reference", ranks=Ranks(make_loopback(1)[0]))
    for wrong in (shared, transposed, missing):
        messages = []
        for each in (executable, parted):
            with pytest.raises(ReproError) as error:
                each(wrong, *inputs)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
