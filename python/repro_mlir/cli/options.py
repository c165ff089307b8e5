# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Options that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from repro_mlir.base.command_line import Parser, positive
from repro_mlir.base.compiler import has_compiler, install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.parsers import Help, set_names

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.base.capture_options import NumericsKeywords
    from repro_mlir.program import Program

# The type that add_subparsers returns, as a string, because the class accepts no type parameters at run time.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(
    commands: Commands,
    name: str,
    function: Callable[[argparse.Namespace], int],
    summary: str,
    description: str | None = None,
) -> argparse.ArgumentParser:
    """Adds a command with the option --json.

    Args:
      function: receives the parsed options and returns the exit status.
      summary: one line for the list of commands, of at most 62 characters.
      description: the first paragraph of the command's help; None to use the summary.
    """
    command = commands.add_parser(name, help=summary, description=description or summary, formatter_class=Help)
    command.set_defaults(command=function)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return command


def needs_compiler(of: str = "") -> str:
    """Returns the end of the help of an option that cannot be used without the compiler; nothing if it is installed.

    Args:
      of: the values of the option that need the compiler, as a plural; "" if all do.
    """
    return (
        ""
        if has_compiler()
        else f"; {of} need the compiler (repro-mlir)"
        if of
        else "; needs the compiler (repro-mlir)"
    )


def told_next(*words: str) -> str:
    """Returns the last line of a command's output: the command that a user probably types next."""
    return f"next     {shlex.join(words)}"


def add_script(command: argparse.ArgumentParser) -> None:
    """Adds the argument SCRIPT."""
    command.add_argument("script", metavar="SCRIPT", help="defines training() -> (model, loss_fn, optimizer, batches)")
    if isinstance(command, Parser):
        command.elsewhere = ": values such as the learning rate are set in the script"


def add_numerics(command: argparse.ArgumentParser) -> None:
    """Adds the options --exact-digits and --precision, for commands that capture the step of a script."""
    command.add_argument(
        "--exact-digits",
        type=int,
        choices=(2, 3),
        help="exact matrix products (K4), as the script's exact_digits does" + needs_compiler(),
    )
    add_precision(command)


def add_precision(command: argparse.ArgumentParser) -> None:
    """Adds the option --precision, which names a precision recipe."""
    action = command.add_argument(
        "--precision",
        metavar="RECIPE",
        help="a precision recipe: its JSON, a .json file with it, or a name" + needs_compiler(),
    )
    set_names(action, recipe_names, listed_by="repro precision --list", or_path=True)


def recipe_names() -> Iterable[str]:
    """Returns the names of the precision recipes; none without the compiler, which alone reads recipes."""
    if not has_compiler():
        return ()
    from repro_mlir.precision import NAMED_RECIPES

    return NAMED_RECIPES


def numerics_of(options: argparse.Namespace) -> NumericsKeywords:
    """Returns the values of the options that `add_numerics` has added, as keyword arguments. Raises ReproError for an
    unknown recipe, before a script runs."""
    if options.precision is not None and has_compiler():
        from repro_mlir.precision import recipe_of

        recipe_of(options.precision)
    return {"exact_digits": options.exact_digits, "precision": options.precision}


def add_threads(command: argparse.ArgumentParser) -> None:
    """Adds the option --threads of commands that run steps."""
    command.add_argument("--threads", type=positive, metavar="N", help="threads of a step (one per processor)")


def add_public_key(command: argparse.ArgumentParser) -> None:
    """Adds the option --key of commands that read signed files."""
    command.add_argument("--key", metavar="FILE", help="require a signature by this ed25519 public key (PEM)")


def add_no_cache(command: argparse.ArgumentParser) -> None:
    """Adds the option --no-cache of commands that compile."""
    told = "capture and compile again, without the cache on disk" + needs_compiler()
    command.add_argument("--no-cache", action=_NoCache, help=told)


class _NoCache(argparse.Action):
    """The action of --no-cache: turns the cache off for the whole process (base/files/cache.py)."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, *_: Any) -> None:
        os.environ["REPRO_MLIR_CACHE"] = "off"


def add_sizes(command: argparse.ArgumentParser) -> None:
    """Adds the option --size of commands that accept an ONNX model or a SavedModel."""
    command.add_argument(
        "--size",
        action="append",
        default=[],
        type=_size,
        metavar="NAME=N",
        help="the size of a dimension that the model leaves open; NAME is the dimension's name in an ONNX model, or "
        "<input>.<dimension> in a SavedModel; may be given again" + needs_compiler(),
    )


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"expected NAME=N, got {text!r}")
    return name, positive(number)


def read_program(path: str, sizes: Sequence[tuple[str, int]]) -> Program:
    """Returns the program in a file. `sizes` are the options --size, for an ONNX model or a SavedModel. Raises
    ReproError if the file cannot be read."""
    from repro_mlir.cli.file_kinds import ONNX, SAVED_MODEL, file_kind_of
    from repro_mlir.program import Program

    kind = file_kind_of(path)
    if kind is SAVED_MODEL:
        from repro_mlir.frontends.tensorflow.programs import load as load_saved_model

        return load_saved_model(path, sizes=dict(sizes))
    if kind is ONNX:
        from repro_mlir.frontends.onnx.programs import load

        return load(path, sizes=dict(sizes))
    refuse_sizes(path, sizes)
    return Program.load(path)


def refuse_sizes(path: str, sizes: Sequence[tuple[str, int]]) -> None:
    """Raises ReproError if there are `sizes`. Called for a file that is neither an ONNX model nor a SavedModel."""
    if sizes:
        raise ReproError(f"{path}: expected an ONNX model or a SavedModel with --size: others have fixed sizes")


@contextlib.contextmanager
def needed_packages() -> Iterator[None]:
    """A context manager that turns an ImportError for a package of the extra `serve` into a ReproError."""
    try:
        yield
    except ImportError as error:
        raise ReproError(
            f"models of transformers need more packages: {install_extra('serve', 'torch')} ({error})"
        ) from None
