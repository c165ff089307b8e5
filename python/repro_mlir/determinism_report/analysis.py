# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `repro_mlir.determinism`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from repro_mlir.base.errors import ReproError
from repro_mlir.base.keywords import accepts_keywords
from repro_mlir.base.progress import working
from repro_mlir.determinism_report.report import EagerOperator, Operation, RefusedOperator, Report, share_of
from repro_mlir.determinism_report.rules import RULES, TERMINATORS, UNKNOWN
from repro_mlir.frontends.torch.base.capture_options import CaptureKeywords, CaptureOptions
from repro_mlir.frontends.torch.capture.programs import capture, refuse_training_options, require_capture
from repro_mlir.program import Program
from repro_mlir.program.inspection import count_all_operations
from repro_mlir.program.microbatches import MicrobatchProgram, StepProgram

if TYPE_CHECKING:
    import torch

    from repro_mlir.frontends.torch.scripts import Training

_MOST_PLACES = 8
"""The largest number of places that a report lists for an operator."""


@accepts_keywords(CaptureKeywords, CaptureOptions)
def determinism(model: torch.nn.Module, *arguments: Any, **options: Unpack[CaptureKeywords]) -> Report:
    """Reports which results of a step are defined bit by bit: in PyTorch, by the operators that it executes, and here,
    by the program that `capture` returns.

    Args:
      model, arguments, options: as for `capture`: `determinism(model, loss_fn, optimizer, batch)` is about a training
        step, `determinism(model, inputs)` about inference. PyTorch runs one step; afterwards the model, the optimizer
        and the random states of PyTorch, Python and NumPy are restored, as docs/guides/determinism.md describes.
    Returns:
      the report, also if the compiler refuses the step; `print(report)` shows it, `report.as_json()` is its data.
    Raises:
      ReproError: PyTorch cannot run the step, or the arguments are not those of `capture`.
    """
    if len(arguments) not in (1, 3):
        raise ReproError(
            "expected determinism(model, loss_fn, optimizer, batch) or determinism(model, inputs), "
            f"got {len(arguments) + 1} arguments"
        )
    parsed = CaptureOptions.parsed(**options)
    if len(arguments) == 1:
        refuse_training_options(parsed)

    def captured() -> StepProgram:
        found = capture(model, *arguments, **options)
        assert isinstance(found, Program)
        return found

    return _report(type(model).__name__, model, arguments, parsed, captured)


def script_report(name: str, training: Training, batch: Any) -> Report:
    """Returns the report on a step of a script.

    Args:
      name: the name of the script.
      training: what the script's `training()` returned.
      batch: a batch of the script.
    """
    arguments = training.loss_fn, training.optimizer, batch
    return _report(name, training.model, arguments, training.capture_options, lambda: training.capture(batch)[0])


def program_report(name: str, program: StepProgram) -> Report:
    """Returns the report on a program without a model of PyTorch.

    Args:
      name: the name of the program's file.
    """
    return Report(name, program.hash, None, _operations(program))


def _report(
    name: str,
    model: torch.nn.Module,
    arguments: tuple[Any, ...],
    options: CaptureOptions,
    captured: Callable[[], StepProgram],
) -> Report:
    """Returns the report on a step of a model.

    Args:
      arguments: the loss function, the optimizer and the batch; or only the inputs.
      captured: captures the step.
    """
    require_capture()
    from repro_mlir.frontends.torch.base.source_lines import module_names
    from repro_mlir.frontends.torch.eager_operators.recording import executed_operators
    from repro_mlir.frontends.torch.eager_operators.refusals import tried_operators
    from repro_mlir.frontends.torch.eager_operators.snapshots import restoring
    from repro_mlir.frontends.torch.eager_operators.steps import inference, training_step

    optimizer = arguments[1] if len(arguments) == 3 else None

    def step(*, updates: bool = True) -> Callable[[], None]:
        if len(arguments) == 1:
            return inference(model, arguments[0])
        loss_fn, optimizer, batch = arguments
        return training_step(model, loss_fn, optimizer, batch, options, updates=updates)

    whole = step()
    modules = module_names(model)
    with working("running in PyTorch"), restoring(model, optimizer):
        executed = executed_operators(whole, modules)
    eager = tuple(
        EagerOperator(
            each.name,
            each.count,
            each.arithmetic,
            each.cause.name,
            each.cause.text,
            each.cause.cpu.value,
            each.cause.cuda.value,
            tuple(each.places.most_common(_MOST_PLACES)),
        )
        for each in executed
    )
    try:
        program = captured()
    except ReproError as error:
        try:
            with working("trying each operator"), restoring(model, optimizer):
                tried = tried_operators(step(updates=False), modules)
        except ReproError:
            # A trace also refuses assignments to `tensor.data`, which are not operators.
            return Report(name, None, str(error), eager=eager)
        accepted = [each for each in tried if each.is_tried and each.refusal is None]
        refused = tuple(
            RefusedOperator(each.name, each.count, each.place, each.refusal)
            for each in tried
            if not each.is_tried or each.refusal is not None
        )
        share = share_of(*([(each.count, each.arithmetic) for each in some] for some in (accepted, tried)))
        return Report(name, None, str(error), eager=eager, refused=refused, accepted=share)
    return Report(name, program.hash, None, _operations(program), eager)


def _operations(program: StepProgram) -> tuple[Operation, ...]:
    """Returns the operations of a program with their rules, in the order of `RULES`; those without rules are last."""
    parts = (program.part, program.finish) if isinstance(program, MicrobatchProgram) else (program,)
    found: Counter[str] = Counter()
    for each in parts:
        found.update(count_all_operations(each.data))
    unknown = {name: UNKNOWN for name in sorted(found.keys() - RULES.keys() - TERMINATORS)}
    all_rules = {**RULES, **unknown}.items()
    return tuple(Operation(name, found[name], rules.labels, rules.text) for name, rules in all_rules if found[name])
