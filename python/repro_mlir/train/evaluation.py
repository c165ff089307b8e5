# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes the loss of a model in evaluation mode, with a program that does not change the state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.base.capture_options import Returned
from repro_mlir.frontends.torch.capture.programs import evaluation_program
from repro_mlir.program import Program
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.train.captured_step import Known, KnownForms, Step
from repro_mlir.train.options import TrainOptions

if TYPE_CHECKING:
    import torch

    from repro_mlir.frontends.torch import FlatBatch, Form, Subject, TorchBindings


class Evaluation:
    """Evaluates a model with programs that are captured and compiled like training steps, and that read the model's
    tensors in place."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., torch.Tensor] | None,
        options: TrainOptions,
    ) -> None:
        """
        Args:
          model, loss_fn: see `Trainer`.
          options: the options of the training steps.
        """
        self._model = model
        self._loss_fn = loss_fn
        # Without ranks: each rank evaluates the whole batch by itself.
        self._options = replace(options, returns=(), ranks=None)
        self._forms = KnownForms(self._options)
        self._step: Step | None = None

    def run(
        self, batch: Any, returns: Sequence[Returned], scales: Mapping[str, np.ndarray]
    ) -> tuple[float, dict[str, Any]]:
        """Evaluates a batch on the present values of the model's tensors.

        Args:
          batch: the arguments of the model and the loss function, as `as_arguments` returns them.
          returns: see `Trainer.evaluate`.
          scales: (Q6) the scales of the steps so far; empty before the first step, where all scales are 1.
        Returns:
          the loss, and the results that `returns` requests.
        Raises:
          ReproError, StepFailed: see `Trainer.evaluate`.
        """
        options = self._options.with_returns(returns, is_evaluation=True)
        frontend.check_environment()
        flat, step = frontend.FlatBatch(batch), self._step
        if step is None or not step.takes(flat, options.returns):
            step = self._find(flat, frontend.Subject(self._model, self._loss_fn, None, options))
        step.binding.pull()
        for kind in step.known.added:
            if scales and kind.name not in scales:
                raise ReproError(f"(Q6) the steps so far have no {kind.name}: expected the forward pass of training")
            step.binding.arrays[kind.name][...] = scales.get(kind.name, 1)
        # Always loads the tensors to the device, which has the values of the last evaluation: version counters do not
        # show whether the tensors were written through `.data` since.
        step.kept.load()
        step.kept.step(*step.captured.batch_tensors(flat))
        return step.loss(), step.results() if options.returns else {}

    def _find(self, batch: FlatBatch, subject: Subject) -> Step:
        """Selects the captured evaluation for the model as it is now; captures a new one if there is none."""
        with frontend.evaluation_mode(self._model):
            # Evaluation mode keeps the form independent of the current modes of the user's modules.
            form, known = next(self._forms.find(subject, batch), None) or self._capture(batch, subject)
        step = self._forms.step(form, known)
        if step is None:
            own = {kind.name: np.ones(kind.shape, kind.dtype) for kind in known.added}
            binding = frontend.Binding(subject, known.captured, own, added=known.added)
            step = Step(form, known, subject, binding, known.executable.keep(binding.arrays))
        self._step = step
        warning = self._forms.use(step)
        if warning is not None:
            warnings.warn(warning, RuntimeWarning, stacklevel=4)
        return self._step

    def _capture(self, batch: FlatBatch, subject: Subject) -> tuple[Form, Known]:
        def capture() -> tuple[Program, ImportedProgram[TorchBindings]]:
            return evaluation_program(self._model, self._loss_fn, batch.given, subject.options)

        return self._forms.capture(subject, capture, batch)
