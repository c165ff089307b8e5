# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs: a canonical module, its signature and its initial state."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .archive import read_archive
from .arrays import TensorType, as_array, element_of_torch, is_canonical, make_canonical
from .canonical import examine
from .errors import ReproError
from .exact import exact_contractions
from .progress import working
from .reference.environment import deviation, float_environment
from .tensor_file import read_tensors, write_tensors

if TYPE_CHECKING:
    import torch

    from .frontends.torch import Captured

_FORMAT = 1
_NUMERICS = 1
_WHAT = "a program file of repro-mlir"
_MODULE, _SIGNATURE, _STATE = "program.mlir", "signature.json", "state.safetensors"


@dataclass(frozen=True)
class Program:
    """A canonical program: what is computed, bit by bit, on every target.

    Making one verifies it: ReproError for text that is no canonical program, and for a signature or an initial state
    that is not that of the text.

    Attributes:
      text: the canonical module as MLIR text.
      state: the state tensors, in the order of the first arguments and results of `main`.
      inputs: the inputs; the first `num_hyper_parameters` are hyper-parameters such as `lr`.
      outputs: the outputs.
      num_hyper_parameters: how many inputs are read from the optimizer before each step.
      initial: the initial value of each state tensor, or none at all; do not write to them, see `initial_state`.
      untrusted: whether the program comes from a file or a peer: it is compiled in a child process with limits.
    """

    text: str = field(repr=False)
    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int
    initial: tuple[np.ndarray, ...] = field(repr=False)
    untrusted: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        examine(self.text).check(self.state, self.inputs, self.outputs)
        count = self.num_hyper_parameters
        if type(count) is not int or not 0 <= count <= len(self.inputs):
            raise ReproError(f"expected 0 to {len(self.inputs)} hyper-parameters, got {count!r}")
        if self.initial and [(array.dtype, array.shape) for array in self.initial] != [
            (kind.dtype, kind.shape) for kind in self.state
        ]:
            raise ReproError("expected an initial array of its type and shape for each state tensor")

    @cached_property
    def hash(self) -> str:
        """The identity of the program (H2), in hexadecimal.

        Names, locations and the initial state are no part of it.
        """
        return examine(self.text).identity

    def initial_state(self) -> dict[str, np.ndarray]:
        """New arrays with the initial state, by name."""
        return {kind.name: value.copy() for kind, value in zip(self.state, self.initial, strict=True)}

    def save(self, path: str | Path) -> None:
        """Writes one file: a zip of `program.mlir`, `signature.json` and `state.safetensors`; equal programs give equal
        bytes. ReproError where the file cannot be written."""
        signature = {
            "format": _FORMAT,
            "numerics": _NUMERICS,
            "num_hyper_parameters": self.num_hyper_parameters,
            "state": [_describe(kind) for kind in self.state],
            "inputs": [_describe(kind) for kind in self.inputs],
            "outputs": [_describe(kind) for kind in self.outputs],
        }
        members = {
            _MODULE: self.text.encode(),
            _SIGNATURE: (json.dumps(signature, indent=1) + "\n").encode(),
            _STATE: write_tensors(self.state, self.initial),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members.items():
                # A ZipInfo made by hand has a fixed date.
                archive.writestr(zipfile.ZipInfo(name), data)
        try:
            Path(path).write_bytes(buffer.getvalue())
        except OSError as error:
            raise ReproError(f"cannot write {path}: {error.strerror}") from None

    @staticmethod
    def load(path: str | Path) -> Program:
        """Reads what `save` wrote, or the program of a bundle. ReproError for anything else."""
        from .runner.bundle import Bundle, is_bundle

        if is_bundle(path):
            bundle = Bundle(path)
            kinds = bundle.state, bundle.inputs, bundle.outputs
            text = read_untrusted(bundle.module(), path)
            with _within(path):
                examined = examine(text)
                if examined.identity != bundle.program:
                    raise ReproError(f"the program is {examined.identity}, the manifest says {bundle.program}")
                examined.check(*kinds)
                initial = tuple(bundle.initial_state())
                return Program(text, *kinds, bundle.num_hyper_parameters, initial, untrusted=True)
        members = read_archive(path, {_MODULE, _SIGNATURE, _STATE}.__contains__, _WHAT)
        try:
            module, data = members[_MODULE], members[_STATE]
            signature = json.loads(members[_SIGNATURE])
        except (KeyError, ValueError, RecursionError):
            raise ReproError(f"{path}: expected {_WHAT}") from None
        if not isinstance(signature, dict) or (signature.get("format"), signature.get("numerics")) != (
            _FORMAT,
            _NUMERICS,
        ):
            found = signature if isinstance(signature, dict) else {}
            raise ReproError(
                f"{path}: expected format {_FORMAT} of numerics {_NUMERICS}, "
                f"got format {found.get('format')} of numerics {found.get('numerics')}"
            )
        try:
            state, inputs, outputs = (
                tuple(TensorType(t["name"], t["element"], tuple(t["shape"])) for t in signature[key])
                for key in ("state", "inputs", "outputs")
            )
            count = signature["num_hyper_parameters"]
        except (AttributeError, KeyError, TypeError):
            raise ReproError(f"{path}: the signature is damaged") from None
        text = read_untrusted(module, path)
        with _within(path):
            examine(text).check(state, inputs, outputs)
        # Of a true signature, so that the sizes are within the limits.
        initial = read_tensors(state, data, str(path))
        with _within(path):
            return Program(text, state, inputs, outputs, count, initial, untrusted=True)


@contextlib.contextmanager
def _within(path: str | Path) -> Iterator[None]:
    """Names the file in the errors of what it holds."""
    try:
        yield
    except ReproError as error:
        raise type(error)(f"{path}: {error}") from None


def _describe(kind: TensorType) -> dict[str, Any]:
    return {"name": kind.name, "element": kind.element, "shape": list(kind.shape)}


def read_untrusted(text: bytes, path: str | Path) -> str:
    """The program text of a file, as `untrusted.admit`; the errors name the file."""
    from .untrusted import admit

    with _within(path):
        return admit(text)


def program_hash(text: str) -> str:
    """(H2) The identity of a canonical module, in hexadecimal. ReproError for text that is no canonical program."""
    return examine(text).identity


def read_signature(text: str) -> Program:
    """The program with this text, its signature read from the text, without an initial state.

    Raises:
      ReproError: text that is no canonical program.
    """
    examined = examine(text)

    def named(kinds: Sequence[TensorType], role: str) -> tuple[TensorType, ...]:
        return tuple(TensorType(kind.name or f"{role} {i}", kind.element, kind.shape) for i, kind in enumerate(kinds))

    arguments, results = named(examined.arguments, "argument"), named(examined.results, "result")
    count = examined.num_state
    return Program(text, arguments[:count], arguments[count:], results[count:], 0, ())


@float_environment()
def canonicalize(text: str) -> str:
    """Imported linalg, as a frontend hands it over, as the text of a canonical module.

    Args:
      text: MLIR text that keeps the contract of imported linalg (docs/architecture.md).
    Raises:
      ReproError: the first diagnostic of the compiler, and how to repeat it.
    """
    from . import debugging, ir, passmanager

    pipeline = "builtin.module(import-linalg,canonical)"
    errors: list[str] = []

    def collect(diagnostic: Any) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            errors.append(f"{diagnostic.location}: {diagnostic.message}".removeprefix("loc(").replace("): ", ": ", 1))
        return True

    context = ir.Context()
    with context:
        # Frontends may hand over operations of dialects that are not ours, for the import to read (tm_tensor).
        context.allow_unregistered_dialects = True
        context.emit_error_diagnostics = True
        context.attach_diagnostic_handler(collect)
        try:
            module = ir.Module.parse(text)
            manager = passmanager.PassManager.parse(pipeline)
            debugging.dump_after_passes(manager, "import")
            manager.run(module.operation)
        except (ir.MLIRError, ValueError) as error:
            reason = (errors or [str(error)])[0].splitlines()[0]
            repeat = debugging.how_to_repeat(text, pipeline, ["--allow-unregistered-dialect"])
            raise ReproError(f"cannot import the program: {reason}{repeat}") from None
        return str(module.operation.get_asm(enable_debug_info=True))


def capture(
    model: torch.nn.Module,
    *arguments: Any,
    clip_norm: float | None = None,
    autocast: torch.dtype | None = None,
    seed: int = 0,
    exact_digits: int | None = None,
    attention_block: int | None = None,
) -> Program:
    """Captures a training step, `capture(model, loss_fn, optimizer, batch)`, or inference, `capture(model, inputs)`.

    Args:
      model: its parameters and buffers become state; its mode (train or eval) is part of the program.
      arguments: for training `loss_fn` (loss_fn(output, target); None where the model gives the loss), a torch.optim
        optimizer and an example batch `(*inputs, target)`; for inference the example inputs, a tensor, tuple or dict.
      clip_norm: training only: clips all gradients together to this 2-norm.
      autocast: training only: torch.bfloat16 or torch.float16 for forward and loss.
      seed: training only: the initial seed of the program's random numbers.
      exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
      attention_block: (K5) `scaled_dot_product_attention` goes by blocks of so many queries, or keys, and keeps no
        whole matrix of weights (dropout keeps one of booleans): for long sequences, 128 say. Its bits are others.
    Returns:
      the canonical program; the model and the optimizer stay as they are.
    Raises:
      ReproError: what cannot be captured, with the Python line where it is known.
    """
    if len(arguments) not in (1, 3):
        raise ReproError(
            "expected capture(model, loss_fn, optimizer, batch) or capture(model, inputs), "
            f"got {len(arguments) + 1} arguments"
        )
    if len(arguments) == 1:
        if clip_norm is not None or autocast is not None or seed != 0:
            raise ReproError("clip_norm, autocast and seed belong to training steps, not to inference")
        program, _ = capture_with_frontend(
            lambda frontend: frontend.capture_inference(model, arguments[0], attention_block=attention_block)
        )
        return program if exact_digits is None else exact_contractions(program, exact_digits)
    return capture_training(
        model,
        *arguments,
        clip_norm=clip_norm,
        autocast=autocast,
        seed=seed,
        exact_digits=exact_digits,
        attention_block=attention_block,
    )[0]


def capture_training(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    *,
    clip_norm: float | None = None,
    autocast: torch.dtype | None = None,
    seed: int = 0,
    exact_digits: int | None = None,
    attention_block: int | None = None,
) -> tuple[Program, Captured]:
    """As `capture`, and what ties the program to the user's objects."""
    program, captured = capture_with_frontend(
        lambda frontend: frontend.capture_training(
            model,
            loss_fn,
            optimizer,
            batch,
            clip_norm=clip_norm,
            autocast=autocast,
            seed=seed,
            attention_block=attention_block,
        )
    )
    return program if exact_digits is None else exact_contractions(program, exact_digits), captured


def torch_frontend() -> Any:
    """The package frontends.torch. ReproError where what it needs is not installed."""
    try:
        from .frontends import torch as frontend
    except ImportError as error:
        raise ReproError(f"capture needs PyTorch and torch-mlir: pip install 'repro-mlir[torch]' ({error})") from None
    return frontend


def capture_with_frontend(run: Callable[[Any], Captured]) -> tuple[Program, Captured]:
    """Runs a capture function of the PyTorch frontend and canonicalizes what it gives."""
    if found := deviation():
        # Threads of torch may have it as well: constants that torch computes would not be those of (V2).
        raise ReproError(f"(V2) capture expects the default floating-point environment, got {found}")
    frontend = torch_frontend()
    with working("capturing"):
        captured = run(frontend)
    with working("importing"):
        return program_of(captured), captured


def _initial(tensor: torch.Tensor, kind: TensorType) -> np.ndarray:
    """The value of a state tensor with canonical bytes (V4); the user's tensor stays as it is."""
    array = np.ascontiguousarray(as_array(tensor, kind, "state")).reshape(kind.shape)
    if not is_canonical(array, kind.element):
        array = array.copy()
        make_canonical(array, kind.element)
    return array


def program_of(captured: Captured) -> Program:
    """The canonical program of what a frontend captured."""
    state = tuple(
        TensorType(entry.name, element_of_torch(entry.initial.dtype), tuple(entry.initial.shape))
        for entry in captured.state
    )
    inputs, outputs = (
        tuple(TensorType(spec.name, element_of_torch(spec.dtype), spec.shape) for spec in specs)
        for specs in (captured.inputs, captured.outputs)
    )
    initial = tuple(_initial(entry.initial, kind) for entry, kind in zip(captured.state, state, strict=True))
    return Program(canonicalize(captured.text), state, inputs, outputs, captured.num_hyper_parameters, initial)
