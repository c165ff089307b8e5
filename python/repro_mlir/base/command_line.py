# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Code that the command lines of `repro` and of the runner share: option parsing, error messages and exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import enum
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn

from repro_mlir.base.errors import ReproError
from repro_mlir.base.hints import with_hint
from repro_mlir.base.near_names import did_you_mean
from repro_mlir.base.output_paths import refuse_inside_receipt
from repro_mlir.base.printing import foreign, is_standard_output, only_told, tell

_LONGEST = 2000
"""The maximum number of characters in a message, which may quote text from other sources."""


_LEAST_ADDRESS_SPACE = 256 << 20
"""The minimum address space in bytes."""


class Status(enum.IntEnum):
    """The exit status of a command that answers a question, such as `repro verify`; all other commands return 0."""

    RIGHT = 0
    WRONG = 1
    NO_ANSWER = 2
    UNDECIDED = 3


class Parser(argparse.ArgumentParser):
    """A parser that raises ReproError for invalid options, and OSError for errors of the output, which argparse would
    hide.

    An option must be written in full: an abbreviation would get another meaning as soon as a later version has another
    option that begins alike. Parsers of subcommands are of this class, too. The message for an unknown option, command
    or value names the nearest known one.
    """

    elsewhere = ""
    """The end of the message for an unknown option without a near name: where the user sets other values."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses arguments as argparse does, but raises ReproError for arguments that are left over."""
        given = sys.argv[1:] if args is None else [*args]
        self._check_options(given)
        options, rest = super().parse_known_args(given, namespace)
        if rest:
            self.error(f"unexpected argument {foreign(rest[0])}")
        return options, rest

    def _check_options(self, given: Sequence[str]) -> None:
        """Raises ReproError for the first unknown option. argparse would name a missing argument instead."""
        for each in given:
            name = each.partition("=")[0]
            # argparse takes a text with a blank as a value; the options after a command are those of its own parser.
            if each == "--" or (self._subparsers is not None and not each.startswith("-")):
                return
            if name.startswith("--") and " " not in each and name not in self._option_string_actions:
                near = did_you_mean(name, self._option_string_actions)
                self.error(f"unknown option {foreign(name)}{near or self.elsewhere}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        near = did_you_mean(value, known)
        raise argparse.ArgumentError(action, f"expected {_either(known)}, got {foreign(str(value))}{near}")

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Raises ReproError with the message and a hint to use --help."""
        raise ReproError(f"{message} (see {self.prog} --help)")


def _either(names: Sequence[str]) -> str:
    """Returns the names as text, such as "a, b or c"."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def positive(text: str) -> int:
    """Parses a positive integer, as an argparse `type`."""
    return _integer(text, 1)


def natural(text: str) -> int:
    """Parses an integer that is not negative, as an argparse `type`."""
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return value


def run_command(
    program: str, parse: Callable[[], argparse.Namespace], command: Callable[[argparse.Namespace], int]
) -> int:
    """Runs a command; returns the exit status.

    Status 1 is reserved for the answer `Status.WRONG` of a command such as `repro verify`, after its output was
    written. Any error that ends a command, including an internal error, prints one line on standard error and returns
    status 2. An interrupt returns 130; a closed pipe on standard output returns 141.

    Args:
      program: the program name that starts each message.
      parse: a function that returns the options; it may end the process with status 0, as --help does.
      command: a function of the options that returns 0 or a `Status`.
    """
    given: list[str] = []
    try:
        _open_standard_streams()
        _check_address_space()
        status = _answer(parse, command, given)
        sys.stdout.flush()
        return status
    except ReproError as error:
        return _fail(program, f"error: {with_hint(str(error), error.__traceback__, given)}")
    except KeyboardInterrupt:
        return _fail(program, "interrupted", 130)
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        _drop_output()
        return 141
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        reason = f"{place}{error.strerror or error}"
        return _fail(program, f"error: {with_hint(reason, error.__traceback__, given)}")
    except MemoryError:
        return _fail(program, "error: not enough memory: end other programs, or use a smaller model or batch")
    except SystemExit as error:
        if error.code in (None, 0):
            raise
        return _fail(program, f"error: the command ended early with SystemExit({error.code!r})")
    except BaseException as error:
        # Catches BaseException, because a panic in a Rust package does not raise an Exception.
        reason, place = foreign(str(error), 300), _place(error.__traceback__)
        report = "report this fault with the command and the versions that repro --version prints"
        return _fail(program, f"internal error: {type(error).__name__}: {reason} ({place}): {report}")


def _answer(
    parse: Callable[[], argparse.Namespace], command: Callable[[argparse.Namespace], int], given: list[str]
) -> int:
    """Parses the options, appends their texts to `given` and runs the command."""
    try:
        options = parse()
    except SystemExit:
        sys.stdout.flush()
        raise
    given += _texts(list(vars(options).values()))
    _check_outputs(options)
    try:
        with _streams(options):
            status = command(options)
    except SystemExit as error:
        # A user script that the command ran may have raised SystemExit. Its status must not be mistaken for the
        # command's answer.
        raise ReproError(f"the command ended early with SystemExit({error.code!r})") from None
    if status != 0 and not isinstance(status, Status):
        raise TypeError(f"expected the command to return 0 or a Status, got {status!r}")
    return status


def _texts(value: Any) -> list[str]:
    """Returns the texts in nested lists and tuples."""
    if isinstance(value, list | tuple):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def _streams(options: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager that keeps standard output free of other text if it receives JSON or a file."""
    if any(is_standard_output(each) for each in _outputs_of(options).values()):
        return only_told(sys.stderr)
    return only_told(sys.stdout) if getattr(options, "json", False) else contextlib.nullcontext()


def _outputs_of(options: argparse.Namespace) -> dict[str, str]:
    """Returns the paths of the output files and folders, by the name of the option."""
    given = vars(options)
    return {name: given[name] for name in _OUTPUTS if isinstance(given.get(name), str)}


_OUTPUTS = ("output", "outputs", "save", "html", "evidence", "programs")
"""The options that name output files or folders."""

_STANDARD_OUTPUT = "/dev/stdout"

_SAVED_MODEL = "saved_model.pb"
"""The file that marks a folder as a SavedModel."""


def _check_outputs(options: argparse.Namespace) -> None:
    """Replaces the output - by standard output. Raises ReproError if an output is an input of the command, lies in a
    receipt or in a SavedModel that is an input, or is the same file as another output."""
    given = vars(options)
    given |= {name: _STANDARD_OUTPUT for name, output in _outputs_of(options).items() if output == "-"}
    outputs = _outputs_of(options)
    files = [os.path.realpath(each) for each in outputs.values()]
    for file in files:
        if files.count(file) > 1 and (os.path.isfile(file) or not os.path.exists(file)):
            raise ReproError(f"{file}: expected one output in this file, got {files.count(file)}")
    for name, output in outputs.items():
        refuse_inside_receipt(output)
        for other, values in given.items():
            # `save` may equal `state`: the old state is replaced only after the new state is stored.
            if other in outputs or (name, other) == ("save", "state"):
                continue
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, str) and any(_is_or_holds(path, output) for path in _paths_in(value)):
                    raise ReproError(f"{output}: expected an output that is not an input, but this overwrites {value}")


def _paths_in(value: str) -> set[str]:
    """Returns the texts in the value of an option that may be paths: the value, and what follows a prefix, such as in
    cores:FILE or 0=cores:FILE,1=cpu."""
    parts = {value, *value.split(",")}
    return {part[at:] for part in parts for at in (0, *(i + 1 for i, each in enumerate(part) if each in ":="))}


def _is_or_holds(given: str, output: str) -> bool:
    try:
        if os.path.isdir(given):
            folder, place = os.path.realpath(given), os.path.realpath(output)
            return os.path.isfile(os.path.join(folder, _SAVED_MODEL)) and os.path.commonpath([folder, place]) == folder
        return os.path.samefile(given, output)
    except (OSError, ValueError):
        # One of the paths does not exist.
        return False


def _open_standard_streams() -> None:
    """Opens the null device for each of the descriptors 0 to 2 that is closed, so that no file opened later gets that
    number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # os.open returns the lowest free descriptor, which is `descriptor`.
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def _check_address_space() -> None:
    """Raises ReproError if a limit (ulimit -v) leaves too little address space for NumPy; otherwise OpenBLAS would end
    the process with status 1. Also limits OpenBLAS to one thread, because each thread needs more address space."""
    try:
        import resource
    except ImportError:
        # This system does not support resource limits.
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    if limit < _LEAST_ADDRESS_SPACE:
        raise ReproError(f"ulimit -v: expected at least {_LEAST_ADDRESS_SPACE >> 10:,} KiB, got {limit >> 10:,}")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _place(traceback: TracebackType | None) -> str:
    """Returns the file and line of the innermost frame. Does not read source files, as the traceback module would."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return "unknown place"
    return f"{os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"


def _fail(program: str, message: str, status: int = Status.NO_ANSWER) -> int:
    """Prints an error message, if standard error is writable, and returns `status`."""
    try:
        tell(f"{program}: {foreign(message, _LONGEST)}", stream=sys.stderr)
        sys.stderr.flush()
    except (OSError, ValueError, MemoryError):
        pass
    _drop_output()
    return status


def _drop_output() -> None:
    """Redirects standard output to the null device if it cannot be written: otherwise Python's flush at exit would
    fail and change the exit status."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):
            # Standard output is not backed by a file descriptor.
            pass
