# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages of a captured program that several suites share."""

from __future__ import annotations

from typing import Any

from suite import Outcome, all_lines, first_line

STAGES = ("no-sample", "capture", "import", "interpret", "accuracy", "compile", "bits", "crash", "timeout", "ok")
"""Stages at which an entry can end: the stage that failed, or `ok`. `no-sample`: the framework itself gives no
result."""

LEVELS = ("x86-64-v2",)
"""CPU levels in addition to the machine's own."""


class Run:
    """The run of an entry through its stages.

    Attributes:
      name: name of the entry.
      stage: the current stage.
      backward: whether the program contains gradients.
    """

    def __init__(self, name: str, stage: str = "no-sample") -> None:
        self.name, self.stage, self.backward = name, stage, False

    def load(self, text: str) -> None:
        """Imports the text of a captured program."""
        from repro_mlir.program import canonicalize
        from repro_mlir.program.canonical import to_bytes
        from repro_mlir.reference.interpreter import Interpreter

        self.stage = "import"
        self.canonical = canonicalize(text)
        self.stage = "interpret"
        self.interpreter = Interpreter(to_bytes(self.canonical))

    def interpret(self, *inputs: Any) -> Any:
        """Returns the results of the program in the reference interpreter."""
        from support import kit

        self.inputs = inputs
        results = self.interpreter.run(*inputs)
        self.bits = kit.bits_of(results, self.interpreter.program)
        self.stage = "accuracy"
        return results

    def compare_levels(self) -> None:
        """Compares the bits at the CPU levels `LEVELS`, and at the machine's own level, with those of the
        interpreter."""
        from repro_mlir.compilation.cpu import native_level
        from support import kit

        self.stage = "compile"
        where = [kit.Configuration(level, 1) for level in LEVELS] + [kit.Configuration(native_level(), 3)]
        kit.compiled(self.canonical, self.inputs, where[0], runs=1)
        self.stage = "bits"
        kit.check(self.canonical, self.inputs, where, runs=1, want=self.bits)

    def failed(self, error: BaseException) -> Outcome:
        """Returns the outcome of a run that ends with an error."""
        reason = all_lines(error) if self.stage == "accuracy" else first_line(error)
        return Outcome(self.name, self.stage, f"{type(error).__name__}: {reason}", self.backward)

    def ok(self) -> Outcome:
        """Returns the outcome of a run that has passed all stages."""
        return Outcome(self.name, "ok", backward=self.backward)
