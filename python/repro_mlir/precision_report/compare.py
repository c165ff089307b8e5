# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares a training run in f32 with runs under precision recipes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import combine_digests, state_hash, tensor_digest
from repro_mlir.base.progress import Progress
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.batches import as_arguments
from repro_mlir.execute.executable import Executable, compile
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.scripts import ScriptKeywords, Training, load_training
from repro_mlir.precision.apply import apply_precision
from repro_mlir.precision.recipe import Recipe
from repro_mlir.precision.recipe_json import recipe_of, recipe_to_json
from repro_mlir.precision.summary import precision_summary
from repro_mlir.precision_report.probe import Probe, probe_of, values_of
from repro_mlir.precision_report.results import (
    Contraction,
    ContractionSample,
    Operand,
    Report,
    Run,
    Sample,
    WeightError,
)
from repro_mlir.precision_report.statistics import OperandStatistics, relative_error, sqnr_db
from repro_mlir.program import Program
from repro_mlir.train.trainer import Trainer

F32 = "f32"
_VALIDATIONS = 10
"""The maximum number of times that a run evaluates a script's validation batches."""


def compare_recipes(
    script: str,
    recipes: Sequence[Recipe | str | Mapping[str, Any]],
    steps: int,
    *,
    target: str = "cpu",
    threads: int | None = None,
    samples: int = 3,
) -> Report:
    """Trains the model of a script under f32 and under each recipe, from the same state on the same batches.

    Each sampled step of a recipe's run is computed two more times from the same state: once under the recipe, which
    also returns the operands and results of its contractions, and once in f32.

    Args:
      script: a training script, as for `repro train`; its option `precision` is ignored. It runs once per recipe, and
        must return the same model and batches each time. Its optional function `validation()` returns at most 1000
        batches, whose mean loss in evaluation mode is computed a few times per run.
      recipes: as for `apply_precision`; f32 is always included, and need not be listed.
      steps: the number of training steps, at least 1.
      target, threads: as for `compile`.
      samples: the number of sampled steps, equally spaced from the first to the last.
    Raises:
      ReproError: the script or a recipe cannot be used, or the script returns a different model or different batches
        when it is run again.
    """
    for name, value, least in (("steps", steps, 1), ("samples", samples, 0)):
        if type(value) is not int or value < least:
            raise ReproError(f"expected a number of {name} of at least {least}, got {value!r}")
    chosen = [_recipe(each) for each in recipes if each != F32]
    names = [recipe.name for recipe in chosen]
    for name in names:
        if not name or name == F32 or names.count(name) > 1:
            raise ReproError(f"expected recipes with different names, not {F32}, got {name!r}")
    if not chosen:
        raise ReproError(f"expected at least one recipe in addition to {F32}")
    comparison = _Comparison(script, tuple(chosen), steps, target, threads, spread(steps, samples))
    runs = [comparison.run(recipe) for recipe in (None, *chosen)]
    return Report(
        Path(script).name,
        steps,
        () if comparison.is_divided else comparison.sampled,
        target,
        comparison.initial_state,
        " ".join(comparison.notes),
        tuple(runs),
    )


def spread(steps: int, count: int) -> tuple[int, ...]:
    """Returns at most `count` equally spaced steps from 1 to `steps`, both included. If `count` is 1, returns the last
    step."""
    if count < 2:
        return (steps,)[:count]
    return tuple(sorted({1 + i * (steps - 1) // (count - 1) for i in range(count)}))


@dataclass
class _Comparison:
    """The settings that all runs share, and the data of the f32 run with which the later runs are compared."""

    script: str
    recipes: tuple[Recipe, ...]
    steps: int
    target: str
    threads: int | None
    sampled: tuple[int, ...]
    # Whether the steps are in microbatches. If so, no steps are sampled.
    is_divided: bool = False
    notes: list[str] = field(default_factory=list)
    initial_state: str = ""
    # Results of the f32 run: the digest of each step's inputs, the digests of the validation batches, the program of
    # each step, and the trained weights.
    digests: list[bytes] = field(default_factory=list)
    held_out: list[bytes] = field(default_factory=list)
    programs: dict[int, Program] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    probes: dict[str, tuple[Probe, Executable]] = field(default_factory=dict)

    def run(self, recipe: Recipe | None) -> Run:
        """Trains once under a recipe, or in f32 if `recipe` is None."""
        given = load_training(self.script)
        options: ScriptKeywords = {**given.options, "precision": recipe, "nonfinite_loss": "ignore"}
        trainer = Trainer(
            given.model, given.loss_fn, given.optimizer, target=self.target, threads=self.threads, **options
        )
        with trainer:
            return self._train(given, trainer, recipe)

    def _train(self, given: Training, trainer: Trainer, recipe: Recipe | None) -> Run:
        name = F32 if recipe is None else recipe.name
        losses: list[float] = []
        samples: list[Sample] = []
        validation: list[tuple[int, float | None]] = []
        held_out = self._held_out(given, recipe)
        validated = spread(self.steps, _VALIDATIONS) if held_out else ()
        program = ""
        contractions: tuple[Contraction, ...] = ()
        batches = iter(given.batches)
        with Progress(self.steps, f"training {name}") as progress:
            for step in range(1, self.steps + 1):
                batch = next(batches, None)
                if batch is None:
                    raise ReproError(f"{self.script}: expected {self.steps} batches, got {step - 1}")
                arguments = as_arguments(batch)
                arguments = arguments if isinstance(arguments, tuple) else (arguments,)
                inputs = trainer.read_inputs(*arguments)
                self._check(trainer, recipe, step, inputs)
                if step == 1:
                    program, contractions = trainer.program.hash, self._begin(trainer, recipe)
                state = None
                if recipe is not None and step in self.sampled and self._is_like_the_first(recipe, step, contractions):
                    state = {name: value.copy() for name, value in trainer.state.items()}
                    inputs = [array.copy() for array in inputs]
                losses.append(trainer.step(*arguments))
                if state is not None and recipe is not None:
                    samples.append(self._sample(recipe, trainer, step, state, inputs))
                if step in validated:
                    validation.append((step, _finite(_mean([_evaluate(trainer, each) for each in held_out]))))
                progress.advance(f"loss {losses[-1]:.4f}")
        layers = dict.fromkeys(each.layer for each in contractions if each.layer is not None)
        weights = {name: trainer.state[name] for name in layers}
        if recipe is None:
            self.weights = {name: value.copy() for name, value in weights.items()}
        return Run(
            name,
            None if recipe is None else json.loads(recipe_to_json(recipe)),
            program,
            trainer.state_hash(),
            tuple(map(_finite, losses)),
            next((step for step, loss in enumerate(losses, 1) if not math.isfinite(loss)), None),
            tuple(validation),
            contractions,
            tuple(self._errors(trainer, weights)) if recipe is not None else (),
            tuple(samples),
        )

    def _changed(self, what: str) -> ReproError:
        return ReproError(f"{self.script}: expected the same {what} each time that the script runs: seed its numbers")

    def _held_out(self, given: Training, recipe: Recipe | None) -> list[Any]:
        """Returns the validation batches, or none if there is no validation under this recipe. Raises ReproError if the
        batches differ from those of the f32 run."""
        if given.validation is None:
            return []
        if recipe is not None and any(map(recipe.is_stochastic_in, ("fprop", "product"))):
            self.notes.append(f"No validation under {recipe.name}: it rounds the forward pass stochastically.")
            return []
        batches = given.validation()
        digests = [frontend.FlatBatch(batch).digest() for batch in batches]
        if recipe is None:
            self.held_out = digests
        elif digests != self.held_out:
            raise self._changed("validation batches")
        return batches

    def _check(self, trainer: Trainer, recipe: Recipe | None, step: int, inputs: Sequence[np.ndarray]) -> None:
        """Raises ReproError if a step's inputs or the initial state differ from those of the f32 run."""
        program = trainer.program
        digest = _combined([(array, kind.element) for array, kind in zip(inputs, program.inputs, strict=True)])
        if recipe is None:
            self.digests.append(digest)
            if isinstance(program, Program):
                self.programs[step] = program
            else:
                if not self.is_divided:
                    self.notes.append("Operands of a step in microbatches are not measured.")
                self.is_divided = True
        elif digest != self.digests[step - 1]:
            raise self._changed(f"batch {step}")
        if step == 1:
            # Hashes only the state that the f32 program has too: a stochastic recipe may add seed and step.
            known = self.programs[1].state if 1 in self.programs else program.state
            state = trainer.state
            begun = state_hash([(state[kind.name], kind.element) for kind in known])
            if recipe is None:
                self.initial_state = begun
            elif begun != self.initial_state:
                raise self._changed("model")

    def _begin(self, trainer: Trainer, recipe: Recipe | None) -> tuple[Contraction, ...]:
        """Returns the contractions of the first step, with their precision. In the f32 run, also checks that every
        recipe can be applied to the step."""
        if recipe is None:
            # The type is `Any` because `apply_precision` is generic over the two program types, and a type checker
            # rejects their union.
            program: Any = trainer.program
            for each in self.recipes:
                apply_precision(program, each)
        step = self.programs.get(1)
        return () if step is None else self._contractions(step, recipe)

    def _is_like_the_first(self, recipe: Recipe, step: int, contractions: tuple[Contraction, ...]) -> bool:
        """Returns whether a step has the same contractions as the first step. If not, the step is not sampled, and a
        note says so: the table of errors has one row for each contraction of the first step."""
        if self.is_divided:
            return False
        found = self.programs[step].hash == self.programs[1].hash
        found = found or self._contractions(self.programs[step], recipe) == contractions
        note = f"The operands of step {step} are not measured: it has other contractions than the first step."
        if not found and note not in self.notes:
            self.notes.append(note)
        return found

    def _contractions(self, step: Program, recipe: Recipe | None) -> tuple[Contraction, ...]:
        summary = precision_summary(step, Recipe(F32, {}) if recipe is None else recipe)
        return tuple(
            Contraction(
                *(each.role, each.layer, each.location, each.operands, each.result, each.accumulator),
                in_f32=each.is_untouched,
            )
            for each in summary.contractions
        )

    def _sample(
        self, recipe: Recipe, trainer: Trainer, step: int, state: Mapping[str, np.ndarray], inputs: Sequence[np.ndarray]
    ) -> Sample:
        """Recomputes a step under the recipe and in f32, from the state and batch of the step that the trainer has
        run."""
        plain, program = self.programs[step], trainer.program
        assert isinstance(program, Program)
        exact_probe, _, exact = self._run_probe(plain, plain, None, state, inputs)
        probe, after, outputs = self._run_probe(plain, program, recipe, state, inputs)
        if state_hash([(after[kind.name], kind.element) for kind in program.state]) != trainer.state_hash():
            raise ReproError(f"step {step} under {recipe.name}: expected the same state when repeated, got another")
        known: dict[tuple[str, ...], OperandStatistics] = {}
        found = []
        for contraction, other in zip(probe.contractions, exact_probe.contractions, strict=True):
            operands = []
            for operand in contraction.operands:
                if operand.key not in known:
                    known[operand.key] = operand.statistics(outputs)
                operands.append(Operand(operand.name, str(operand.format), known[operand.key]))
            ratio = sqnr_db(exact[other.result], outputs[contraction.result])
            found.append(ContractionSample(contraction.number, ratio, tuple(operands)))
        losses = (_finite(float(outputs["loss"])), _finite(float(exact["loss"])))
        return Sample(step, *losses, tuple(found))

    def _run_probe(
        self,
        plain: Program,
        program: Program,
        recipe: Recipe | None,
        state: Mapping[str, np.ndarray],
        inputs: Sequence[np.ndarray],
    ) -> tuple[Probe, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Runs a step with the values of its contractions as outputs. Returns the probe, the state after the step, and
        the outputs."""
        key = f"{plain.hash} {program.hash}"
        if key not in self.probes:
            probe = probe_of(plain, program, recipe)
            self.probes[key] = probe, compile(probe.program, self.target, self.threads)
        probe, executable = self.probes[key]
        after, outputs = executable({kind.name: state[kind.name].copy() for kind in program.state}, *inputs)
        found = {
            kind.name: values_of(kind, as_array(outputs[kind.name], kind, "output")) for kind in probe.program.outputs
        }
        return probe, dict(after), found

    def _errors(self, trainer: Trainer, weights: Mapping[str, np.ndarray]) -> list[WeightError]:
        kinds = {kind.name: kind for kind in trainer.program.state}
        return [
            WeightError(name, relative_error(values_of(kinds[name], self.weights[name]), values_of(kinds[name], value)))
            for name, value in weights.items()
        ]


def _recipe(given: Recipe | str | Mapping[str, Any]) -> Recipe:
    """Returns the recipe. If it is from a file and has no name, it gets the name of the file."""
    recipe = recipe_of(given)
    if not recipe.name and isinstance(given, str) and given.endswith(".json"):
        return dataclasses.replace(recipe, name=Path(given).stem)
    return recipe


def _combined(tensors: Sequence[tuple[np.ndarray, str]]) -> bytes:
    return bytes.fromhex(combine_digests([tensor_digest(array, element) for array, element in tensors]))


def _evaluate(trainer: Trainer, batch: Any) -> float:
    arguments = as_arguments(batch)
    return trainer.evaluate(*(arguments if isinstance(arguments, tuple) else (arguments,)))


def _mean(losses: Sequence[float]) -> float:
    return math.fsum(losses) / len(losses) if losses and all(map(math.isfinite, losses)) else math.nan


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None
