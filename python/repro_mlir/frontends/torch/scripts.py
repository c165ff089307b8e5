# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts that define `training()`, for `repro train` and `repro compile`."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.batches import repeated
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.capture.programs import microbatch_program, training_program
from repro_mlir.program.imported import CaptureOptions, ImportedProgram, Microbatches
from repro_mlir.program.microbatches import StepProgram

if TYPE_CHECKING:
    from repro_mlir.frontends.torch import Captured, FlatBatch, Form

MOST_VALIDATION_BATCHES = 1000

_BESIDE = ("accumulate", "microbatch_inputs", "nonfinite_loss")
OPTIONS = tuple(sorted([*(field.name for field in fields(CaptureOptions)), *_BESIDE]))
"""What `training()` may choose of what `Trainer` takes."""


@dataclass(frozen=True)
class Training:
    """What `training()` gives: `(model, loss_fn, optimizer, batches)`, or these and a dict of options.

    Attributes:
      model, loss_fn, optimizer: as for `Trainer`.
      batches: gives the batches, as for `Trainer.fit`.
      options: keyword arguments of `Trainer`: those of `OPTIONS`.
      validation: gives the batches of a validation, at most `MOST_VALIDATION_BATCHES`, and leaves the global random
        numbers of PyTorch, NumPy and Python as they are; None where the script has none.
    """

    model: Any
    loss_fn: Any
    optimizer: Any
    batches: Iterable[Any]
    options: dict[str, Any]
    validation: Callable[[], list[Any]] | None = None

    def capture(self, batch: Any, returns: Sequence[str] = ()) -> tuple[StepProgram, ImportedProgram[Captured]]:
        """The program of the step for batches like this one, as `Trainer` captures it, and what the frontend gave.

        Args:
          returns: what the step is asked for, as by `Trainer.step`, beside what the options say.
        Raises:
          ReproError: what cannot be captured.
        """
        options, flat = self._capture_options(returns), self._flat(batch)
        if flat.whole is not None:
            return microbatch_program(self.model, self.loss_fn, self.optimizer, flat, options)
        return training_program(self.model, self.loss_fn, self.optimizer, batch, options)

    def read_inputs(self, program: StepProgram, imported: ImportedProgram[Captured], batch: Any) -> list[np.ndarray]:
        """The inputs of a step on this batch, hyper-parameters first; ReproError as `ImportedProgram.read_inputs`."""
        bindings = imported.bindings
        values = bindings.inputs(self._flat(batch))
        return [as_array(value, kind, "input") for value, kind in zip(values, program.inputs, strict=True)]

    def gives(self, returns: Sequence[str]) -> bool:
        """Whether a step can be asked for these results, in addition to those that the options name."""
        try:
            self._capture_options(returns)
        except ReproError:
            return False
        return True

    def form(self, imported: ImportedProgram[Captured], batch: Any, returns: Sequence[str] = ()) -> Form:
        """What the program of a batch depends on now: where it is the same as at the capture, so is the program."""
        structure = imported.bindings.optimizer_structure()
        subject = frontend.Subject(self.model, self.loss_fn, self.optimizer, self._capture_options(returns))
        # Other results may need other functions.
        recording = None if returns else imported.bindings.recording
        return frontend.form_of(subject, structure, self._flat(batch), recording=recording)

    def _flat(self, batch: Any) -> FlatBatch:
        """What a step is captured from: the batch, or the first microbatch of it."""
        flat, microbatches = frontend.FlatBatch(batch), self._microbatches
        return flat if microbatches is None else frontend.first_microbatch(flat, microbatches)

    @property
    def _microbatches(self) -> Microbatches | None:
        options = self.options
        count, inputs = options.get("microbatches"), options.get("microbatch_inputs")
        return Microbatches.chosen(count, options.get("accumulate", 1), inputs)

    def _capture_options(self, returns: Sequence[str]) -> CaptureOptions:
        options = {name: value for name, value in self.options.items() if name not in _BESIDE}
        always, metrics = options.get("returns", ()), options.get("metrics")
        asked = frontend.check_returns((*frontend.check_returns(always, metrics), *returns), metrics)
        return CaptureOptions(**options | {"returns": asked, "microbatches": self._microbatches})


def allow_numerics(exact_digits: int | None, precision: str | None, script: object) -> None:
    """Raises a ReproError if options are given where there is no `script` whose options they could replace."""
    if script:
        return
    for name, value in (("exact digits are", exact_digits), ("a precision is", precision)):
        if value is not None:
            raise ReproError(f"{name} for scripts: a receipt has its program")


def load_training(path: str, exact_digits: int | None = None, precision: str | None = None) -> Training:
    """Runs a script and its `training()`.

    Args:
      exact_digits, precision: take the places of the script's options of these names.
    Raises:
      ReproError: no such file, no `training`, another result than expected, or what the script raised, with its line.
    """
    file = Path(path)
    if not file.is_file():
        raise ReproError(f"no script {path}")
    spec = importlib.util.spec_from_file_location("repro_script", file)
    if spec is None or spec.loader is None:
        raise ReproError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    # As for `python SCRIPT`: modules beside the script are found, and classes of it by their module.
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        if not callable(getattr(module, "training", None)):
            raise ReproError(
                f"{path}: expected a function training() that returns (model, loss_fn, optimizer, batches)"
            )
        given = module.training()
    except ReproError:
        raise
    except (Exception, SystemExit) as error:
        raise ReproError(_where(error, file)) from None
    if not isinstance(given, tuple) or len(given) not in (4, 5) or (len(given) == 5 and not isinstance(given[4], dict)):
        kind = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise ReproError(f"{path}: expected training() to return (model, loss_fn, optimizer, batches), got {kind}")
    options = given[4] if len(given) == 5 else {}
    unknown = sorted(str(name) for name in options if name not in OPTIONS)
    if unknown:
        raise ReproError(f"{path}: expected options of training() among {', '.join(OPTIONS)}, got {', '.join(unknown)}")
    for name, value in (("exact_digits", exact_digits), ("precision", precision)):
        if value is not None:
            options = options | {name: value}
    validation = _validation(module.validation, file) if callable(getattr(module, "validation", None)) else None
    return Training(given[0], given[1], given[2], _Batches(given[3], file), options, validation)


class _Batches:
    """The batches of a script; what goes wrong in it while it makes them is a ReproError with its line."""

    def __init__(self, given: Any, file: Path) -> None:
        self._file = file
        if not isinstance(given, Iterable) and not hasattr(given, "__getitem__"):
            raise ReproError(f"{file}: expected training() to return batches, got a {type(given).__name__}")
        self._iterator = repeated(given)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._iterator)
        except (StopIteration, ReproError):
            raise
        except (Exception, SystemExit) as error:
            raise ReproError(_where(error, self._file)) from None


def _validation(function: Callable[[], Iterable[Any]], file: Path) -> Callable[[], list[Any]]:
    """The function of a script; what goes wrong in it is a ReproError with its line."""

    def batches() -> list[Any]:
        try:
            with _same_random_numbers():
                found = list(itertools.islice(function(), MOST_VALIDATION_BATCHES + 1))
        except ReproError:
            raise
        except (Exception, SystemExit) as error:
            raise ReproError(_where(error, file)) from None
        if len(found) > MOST_VALIDATION_BATCHES:
            raise ReproError(f"{file}: expected at most {MOST_VALIDATION_BATCHES} batches of validation()")
        return found

    return batches


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """A block that draws from the global generators what comes after it draws as well."""
    import torch

    of_torch, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)


def _where(error: BaseException, file: Path) -> str:
    """One line: the last line of the script that took part, and the error."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or file}:{error.lineno or 1}: {error.msg}"
    script = os.path.abspath(file)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == script]
    place = f"{file}:{lines[-1]}" if lines else str(file)
    reason = " ".join(str(error).split())
    return f"{place}: {type(error).__name__}{f': {reason}' if reason else ''}"
