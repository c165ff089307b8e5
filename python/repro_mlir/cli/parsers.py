# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads the commands and options of a parser of argparse, and the names that an option accepts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_NAMES = "accepted_names"

PATHS = frozenset(
    ["A B", *"BUNDLE DIR FILE FOLDER KEY LIBRARY OUT PAGE PROGRAM RECEIPT RESULTS RUN SCRIPT TERMS".split()]
)
"""The values in usages that are paths."""

OTHER_VALUES = frozenset(
    (
        "ADDRESS COMMAND FORMAT HEX M N N:N... NAME NAME=N NAME=TEXT NAME=V P PREFIX R=T,... S SECONDS TEXT [M:]NAME=V "
        "[M:]NAME=V,V"
    ).split()
)
"""The values in usages that are neither paths nor names that `set_names` gives."""


@dataclass(frozen=True)
class _Names:
    """The names that an option or argument accepts; the other attributes are arguments of `set_names`."""

    names: Callable[[], Iterable[str]]
    in_help: bool
    listed_by: str
    or_path: bool


def set_names(
    action: argparse.Action,
    names: Callable[[], Iterable[str]],
    in_help: bool = True,
    listed_by: str = "",
    or_path: bool = False,
) -> None:
    """Sets the function that returns the names which an option or argument accepts, for help and completion. Only these
    call the function, because an import that it needs would make every command slower.

    Args:
      in_help: whether the help lists the names.
      listed_by: the command that lists the names; "" if there is none.
      or_path: whether the path of a file that describes the same is accepted, too.
    """
    setattr(action, _NAMES, _Names(names, in_help, listed_by, or_path))


def names_of(action: argparse.Action) -> list[str]:
    """Returns the names that an option or argument accepts; an empty list if it accepts other values."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    known: _Names | None = getattr(action, _NAMES, None)
    return [] if known is None else [*known.names()]


def listed_by(action: argparse.Action) -> str:
    """Returns the command that lists the names which an option or argument accepts; "" if there is none."""
    known: _Names | None = getattr(action, _NAMES, None)
    return "" if known is None else known.listed_by


def takes_path(action: argparse.Action) -> bool:
    """Returns whether an option or argument accepts a path."""
    known: _Names | None = getattr(action, _NAMES, None)
    return action.metavar in PATHS if known is None else known.or_path


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Returns the parsers of the subcommands of a parser, by name."""
    found = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return {name: each for action in found for name, each in action.choices.items()}


def summaries(commands: argparse._SubParsersAction[Any]) -> dict[str, str]:
    """Returns the one-line summary of each subcommand, by name."""
    return {each.dest: each.help or "" for each in commands._choices_actions}


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields a parser and the parsers of all subcommands, in the order in which the help lists them."""
    yield parser
    for each in subcommands(parser).values():
        yield from walk(each)


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the options and arguments of a parser, without those that choose a subcommand or have no help."""
    return [
        each
        for each in parser._actions
        if not isinstance(each, argparse._SubParsersAction) and each.help is not argparse.SUPPRESS
    ]


class Help(argparse.RawDescriptionHelpFormatter):
    """Formats a help text with the lines of description and epilog as they are, and the names that options accept."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        known: _Names | None = getattr(action, _NAMES, None)
        if text is None or known is None or not known.in_help:
            return text
        names = names_of(action)
        # argparse inserts values for the sign % of a help text.
        return f"{text}: {', '.join(names)}".replace("%", "%%") if names else text
