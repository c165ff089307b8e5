# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `repro_mlir.capture`: canonical programs of PyTorch training steps and inference."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.base.keywords import accepts_keywords
from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.base.progress import working
from repro_mlir.frontends.torch.base.capture_options import CaptureKeywords, CaptureOptions, InferenceKeywords
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.precision.apply import RANDOM, applied
from repro_mlir.program import Program, SymbolicProgram, program_of, symbolic_program_of
from repro_mlir.program.exact import exact_contractions
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.microbatches import MicrobatchProgram, microbatch_program_of

if TYPE_CHECKING:
    import torch

    from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
    from repro_mlir.frontends.torch.objects.flat_batch import FlatBatch


@overload
def capture(
    model: torch.nn.Module, *arguments: Any, dynamic_shapes: None = None, **options: Unpack[CaptureKeywords]
) -> Program: ...


@overload
def capture(
    model: torch.nn.Module, *arguments: Any, dynamic_shapes: Mapping[str, Any] | Sequence[Any]
) -> SymbolicProgram: ...


@overload
def capture(
    model: torch.export.ExportedProgram, *arguments: Any, **options: Unpack[InferenceKeywords]
) -> Program | SymbolicProgram: ...


@accepts_keywords(CaptureKeywords, CaptureOptions)
def capture(
    model: torch.nn.Module | torch.export.ExportedProgram,
    *arguments: Any,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    **options: Unpack[CaptureKeywords],
) -> Program | SymbolicProgram:
    """Captures a training step, `capture(model, loss_fn, optimizer, batch)`, or inference, `capture(model, inputs)`.

    Args:
      model: its parameters and buffers become state; its mode (train or eval) is part of the program. For inference
        also a torch.export.ExportedProgram: without example inputs, its own inputs and dynamic shapes are used; with
        example inputs, the program has the sizes of the examples.
      arguments: for training, `loss_fn` (`loss_fn(output, target)`, or None if the model returns the loss), an
        optimizer (as for `Trainer`) and an example batch `(*inputs, target)`; for inference, the example inputs: a
        tensor, tuple or dict.
      clip_norm: training only: clips all gradients together to this 2-norm.
      autocast: training only: torch.bfloat16 or torch.float16 for forward and loss.
      seed: training only: the initial seed of the program's random numbers.
      exact_digits: 2 or 3 makes all contractions exact (see `exact_contractions`).
      precision: a recipe for the operands of contractions, its name or its JSON (see
        `repro_mlir.precision.apply_precision`).
      attention_block: (K5) `scaled_dot_product_attention` processes blocks of this number of queries or keys and never
        stores the whole weight matrix (dropout stores a boolean one). Blocks, for example of 128, suit long sequences.
        The bits differ from those without blocks.
      dynamic_shapes: inference only: the dynamic sizes, in the notation of torch.export: for each input, by name or in
        order, None or an entry for each dimension. An entry is a torch.export.Dim, an expression of one, Dim.AUTO or
        None. Sizes are at least 1.
    Returns:
      the canonical program, or with dynamic shapes a `SymbolicProgram`; model and optimizer are unchanged.
    Raises:
      ReproError: something cannot be captured (the message contains the Python line if known), or the optimizer's state
        determines the program, so that no single program is valid for all steps (for example, a momentum that starts
        with the first gradient).
    """
    module: Any = model
    is_own = False
    if is_exported(model):
        if len(arguments) > 1:
            raise ReproError("expected a model for a training step, got an ExportedProgram, which is inference only")
        if dynamic_shapes is not None:
            raise ReproError("an ExportedProgram has the dynamic shapes that it was exported with: omit dynamic_shapes")
        is_own = not arguments
        arguments = arguments or (_example_inputs(model),)
        module = module.module()
    if len(arguments) not in (1, 3):
        raise ReproError(
            "expected capture(model, loss_fn, optimizer, batch) or capture(model, inputs), "
            f"got {len(arguments) + 1} arguments"
        )
    chosen = CaptureOptions.parsed(**options)
    if len(arguments) == 3:
        if dynamic_shapes is not None:
            raise ReproError("dynamic_shapes is for inference only: a training step has static shapes")
        program, imported = training_program(module, *arguments, chosen)
        if imported.bindings.depends_on_state:
            raise ReproError(
                f"the step of the optimizer {type(arguments[1]).__qualname__} depends on its state (it may differ at "
                "the first step or after a number of steps), so it is not a single program: use a Trainer"
            )
        return program
    refuse_training_options(chosen)
    if is_own or dynamic_shapes is not None:
        symbolic = _symbolic_program(model if is_own else None, module, arguments[0], dynamic_shapes, chosen)
        if symbolic is not None:
            return symbolic
    with _capturing():
        from repro_mlir.frontends.torch.capture.inference import capture_inference

        imported = capture_inference(module, arguments[0], chosen)
    return canonical_program(imported, chosen)


def refuse_training_options(options: CaptureOptions) -> None:
    """Raises ReproError if options for inference contain one that only training steps have."""
    if options.clip_norm is not None or options.autocast is not None or options.seed != 0:
        raise ReproError("clip_norm, autocast and seed are for training steps only: omit them for inference")


def is_exported(model: Any) -> bool:
    """Whether a model is a torch.export.ExportedProgram, which has its own example inputs."""
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(model, export.ExportedProgram)


def _example_inputs(exported: Any) -> Any:
    args, kwargs = exported.example_inputs or ((), {})
    if bool(args) == bool(kwargs):
        raise ReproError("expected capture(exported, inputs): its example inputs are absent or partly named")
    return args or kwargs


def training_program(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    options: CaptureOptions,
) -> tuple[Program, ImportedProgram[TorchBindings]]:
    """Captures a training step; returns the canonical program and the imported program with the bindings."""
    with _capturing():
        from repro_mlir.frontends.torch.capture.training import capture_training

        imported = capture_training(model, loss_fn, optimizer, batch, options)
    return canonical_program(imported, options), imported


def microbatch_program(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: FlatBatch,
    options: CaptureOptions,
) -> tuple[MicrobatchProgram, ImportedProgram[TorchBindings]]:
    """Captures a training step in microbatches, as `training_program` does; `batch` is the first microbatch."""
    with _capturing():
        from repro_mlir.frontends.torch.capture.training import capture_training

        imported = capture_training(model, loss_fn, optimizer, batch.given, options)
    assert options.microbatches is not None
    cut = [imported.num_hyper_parameters + position for position in batch.cut]
    with working("importing"):
        try:
            program = microbatch_program_of(imported, options.microbatches, cut, options.exact_digits)
        except ReproError as error:
            if found := _OF_A_MICROBATCH.search(str(error)):
                kind = imported.state[int(found[1])]
                raise CaptureError(
                    f"(B3) {kind.name} changes with each microbatch: expected no change of float tensors in the "
                    "forward and backward pass except statistics of batch normalization, or a step without microbatches"
                ) from None
            raise
    return program if options.precision is None else applied(program, options.precision), imported


def evaluation_program(
    model: torch.nn.Module, loss_fn: Callable[..., torch.Tensor] | None, batch: Any, options: CaptureOptions
) -> tuple[Program, ImportedProgram[TorchBindings]]:
    """Captures an evaluation; returns the canonical program and the imported program."""
    with _capturing():
        from repro_mlir.frontends.torch.capture.evaluation import capture_evaluation

        imported = capture_evaluation(model, loss_fn, batch, options)
    return canonical_program(imported, options, is_evaluation=True), imported


def _symbolic_program(
    exported: Any, model: torch.nn.Module, inputs: Any, dynamic_shapes: Any, options: CaptureOptions
) -> SymbolicProgram | None:
    """Captures inference with the dynamic sizes of `dynamic_shapes`, or of `exported` if it is not None.

    Returns:
      the program; None if `exported` has no dynamic sizes.
    """
    with _capturing():
        from repro_mlir.frontends.torch.base.open_sizes import sizes_of_exported, sizes_of_shapes
        from repro_mlir.frontends.torch.capture.inference import capture_symbolic

        make: Any
        if exported is None:
            make = functools.partial(sizes_of_shapes, model, inputs, dynamic_shapes)
        else:
            make = functools.partial(sizes_of_exported, exported, inputs)
            if make() is None:
                return None
        if options.precision is not None:
            raise ReproError("precision does not support dynamic shapes: call apply_precision for each size")
        if options.exact_digits is not None:
            raise ReproError("exact_digits does not support dynamic shapes: call exact_contractions for each size")
        imported = capture_symbolic(model, inputs, lambda of_examples: make(of_examples=of_examples), options)
    with working("importing"):
        return symbolic_program_of(imported)


@contextlib.contextmanager
def _capturing() -> Iterator[None]:
    """Calls `require_capture`, and reports progress for a block that captures a model."""
    with working("capturing"):
        require_capture()
        yield


def require_capture() -> None:
    """Raises ReproError if the floating-point environment or the installed packages permit no capture."""
    require_default_environment()
    try:
        from repro_mlir.frontends.torch.capture import imported_steps  # noqa: F401
    except ImportError as error:
        raise ReproError(f"capture requires PyTorch and torch-mlir: {install_extra('torch')} ({error})") from None


_ADVICE = ": model.float() converts the model, x.float() a tensor"


def canonical_program(
    imported: ImportedProgram[TorchBindings],
    options: CaptureOptions,
    advice: str = _ADVICE,
    *,
    is_evaluation: bool = False,
) -> Program:
    """Converts an imported program to the canonical program.

    Args:
      imported: the captured program.
      options: see `in_numerics`.
      advice: the end of the message for an operator that is defined only for float32.
      is_evaluation: whether the program is an evaluation, in which a recipe that affects only gradients has no effect.
    """
    with working("importing"):
        try:
            program = program_of(imported)
        except ReproError as error:
            raise _with_advice(error, advice) from None
    return in_numerics(program, options, is_evaluation=is_evaluation)


def in_numerics(program: Program, options: CaptureOptions, *, is_evaluation: bool = False) -> Program:
    """Returns the program with `exact_digits` and `precision` applied. Scales of earlier steps (Q6) are appended to the
    state.

    Raises:
      ReproError: the recipe rounds the forward pass stochastically, which only training steps support.
    """
    if options.exact_digits is not None:
        program = exact_contractions(program, options.exact_digits)
    if options.precision is None:
        return program
    found = applied(program, options.precision, is_evaluation=is_evaluation)
    if any(kind.name in RANDOM for kind in found.state[len(program.state) :]):
        raise ReproError("stochastic rounding of the forward pass is for training steps only")
    return found


_OF_A_MICROBATCH = re.compile(r"the new state (\d+) depends on a microbatch")
_F32_ALONE = re.compile(r"cannot import the program: (.*?): '(?:math|repro)\.(\w+)' op \(S5\) .*, got 'f64'")
_NO_RULE = re.compile(r"cannot import the program: (.*?): '[\w.]+' op \(V1\) no rule converts to 'f8E8M0FNU'")


def _with_advice(error: ReproError, advice: str) -> ReproError:
    """Rewrites a known error of the compiler in PyTorch's terms; returns any other error unchanged."""
    if found := _F32_ALONE.match(str(error)):
        return CaptureError(f"{_place(found[1])}: {found[2]} is defined for float32, not for float64 (S5){advice}")
    if found := _NO_RULE.match(str(error)):
        return CaptureError(f"{_place(found[1])}: no rule converts to float8_e8m0fnu (V1)")
    return error


def _place(location: str) -> str:
    """Formats an MLIR location for messages: without quotes and column."""
    return re.sub(r":(\d+):\d+$", r":\1", location.replace('"', ""))
