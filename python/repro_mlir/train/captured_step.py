# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A captured and compiled step, and such a step on the present tensors of the user's objects."""

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

if TYPE_CHECKING:
    from repro_mlir.distributed import Ranks
    from repro_mlir.frontends.torch import Binding, Captured, Contents, FlatBatch, Form, Subject, Watch


@dataclass(frozen=True)
class Known:
    """A captured and compiled step, for tensors of any address.

    Attributes:
      constants: what the tensors contain that are constants of the program.
      batch: structure and shapes of the batches, see `FlatBatch.kind`.
      returns: what is computed beside the loss.
    """

    program: StepProgram
    imported: ImportedProgram[Captured]
    executable: Executable | MicrobatchExecutable
    constants: Contents
    batch: Hashable
    returns: tuple[str, ...]

    @property
    def captured(self) -> Captured:
        return self.imported.bindings

    @property
    def added(self) -> tuple[TensorType, ...]:
        """(Q6) The state that the program has behind what was captured: scales of former steps."""
        return self.program.state[len(self.captured.state) :]

    def takes(self, batch: FlatBatch, returns: Sequence[str]) -> bool:
        """Whether this is a step for such a batch and for what is asked for."""
        return self.batch == batch.kind and self.returns == returns and self.captured.takes(batch)


_FORMS = 8
"""How many captured steps are kept: a model that goes from train() to eval() and back has two."""

Captures = Callable[[], tuple[StepProgram, "ImportedProgram[Captured]"]]


class KnownForms:
    """Captured steps by the form of the user's objects, that of the last one at the end."""

    def __init__(self, target: str, threads: int | None, ranks: Ranks | None = None) -> None:
        self._target = target
        self._threads = threads
        self._ranks = ranks
        self._known: dict[Form, Known] = {}
        self._steps: dict[Form, Step] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def last(self) -> tuple[Form, Known] | None:
        """The one that was used last, with its form."""
        return next(reversed(self._known.items()), None)

    def find(self, subject: Subject, batch: FlatBatch) -> Iterator[tuple[Form, Known]]:
        """The captured steps for the present form of the user's objects and such a batch, with their forms."""
        for form, known in [*reversed(self._known.items())]:
            captured = known.captured
            if known.takes(batch, subject.options.returns):
                structure = captured.optimizer_structure()
                present = frontend.form_of(subject, structure, batch, captured.changing, captured.recording)
                if form == present and known.constants.unchanged():
                    yield form, known

    def capture(self, subject: Subject, run: Captures, batch: FlatBatch) -> tuple[Form, Known]:
        """Captures and compiles the step of the present form.

        Args:
          run: captures it once.
        Raises:
          ReproError: as `run`; or its functions change what they read each time that they are called.
        """
        check_runs(self._target)
        program, imported = _captured(subject, run)
        executable = next((each.executable for each in self._known.values() if each.program.data == program.data), None)
        if executable is None:
            model = subject.model
            replicated = dict(model.named_parameters()).keys() | dict(model.named_buffers()).keys()
            executable = compile_step(program, self._target, self._threads, self._ranks, replicated)
        captured = imported.bindings
        form = frontend.form_of(subject, captured.structure, batch, captured.changing, captured.recording)
        constants = frontend.Contents(captured.constants)
        return form, Known(program, imported, executable, constants, batch.kind, subject.options.returns)

    def step(self, form: Form, known: Known) -> Step | None:
        """The step that was last used of a captured one, where the user's objects still have the tensors it is on.

        Raises:
          Stale: as for `Binding`.
        """
        step = self._steps.get(form)
        if step is None or step.known is not known or not step.is_present:
            return None
        step.binding.pull()
        return step

    @property
    def bindings(self) -> list[Binding]:
        """Those of the steps that are kept."""
        return [step.binding for step in self._steps.values()]

    def forget_steps(self) -> None:
        """The state is another one: captured steps stay, those on tensors do not."""
        self._steps.clear()

    def use(self, step: Step) -> str | None:
        """Puts a captured step at the end.

        Returns:
          where another one had to go, what should be said of that.
        """
        last, form = self.last, step.form
        is_too_many = form not in self._known and len(self._known) == _FORMS
        if is_too_many:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._steps.pop(oldest, None)
        self._known.pop(form, None)
        self._known[form] = step.known
        # On a device each would have a state of its own.
        if not step.executable.resident:
            self._steps[form] = step
        if not is_too_many or last is None:
            return None
        return (
            f"{frontend.difference(last[0], form)} has changed, as something has again and again: "
            "each form has a program, which is captured anew"
        )


def _captured(subject: Subject, run: Captures) -> tuple[StepProgram, ImportedProgram[Captured]]:
    before = frontend.form_of(subject, None)
    result, after = run(), frontend.form_of(subject, None)
    if after != before:
        # Some keep at their first call what they need at later ones.
        recording = result[1].bindings.recording
        after = frontend.form_of(subject, recording=recording)
        first = result[0]
        result, again = run(), frontend.form_of(subject, recording=recording)
        if again != after:
            raise ReproError(
                f"the step itself changes {frontend.difference(after, again)}: a compiled step cannot do so; "
                "expected a buffer of the model in its place"
            )
        if result[0].hash != first.hash:
            raise ReproError(
                f"the first step, which changes {frontend.difference(before, after)}, is another one than the later "
                "steps: expected a call of the model before it, or an argument of it that says so"
            )
    return result


@dataclass
class Step:
    """A captured step on the present tensors of the user's objects.

    Attributes:
      recorded: the state that `kept` has, as the receipt names it; None where that is not known.
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
        return self.known.program

    @property
    def captured(self) -> Captured:
        return self.known.captured

    @property
    def executable(self) -> Executable | MicrobatchExecutable:
        return self.known.executable

    @property
    def microbatches(self) -> tuple[bytes, ...]:
        """(C8) The hashes of the microbatches of the last step, where it has committed to them."""
        return self.kept.microbatches if isinstance(self.kept, KeptMicrobatches) else ()

    def takes(self, batch: FlatBatch, returns: Sequence[str]) -> bool:
        """Whether this is the step for a batch and for what is asked for, with the user's objects in its form."""
        return self.known.takes(batch, returns) and self.is_present

    @property
    def is_present(self) -> bool:
        """Whether the user's objects still have the form of this step."""
        captured = self.captured
        return self.watch.unchanged() and captured.optimizer_structure() == captured.structure

    def loss(self) -> float:
        """The loss that the last step gave."""
        from repro_mlir.base.tensors.torch_tensors import to_tensor

        array = next(iter(self.kept.outputs.values()))
        return float(to_tensor(array, self.program.outputs[0]))

    def results(self) -> dict[str, Any]:
        """What the last step gave beside the loss, as the user gets it."""
        return frontend.read_results(self.captured.results, self.program.outputs, [*self.kept.outputs.values()])

    def refuse_touched(self) -> None:
        """ReproError where the user's tensors were written while newer values were on the device."""
        if self.kept.ahead:
            raise ReproError(
                "a tensor of the model or the optimizer was written while newer values were on the device: "
                "expected sync() before writing"
            )

    def bring_back(self) -> None:
        """Brings the user's tensors up to date, where the state is on a device."""
        if self.kept.ahead:
            if self.binding.touched or self.watch.moved:
                self.refuse_touched()
            with deferred_signals():
                self.kept.fetch()
                self.push()
        elif self.is_divided:
            # A Ctrl-C may end the wait for the others.
            self.kept.fetch()
            self.push()
        elif self.binding.residents:
            # An exception cut this short.
            self.push()

    @property
    def is_divided(self) -> bool:
        """Whether ranks have parts of the state, see `KeptMicrobatches`."""
        return isinstance(self.kept, KeptMicrobatches) and self.kept.is_divided

    @property
    def foreign(self) -> frozenset[str]:
        """The state tensors whose values other ranks have alone, see `KeptMicrobatches`."""
        return self.kept.foreign if isinstance(self.kept, KeptMicrobatches) else frozenset()

    def leave(self, bring_back: Callable[[], None]) -> None:
        """The newest values are elsewhere, on a device or on other ranks: whoever uses one of the user's tensors has
        them brought back first, or is refused."""
        if not self.binding.residents:
            with deferred_signals():
                if self.binding.adopt():
                    self._look()
                self.binding.leave(bring_back, self.foreign)

    def push(self, stepped: bool = True) -> None:
        """Brings the user's objects up to date with the arrays; `stepped` is as of `Binding.push`."""
        if self.binding.push(stepped, self.foreign):
            self._look()

    def note(self) -> None:
        """Lets the optimizer know that this step has run."""
        if self.binding.note_step():
            self._look()
