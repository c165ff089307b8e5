# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs Keras' `fit` and `evaluate` with compiled steps (docs/guides/keras.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends import keras as frontend
from repro_mlir.program import Program, program_of
from repro_mlir.program_training.trainer import ProgramTrainer
from repro_mlir.verification.receipts.options import ReceiptOptions


def fit(
    model: keras.Model,
    *args: Any,
    target: str = "cpu",
    threads: int | None = None,
    seed: int | None = None,
    receipt: ReceiptOptions | None = None,
    **kwargs: Any,
) -> keras.callbacks.History:
    """Runs `model.fit(*args, **kwargs)` with steps whose bits do not depend on the target or the number of threads.

        keras.utils.set_random_seed(0)
        fit(model, x, y, epochs=3, validation_data=(x_test, y_test), callbacks=[...], target="cpu")

    Forward pass, loss, gradients, update and metrics form one program, and validation forms another. A batch of another
    size, such as the last one, has its own program. Keras handles the data and their order, callbacks, logs and the
    history. The variables of the model, the optimizer and the metrics get their new values at the same points as in
    Keras' own steps, and values written to them between steps apply from the next step on. The same holds for settings
    such as `optimizer.clipnorm` and `dropout.rate`: a step with other settings has its own program.

    Args:
      model: compiled by `model.compile`, on the backend jax or torch.
      args, kwargs: as for `model.fit`.
      target, threads: as for `repro_mlir.compile`.
      seed: the seed of the random numbers (dropout) on the backend torch, 0 by default: the numbers depend on the seed
        and on the optimizer's iteration. On the backend jax, the model's seed generators determine the numbers.
      receipt: where and how to write a receipt of the training steps; it is finished at the end and cannot be
        resumed.
    Raises:
      ReproError: a step cannot honour an option, the target is not available, or the receipt cannot be written.
    """
    if receipt is not None and receipt.resume:
        raise ReproError("Keras resumes a run from what its callbacks save: begin a new receipt, without resume")
    with _compiled_steps(model, target, threads, seed, receipt):
        return model.fit(*args, **kwargs)


def evaluate(model: keras.Model, *args: Any, target: str = "cpu", threads: int | None = None, **kwargs: Any) -> Any:
    """Runs `model.evaluate(*args, **kwargs)` with compiled steps. Arguments and errors are those of `fit`."""
    with _compiled_steps(model, target, threads, None, None):
        return model.evaluate(*args, **kwargs)


@contextmanager
def _compiled_steps(
    model: keras.Model, target: str, threads: int | None, seed: int | None, receipt: ReceiptOptions | None
) -> Iterator[None]:
    """A context manager in which Keras' loops over batches call compiled steps."""
    if model.steps_per_execution != 1:
        raise ReproError(f"expected compile(steps_per_execution=1), got {model.steps_per_execution}")
    if model.run_eagerly:
        raise ReproError("run_eagerly=True is not supported: a step is compiled as a whole")
    former = model.train_function, model.test_function
    training = _Steps(model, target, threads, seed, receipt, training=True)
    evaluation = _Steps(model, target, threads, None, None, training=False)
    model.train_function, model.test_function = training.function, evaluation.function
    try:
        yield
    except BaseException as error:
        training.end(error)
        raise
    finally:
        model.train_function, model.test_function = former
    training.end(None)


_Settings = frozenset[tuple[str, Any]]
_MOST_SETTINGS = 64
"""The maximum number of different settings. The compiled program of each is kept."""


class _Steps:
    """Runs the training steps, or the evaluation steps, of one call of `fit` or `evaluate`."""

    def __init__(
        self,
        model: keras.Model,
        target: str,
        threads: int | None,
        seed: int | None,
        receipt: ReceiptOptions | None,
        *,
        training: bool,
    ) -> None:
        self._model = model
        self._training = training
        self._seed = seed
        self._options: dict[str, Any] = dict(target=target, threads=threads, receipt=receipt)
        self._backend = frontend.backend()
        self._trainer: ProgramTrainer | None = None
        self._captured: dict[Any, tuple[frontend.Imported, Program]] = {}
        # The variables of the first step. On JAX, `_given` has the values that the last step returned to Keras for
        # these variables.
        self._variables: list[Any] = []
        self._given: list[Any] = []
        self.function = self._on_shared_memory if self._backend.SHARES_MEMORY else self._on_values

    def end(self, error: BaseException | None) -> None:
        """Ends the trainer, which finishes the receipt. After an error, the receipt stays unfinished."""
        if self._trainer is not None:
            self._trainer.__exit__(None if error is None else type(error))

    def _on_shared_memory(self, data: Any) -> Any:
        """Runs a step on the backend torch, whose variables share memory with the trainer's state."""
        variables = self._present()
        return self._run([variable.value for variable in variables], data[0])

    def _on_values(self, state: Sequence[Sequence[Any]], iterator: Iterator[Any]) -> Any:
        """Runs a step on the backend jax: takes the values of the variables and a batch, returns the logs and the new
        values. During Keras' loop, the variables themselves have no values."""
        batch = next(iterator)
        values = [*itertools.chain(*state)]
        try:
            self._present()
            logs = self._run(values, batch)
        except BaseException:
            for variable, value in zip(self._variables, values, strict=True):
                variable.assign(value)
            self._model._jax_state = None
            raise
        rest = iter(self._given)
        return logs, tuple(list(itertools.islice(rest, len(part))) for part in state)

    def _present(self) -> list[Any]:
        """Returns the model's state variables. Raises ReproError if they are not the same variables as in the first
        step."""
        variables = [*itertools.chain(*frontend.state_of(self._model, training=self._training))]
        if not self._variables:
            self._variables = variables
        if [*map(id, variables)] != [*map(id, self._variables)]:
            raise ReproError(
                "the model's variables, or which of them are trainable, have changed since the first step: make such "
                "changes between two calls of fit"
            )
        return variables

    def _run(self, values: Sequence[Any], batch: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        arguments = dict(x=x, y=y, sample_weight=sample_weight)
        imported, program = self._program(values, arguments)
        if self._trainer is None:
            self._trainer = ProgramTrainer(program, {}, **self._options)
            self._place_random_numbers(imported)
        trainer = self._trainer
        trainer.go_on_with(program)
        kinds = {kind.name: kind for kind in program.state}
        for number, (name, value) in enumerate(zip(imported.names, values, strict=True)):
            if self._backend.SHARES_MEMORY:
                trainer.state[name] = self._backend.array_of(value, kinds[name])
            elif not self._given or value is not self._given[number]:
                trainer.state[name][...] = self._backend.array_of(value, kinds[name])
        outputs = trainer.step(*imported.read_inputs(arguments))
        if not self._backend.SHARES_MEMORY:
            self._given = [
                self._backend.value_of(trainer.state[name], kinds[name], value)
                for name, value in zip(imported.names, values, strict=True)
            ]
        return imported.outputs_of(outputs)

    def _program(self, values: Sequence[Any], arguments: dict[str, Any]) -> tuple[frontend.Imported, Program]:
        """Returns the program for batches of this structure and shape and the model's current settings; captures it if
        it is new."""
        leaves = keras.tree.flatten(arguments)
        shapes = tuple(None if leaf is None else (*leaf.shape, str(leaf.dtype)) for leaf in leaves)
        settings = self._settings()
        if (settings, shapes) in self._captured:
            return self._captured[settings, shapes]
        self._require_few(settings)
        imported = self._capture(values, arguments)
        if (after := self._settings()) != settings:
            # Some layers store values in attributes on their first call. Later calls read these values, so the step is
            # captured again, with the values present.
            imported, settings = self._capture(values, arguments), after
            if (again := self._settings()) != settings:
                raise ReproError(
                    f"the step itself changes {_difference(settings, again)}, which a compiled step cannot: use a "
                    "keras.Variable instead"
                )
        known = next(iter(self._captured.values()), None)
        if known is not None and imported.program.random != known[0].program.random:
            raise ReproError(
                "some steps of this call draw random numbers and others do not, depending on the form of the batch or "
                "on a setting such as a dropout rate of 0: expected all of them to draw, or none"
            )
        self._captured[settings, shapes] = imported, program_of(imported.program)
        return self._captured[settings, shapes]

    def _capture(self, values: Sequence[Any], arguments: dict[str, Any]) -> frontend.Imported:
        step = frontend.training_step if self._training else frontend.evaluation_step
        state = [*zip(self._variables, values, strict=True)]
        return frontend.import_function(step(self._model), state, arguments, self._seed)

    def _settings(self) -> _Settings:
        return frozenset(frontend.settings_of(self._model, training=self._training).items())

    def _require_few(self, settings: _Settings) -> None:
        """Raises ReproError if these settings are new and the limit on the number of different settings is reached."""
        known = [*dict.fromkeys(each for each, _ in self._captured)]
        if settings not in known and len(known) == _MOST_SETTINGS:
            raise ReproError(
                f"{_difference(known[-1], settings)} changed; settings have changed {_MOST_SETTINGS} times in this "
                "call, and each change needs another program: use a keras.Variable for a value that changes often"
            )

    def _place_random_numbers(self, imported: frontend.Imported) -> None:
        """Sets the state tensor that counts steps for random numbers (R1) to the optimizer's number of steps."""
        if imported.program.random is not None and self._training and self._trainer is not None:
            step = imported.program.state[imported.program.random[1]].name
            iterations = keras.ops.convert_to_numpy(self._model.optimizer.iterations)
            self._trainer.state[step][...] = int(iterations)


def _difference(some: _Settings, others: _Settings) -> str:
    return ", ".join(sorted({name for name, _ in some ^ others}))
