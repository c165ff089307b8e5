# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs scripts that define `training()`, for `repro train` and `repro compile`."""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import importlib.util
import inspect
import itertools
import os
import random
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign, kind_of
from repro_mlir.base.tensors.arrays import as_arrays
from repro_mlir.base.tensors.batches import repeated
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions, NumericsKeywords, Returned, StepKeywords
from repro_mlir.frontends.torch.capture.programs import microbatch_program, training_program
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.microbatches import StepProgram

if TYPE_CHECKING:
    from repro_mlir.frontends.torch import FlatBatch, Form, TorchBindings

MOST_VALIDATION_BATCHES = 1000


class ScriptKeywords(StepKeywords, total=False):
    """Keywords of `Trainer` that `training()` may return as options."""

    nonfinite_loss: str


OPTIONS = tuple(sorted(ScriptKeywords.__annotations__))


@dataclass(frozen=True)
class Training:
    """The result of `training()`: `(model, loss_fn, optimizer, batches)`, optionally followed by a dict of options.

    Attributes:
      model, loss_fn, optimizer: as for `Trainer`.
      batches: an iterable of batches, as for `Trainer.fit`.
      options: keyword arguments of `Trainer`.
      steps: the default of the parameter `steps` of `training()`, if it is a number that the function uses.
      validation: returns the batches of a validation, no more than `MOST_VALIDATION_BATCHES`, and preserves the global
        random states of PyTorch, NumPy and Python; None if the script defines no validation.
    """

    model: Any
    loss_fn: Any
    optimizer: Any
    batches: Iterable[Any]
    options: ScriptKeywords
    validation: Callable[[], list[Any]] | None = None
    steps: int | None = None

    def capture(
        self, batch: Any, returns: Sequence[Returned] = ()
    ) -> tuple[StepProgram, ImportedProgram[TorchBindings]]:
        """Captures the step for batches like this one, as `Trainer` does.

        Args:
          batch: an example batch.
          returns: results to request as in `Trainer.step`, in addition to those in the options.
        Returns:
          the canonical program and the imported program.
        Raises:
          ReproError: the step cannot be captured.
        """
        options, flat = self.capture_options.with_returns(returns), self._flat(batch)
        if flat.whole is not None:
            return microbatch_program(self.model, self.loss_fn, self.optimizer, flat, options)
        return training_program(self.model, self.loss_fn, self.optimizer, batch, options)

    def read_inputs(
        self, program: StepProgram, imported: ImportedProgram[TorchBindings], batch: Any
    ) -> list[np.ndarray]:
        """Returns the inputs of a step on this batch, hyper-parameters first.

        Raises:
          ReproError: as for `ImportedProgram.read_inputs`.
        """
        return as_arrays(imported.bindings.inputs(self._flat(batch)), program.inputs, "input")

    def gives(self, returns: Sequence[Returned]) -> bool:
        """Whether a step can return these results in addition to those in the options."""
        try:
            self.capture_options.with_returns(returns)
        except ReproError:
            return False
        return True

    def form(self, imported: ImportedProgram[TorchBindings], batch: Any, returns: Sequence[Returned] = ()) -> Form:
        """Returns the current form of everything that determines the program of a batch.

        If this form equals the form at the capture, the captured program is still valid.
        """
        structure = imported.bindings.optimizer_structure()
        options = self.capture_options.with_returns(returns)
        subject = frontend.Subject(self.model, self.loss_fn, self.optimizer, options)
        # A step with additional results may call functions that the recording does not contain.
        recording = None if returns else imported.bindings.recording
        return frontend.form_of(subject, structure, self._flat(batch), recording=recording)

    def _flat(self, batch: Any) -> FlatBatch:
        """Returns the batch or, if the options request microbatches, its first microbatch."""
        flat, microbatches = frontend.FlatBatch(batch), self.capture_options.microbatches
        return flat if microbatches is None else frontend.first_microbatch(flat, microbatches)

    @functools.cached_property
    def capture_options(self) -> CaptureOptions:
        """The parsed options that determine the program of a step. Raises ReproError if one is invalid."""
        given: dict[str, Any] = {**self.options}
        given.pop("nonfinite_loss", None)
        return CaptureOptions.parsed(**given)


def load_training(path: str, **numerics: Unpack[NumericsKeywords]) -> Training:
    """Runs a script and its `training()`.

    Args:
      path: the script.
      numerics: options that replace the script's options of the same names, unless they are None.
    Raises:
      ReproError: the file or the function `training` does not exist, the function returns an unexpected result, or the
        script raises an error; the message contains the script's line.
    """
    file = Path(path)
    if not file.is_file():
        raise ReproError(f"{path}: expected a script, but there is no such file: check the path")
    with _running(file):
        if not _may_define_training(file):
            raise ReproError(_NO_TRAINING.format(path))
    _require_packages()
    spec = importlib.util.spec_from_file_location("repro_script", file)
    if spec is None or spec.loader is None:
        raise ReproError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    # As for `python SCRIPT`, modules next to the script can be imported, and pickle finds the script's classes.
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules[spec.name] = module
    with _running(file):
        spec.loader.exec_module(module)
        if not callable(getattr(module, "training", None)):
            raise ReproError(_NO_TRAINING.format(path))
        given = module.training()
    if not isinstance(given, tuple) or len(given) not in (4, 5) or (len(given) == 5 and not isinstance(given[4], dict)):
        kind = f"{len(given)} values" if isinstance(given, tuple) else kind_of(given)
        raise ReproError(f"{path}: expected training() to return (model, loss_fn, optimizer, batches), got {kind}")
    options: Any = given[4] if len(given) == 5 else {}
    unknown = sorted(str(name) for name in options if name not in OPTIONS)
    if unknown:
        raise ReproError(f"{path}: expected options of training() among {', '.join(OPTIONS)}, got {', '.join(unknown)}")
    options = options | {name: value for name, value in numerics.items() if value is not None}
    validation = _validation(module.validation, file) if callable(getattr(module, "validation", None)) else None
    return Training(
        given[0],
        given[1],
        given[2],
        _Batches(given[3], given[2], file),
        options,
        validation,
        _default_steps(module.training),
    )


def _default_steps(training: Callable[..., Any]) -> int | None:
    """Returns the default of the parameter `steps`, if it is a number and the function uses the parameter."""
    if not inspect.isfunction(training):
        return None
    parameter = inspect.signature(training).parameters.get("steps")
    # From Python 3.13 on, one instruction may load two variables.
    loads = (each.argval for each in dis.get_instructions(training) if each.opname.startswith("LOAD"))
    is_used = any("steps" in (loaded if isinstance(loaded, tuple) else (loaded,)) for loaded in loads)
    return parameter.default if parameter is not None and is_used and type(parameter.default) is int else None


_NO_TRAINING = (
    "{}: expected a function training() that returns (model, loss_fn, optimizer, batches): docs/guides/scripts.md has "
    "an example"
)


def _may_define_training(file: Path) -> bool:
    """Whether the text of a script contains the name `training` as something other than a use: a definition, an
    assignment, an import or a string. Raises SyntaxError if the text is not Python."""
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        match node:
            case ast.FunctionDef(name="training") | ast.ClassDef(name="training") | ast.Constant(value="training"):
                return True
            case ast.Name(id="training", ctx=ast.Store()):
                return True
            case ast.alias(name=name, asname=asname) if (asname or name) in ("training", "*"):
                return True
    return False


_EXTRAS = {
    "torch": install_extra("torch"),
    "torch_mlir": install_extra("torch"),
    "transformers": install_extra("transformers"),
    "sklearn": "pip install scikit-learn",
}
"""Maps modules that scripts import to what the user does to install them."""


def _require_packages() -> None:
    """Raises ReproError if a package that every capture needs is missing, before the script loads its data."""
    for name in ("torch", "torch_mlir"):
        try:
            found = name in sys.modules or importlib.util.find_spec(name) is not None
        except ImportError:
            found = False
        if not found:
            raise ReproError(f"scripts need PyTorch and torch-mlir: {_EXTRAS[name]} (no module {name})")


class _Batches:
    """Iterates over the batches of a script; converts the script's errors to ReproError with the script's line."""

    def __init__(self, given: Any, optimizer: Any, file: Path) -> None:
        self._file, self._optimizer = file, optimizer
        if not isinstance(given, Iterable) and not hasattr(given, "__getitem__"):
            raise ReproError(f"{file}: expected training() to return batches, got {kind_of(given)}")
        self._iterator = repeated(given)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with _running(self._file):
            for batch in self._iterator:
                # Some callers draw batches without running the steps between which the script calls its schedulers.
                if hasattr(self._optimizer, "param_groups"):
                    frontend.mark_stepped(self._optimizer)
                return batch
        raise StopIteration


def _validation(function: Callable[[], Iterable[Any]], file: Path) -> Callable[[], list[Any]]:
    """Wraps the script's `validation`; converts its errors to ReproError with the script's line."""

    def batches() -> list[Any]:
        with _running(file), _same_random_numbers():
            found = list(itertools.islice(function(), MOST_VALIDATION_BATCHES + 1))
        if len(found) > MOST_VALIDATION_BATCHES:
            raise ReproError(f"{file}: expected at most {MOST_VALIDATION_BATCHES} batches of validation()")
        return found

    return batches


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Restores the states of the global random generators at the end of the block."""
    import torch

    of_torch, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)


@contextlib.contextmanager
def _running(file: Path) -> Iterator[None]:
    """A context manager for code of a script. The script sees only its own path in `sys.argv`, and does not parse the
    arguments of this program. Converts the script's errors to ReproError with the script's line."""
    given = sys.argv
    sys.argv = [str(file)]
    try:
        yield
    except ReproError as error:
        place, reason = _place(error, file), str(error)
        if not place or _LINE.match(reason):
            raise
        # The hint at the end of the message is that of the module that raised the error.
        raise ReproError(f"{place}: {reason}").with_traceback(error.__traceback__) from None
    except (Exception, SystemExit) as error:
        raise ReproError(_where(error, file)) from None
    finally:
        sys.argv = given


_LINE = re.compile(r"\S+\.py:\d+: ")


def _place(error: BaseException, file: Path) -> str:
    """Returns the script and the innermost line of the script in the traceback; empty if there is no such line."""
    script = os.path.abspath(file)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == script]
    return f"{file}:{lines[-1]}" if lines else ""


def _where(error: BaseException, file: Path) -> str:
    """Formats an error as one line with the innermost line of the script in the traceback."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or file}:{error.lineno or 1}: {error.msg}"
    place = _place(error, file) or str(file)
    if isinstance(error, SystemExit):
        # argparse has printed why it ends the script.
        return f"{place}: the script ends itself ({error!r}): give a default to each argument, or call no exit() here"
    reason = " ".join(str(error).split())
    return f"{place}: {type(error).__name__}{f': {reason}' if reason else ''}{_hint(error)}"


def _hint(error: BaseException) -> str:
    """Returns what the user can do about a module that is missing, after a colon; empty for other errors."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return ""
    name = error.name.partition(".")[0]
    if name in _EXTRAS:
        return f": {_EXTRAS[name]}"
    return f": install the package that has {foreign(name)}, or put the module next to the script"
