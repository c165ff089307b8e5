# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps that are captured and compiled, and steps that are also bound to the tensors that the user's objects have
now."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.signals import deferred_signals
from repro_mlir.execute.executable import Executable, Kept, check_runs
from repro_mlir.execute.microbatches import KeptMicrobatches, MicrobatchExecutable, compile_step
from repro_mlir.frontends import torch as frontend
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.train.options import TrainOptions

if TYPE_CHECKING:
    from repro_mlir.frontends.torch import Binding, FlatBatch, Form, Subject, TensorContents, TorchBindings, Watch


@dataclass(frozen=True)
class Known:
    """A captured and compiled step that is not bound to particular tensors.

    Attributes:
      constants: the contents of the tensors that are constants of the program.
      batch: the structure and shapes of the batches, see `FlatBatch.kind`.
      returns: the names of the results other than the loss.
    """

    program: StepProgram
    imported: ImportedProgram[TorchBindings]
    executable: Executable | MicrobatchExecutable
    constants: TensorContents
    batch: Hashable
    returns: tuple[str, ...]

    @property
    def captured(self) -> TorchBindings:
        """The frontend's bindings, which connect the program's state and inputs with the user's objects."""
        return self.imported.bindings

    @property
    def added(self) -> tuple[TensorType, ...]:
        """(Q6) The state tensors of the program that the frontend has not captured: the scales of previous steps."""
        return self.program.state[len(self.captured.state) :]

    def takes(self, batch: FlatBatch, returns: Sequence[str]) -> bool:
        """Returns whether this step accepts the batch and has exactly the results `returns`."""
        return self.batch == batch.kind and self.returns == returns and self.captured.takes(batch)


_FORMS = 8
"""The maximum number of kept captures; a model that alternates between train() and eval() needs two."""

Captures = Callable[[], tuple[StepProgram, "ImportedProgram[TorchBindings]"]]


class KnownForms:
    """The captured steps, by the `Form` of the user's objects for which each was captured. The most recently used one
    is the last."""

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self._known: dict[Form, Known] = {}
        self._steps: dict[Form, Step] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def last(self) -> tuple[Form, Known] | None:
        """The most recently used captured step, with its form."""
        return next(reversed(self._known.items()), None)

    def find(self, subject: Subject, batch: FlatBatch) -> Iterator[tuple[Form, Known]]:
        """Yields the captured steps, with their forms, that can run on the batch and the user's objects as they are
        now."""
        for form, known in [*reversed(self._known.items())]:
            captured = known.captured
            if known.takes(batch, subject.options.returns):
                structure = captured.optimizer_structure()
                present = frontend.form_of(subject, structure, batch, captured.changing, captured.recording)
                if form == present and known.constants.unchanged():
                    yield form, known

    def capture(self, subject: Subject, run: Captures, batch: FlatBatch) -> tuple[Form, Known]:
        """Captures and compiles the step for the user's objects as they are now.

        Args:
          run: captures the step; it may be called twice.
        Raises:
          ReproError: `run` has raised it; or each call of the user's functions changes Python values that the functions
            read.
        """
        check_runs(self._options.target)
        program, imported = _captured(subject, run)
        executable = next((each.executable for each in self._known.values() if each.program.data == program.data), None)
        if executable is None:
            model = subject.model
            replicated = dict(model.named_parameters()).keys() | dict(model.named_buffers()).keys()
            options = self._options
            executable = compile_step(program, options.target, options.threads, options.ranks, replicated)
        captured = imported.bindings
        form = frontend.form_of(subject, captured.structure, batch, captured.changing, captured.recording)
        constants = frontend.TensorContents(captured.constants)
        return form, Known(program, imported, executable, constants, batch.kind, subject.options.returns)

    def step(self, form: Form, known: Known) -> Step | None:
        """Returns the step that binds `known` to the user's tensors. None if there is none yet, or if tensors have been
        replaced since.

        Raises:
          Stale: see `Binding`.
        """
        step = self._steps.get(form)
        if step is None or step.known is not known or not step.is_present:
            return None
        step.binding.pull()
        return step

    @property
    def bindings(self) -> list[Binding]:
        """The bindings of all bound steps that are kept."""
        return [step.binding for step in self._steps.values()]

    def forget_steps(self) -> None:
        """Drops all bound steps, because the whole state has been replaced. Captured steps are kept."""
        self._steps.clear()

    def use(self, step: Step) -> str | None:
        """Marks a step as the most recently used one.

        Returns:
          a warning, if the least recently used form was dropped for this one; else None.
        """
        last, form = self.last, step.form
        is_too_many = form not in self._known and len(self._known) == _FORMS
        if is_too_many:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._steps.pop(oldest, None)
        self._known.pop(form, None)
        self._known[form] = step.known
        # A bound step whose state is on a device is not kept, because each such step would have its own copy of the
        # state there.
        if not step.executable.resident:
            self._steps[form] = step
        if not is_too_many or last is None:
            return None
        return (
            f"{frontend.difference(last[0], form)} has changed; such changes are frequent, and each needs a program, "
            "which is captured again"
        )


def _captured(subject: Subject, run: Captures) -> tuple[StepProgram, ImportedProgram[TorchBindings]]:
    before = frontend.form_of(subject, None)
    result, after = run(), frontend.form_of(subject, None)
    recording = result[1].bindings.recording
    if after != before or (recording is not None and frontend.has_hidden_code(subject, recording)):
        # Some modules create tensors or attributes in their first call, so the step is captured again: all later steps
        # are like this second capture. Without the recording, the forms lack what hidden code reads.
        after = frontend.form_of(subject, recording=recording)
        first = result[0]
        result, again = run(), frontend.form_of(subject, recording=recording)
        if again != after:
            name = frontend.difference(after, again)
            line = recording.line_of(name) if recording else ""
            if frontend.is_generator(dict(after).get(name)):
                raise ReproError(f"{line}the step draws random numbers from {name}: use torch's, without a generator")
            raise ReproError(
                f"{line}the step itself changes {name}, which a compiled step "
                "cannot: use the losses that step and fit return, metrics= for other values, a buffer of the model for "
                "what later steps read, and torch's functions for random numbers"
            )
        if result[0].hash != first.hash:
            raise ReproError(
                f"the first step, which changes {frontend.difference(before, after)}, differs from the later steps: "
                "call the model once before the step, or pass what differs as an argument"
            )
    return result


@dataclass
class Step:
    """A captured step bound to the present tensors of the user's objects.

    Attributes:
      recorded: the digests that the receipt has recorded for the state in `kept`; None if it has recorded none.
    """

    form: Form
    known: Known
    subject: Subject
    binding: Binding
    kept: Kept | KeptMicrobatches
    recorded: tuple[bytes, ...] | None = None

    def __post_init__(self) -> None:
        self._look()

    def _look(self) -> None:
        held, changing, recording = self.binding.tensors, self.captured.changing, self.captured.recording
        self.watch: Watch = frontend.Watch(self.subject, held, self.known.constants, changing, recording)

    @property
    def program(self) -> StepProgram:
        """The program of the step."""
        return self.known.program

    @property
    def captured(self) -> TorchBindings:
        """The frontend's bindings, which connect the program's state and inputs with the user's objects."""
        return self.known.captured

    @property
    def executable(self) -> Executable | MicrobatchExecutable:
        """The compiled program."""
        return self.known.executable

    @property
    def microbatches(self) -> tuple[bytes, ...]:
        """(C8) The hashes of the microbatches of the last step; empty unless the step has committed to them."""
        return self.kept.microbatches if isinstance(self.kept, KeptMicrobatches) else ()

    def takes(self, batch: FlatBatch, returns: Sequence[str]) -> bool:
        """Returns whether this step has the requested results and can run on the batch and the user's objects as they
        are now."""
        return self.known.takes(batch, returns) and self.is_present

    @property
    def is_present(self) -> bool:
        """Whether the user's objects still have the form of this step."""
        captured = self.captured
        return self.watch.unchanged() and captured.optimizer_structure() == captured.structure

    def loss(self) -> float:
        """Returns the loss of the last step."""
        from repro_mlir.base.tensors.torch_tensors import to_tensor

        array = next(iter(self.kept.outputs.values()))
        return float(to_tensor(array, self.program.outputs[0]))

    def results(self) -> dict[str, Any]:
        """Returns the results of the last step other than the loss, as the user receives them."""
        return frontend.read_results(self.captured.results, self.program.outputs, [*self.kept.outputs.values()])

    def refuse_touched(self) -> None:
        """Raises ReproError if the device has newer values of the tensors. Called after the user has written to one of
        them."""
        if self.kept.ahead:
            raise ReproError(
                "a tensor of the model or the optimizer was written while newer values were on the device: "
                "call sync() before writing"
            )

    def bring_back(self) -> None:
        """Copies the newest values to the user's tensors, if they are on a device or on other ranks."""
        if self.kept.ahead:
            if self.binding.touched or self.watch.moved:
                self.refuse_touched()
            with deferred_signals():
                self.kept.fetch()
                self.push()
        elif self.is_divided:
            # Signals are not deferred: Ctrl-C must be able to interrupt the wait for other ranks.
            self.kept.fetch()
            self.push()
        elif self.binding.residents:
            # An earlier update was interrupted by an exception, so it is done again.
            self.push()

    @property
    def is_divided(self) -> bool:
        """Whether the state is divided among ranks. See `KeptMicrobatches`."""
        return isinstance(self.kept, KeptMicrobatches) and self.kept.is_divided

    @property
    def foreign(self) -> frozenset[str]:
        """The names of the state tensors whose values only other ranks have. See `KeptMicrobatches`."""
        return self.kept.foreign if isinstance(self.kept, KeptMicrobatches) else frozenset()

    def leave(self, bring_back: Callable[[], None]) -> None:
        """Marks the user's tensors as outdated: the newest values are on a device or on other ranks. When one of the
        tensors is used, `bring_back` is called, which updates them or raises an error."""
        if not self.binding.residents:
            with deferred_signals():
                if self.binding.adopt():
                    self._look()
                self.binding.leave(bring_back, self.foreign)

    def push(self, stepped: bool = True) -> None:
        """Copies the state from the arrays to the user's objects. See `Binding.push` for `stepped`."""
        if self.binding.push(stepped, self.foreign):
            self._look()

    def note(self) -> None:
        """Tells the optimizer that a step has run."""
        if self.binding.note_step():
            self._look()
