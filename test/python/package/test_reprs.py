# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The texts that Python shows for the main objects are short, and name the program."""

import dataclasses

import repro_mlir
import torch
from repro_mlir.execute.executable import Executable
from repro_mlir.program import Program


def test_program_and_executable(program: Program, executable: Executable) -> None:
    short = program.hash[:16]
    assert (
        repr(program) == f"<Program {short}: state w: 2x3xf32, n: i64; inputs lr: f32, x: 2x3xf32; outputs loss: f32>"
    )
    assert repr(executable) == f"<Executable of program {short} for fake, threads: 1>"
    assert repr(dataclasses.replace(program, initial=())) == repr(program)


def test_a_program_with_many_tensors() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3)))
    program = repro_mlir.capture(model, torch.zeros(1, 2))
    text = repr(program)
    assert "state 0.weight: 2x2xf32, 0.bias: 2xf32, 1.weight: 2x2xf32, 3 more; inputs" in text and len(text) < 250


def test_trainer() -> None:
    model = torch.nn.Linear(2, 1)
    trainer = repro_mlir.Trainer(model, torch.nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))
    assert repr(trainer) == "<Trainer of Linear with SGD on cpu, steps: 0, not captured yet>"
    trainer.step(torch.zeros(3, 2), torch.zeros(3, 1))
    assert repr(trainer) == f"<Trainer of Linear with SGD on cpu, steps: 1, program {trainer.program.hash[:16]}>"
