# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training with a compiled step in place of forward, backward and optimizer."""

from __future__ import annotations

import copy
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, overload

import numpy as np

from repro_mlir.audit.receipts.options import NONFINITE_LOSS, ReceiptOptions
from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import BatchesEnded, NonFiniteLoss, ReproError, StepFailed
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.base.progress import Progress
from repro_mlir.base.signals import deferred_signals
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.batches import as_arguments, repeated
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.beginning import begin_without_receipt
from repro_mlir.execute.executable import Executable, check_target
from repro_mlir.execute.microbatches import KeptMicrobatches, MicrobatchExecutable
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.capture.programs import microbatch_program, training_program
from repro_mlir.gradient_compression.chosen import compression_of
from repro_mlir.precision.apply import HISTORY, RANDOM, SCALE
from repro_mlir.precision.recipe_json import recipe_of
from repro_mlir.program.imported import CaptureOptions, ImportedProgram, Microbatches
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.train.captured_step import Known, KnownForms, Step
from repro_mlir.train.changes import Changes
from repro_mlir.train.evaluation import Evaluation
from repro_mlir.train.result import Returned, StepResult, result_of

if TYPE_CHECKING:
    import torch
    from torch.optim.swa_utils import AveragedModel

    from repro_mlir.audit.receipts.recorder import Recorder
    from repro_mlir.frontends.torch import Captured, FlatBatch, Form, Refresh, Subject
    from repro_mlir.gradient_compression.methods import GradientCompression
    from repro_mlir.precision.recipe import Recipe


class Trainer(ConstantAttributes):
    """Trains a PyTorch model; every step has the same bits on every target and with any number of threads.

        trainer = repro_mlir.Trainer(model, loss_fn, optimizer)
        for batch in loader:
            loss = trainer.step(*batch)

    The step is captured and compiled at the first batch, and once for each other structure and shape of a batch, as
    that of a last, smaller one. The tensors of the model and of the optimizer are the state: a step changes them, as
    `optimizer.step()` does, and what the user does to them between two steps counts. So does all else that the step was
    captured from: hyper-parameters, `train()` and `eval()`, `requires_grad`, attributes of modules, parameter groups,
    hooks, and what the functions of model and loss read by name. Where that needs another program it is captured and
    compiled, once for each form; what no program can do is refused. A Python number that changes for the second time
    becomes an input of the program (an attribute of a module, a global or variable of its functions, a number of the
    batch), and a string of the batch that the step does not use is ignored; where the step asks for the value itself,
    as a power or a shape does, a warning names it. On a GPU the state stays there: see `sync`.

    A step is atomic: whatever exception ends it, a Ctrl-C at any moment among them, it has changed state, `steps`,
    `cursor` and receipt together, or none of them; `steps` says which.

    With `receipt` the run is recorded so that anybody can check it (docs/receipts.md):

        with repro_mlir.Trainer(model, loss_fn, optimizer, receipt="run.receipt") as trainer:
            trainer.fit(loader, steps)

    It says which program each step ran, and what the user did to the state between two steps.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        *,
        target: str = "cpu",
        threads: int | None = None,
        clip_norm: float | None = None,
        autocast: torch.dtype | None = None,
        seed: int = 0,
        exact_digits: int | None = None,
        precision: Recipe | str | Mapping[str, Any] | None = None,
        attention_block: int | None = None,
        returns: Sequence[Returned] = (),
        metrics: Mapping[str, Callable[[Any, Any], torch.Tensor]] | None = None,
        average: AveragedModel | None = None,
        loss_scale: torch.amp.GradScaler | None = None,
        nonfinite_loss: str = "warn",
        microbatches: int | None = None,
        accumulate: int = 1,
        microbatch_inputs: Sequence[str] | None = None,
        gradient_compression: GradientCompression | str | Mapping[str, Any] | None = None,
        ranks: Ranks | None = None,
        receipt: str | Path | ReceiptOptions | None = None,
    ) -> None:
        """
        Args:
          model: what is trained, in the mode (train or eval) in which it is at each step.
          loss_fn: loss_fn(output, target) gives the scalar loss; None where the model gives it.
          optimizer: any that is written in Python, over the model's parameters: those of torch.optim but LBFGS and
            SparseAdam, and the user's own. Its numbers are inputs of each step. Where its step decides by them, by its
            flags or by whether it has state, each outcome has a program. What no program can do, such as a branch on a
            tensor's elements, is refused with the line.
          target: see `compile`.
          threads: see `compile`.
          clip_norm: clips all gradients together to this 2-norm.
          autocast: torch.bfloat16 or torch.float16 for forward and loss.
          seed: of the random numbers (dropout); torch.manual_seed has no part in them.
          exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
          precision: a recipe for the operands of contractions, its name or its JSON, see
            `repro_mlir.precision.apply_precision`. Weights and optimizer stay as they are.
          attention_block: attention goes by blocks of so many queries, or keys, see `capture`.
          returns: what every step computes in addition to the loss, so that all steps have one program. `step(...)`
            still gives the loss alone, a float; `step(..., returns=...)` gives a `StepResult`. With "gradients" each
            step sets `grad` of the parameters, which otherwise stays None.
          metrics: functions by name, for `returns`: function(output, target), as for the loss function, or
            function(result, batch) where the model gives the loss, gives a tensor of shape [].
          average: a torch.optim.swa_utils.AveragedModel of the model, for an average of its parameters, an exponential
            moving one, say: each step updates it as `average.update_parameters(model)` does, which the loop does not
            call then. It is part of the state, of `state_dict` and of checkpoints.
          loss_scale: an enabled torch.amp.GradScaler("cpu"), for autocast to torch.float16: the gradients are those of
            the scaled loss, divided by the scale; where one is not finite, the step leaves parameters and optimizer as
            they are; and the scale is updated, as `scale`, `unscale_`, `step` and `update` do, which the loop does not
            call then. Scale and growth tracker are part of the state, of `state_dict` and of checkpoints.
          nonfinite_loss: what is done after a step whose loss is NaN or infinite: "warn" (by warnings.warn, once),
            "stop" (this step and every later one raise NonFiniteLoss) or "ignore". A receipt has it.
          microbatches: how many microbatches a batch is cut into, one behind the other (B1): forward, loss and backward
            pass run on each, and the update on the mean of their gradients and losses. None: on the whole batch.
          accumulate: of how many microbatches the gradients are added one after the other; what comes of them is added
            by a tree (B2). It divides `microbatches`.
          microbatch_inputs: the names of the batch's tensors that are cut, such as "batch[0]"; the others go to every
            microbatch. None: all that have dimensions, whose first extents must be equal.
          gradient_compression: how the gradients of each microbatch are compressed before they are added, with loss: a
            method of `repro_mlir.gradient_compression`, its name or its JSON. What it keeps is part of the state, of
            `state_dict` and of checkpoints.
          ranks: with whom the microbatches are shared, as `repro_mlir.integrations.torch_distributed.connect` gives
            them. Every rank makes the same steps with the same batches, on a target of its own; what they compute does
            not depend on how many there are.
          receipt: a new directory for the receipt, or all about it. `close`, or leaving a `with`, finishes it. With
            ranks it is given on all of them: rank 0 writes it, and a receipt that is resumed is read there alone.
        Raises:
          ReproError: a class in place of a model, loss function or optimizer; an unknown target, or choice of `returns`
            or `nonfinite_loss`; an average or a scaler that no step can follow.
        """
        check_target(target)
        optimizer = frontend.unwrapped(optimizer)
        if nonfinite_loss not in NONFINITE_LOSS:
            raise ReproError(f"expected nonfinite_loss among {', '.join(NONFINITE_LOSS)}, got {nonfinite_loss!r}")
        frontend.check_objects(model, loss_fn, optimizer)
        self._model = model
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        self._target = target
        self._threads = threads
        always = frontend.check_returns(returns, metrics)
        if average is not None:
            frontend.check_average(average, model)
        if loss_scale is not None:
            frontend.check_scaler(loss_scale)
        self._microbatches = Microbatches.chosen(microbatches, accumulate, microbatch_inputs)
        if ranks is not None and not isinstance(ranks, Ranks):
            raise ReproError(f"expected ranks as a connect() gives them, got a {type(ranks).__name__}")
        if gradient_compression is not None:
            gradient_compression = compression_of(gradient_compression)
        if ranks is not None and self._microbatches is None:
            raise ReproError("ranks share microbatches: expected microbatches=N")
        recipe = None if precision is None else recipe_of(precision)
        if recipe is not None and recipe.is_delayed and self._microbatches is not None:
            raise ReproError("(Q6) no microbatch has the amax of its batch: expected delayed scaling without them")
        self._options = CaptureOptions(
            clip_norm,
            autocast,
            seed,
            exact_digits,
            attention_block,
            always,
            metrics,
            average,
            loss_scale,
            self._microbatches,
            recipe,
            gradient_compression,
        )
        if gradient_compression is not None:
            frontend.check_compression(self._options)
        self._nonfinite_loss = nonfinite_loss
        self._nonfinite: str | None = None
        self._receipt = ReceiptOptions(receipt) if isinstance(receipt, str | Path) else receipt
        self._recorder: Recorder | None = None
        # Steps of several threads come one after the other.
        self._lock = threading.RLock()
        self._ranks = ranks
        self._forms = KnownForms(target, threads, ranks)
        self._step: Step | None = None
        self._changes = Changes()
        # State that no object of the user's holds, by name: seed and step of the random numbers, (Q6) scales of former
        # steps, gradient compression.
        self._own: dict[str, np.ndarray] = {}
        self._begun: _Begun | None = None
        self._running = self._has_run = False
        self._done = _Position(0, 0)
        # Where the receipt began.
        self._before_receipt = self._done
        self._broken: str | None = None

    def __enter__(self) -> Trainer:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """What copy and pickle call."""
        raise ReproError(
            "a Trainer cannot be copied or pickled: keep its state_dict() or a save_checkpoint(), and load that into a "
            "new Trainer of a copy of the model"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            recorder.close()

    @property
    def steps(self) -> int:
        """How many steps the state has seen, also those before `load_state_dict`; with a receipt that is resumed, those
        of its last checkpoint at first."""
        return self._position.steps

    @property
    def cursor(self) -> int:
        """How many batches have been taken: those of the steps, and those of steps that failed."""
        return self._position.cursor

    @property
    def _position(self) -> _Position:
        begun = self._begun
        return begun.position if begun is not None and begun.completed else self._done

    def prepare(self, *batch: Any, returns: Sequence[Returned] = ()) -> StepProgram:
        """Captures and compiles the step for batches like this one; `step` does it by itself.

        Args:
          batch, returns: as for `step`.
        Returns:
          the program; of a step in microbatches those that it is made of.
        Raises:
          ReproError: what cannot be captured or compiled.
        """
        return self._prepare(_as_given(batch), returns)

    def _prepare(self, arguments: Any, returns: Sequence[str] = ()) -> StepProgram:
        subject = self._subject(returns)
        self._refresh()
        with self._lock, frontend.outside_inference_mode():
            self._settle()
            return self._present(self._flat(arguments), subject).program

    def read_inputs(self, *batch: Any) -> list[np.ndarray]:
        """The inputs of a step on this batch as it would be run now, hyper-parameters first; they may share memory with
        the batch. ReproError as `prepare`."""
        arguments = _as_given(batch)
        with self._lock:
            program = self._prepare(arguments)
            assert self._step is not None
            captured = self._step.captured
            values = captured.inputs(self._flat(arguments))
            return [as_array(value, kind, "input") for value, kind in zip(values, program.inputs, strict=True)]

    def _flat(self, arguments: Any) -> FlatBatch:
        """What a step is captured from: the batch, or the first microbatch of it."""
        batch = frontend.FlatBatch(arguments)
        return batch if self._microbatches is None else frontend.first_microbatch(batch, self._microbatches)

    def _subject(self, returns: Sequence[str]) -> Subject:
        """What is captured for steps that give what the trainer's options ask for, and these."""
        options = self._options
        if returns:
            asked = frontend.check_returns(returns, options.metrics)
            options = replace(options, returns=frontend.check_returns((*options.returns, *asked), options.metrics))
        return frontend.Subject(self._model, self._loss_fn, self._optimizer, options)

    @property
    def executable(self) -> Executable | MicrobatchExecutable:
        """The compiled step of the last batch. ReproError before the first step."""
        if self._step is None:
            raise ReproError("the step is captured at the first batch: call step, fit or prepare first")
        return self._step.executable

    @property
    def program(self) -> StepProgram:
        """The captured program of the last batch. ReproError before the first step."""
        return self.executable.program

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The present state tensors by name, which cannot be written: the memory of the model and the optimizer where
        it can be used. ReproError before the first step."""
        self.sync()
        assert self._step is not None
        return {name: _read_only(array) for name, array in self._step.binding.arrays.items()}

    @overload
    def step(self, *batch: Any, returns: tuple[()] = ()) -> float: ...

    @overload
    def step(self, *batch: Any, returns: Sequence[Returned]) -> StepResult: ...

    def step(self, *batch: Any, returns: Sequence[Returned] = ()) -> float | StepResult:
        """One training step.

        Args:
          batch: `(*inputs, target)` for a loss function; where the model gives the loss its arguments, or one mapping
            of arguments by name. Tensors and NumPy arrays may have other shapes than before: each shape has a program.
            Anything else in a batch is a constant of the program, and another value another program; but numbers and
            strings of the batch that have changed twice count as those of the user's objects do.
          returns: what is given beside the loss, of "outputs", "gradient_norm", "gradients" and "metrics", as
            `StepResult` tells. The state after the step is the same. Each choice has a program, which computes no more
            than what is asked for. "gradients" also sets `grad` of the parameters.
        Returns:
          the loss; with `returns` a `StepResult`.
        Raises:
          ReproError: an unknown name in `returns`; what cannot be captured; a constant of the batch that differs; or
            something was changed since the last step that no program can do, or that a receipt cannot say.
          StepFailed: a check of the program failed, such as a class out of range; the state is unchanged.
          NonFiniteLoss: the run stops at a loss that is NaN or infinite.
        """
        loss, found = self._step_on(_as_given(batch), returns)
        return loss if not returns else result_of(loss, {name: found[name] for name in returns})

    def _step_on(self, arguments: Any, returns: Sequence[str] = ()) -> tuple[float, dict[str, Any]]:
        """One training step: the loss, and where something is asked for all that the program gives beside it."""
        subject = self._subject(returns)
        self._refresh()
        with self._lock, frontend.outside_inference_mode():
            self._settle()
            if self._nonfinite is not None and self._nonfinite_loss == "stop":
                raise NonFiniteLoss(f"the run has stopped: {self._nonfinite}")
            batch = self._flat(arguments)
            step = self._present(batch, subject)
            if self._receipt is not None and self._recorder is None:
                raise ReproError("the receipt is finished: expected no step after close")
            if self._receipt is None and self._ranks is not None and not self._has_run:
                begin_without_receipt(self._ranks)
            self._run(step, step.captured.inputs(batch))
            fills = "gradients" in subject.options.returns
            loss, found = step.loss(), step.results() if returns or fills else {}
            if fills:
                frontend.fill_gradients(self._model, found["gradients"])
        if not math.isfinite(loss):
            self._report_nonfinite(loss)
        return loss, found

    @overload
    def evaluate(self, *batch: Any, returns: tuple[()] = (), average: bool = False) -> float: ...

    @overload
    def evaluate(self, *batch: Any, returns: Sequence[Returned], average: bool = False) -> StepResult: ...

    def evaluate(self, *batch: Any, returns: Sequence[Returned] = (), average: bool = False) -> float | StepResult:
        """The loss of the model in evaluation mode, without gradients: a program of its own.

        Nothing is changed: neither the state nor `steps`, `cursor`, the receipt or the mode of a module, whose flag
        `training` is False meanwhile (a method `train` of the model is not called). The same bits on every target. On a
        GPU the state is brought back for it, and goes there again with the next step.

        Args:
          batch: as for `step`.
          returns: as for `step`, of "outputs" and "metrics".
          average: whether the trainer's average is evaluated in place of the model.
        Returns:
          the loss; with `returns` a `StepResult`.
        Raises:
          ReproError: as `step`; or the model writes a buffer or draws random numbers in evaluation mode; or there is no
            average.
          StepFailed: as `step`.
        """
        if average and self._options.average is None:
            raise ReproError("there is no average to be evaluated, expected Trainer(..., average=AveragedModel(model))")
        arguments = _as_given(batch)
        self._refresh()
        with self._lock, frontend.outside_inference_mode():
            self._settle()
            if self._running:
                raise ReproError("expected no evaluation within a step, as from the handler of a signal")
            if self._step is not None and (average or not self._step.is_divided):
                self._step.bring_back()
            evaluation = self._evaluation_of_average if average else self._evaluation
            loss, found = evaluation.run(arguments, returns, self._scales_of_average if average else self._scales)
        return loss if not returns else result_of(loss, found)

    @property
    def _scales(self) -> dict[str, np.ndarray]:
        """(Q6) The scales of former steps and their histories, by the names of the program's state."""
        return {name: value for name, value in self._own.items() if name.startswith((HISTORY, SCALE))}

    @property
    def _scales_of_average(self) -> dict[str, np.ndarray]:
        """The same for the average, which has the model as its `module`."""
        scales = self._scales
        layers = ((name.removeprefix(SCALE), value) for name, value in scales.items() if name.startswith(SCALE))
        return scales | {f"{SCALE}module.{name}": value for name, value in layers}

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self._model, self._loss_fn, self._options, self._target, self._threads)

    @cached_property
    def _evaluation_of_average(self) -> Evaluation:
        return Evaluation(self._options.average, self._loss_fn, self._options, self._target, self._threads)

    def _run(self, step: Step, inputs: list[Any]) -> None:
        recorder = self._recorder
        if recorder is not None:
            kinds = step.executable.program.inputs
            arrays = [as_array(value, kind, "input") for value, kind in zip(inputs, kinds, strict=True)]
            inputs = recorder.take(step.program, arrays)
            if isinstance(step.kept, KeptMicrobatches):
                step.kept.commits = recorder.commits_microbatches
            if step.executable.resident and step.recorded is not recorder.last:
                # The user has changed the state.
                step.kept.load()
        position = _Position(self._done.steps + 1, self._done.cursor + 1)
        begun = self._begun = _Begun(step, inputs, position, step.kept.completed)
        self._running = self._has_run = True
        try:
            step.kept.step(*inputs)
            self._settle(begun)
        except BaseException as error:
            # What was cut short is finished, or nothing has happened; a second exception leaves that to the next call.
            self._settle(begun)
            if isinstance(error, StepFailed):
                self._done = _Position(self._done.steps, position.cursor)
                if recorder is not None:
                    recorder.skip()
            raise
        finally:
            self._running = False

    def _settle(self, begun: _Begun | None = None) -> None:
        """Ends what a step began: afterwards state, counts and receipt belong together.

        Args:
          begun: the step that is running; without, one that an earlier call left behind.
        """
        if self._broken is not None:
            raise ReproError(self._broken)
        late = begun is None
        if late and self._running:
            # A handler of a signal looks at a tensor: the step itself ends what it began.
            return
        begun = self._begun if begun is None else begun
        if begun is None or begun is not self._begun:
            return
        if begun.completed:
            step, recorder = begun.step, self._recorder
            if late and recorder is not None and self._is_due(begun) and not recorder.can_finish:
                # The state may have been written since.
                raise ReproError(
                    f"step {begun.position.steps} was cut short before it was recorded: "
                    "resume the receipt in a new trainer"
                )
            step.kept.finish()
            if step.kept.ahead and (recorder is not None or step.binding.has_numbers):
                # What is recorded is what the tensors have; and a Python number cannot be fetched when it is read.
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
        """Whether the open receipt has no record of a step that has run."""
        assert self._recorder is not None
        return self._recorder.steps < begun.position.steps - self._before_receipt.steps

    def _report_nonfinite(self, loss: float) -> None:
        message = f"step {self.steps} gave the loss {loss}"
        known, self._nonfinite = self._nonfinite, message
        if self._nonfinite_loss == "stop":
            raise NonFiniteLoss(f"{message}: the run stops")
        if self._nonfinite_loss == "warn" and known is None:
            warnings.warn(f"{message}; nonfinite_loss says what is done then", RuntimeWarning, stacklevel=4)

    @cached_property
    def _called(self) -> Refresh:
        return frontend.Refresh(self)

    def _present(self, batch: FlatBatch, subject: Subject) -> Step:
        """The captured step for the user's objects as they are now, with the state up to date."""
        frontend.check_environment()
        step = self._step
        if step is None or not step.takes(batch, subject.options.returns):
            step = self._find(batch, subject)
            if not step.is_present:
                # A receipt that goes on has given the optimizer the state of its last step.
                step = self._find(batch, subject)
        try:
            step.binding.pull()
        except frontend.Stale:
            step = self._find(batch, subject, anew=True)
        if self._recorder is not None:
            self._recorder.state = step.binding.arrays
            if isinstance(step.kept, KeptMicrobatches):
                self._recorder.known_digests = step.kept.digests
        # Of a receipt the tensors are hashed before each step.
        if step.executable.resident and self._recorder is None:
            if not step.kept.ahead:
                # They may have been written without a trace in their version counters, as by `.data`.
                step.kept.load()
                step.binding.see()
            elif step.binding.touched:
                step.refuse_touched()
        return step

    def _find(self, batch: FlatBatch, subject: Subject, anew: bool = False) -> Step:
        """Makes the step for this batch and the present form of the user's objects the present one; captures it where
        it is not known, or `anew`."""
        if self._step is not None:
            self._step.bring_back()
        frontend.refuse_hooks(dict(self._model.named_parameters()), self._optimizer)
        if len(self._forms) and not anew:
            for form, known in self._forms.find(subject, batch):
                with suppress(frontend.Stale):
                    return self._take(form, known, subject)
            self._changes.note(subject, batch, self._forms.last)
        options = replace(subject.options, changing=self._changes.again)

        if self._receipt is not None and self._recorder is None and self._step is None:
            if self._ranks is None or self._ranks.rank == 0:
                self._receipt.check_begins()

        def capture() -> tuple[StepProgram, ImportedProgram[Captured]]:
            if batch.whole is not None:
                return microbatch_program(self._model, self._loss_fn, self._optimizer, batch, options)
            return training_program(self._model, self._loss_fn, self._optimizer, batch.given, options)

        form, known = self._forms.capture(subject, capture, batch)
        if known.executable.resident:
            # The hooks are part of the form.
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
        """Goes on with a captured step, on the tensors that the user's objects have now."""
        step = self._forms.step(form, known)
        if step is None:
            self._take_own(known)
            binding = frontend.Binding(subject, known.captured, self._own, self._forms.bindings, known.added)
            step = Step(form, known, subject, binding, known.executable.keep(binding.arrays))
        if self._receipt is not None and self._recorder is None and self._step is None:
            self._open_receipt(step)
        warning = self._forms.use(step)
        self._step = step
        if warning is not None:
            warnings.warn(warning, RuntimeWarning, stacklevel=6)
        return step

    def _take_own(self, known: Known) -> None:
        """Has arrays for the state of a program that no object of the user's holds. ReproError where another program
        has left one of another shape, or (Q6) had more or fewer products, whose scales have no names but numbers."""
        names = {*known.captured.own, *(kind.name for kind in known.added)}
        former, now = ({name for name in each if name.startswith(f"{SCALE}product.")} for each in (self._own, names))
        if former and former != now:
            raise ReproError(
                f"(Q6) the step has other products than the steps so far, which had {', '.join(sorted(former))}: "
                "expected scales of the present tensor for products of a model that changes"
            )
        for kind, value in zip(known.program.state, known.program.initial, strict=True):
            if kind.name in names:
                found = self._own.setdefault(kind.name, value.copy())
                if found.shape != value.shape:
                    raise ReproError(f"the state has {kind.name} of shape {list(found.shape)}, expected {kind}")

    def _open_receipt(self, step: Step) -> None:
        from repro_mlir.audit.receipts.recorder import Recorder

        assert self._receipt is not None
        initial = tuple(array.copy() for array in step.binding.arrays.values())
        program, executable = step.program.with_initial(initial), step.executable
        # A receipt that is there and of which nobody knows could only be resumed.
        with deferred_signals():
            recorder = Recorder(
                self._receipt, program, self._target, executable.threads, self._nonfinite_loss, self._ranks
            )
            recorder.work_on(step.binding.arrays)
            step.push(stepped=recorder.steps > 0)
            step.kept.load()
            begin = self._before_receipt = self._done
            self._recorder = recorder
            self._done = _Position(begin.steps + recorder.steps, begin.cursor + recorder.cursor)

    def _check_recorded(self, program: StepProgram, form: Form) -> None:
        """ReproError where a receipt is open and has other state tensors than the program."""
        if self._recorder is not None and program.state != self._recorder.kinds:
            last = self._forms.last
            assert last is not None
            raise ReproError(
                f"{frontend.difference(last[0], form)} has changed, and with it the tensors that are the state: "
                "all programs of a receipt have the same; change it back (evaluate() needs no eval()), or close the "
                "receipt and go on with another one in a new Trainer"
            )

    def _refresh(self) -> None:
        """Brings the model's tensors up to date where another trainer has newer values of them. Without the lock: the
        other one has its own."""
        own = None if self._step is None else self._step.binding.residents
        for module in self._modules:
            frontend.bring_others_back(module, own)

    @property
    def _modules(self) -> list[torch.nn.Module]:
        """The model, and its average."""
        return [self._model] if self._options.average is None else [self._model, self._options.average]

    def fit(
        self, batches: Iterable[Any], steps: int, callbacks: Iterable[Callable[[Trainer, float], object]] = ()
    ) -> list[float]:
        """Trains for `steps` batches, with a progress bar where standard error is a terminal.

        Args:
          batches: gives batches as `step` takes them: tuples `(*inputs, target)`, or mappings. A DataLoader, a list, or
            anything else that can be iterated again begins anew when it ends; an iterator gives at least `steps`.
          steps: how many. Of a receipt that is resumed: how many the run is to have from its beginning; the batches
            begin there too, and those that have been used are passed over.
          callbacks: each is called as callback(trainer, loss) after each step, in their order. Where one gives
            something true, that step is the last one. What one raises ends the training after that step.
        Returns:
          the loss of each step that was run.
        Raises:
          BatchesEnded: an iterator ends too early; its `losses` are those of the steps that were run.
          ReproError: as `step`.
        """
        losses: list[float] = []
        called = [*callbacks]
        iterator, begun = self._resume(repeated(batches))
        if begun > steps:
            raise ReproError(f"expected at least {begun} steps, which the receipt already has, got {steps}")
        with Progress(steps - begun, "training") as progress:
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

    def _resume(self, batches: Iterator[Any]) -> tuple[Iterator[Any], int]:
        """The batches that are to be used, and how many steps have been run, where this is the beginning of a resumed
        run; elsewhere the batches and 0."""
        if self._receipt is None or not self._receipt.resume or self._has_run:
            return batches, 0
        for first in batches:
            self._prepare(as_arguments(first))
            recorder = self._recorder
            assert recorder is not None
            used = recorder.cursor
            if used == 0:
                return itertools.chain([first], batches), 0
            passed = 1 + sum(1 for _ in itertools.islice(batches, used - 1))
            if passed < used:
                raise ReproError(f"expected more than {used} batches, which the receipt has used, got {passed}")
            self._restore(as_arguments(first))
            return batches, recorder.steps
        return batches, 0

    def _restore(self, batch: Any) -> None:
        """Goes back to the state of a resumed receipt: what gives the batches may have written to the tensors."""
        with self._lock:
            step, recorder = self._present(self._flat(batch), self._subject(())), self._recorder
            assert recorder is not None
            with deferred_signals():
                recorder.restore()
                step.push(stepped=recorder.steps > 0)
                step.kept.load()

    def close(self) -> None:
        """Finishes the receipt, if one is written; no step can be run afterwards. See `ReceiptOptions`.

        Raises:
          ReproError: it cannot be written, or a step computed again differs from what it has.
        """
        with self._lock:
            self._settle()
            if self._recorder is not None:
                if self._step is not None and self._step.is_divided:
                    self._step.bring_back()
                recorder, self._recorder = self._recorder, None
                recorder.end()

    def state_hash(self) -> str:
        """The hash of the present state (H3), all tensors of `program`, in hexadecimal: what two machines compare."""
        program, state = self.program, self.state
        return state_hash([(state[kind.name], kind.element) for kind in program.state])

    def sync(self) -> None:
        """Brings the tensors of the model and the optimizer up to date.

        On CPUs and for the reference interpreter they are the state: there it does nothing, but for ranks, see below.
        On a GPU, or its emulator, the state stays on the device from step to step. Calls of modules, and operators and
        methods of torch that take one of the tensors, bring all of them up to date by themselves. Call `sync` before
        these uses, which do not:

        - what has shared the memory of a tensor since before the step: a view, what `detach()` or `state_dict()` gave,
          a NumPy array;
        - a new tensor made of one by `torch.tensor`, `torch.Tensor`, `as_tensor`, `asarray`, `new_tensor` or `set_`, or
          by assigning it to the `data` of another one;
        - a tensor in the place of a number among the arguments of an operator;
        - `torch.jit`, and `torch.func` without a call of a module;
        - `torch.compile(fullgraph=True)`, which refuses such a tensor.

        Where the ranks have parts of the optimizer's state (`shard_optimizer`), or of what gradient compression keeps
        of each microbatch, it brings everything to all, and all ranks call it: also `state`, `state_hash`,
        `state_dict`, `load_state_dict`, `close` with a receipt, and an evaluation of the average do so. Until then what
        stands above does not see the values that other ranks have, and everything else that takes such a tensor is a
        ReproError.

        Raises:
          ReproError: before the first step; or a tensor was written while newer values were on the device.
        """
        _ = self.executable
        self._refresh()
        self.bring_back()

    def bring_back(self) -> None:
        """As `sync`; before the first step it does nothing."""
        with self._lock:
            self._settle()
            if self._step is not None:
                self._step.bring_back()

    def state_dict(self) -> dict[str, Any]:
        """All that a run needs to go on, for torch.save; `save_checkpoint` writes it as a safetensors file.

        Returns:
          `model`, `optimizer` and, where there are such, `average` and `loss_scale`: their state_dict; `precision`
          with the scales and histories of a recipe that has such (Q6), by the names of the program's state, none before
          the first step; what `gradient_compression` keeps, by name; `steps` and `cursor`; `seed` and `random_step` of
          the random numbers; `format`.
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
                "steps": self.steps,
                "cursor": self.cursor,
                "seed": int(self._options.seed) if seed is None else seed,
                "random_step": step or 0,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave, of a trainer of the same model and optimizer: the steps that follow are,
        bit by bit, those of that run. The batches are the caller's: `cursor` says how many have been used. A receipt
        that is opened by the next step begins with the loaded state, and numbers its steps and batches from there. One
        that is open records the state as the user's, and `steps` and `cursor` go on; one whose run has stopped at a
        loss that is not finite stays stopped.

        Raises:
          ReproError: a dict that does not fit, and nothing is changed.
        """
        with self._lock:
            former = self._begun, self._step, self._broken
            divided = self._step is not None and self._step.is_divided
            # Some buffers are in no state_dict. What is lost stays so, but ranks go on together.
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
            self._broken = "loading a state was cut short: call load_state_dict again"
            self._model.load_state_dict(state["model"])
            if average is not None:
                average.load_state_dict(state["average"])
            if scaler is not None:
                scaler.load_state_dict(state["loss_scale"])
            # A copy: torch.optim keeps the tensors that it is given, which may be those of another optimizer.
            self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
            self._options = replace(self._options, seed=state["seed"])
            self._forms.forget_steps()
            seed, step = signed_seed(state["seed"]), state["random_step"]
            self._own = {"seed": np.array(seed, np.int64), "step": np.array(step, np.int64), **own}
            if self._recorder is None:
                self._done = _Position(state["steps"], state["cursor"])
            # A receipt that says that the run stops there has no step behind it.
            if self._recorder is None or self._nonfinite_loss != "stop":
                self._nonfinite = None
            self._broken = None

    def save_checkpoint(self, path: str | Path) -> None:
        """Writes `state_dict` as a safetensors file: the tensors `model.NAME`, `average.NAME`, `precision.NAME`,
        `gradient_compression.NAME` and `optimizer.NUMBER.NAME`, the rest as JSON in the metadata `trainer`. Equal
        states give equal bytes. A former file is replaced when all of the new one is stored. ReproError where it cannot
        be written."""
        frontend.save_checkpoint(path, self.state_dict())

    def load_checkpoint(self, path: str | Path) -> None:
        """`load_state_dict` of what `save_checkpoint` wrote. ReproError for another file; and as `load_state_dict`."""
        self.load_state_dict(frontend.load_checkpoint(path))


@dataclass(frozen=True)
class _Position:
    """Steps that the state has seen, and batches taken for them."""

    steps: int
    cursor: int


@dataclass(frozen=True)
class _Begun:
    """A step that may have run.

    Attributes:
      inputs: as the receipt has them.
      position: after the step.
      before: how many steps `kept` had completed.
    """

    step: Step
    inputs: list[Any]
    position: _Position
    before: int

    @property
    def completed(self) -> bool:
        return self.step.kept.completed != self.before


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def _refuse_foreign() -> None:
    """ReproError for who uses a tensor whose value another rank has alone."""
    raise ReproError(
        "another rank has the values of this tensor of the optimizer or an average: expected sync() on all ranks"
    )


def _as_given(batch: tuple[Any, ...]) -> tuple[Any, ...] | dict[str, Any]:
    """The arguments of `step` as those of the model and the loss function: a mapping alone has them by name."""
    return as_arguments(batch[0] if len(batch) == 1 and isinstance(batch[0], Mapping) else batch)
