# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `repro_mlir.diff`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.keywords import accepts_keywords
from repro_mlir.base.progress import Progress
from repro_mlir.execute.executable import check_runs, check_target
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions, NumericsKeywords
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.script_runs.batches import ScriptBatches
from repro_mlir.script_runs.eager_side import EagerSide, nodes_of
from repro_mlir.verification.difference.receipts import diff_receipts
from repro_mlir.verification.difference.report import Difference
from repro_mlir.verification.difference.sides import Side, TargetSide, find_difference
from repro_mlir.verification.operators import OperatorGraph
from repro_mlir.verification.receipts.script_inputs import allow_numerics

EAGER = "eager"


@accepts_keywords(NumericsKeywords, CaptureOptions)
def diff(
    first: str | Path,
    second: str | Path | None = None,
    *,
    targets: Sequence[str] | None = None,
    steps: int = 1,
    ulps: int = 0,
    threads: int | None = None,
    **numerics: Unpack[NumericsKeywords],
) -> Difference | None:
    """Finds where two runs diverge: the first step, operator, tensor and element.

    Args:
      first, second: two receipts, whose steps are run again on `targets[0]` (by default "cpu"); or one script that
        defines `training()`.
      targets: for a script, the two targets to compare: names as for `compile`, or "eager", which is PyTorch itself.
      steps: for a script, the maximum number of steps to run.
      ulps: for a script, the largest distance in ulps at which elements still count as equal.
      threads: see `compile`.
      exact_digits, precision: for a script, override the script's options of these names; see `exact_contractions` and
        `repro_mlir.precision.apply_precision`.
    Returns:
      the first difference, None if there is none.
    Raises:
      ReproError: the runs cannot be compared.
    """
    if second is not None:
        allow_numerics(None, **numerics)
        return diff_receipts(first, second, targets, threads)
    if targets is None or len(targets) != 2:
        raise ReproError("expected two receipts, or a script and two targets")
    for target in targets:
        if target != EAGER:
            check_target(target)
    for target in targets:
        if target != EAGER:
            check_runs(target)
    return _diff_script(ScriptBatches(str(first), **numerics), targets, steps, ulps, threads)


def _diff_script(
    batches: ScriptBatches, targets: Sequence[str], steps: int, ulps: int, threads: int | None
) -> Difference | None:
    batches.refuse_other_states()
    step = batches.program
    if EAGER in targets and isinstance(step, MicrobatchProgram):
        raise ReproError(f"{EAGER} has no step in microbatches: use {batches.script} without them, or other targets")
    graph = OperatorGraph(step)
    program = graph.program
    if EAGER in targets:
        from repro_mlir.frontends.torch.compile_backend.eager import EagerGraph, with_node_names

        captured = batches.imported.bindings
        eager = EagerGraph(program, captured)
        nodes = nodes_of(with_node_names(program, captured, batches.options))
        modules = {i: eager.modules[name] for i, name in enumerate(nodes) if name in eager.modules}
        graph = OperatorGraph(program, modules)

    def side(target: str) -> Side:
        return EagerSide(graph, nodes, eager) if target == EAGER else TargetSide(graph, target, threads)

    def inputs() -> Sequence[np.ndarray]:
        given = batches.take()
        if batches.program.hash != step.hash:
            raise ReproError(
                f"batch {batches.taken} of {batches.script} needs another program than batch 1: compare fewer steps"
            )
        return given

    sides = side(targets[0]), side(targets[1])
    with Progress(steps, "comparing") as progress:
        return find_difference(graph, sides, inputs, steps, ulps, progress.advance)
