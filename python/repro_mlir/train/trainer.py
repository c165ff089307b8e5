# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Trains a model with one compiled step instead of a forward pass, a backward pass and an optimizer."""

from __future__ import annotations

import copy
import itertools
import math
import operator
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, Unpack, overload

import numpy as np

from repro_mlir.base.calling_line import calling_line
from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import BatchesEnded, NonFiniteLoss, ReproError, StepFailed
from repro_mlir.base.keywords import accepts_keywords
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.base.progress import Progress
from repro_mlir.base.signals import deferred_signals
from repro_mlir.base.tensors.arrays import as_arrays
from repro_mlir.base.tensors.batches import as_arguments, repeated
from repro_mlir.distributed.beginning import begin_without_receipt
from repro_mlir.execute.executable import Executable
from repro_mlir.execute.microbatches import KeptMicrobatches, MicrobatchExecutable
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.base.capture_options import Returned
from repro_mlir.frontends.torch.capture.programs import microbatch_program, training_program
from repro_mlir.precision.apply import HISTORY, RANDOM, SCALE
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.train.captured_step import Known, KnownForms, Step
from repro_mlir.train.changes import Changes
from repro_mlir.train.evaluation import Evaluation
from repro_mlir.train.options import TrainKeywords, TrainOptions
from repro_mlir.train.result import StepResult, result_of

if TYPE_CHECKING:
    import torch

    from repro_mlir.frontends.torch import FlatBatch, Form, Refresh, Subject, TorchBindings
    from repro_mlir.verification.receipts.recorder import Recorder


_SHOWN_RANGES = 4
"""The maximum number of inputs whose integers a message describes."""


class Trainer(ConstantAttributes):
    """Trains a PyTorch model; every step has the same bits on every target and for any number of threads.

        trainer = repro_mlir.Trainer(model, loss_fn, optimizer)
        for batch in loader:
            loss = trainer.step(*batch)

    The step is captured and compiled at the first batch, and again for each other structure and shape of a batch, such
    as a smaller last batch. The tensors of the model and the optimizer are the state: a step changes them, as
    `optimizer.step()` does, and the user's changes between two steps take effect. So do changes of everything else that
    the capture has read: hyper-parameters, `train()` and `eval()`, `requires_grad`, attributes of modules, parameter
    groups, hooks, and the values that the functions of model and loss read by name. A change that needs another program
    causes a capture; a change that no program can express is an error. A Python number that changes for the second time
    becomes an input of the program (an attribute of a module, a global or variable of its functions, a number of the
    batch), and a string of the batch that the step does not use is ignored. If the step needs the value itself, as for
    a power or a shape, a warning names the value. A GPU keeps the state in its own memory: see `sync`.

    Until `close`, calls that would have no effect next to the trainer are refused for its model and optimizer:
    `optimizer.step()`, gradient clipping and the `unscale_` and `update` of a GradScaler without a gradient from the
    user's own `backward`. So is `update_parameters` of the average, which would average twice.

    A step is atomic: if an exception ends the step, including a Ctrl-C at any moment, either all of state, `steps`,
    `cursor` and receipt have changed, or none of them; `steps` shows which.

    With `receipt` the run is recorded so that others can check it (docs/verification/receipts.md):

        with repro_mlir.Trainer(model, loss_fn, optimizer, receipt="run.receipt") as trainer:
            trainer.fit(loader, steps)

    The receipt contains the program of each step, and the user's changes of the state between two steps.
    """

    @accepts_keywords(TrainKeywords, TrainOptions, accumulate=1, microbatch_inputs=None)
    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        **options: Unpack[TrainKeywords],
    ) -> None:
        """
        Args:
          model: the model to train; each step uses the mode (train or eval) that the model is in.
          loss_fn: loss_fn(output, target) returns the scalar loss; None if the model returns the loss.
          optimizer: an optimizer over the model's parameters that is written in Python: those of torch.optim except
            LBFGS and SparseAdam, and the user's own. Its numbers are inputs of each step. If its step branches on them,
            on its flags or on the presence of state, each outcome has its own program. A step that no program can
            express, such as a branch on a tensor's elements, is an error that names the line.
          target: see `compile`.
          threads: see `compile`.
          clip_norm: clips all gradients together to this 2-norm.
          autocast: torch.bfloat16 or torch.float16 for forward and loss.
          seed: the seed of the random numbers (dropout); torch.manual_seed does not affect them.
          exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
          precision: a recipe for the operands of contractions, its name or its JSON, see
            `repro_mlir.precision.apply_precision`. Weights and optimizer keep their precision.
          attention_block: computes attention in blocks of this number of queries, or keys, see `capture`.
          returns: the results that every step computes in addition to the loss, so that all steps have one program.
            `step(...)` still returns only the loss, a float; `step(..., returns=...)` returns a `StepResult`. With
            "gradients" each step sets `grad` of the parameters, which otherwise stays None.
          metrics: functions by name, for `returns`: function(output, target), like the loss function, or
            function(result, batch) if the model returns the loss; each returns a tensor of shape [].
          average: a torch.optim.swa_utils.AveragedModel of the model, which averages its parameters, for example by an
            exponential moving average. Each step updates it as `average.update_parameters(model)` does; the loop must
            not call that too. The average is part of the state, of `state_dict` and of checkpoints.
          loss_scale: an enabled torch.amp.GradScaler("cpu"), for autocast to torch.float16. The gradients are those of
            the scaled loss, divided by the scale; if a gradient is not finite, the step does not change parameters and
            optimizer. In either case the scale is updated at the end. Each step does the work of `scale`, `unscale_`,
            `step` and `update`; the loop must not call them too. Scale and growth tracker are part of the state, of
            `state_dict` and of checkpoints.
          nonfinite_loss: the reaction to a loss that is NaN or infinite: "warn" (by warnings.warn, once), "stop" (this
            step and every later one raise NonFiniteLoss) or "ignore". A receipt records the choice.
          microbatches: the number of consecutive microbatches that a batch is cut into (B1). Forward, loss and backward
            pass run on each microbatch. Then gradients, losses and the running statistics of batch normalizations are
            averaged, and the optimizer runs once. None to use the whole batch.
          accumulate: the number of consecutive microbatches whose gradients are added one after the other; these sums
            are added as a tree (B2). It must divide `microbatches`.
          microbatch_inputs: the names of the batch's tensors that are cut, such as "batch[0]"; every microbatch gets
            the others whole. None to cut all tensors with dimensions, whose first extents must be equal.
          gradient_compression: the lossy compression of the gradients of each microbatch before they are added: a
            method of `repro_mlir.gradient_compression`, its name or its JSON. The method's tensors are part of the
            state, of `state_dict` and of checkpoints.
          ranks: the ranks that share the microbatches, from `repro_mlir.integrations.torch_distributed.connect`. Every
            rank makes the same steps with the same batches, on its own target; the results do not depend on the number
            of ranks.
          receipt: a new directory for the receipt, or its options. `close`, or the end of a `with`, finishes the
            receipt; if there is neither, a warning at the end of the process says that the receipt has no seal. Every
            rank passes this option, but only rank 0 writes the receipt, and reads it to resume.
        Raises:
          ReproError: the model, loss function or optimizer is a class; the target, a name in `returns` or the value of
            `nonfinite_loss` is unknown; the receipt exists and is not to be resumed, or cannot be written; or a step
            cannot update the average or the scaler.
        """
        self._options = TrainOptions.parsed(**options)
        self._made_at = calling_line()
        optimizer = frontend.unwrapped(optimizer)
        frontend.check_objects(model, loss_fn, optimizer)
        if self._options.receipt is not None and (self._options.ranks is None or self._options.ranks.rank == 0):
            self._options.receipt.check_begins()
        self._model = model
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        if self._options.average is not None:
            frontend.check_average(self._options.average, model)
        if self._options.loss_scale is not None:
            frontend.check_scaler(self._options.loss_scale)
        self._nonfinite: str | None = None
        self._recorder: Recorder | None = None
        # If several threads call the trainer, the lock makes their steps run one after another.
        self._lock = threading.RLock()
        self._forms = KnownForms(self._options)
        self._step: Step | None = None
        self._changes = Changes()
        # The part of the state that is in none of the user's objects, by name: the seed and the step of the random
        # numbers, the scales of previous steps (Q6), and the tensors of gradient compression.
        self._own: dict[str, np.ndarray] = {}
        self._begun: _Begun | None = None
        self._running = self._has_run = self._opened = False
        self._done = _Position(0, 0)
        # The numbers of steps and batches before the first record of the receipt.
        self._before_receipt = self._done
        self._broken: str | None = None
        self._leftover_calls = frontend.LeftoverCalls(model, optimizer, self._options.average)
        self._leftover_calls.begin()

    def __enter__(self) -> Trainer:
        return self

    def __repr__(self) -> str:
        model, optimizer = type(self._model).__name__, type(self._optimizer).__name__
        step = self._step
        program = "not captured yet" if step is None else f"program {step.program.hash[:16]}"
        return f"<Trainer of {model} with {optimizer} on {self._options.target}, steps: {self._done.steps}, {program}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Rejects copy and pickle, which call this method."""
        raise ReproError(
            "a Trainer cannot be copied or pickled: save its state_dict() or call save_checkpoint(), and load that "
            "into a new Trainer of a copy of the model"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        self._leftover_calls.end()
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            recorder.close()

    @property
    def steps(self) -> int:
        """The number of steps that produced the present state, including those before `load_state_dict`.

        With `ReceiptOptions(resume=True)` it is known after `prepare` or the first call of `fit`, which open the
        receipt: it starts at the number of steps of the receipt's last checkpoint. Raises ReproError before that.
        """
        self._require_opened("steps")
        return self._position.steps

    @property
    def cursor(self) -> int:
        """The number of batches that have been used, including those of failed steps. With a receipt that may be
        resumed, it is known as late as `steps`."""
        self._require_opened("cursor")
        return self._position.cursor

    def _require_opened(self, name: str) -> None:
        if self._may_resume and not self._opened:
            raise ReproError(
                f"the receipt says what {name} is, and is not open yet: call prepare(*batch) with the first batch of "
                "the run, or fit, which skips the batches that the receipt has used"
            )

    @property
    def _may_resume(self) -> bool:
        return self._options.receipt is not None and self._options.receipt.resume

    @property
    def _position(self) -> _Position:
        begun = self._begun
        return begun.position if begun is not None and begun.completed else self._done

    def prepare(self, *batch: Any, returns: Sequence[Returned] = ()) -> StepProgram:
        """Captures and compiles the step for batches like this one; `step` does so automatically.

        Args:
          batch, returns: see `step`.
        Returns:
          the program; a step in microbatches consists of several programs.
        Raises:
          ReproError: the step cannot be captured or compiled.
        """
        return self._prepare(_as_given(batch), returns)

    def _prepare(self, arguments: Any, returns: Sequence[Returned] = ()) -> StepProgram:
        subject = self._subject(returns)
        self._refresh()
        with self._lock, frontend.outside_inference_mode():
            self._settle()
            return self._present(self._flat(arguments), subject).program

    def read_inputs(self, *batch: Any) -> list[np.ndarray]:
        """Returns the inputs of a step on this batch: the present hyper-parameters, then the tensors, which may share
        memory with the batch. Raises the same errors as `prepare`."""
        arguments = _as_given(batch)
        with self._lock:
            program = self._prepare(arguments)
            assert self._step is not None
            return as_arrays(self._step.captured.inputs(self._flat(arguments)), program.inputs, "input")

    def _flat(self, arguments: Any) -> FlatBatch:
        """Returns the batch from which a step is captured: the whole batch, or its first microbatch if there are
        microbatches."""
        batch, microbatches = frontend.FlatBatch(arguments), self._options.microbatches
        return batch if microbatches is None else frontend.first_microbatch(batch, microbatches)

    def _subject(self, returns: Sequence[Returned]) -> Subject:
        """Returns the model, loss function, optimizer and options from which a step is captured. The step has the
        results in the trainer's options and in `returns`."""
        options = self._options.with_returns(returns) if returns else self._options
        return frontend.Subject(self._model, self._loss_fn, self._optimizer, options)

    @property
    def executable(self) -> Executable | MicrobatchExecutable:
        """The compiled step of the last batch. Raises ReproError before the first step."""
        if self._step is None:
            raise ReproError("the step is captured at the first batch: call step, fit or prepare first")
        return self._step.executable

    @property
    def program(self) -> StepProgram:
        """The captured program of the last batch. Raises ReproError before the first step."""
        return self.executable.program

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The present state tensors by name, as read-only arrays, which share the memory of the model and the optimizer
        if possible. Raises ReproError before the first step."""
        self.sync()
        assert self._step is not None
        return {name: _read_only(array) for name, array in self._step.binding.arrays.items()}

    @overload
    def step(self, *batch: Any, returns: tuple[()] = ()) -> float: ...

    @overload
    def step(self, *batch: Any, returns: Sequence[Returned]) -> StepResult: ...

    def step(self, *batch: Any, returns: Sequence[Returned] = ()) -> float | StepResult:
        """Runs one training step.

        Args:
          batch: `(*inputs, target)` for a loss function; if the model returns the loss, its arguments, or one mapping
            of arguments by name. Tensors and NumPy arrays may change their shapes: each shape has its own program. Any
            other value in a batch is a constant, so each value has its own program; but numbers and strings of the
            batch that have changed twice are treated like those of the user's objects, see `Trainer`.
          returns: the results to return in addition to the loss, each one of "outputs", "gradient_norm", "gradients"
            and "metrics", see `StepResult`. They do not affect the state. Each choice has its own program, which
            computes only the requested results. "gradients" also sets `grad` of the parameters.
        Returns:
          the loss; with `returns` a `StepResult`.
        Raises:
          ReproError: an unknown name in `returns`; a step that cannot be captured; a value of the batch that differs
            from the one captured as a constant; or a change since the last step that no program can express, or that a
            receipt cannot record.
          StepFailed: a check of the program failed, such as a class out of range; the state is unchanged.
          NonFiniteLoss: the run stops at a loss that is NaN or infinite.
        """
        try:
            loss, found = self._step_on(_as_given(batch), returns)
        except frontend.CaptureError as error:
            # The message names the user's line, which the frames of the capture would push out of sight.
            raise error.with_traceback(None) from None
        return loss if not returns else result_of(loss, {name: found[name] for name in returns})

    def _step_on(self, arguments: Any, returns: Sequence[Returned] = ()) -> tuple[float, dict[str, Any]]:
        """Runs one training step. Returns the loss and, if `returns` is not empty, all other results of the program by
        name."""
        subject = self._subject(returns)
        self._refresh()
        with self._lock, frontend.outside_inference_mode():
            self._settle()
            if self._nonfinite is not None and self._options.nonfinite_loss == "stop":
                raise NonFiniteLoss(f"the run has stopped: {self._nonfinite}")
            self._leftover_calls.begin()
            batch, knew = self._flat(arguments), self._opened
            step = self._present(batch, subject)
            if self._options.receipt is not None and self._recorder is None:
                raise ReproError("the receipt is closed: use a new Trainer for more steps")
            if self._recorder is not None and not knew and self._recorder.cursor:
                raise ReproError(
                    f"the receipt has already used {self._recorder.cursor} batches, and a loop that begins with step "
                    "would use them again: call prepare(*batch) with the first batch of the run, then continue with "
                    "the batch whose number, counted from 0, is trainer.cursor"
                )
            if self._options.receipt is None and self._options.ranks is not None and not self._has_run:
                begin_without_receipt(self._options.ranks)
            self._run(step, step.captured.inputs(batch))
            fills = "gradients" in subject.options.returns
            loss, found = step.loss(), step.results() if returns or fills else {}
            if fills:
                frontend.fill_gradients(self._model, found["gradients"])
                self._leftover_calls.note_returned()
        if not math.isfinite(loss):
            self._report_nonfinite(loss)
        return loss, found

    @overload
    def evaluate(self, *batch: Any, returns: tuple[()] = (), average: bool = False) -> float: ...

    @overload
    def evaluate(self, *batch: Any, returns: Sequence[Returned], average: bool = False) -> StepResult: ...

    def evaluate(self, *batch: Any, returns: Sequence[Returned] = (), average: bool = False) -> float | StepResult:
        """Computes the loss of the model in evaluation mode, without gradients, by a separate program.

        Nothing changes: neither the state nor `steps`, `cursor`, the receipt or the modes of modules. During the
        evaluation, the flags `training` of the modules are False (the model's method `train` is not called). The bits
        are equal on every target. A GPU's state is copied back for the evaluation, and to the GPU again for the next
        step.

        Args:
          batch: see `step`.
          returns: see `step`; only "outputs" and "metrics".
          average: whether to evaluate the trainer's average instead of the model.
        Returns:
          the loss; with `returns` a `StepResult`.
        Raises:
          ReproError: see `step`; or the model writes a buffer or draws random numbers in evaluation mode; or there is
            no average.
          StepFailed: see `step`.
        """
        if average and self._options.average is None:
            raise ReproError("the trainer has no average to evaluate: pass average=AveragedModel(model) to Trainer")
        arguments = _as_given(batch)
        self._refresh()
        with self._lock, frontend.outside_inference_mode():
            self._settle()
            if self._running:
                raise ReproError("an evaluation within a step, such as in a signal handler, is not supported")
            if self._step is not None and (average or not self._step.is_divided):
                self._step.bring_back()
            evaluation = self._evaluation_of_average if average else self._evaluation
            loss, found = evaluation.run(arguments, returns, self._scales_of_average if average else self._scales)
        return loss if not returns else result_of(loss, found)

    @property
    def _scales(self) -> dict[str, np.ndarray]:
        """(Q6) The scales and histories of previous steps. The keys are names of state tensors of the program."""
        return {name: value for name, value in self._own.items() if name.startswith((HISTORY, SCALE))}

    @property
    def _scales_of_average(self) -> dict[str, np.ndarray]:
        """(Q6) The scales and histories for an evaluation of the average. Its submodule `module` is the model, so the
        names of layers begin with `module.`."""
        scales = self._scales
        layers = ((name.removeprefix(SCALE), value) for name, value in scales.items() if name.startswith(SCALE))
        return scales | {f"{SCALE}module.{name}": value for name, value in layers}

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self._model, self._loss_fn, self._options)

    @cached_property
    def _evaluation_of_average(self) -> Evaluation:
        assert self._options.average is not None
        return Evaluation(self._options.average, self._loss_fn, self._options)

    def _run(self, step: Step, inputs: list[Any]) -> None:
        recorder, arrays = self._recorder, step.kept.read_inputs(inputs)
        if recorder is not None:
            arrays = recorder.take(step.program, arrays)
            if isinstance(step.kept, KeptMicrobatches):
                step.kept.commits = recorder.commits_microbatches
            if step.executable.resident and step.recorded is not recorder.last:
                # The user has changed the state since the last record, so it is loaded to the device again.
                step.kept.load()
        position = _Position(self._done.steps + 1, self._done.cursor + 1)
        begun = self._begun = _Begun(step, arrays, position, step.kept.completed)
        self._running = self._has_run = True
        try:
            step.kept.run(arrays)
            self._settle(begun)
        except BaseException as error:
            # An exception, such as an interrupt, may come after the step has completed. If `_settle` fails too, the
            # next call settles the step.
            self._settle(begun)
            if isinstance(error, StepFailed):
                self._done = _Position(self._done.steps, position.cursor)
                if recorder is not None:
                    recorder.skip()
                if found := _ranges(step.program, arrays, str(error)):
                    raise StepFailed(f"{error}; {found}: check the batch") from None
            raise
        finally:
            self._running = False

    def _settle(self, begun: _Begun | None = None) -> None:
        """Finishes a step that has begun: updates the counts and the receipt if it has completed, so that they agree
        with the state.

        Args:
          begun: the running step; None for a step that an earlier call left unfinished.
        """
        if self._broken is not None:
            raise ReproError(self._broken)
        late = begun is None
        if late and self._running:
            # Here a signal handler reads a tensor while a step runs. That step settles itself when it ends.
            return
        begun = self._begun if begun is None else begun
        if begun is None or begun is not self._begun:
            return
        if begun.completed:
            step, recorder = begun.step, self._recorder
            if late and recorder is not None and self._is_due(begun) and not recorder.can_finish:
                # The record can no longer be written: the user may have changed the state since the step ended.
                raise ReproError(
                    f"step {begun.position.steps} was interrupted before it was recorded: "
                    "resume the receipt in a new trainer"
                )
            step.kept.finish()
            if step.kept.ahead and (recorder is not None or step.binding.has_numbers):
                # The recorder needs the values for its hashes. A Python number is fetched now, because reading it
                # cannot trigger an update.
                step.kept.fetch()
            step.note()
            if step.kept.ahead:
                step.leave(self.bring_back)
            else:
                if recorder is not None and recorder.keeps_next:
                    step.bring_back()
                step.push()
                if step.foreign:
                    step.leave(_refuse_foreign)
            if recorder is not None and self._is_due(begun):
                recorder.commit(begun.inputs, list(step.kept.outputs.values()), step.microbatches)
                step.recorded = recorder.last
            self._done = begun.position
        self._begun = None

    def _is_due(self, begun: _Begun) -> bool:
        """Returns whether the receipt lacks the record of a step that has run."""
        assert self._recorder is not None
        return self._recorder.steps < begun.position.steps - self._before_receipt.steps

    def _report_nonfinite(self, loss: float) -> None:
        message = f"the loss of step {self._position.steps} is {loss}"
        known, self._nonfinite = self._nonfinite, message
        if self._options.nonfinite_loss == "stop":
            raise NonFiniteLoss(f"{message}: the run stops")
        if self._options.nonfinite_loss == "warn" and known is None:
            warnings.warn(f"{message}; the option nonfinite_loss selects the reaction", RuntimeWarning, stacklevel=4)

    @cached_property
    def _called(self) -> Refresh:
        return frontend.Refresh(self)

    def _present(self, batch: FlatBatch, subject: Subject) -> Step:
        """Returns the bound step for this batch and the user's objects as they are now. The state of the step has the
        newest values."""
        frontend.check_environment()
        step = self._step
        if step is None or not step.takes(batch, subject.options.returns):
            step = self._find(batch, subject)
            if not step.is_present:
                # `_find` has resumed a receipt and so restored the optimizer's state. This has changed the form.
                step = self._find(batch, subject)
        try:
            step.binding.pull()
        except frontend.Stale:
            step = self._find(batch, subject, again=True)
        if self._recorder is not None:
            self._recorder.state = step.binding.arrays
            if isinstance(step.kept, KeptMicrobatches):
                self._recorder.known_digests = step.kept.digests
        # Handles writes to the user's tensors since the last step. With a receipt this is not needed, because the
        # recorder hashes the tensors.
        if step.executable.resident and self._recorder is None:
            if not step.kept.ahead:
                # The tensors are loaded to the device again, since writes through `.data`, for example, do not change
                # version counters.
                step.kept.load()
                step.binding.see()
            elif step.binding.touched:
                step.refuse_touched()
        return step

    def _find(self, batch: FlatBatch, subject: Subject, again: bool = False) -> Step:
        """Selects the step for this batch and the user's objects as they are now. Captures it if it has not been
        captured, or if `again` is set."""
        if self._step is not None:
            self._step.bring_back()
        frontend.refuse_hooks(dict(self._model.named_parameters()), self._optimizer)
        if len(self._forms) and not again:
            for form, known in self._forms.find(subject, batch):
                with suppress(frontend.Stale):
                    return self._take(form, known, subject)
            self._changes.note(subject, batch, self._forms.last)
        options = replace(subject.options, changing=self._changes.again)

        def capture() -> tuple[StepProgram, ImportedProgram[TorchBindings]]:
            if batch.whole is not None:
                return microbatch_program(self._model, self._loss_fn, self._optimizer, batch, options)
            return training_program(self._model, self._loss_fn, self._optimizer, batch.given, options)

        form, known = self._forms.capture(subject, capture, batch)
        if known.executable.resident:
            # The form contains the hooks of the modules, and `watch` has just added hooks, so the form is computed
            # again.
            for module in self._modules:
                self._called.watch(module)
            captured = known.captured
            form = frontend.form_of(subject, captured.structure, batch, captured.changing, captured.recording)
        self._check_recorded(known.program, form)
        message = self._changes.warning(known.captured)
        if message is not None:
            warnings.warn(message, RuntimeWarning, stacklevel=5)
        return self._take(form, known, subject)

    def _take(self, form: Form, known: Known, subject: Subject) -> Step:
        """Binds a captured step to the tensors that the user's objects have now, unless it is already bound to them,
        and selects it."""
        step = self._forms.step(form, known)
        if step is None:
            self._take_own(known)
            binding = frontend.Binding(subject, known.captured, self._own, self._forms.bindings, known.added)
            step = Step(form, known, subject, binding, known.executable.keep(binding.arrays))
        if self._options.receipt is not None and self._recorder is None and self._step is None:
            self._open_receipt(step)
        warning = self._forms.use(step)
        self._step = step
        if warning is not None:
            warnings.warn(warning, RuntimeWarning, stacklevel=6)
        return step

    def _take_own(self, known: Known) -> None:
        """Creates arrays for state that is in none of the user's objects. Raises ReproError if an array of an earlier
        program has another shape, or if the contractions without a layer differ: their scales are named only by numbers
        (Q6)."""
        names = {*known.captured.own, *(kind.name for kind in known.added)}
        former, now = ({name for name in each if name.startswith(f"{SCALE}product.")} for each in (self._own, names))
        if former and former != now:
            raise ReproError(
                f"(Q6) the step has other products than the steps so far, which had {', '.join(sorted(former))}: "
                "use scales of the current tensor for products of a model that changes"
            )
        for kind, value in zip(known.program.state, known.program.initial, strict=True):
            if kind.name in names:
                found = self._own.setdefault(kind.name, value.copy())
                if found.shape != value.shape:
                    raise ReproError(f"the state has {kind.name} of shape {list(found.shape)}, expected {kind}")

    def _open_receipt(self, step: Step) -> None:
        from repro_mlir.verification.receipts.recorder import Recorder

        options = self._options
        assert options.receipt is not None
        initial = tuple(array.copy() for array in step.binding.arrays.values())
        program, executable = step.program.with_initial(initial), step.executable
        # Signals are deferred: an interrupt after the receipt has been created would leave a receipt to which no
        # trainer writes.
        with deferred_signals():
            recorder = Recorder(
                options.receipt,
                program,
                options.target,
                executable.threads,
                options.nonfinite_loss,
                options.ranks,
                self._made_at,
            )
            recorder.work_on(step.binding.arrays)
            step.push(stepped=recorder.steps > 0)
            if recorder.steps:
                # The user's loop calls its schedulers once for each of these steps.
                step.note()
            step.kept.load()
            begin = self._before_receipt = self._done
            self._recorder = recorder
            self._done = _Position(begin.steps + recorder.steps, begin.cursor + recorder.cursor)
            self._opened = True

    def _check_recorded(self, program: StepProgram, form: Form) -> None:
        """Raises ReproError if the state tensors of the program are not those of the receipt."""
        if self._recorder is not None and program.state != self._recorder.kinds:
            last = self._forms.last
            assert last is not None
            raise ReproError(
                f"{frontend.difference(last[0], form)} has changed, and with it the state tensors, which are the same "
                "in all programs of a receipt: change it back (evaluate() needs no eval()), or close the receipt and "
                "continue with another one in a new Trainer"
            )

    def _refresh(self) -> None:
        """If another trainer has newer values of the model's tensors, makes that trainer update the tensors. Called
        without this trainer's lock, because this method takes the lock of the other trainer."""
        own = None if self._step is None else self._step.binding.residents
        for module in self._modules:
            frontend.bring_others_back(module, own)

    @property
    def _modules(self) -> list[torch.nn.Module]:
        """The model, and its average if there is one."""
        return [self._model] if self._options.average is None else [self._model, self._options.average]

    def fit(
        self, batches: Iterable[Any], steps: int, callbacks: Iterable[Callable[[Trainer, float], object]] = ()
    ) -> list[float]:
        """Trains for `steps` batches. Shows progress on standard error: a bar, or lines if it is not a terminal.

        Args:
          batches: an iterable of batches for `step`: tuples `(*inputs, target)`, or mappings. A DataLoader, a list, or
            another object that can be iterated again restarts at its end; an iterator must yield `steps` batches.
          steps: the number of steps. With a resumed receipt: the total number of steps from the beginning of the run;
            the batches begin there too, and the used ones are skipped. If the input of a skipped step, such as the
            batch or the learning rate, differs from the receipt's record, an error names the step and the input;
            hyper-parameters of skipped steps are not compared if there are callbacks, which may have changed them.
          callbacks: functions that are called as callback(trainer, loss) after each step, in order. If one returns a
            true value, that step is the last one. An exception ends the training after that step.
        Returns:
          the loss of each step that has run.
        Raises:
          BatchesEnded: an iterator ends too early; the attribute `losses` has the losses of the steps that have run.
          ReproError: see `step`.
        """
        if isinstance(steps, bool) or not isinstance(steps, SupportsIndex):
            raise ReproError(f"expected a whole number of steps, got {steps!r}")
        steps = operator.index(steps)
        if steps < 0:
            raise ReproError(f"expected at least 0 steps, got {steps}")
        losses: list[float] = []
        called = [*callbacks]
        iterator, begun = self._resume(repeated(batches), hyper_parameters=not called)
        if begun > steps:
            raise ReproError(
                f"expected at least {begun} steps, the number that the receipt already has, got {steps}: give the "
                "total from the beginning of the run (--steps, or the steps of fit)"
            )
        ranks = self._options.ranks
        with Progress(steps - begun, "training", silent=ranks is not None and ranks.rank > 0) as progress:
            for _ in range(steps - begun):
                try:
                    batch = next(iterator)
                except StopIteration:
                    raise BatchesEnded(f"expected {steps} batches, got {begun + len(losses)}", losses) from None
                loss, _ = self._step_on(as_arguments(batch))
                losses.append(loss)
                progress.advance(f"loss {loss:.4f}")
                if any([callback(self, loss) for callback in called]):
                    break
        return losses

    def _resume(self, batches: Iterator[Any], hyper_parameters: bool) -> tuple[Iterator[Any], int]:
        """Prepares the batches of `fit`: returns those that remain, and the number of steps before them. In a resumed
        run, the batches that the receipt has used are skipped, after a comparison of the inputs with the receipt's
        records; otherwise all batches and 0 are returned."""
        if not self._may_resume or self._has_run:
            return batches, 0
        for first in batches:
            # Skipped batches are drawn without the steps between which the user calls schedulers.
            frontend.mark_stepped(self._optimizer)
            self._prepare(as_arguments(first))
            recorder = self._recorder
            assert recorder is not None
            used = recorder.cursor
            if used == 0:
                return itertools.chain([first], batches), 0
            passed = 0
            for batch in itertools.chain([first], itertools.islice(batches, used - 1)):
                passed += 1
                self._compare_skipped(passed, as_arguments(batch), hyper_parameters)
            if passed < used:
                raise ReproError(f"expected more than the {used} batches that the receipt has used, got {passed}")
            self._restore(as_arguments(first))
            return batches, recorder.steps
        return batches, 0

    def _compare_skipped(self, number: int, arguments: Any, hyper_parameters: bool) -> None:
        """Compares a skipped batch, and the hyper-parameters as they are now, with the receipt's record of its step.
        Raises ReceiptWrong if an input differs."""
        with self._lock, frontend.outside_inference_mode():
            recorder = self._recorder
            assert recorder is not None
            if not recorder.has_skipped(number):
                return
            batch = self._flat(arguments)
            step = self._present(batch, self._subject(()))
            arrays = step.kept.read_inputs(step.captured.inputs(batch))
            recorder.compare_skipped(number, step.program, arrays, hyper_parameters)

    def _restore(self, batch: Any) -> None:
        """Restores the state of a resumed receipt again, because the iteration over the skipped batches may have
        changed tensors."""
        with self._lock:
            step, recorder = self._present(self._flat(batch), self._subject(())), self._recorder
            assert recorder is not None
            with deferred_signals():
                recorder.restore()
                step.push(stepped=recorder.steps > 0)
                step.kept.load()

    def close(self) -> None:
        """Finishes the receipt, if there is one, after which no step can run. See `ReceiptOptions`. Afterwards,
        `optimizer.step()` and gradient clipping of a loop in eager mode are allowed again. Without a receipt, further
        steps can run, and refuse these calls again.

        Raises:
          ReproError: the receipt cannot be written, or a recomputed step differs from its record.
        """
        with self._lock:
            self._leftover_calls.end()
            self._settle()
            if self._recorder is not None:
                if self._step is not None and self._step.is_divided:
                    self._step.bring_back()
                recorder, self._recorder = self._recorder, None
                recorder.end()

    def state_hash(self) -> str:
        """Returns the hash of the present state (H3), over all tensors of `program`, in hexadecimal. This hash makes it
        possible to compare runs on different machines."""
        program, state = self.program, self.state
        return state_hash([(state[kind.name], kind.element) for kind in program.state])

    def sync(self) -> None:
        """Updates the tensors of the model and the optimizer to the newest values.

        On CPUs, on simulated machines of many cores and with the reference interpreter, the tensors are the state, and
        `sync` does nothing, except with ranks (see below). On a GPU, or its emulator, the state stays on the device
        from step to step. Calls of modules, and operators and methods of torch with one of the tensors as an argument,
        update all of them automatically. Call `sync` before the following uses, which do not update the tensors:

        - an object that was made before the step and shares a tensor's memory: a view, a result of `detach()` or
          `state_dict()`, a NumPy array;
        - a new tensor made from a tensor by `torch.tensor`, `torch.Tensor`, `as_tensor`, `asarray`, `new_tensor` or
          `set_`, or by an assignment to the `data` of another one;
        - a tensor that is passed as a number to an operator;
        - `torch.jit`, and `torch.func` without a call of a module;
        - `torch.compile(fullgraph=True)`, which rejects such a tensor.

        If the optimizer's state is sharded among ranks (`shard_optimizer`), or gradient compression keeps state for
        each microbatch, `sync` copies the whole state to all ranks, and all ranks must call it. `state`, `state_hash`,
        `state_dict`, `load_state_dict`, `close` with a receipt, and an evaluation of the average do the same. Before
        that, the uses listed above see old values of other ranks' tensors, and any other use raises ReproError.

        Raises:
          ReproError: there was no step yet; or a tensor was written while newer values were on the device.
        """
        _ = self.executable
        self._refresh()
        self.bring_back()

    def bring_back(self) -> None:
        """Updates the tensors like `sync`, but does nothing before the first step."""
        with self._lock:
            self._settle()
            if self._step is not None:
                self._step.bring_back()

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that a run needs to continue, for torch.save; `save_checkpoint` writes a safetensors file.

        Returns:
          `model`, `optimizer` and, if present, `average` and `loss_scale`: their state_dict; `precision`: the scales
          and histories of a recipe with delayed scaling (Q6), by the names of the program's state, empty before the
          first step; `gradient_compression`: its state, by name; `steps` and `cursor`; `seed` and `random_step` of the
          random numbers; `format`.
        """
        with self._lock:
            self.bring_back()
            seed, step = (int(self._own[kind]) if kind in self._own else None for kind in RANDOM)
            average, scaler = self._options.average, self._options.loss_scale
            return {
                "format": frontend.CHECKPOINT_FORMAT,
                "model": self._model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                **({} if average is None else {"average": average.state_dict()}),
                **({} if scaler is None else {"loss_scale": scaler.state_dict()}),
                **frontend.own_entries(self._own, self._options),
                "steps": self._position.steps,
                "cursor": self._position.cursor,
                "seed": int(self._options.seed) if seed is None else seed,
                "random_step": step or 0,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from the `state_dict` of a trainer with the same model and optimizer: later steps have the bits of
        that run. The caller skips the used batches, whose number is `cursor`.

        A receipt that the next step opens begins with the loaded state, and numbers its steps and batches from there.
        An open receipt records the loaded state as a change by the user, and `steps` and `cursor` continue; if its run
        has stopped at a loss that is not finite, the run stays stopped.

        Raises:
          ReproError: the dict does not fit; nothing has changed.
        """
        with self._lock:
            former = self._begun, self._step, self._broken
            divided = self._step is not None and self._step.is_divided
            # First brings back the newest values, since buffers that are in no state_dict keep their values. The rest
            # of the state is replaced, so an error is ignored, unless the state is divided among ranks: all ranks must
            # succeed or fail together.
            with nullcontext() if divided else suppress(ReproError):
                self.bring_back()
            try:
                if self._step is not None:
                    self._step.binding.give_up()
                self._begun = self._step = self._broken = None
                average, scaler = self._options.average, self._options.loss_scale
                frontend.check_fits(state, self._model, self._optimizer, average, scaler)
                own = frontend.own_arrays(state, self._model, self._options)
            except BaseException:
                self._begun, self._step, self._broken = former
                if self._step is not None and self._step.kept.ahead:
                    self._step.leave(self.bring_back)
                raise
            self._broken = "loading a state was interrupted: call load_state_dict again"
            self._model.load_state_dict(state["model"])
            if average is not None:
                average.load_state_dict(state["average"])
            if scaler is not None:
                scaler.load_state_dict(state["loss_scale"])
            # Copied because torch.optim keeps the tensors that it is passed, which may be those of another optimizer.
            self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
            self._options = replace(self._options, seed=state["seed"])
            self._forms.forget_steps()
            seed, step = signed_seed(state["seed"]), state["random_step"]
            self._own = {"seed": np.array(seed, np.int64), "step": np.array(step, np.int64), **own}
            if self._recorder is None:
                self._done = _Position(state["steps"], state["cursor"])
            # If a receipt is open and its run has stopped at a loss that is not finite, it stays stopped.
            if self._recorder is None or self._options.nonfinite_loss != "stop":
                self._nonfinite = None
            self._broken = None

    def save_checkpoint(self, path: str | Path) -> None:
        """Writes `state_dict` as a safetensors file: the tensors `model.NAME`, `average.NAME`, `precision.NAME`,
        `gradient_compression.NAME` and `optimizer.NUMBER.NAME`, and the rest as JSON in the metadata `trainer`. Equal
        states have equal bytes. An existing file is replaced only after the new one is complete. Raises ReproError if
        the file cannot be written, or its name ends as those of another format, such as `.pt`."""
        frontend.save_checkpoint(path, self.state_dict())

    def load_checkpoint(self, path: str | Path) -> None:
        """Loads a file that `save_checkpoint` has written. Raises ReproError if the file is not such a file, and the
        same errors as `load_state_dict`."""
        self.load_state_dict(frontend.load_checkpoint(path))


@dataclass(frozen=True)
class _Position:
    """The number of steps that produced the state, and the number of batches that have been used, including those of
    failed steps."""

    steps: int
    cursor: int


@dataclass(frozen=True)
class _Begun:
    """A step that has begun. It may have completed but is not yet in the counts and the receipt.

    Attributes:
      step: the bound step.
      inputs: the inputs as the receipt records them.
      position: the numbers of steps and batches after the step.
      before: the number of completed steps of `kept` before the step.
    """

    step: Step
    inputs: list[np.ndarray]
    position: _Position
    before: int

    @property
    def completed(self) -> bool:
        """Whether the step has run to its end."""
        return self.step.kept.completed != self.before


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _refuse_foreign() -> None:
    """Called when the user uses a tensor whose value only another rank has. Always raises ReproError."""
    raise ReproError(
        "the values of this tensor of the optimizer or an average are on another rank: call sync() on all ranks"
    )


def _as_given(batch: tuple[Any, ...]) -> tuple[Any, ...] | dict[str, Any]:
    """Returns the arguments of the model and the loss function. If the batch is a single mapping, these are its
    entries, by name."""
    return as_arguments(batch[0] if len(batch) == 1 and isinstance(batch[0], Mapping) else batch)


def _ranges(program: StepProgram, arrays: Sequence[np.ndarray], message: str) -> str:
    """Returns the ranges of the integers in a batch, if an index or class of a step was out of range; else ""."""
    # torch-mlir writes the second message.
    if "index out of range" not in message and "index must be" not in message:
        return ""
    told = [
        f"{kind.name} has values from {array.min()} to {array.max()}"
        for kind, array in zip(program.inputs, arrays, strict=True)
        if array.ndim and array.size and array.dtype.kind in "iu" and kind.element in ("i8", "i16", "i32", "i64")
    ]
    return ", ".join(told[:_SHOWN_RANGES])
