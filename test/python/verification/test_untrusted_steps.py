# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps of a stranger's program: a fault of the interpreter is one error, and not the end of the verifier."""

from dataclasses import replace

import numpy as np
import pytest
from repro_mlir.base.errors import ProgramError
from repro_mlir.reference.steps import StepInterpreter
from repro_mlir.verification.executors import compile_step
from support.predicted import doubled, program_of


@pytest.mark.parametrize("fault", [IndexError("none"), ZeroDivisionError(), KeyError("x"), TypeError()], ids=repr)
def test_a_fault_of_the_interpreter_is_one_error(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise fault

    program = program_of(doubled(4))
    state = {kind.name: np.zeros(kind.shape, kind.dtype) for kind in program.state}
    inputs = [np.zeros(kind.shape, kind.dtype) for kind in program.inputs]
    compile_step(replace(program, untrusted=True), "reference", None)(state, *inputs)
    monkeypatch.setattr(StepInterpreter, "run", fail)
    with pytest.raises(ProgramError, match="expected a program that the interpreter can run") as caught:
        compile_step(replace(program, untrusted=True), "reference", None)(state, *inputs)
    assert caught.value.__cause__ is fault
    with pytest.raises(type(fault)):
        compile_step(program, "reference", None)(state, *inputs)
