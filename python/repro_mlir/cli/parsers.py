# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads the commands and options of a parser of argparse, and the names that an option accepts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_NAMES, _IN_HELP = "accepted_names", "accepted_names_in_help"


def set_names(action: argparse.Action, names: Callable[[], Iterable[str]], in_help: bool = True) -> None:
    """Sets the function that returns the names which an option or argument accepts, for help and completion. Only these
    call the function, because an import that it needs would make every command slower.

    Args:
      in_help: whether the help lists the names.
    """
    setattr(action, _NAMES, names)
    setattr(action, _IN_HELP, in_help)


def names_of(action: argparse.Action) -> list[str]:
    """Returns the names that an option or argument accepts; an empty list if it accepts other values."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    names: Callable[[], Iterable[str]] | None = getattr(action, _NAMES, None)
    return [] if names is None else [*names()]


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
        if text is None or not getattr(action, _IN_HELP, False):
            return text
        names = names_of(action)
        # argparse inserts values for the sign % of a help text.
        return f"{text}: {', '.join(names)}".replace("%", "%%") if names else text
