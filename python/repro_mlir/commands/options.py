# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the commands have in common: options, and files given by name."""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..archive import read_archive
from ..arrays import TensorType
from ..errors import ReproError

# What add_subparsers gives. A string: the class takes no parameters at run time.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def add_command(
    commands: Commands, name: str, function: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    """A command with the option --json; `function` takes the parsed options and returns the exit status."""
    command = commands.add_parser(name, help=summary, description=summary)
    command.set_defaults(command=function)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return command


def add_script(command: argparse.ArgumentParser) -> None:
    """The argument SCRIPT of commands that capture a training step."""
    command.add_argument("script", metavar="SCRIPT", help="defines training() -> (model, loss_fn, optimizer, batches)")
    add_exact_digits(command)


def add_exact_digits(command: argparse.ArgumentParser) -> None:
    """The option --exact-digits of commands that capture a script's step."""
    command.add_argument(
        "--exact-digits", type=int, choices=(2, 3), help="exact matrix products (K4), as the script's exact_digits does"
    )


def add_threads(command: argparse.ArgumentParser) -> None:
    """The option --threads of commands that run steps."""
    command.add_argument("--threads", type=positive, metavar="N", help="threads of a step (one per processor)")


def add_public_key(command: argparse.ArgumentParser) -> None:
    """The option --key of commands that read something signed."""
    command.add_argument("--key", metavar="FILE", help="require a signature by this ed25519 public key (PEM)")


def add_no_cache(command: argparse.ArgumentParser) -> None:
    """The option --no-cache of commands that compile."""
    command.add_argument("--no-cache", action=_NoCache, help="compile anew: read and keep no compiled code on disk")


class _NoCache(argparse.Action):
    """Turns the cache off for the whole process (runtime/cache.py)."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, *_: Any) -> None:
        os.environ["REPRO_MLIR_CACHE"] = "off"


def write_file(path: str, data: bytes) -> None:
    """Writes a file; ReproError where it cannot be written."""
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


def load_inputs(path: str | None, inputs: Sequence[TensorType]) -> list[np.ndarray]:
    """The arrays for `inputs`, by name, of an .npz file.

    Raises:
      ReproError: no file although there are inputs, one that is no .npz, or has not exactly these inputs.
    """
    wanted = [kind.name for kind in inputs]
    if path is None:
        if wanted:
            raise ReproError(f"expected --inputs with {', '.join(map(str, inputs))}")
        return []
    what = "an .npz file of plain arrays"
    members = read_archive(path, lambda name: name.endswith(".npy"), what)
    found = {}
    for name in wanted:
        data = members.get(f"{name}.npy")
        try:
            if data is not None:
                found[name] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        except Exception:
            # NumPy raises whatever a damaged file leads it to.
            raise ReproError(f"{path}: expected {what}") from None
    others = [name.removesuffix(".npy") for name in members]
    missing = [name for name in wanted if name not in found]
    unknown = [name for name in others if name not in wanted]
    if missing:
        raise ReproError(f"{path}: no input {', '.join(missing)}; it has {', '.join(others) or 'none'}")
    if unknown:
        raise ReproError(f"{path}: the program has no input {', '.join(unknown)}")
    return [found[name] for name in wanted]
