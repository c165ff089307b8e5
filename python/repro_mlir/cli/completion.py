# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro completion: prints a script with which a shell completes the commands, options and values of repro."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
from collections.abc import Iterable

from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command
from repro_mlir.cli.parsers import actions_of, names_of, subcommands, takes_path

_NOTES = """examples:
  source <(repro completion bash)                       # in ~/.bashrc
  repro completion zsh > ~/.zsh/completions/_repro      # a folder of $fpath
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro completion`."""
    summary = "print a script that completes commands in a shell"
    # The function reads the other commands when it runs, because some may be registered later.
    command = add_command(commands, "completion", functools.partial(_completion, commands), summary)
    command.epilog = _NOTES
    command.add_argument("shell", choices=("bash", "zsh"), help="the shell")


def _completion(commands: Commands, options: argparse.Namespace) -> int:
    cases = _Cases()
    cases.add("repro", commands.choices, ["--help", "--version"], files=False)
    for name, parser in commands.choices.items():
        cases.add_parser(f"repro {name}", parser)
    frame = _BASH if options.shell == "bash" else _ZSH
    text = frame.replace("@CHOICE@", cases.text())
    tell(*([json.dumps({"shell": options.shell, "script": text})] if options.json else text.splitlines()))
    return 0


class _Cases:
    """The branches of the shell's `case` statements."""

    def __init__(self) -> None:
        self._commands: list[str] = []
        self._after_command: list[str] = []
        self._after_option: list[str] = []

    def add_parser(self, command: str, parser: argparse.ArgumentParser) -> None:
        """Adds a command such as "repro roofline", with its options and subcommands."""
        self._commands.append(command)
        names, flags, files = [*subcommands(parser)], list[str](), False
        for name, each in subcommands(parser).items():
            self.add_parser(f"{command} {name}", each)
        for action in actions_of(parser):
            flags += action.option_strings
            known = names_of(action)
            if not action.option_strings:
                names += known
                files |= takes_path(action)
            elif action.nargs != 0:
                for option in action.option_strings:
                    place = shlex.quote(f"{command} {option}")
                    self._after_option.append(f"{place}) {_assigned(names=known, files=takes_path(action))};;")
        self.add(command, names, flags, files)

    def add(self, command: str, names: Iterable[str], flags: Iterable[str], files: bool) -> None:
        """Adds what can follow a command: names, options, and whether files can."""
        self._after_command.append(f"{shlex.quote(command)}) flags={shlex.quote(' '.join(flags))} ")
        self._after_command[-1] += f"{_assigned(names=names, files=files)};;"

    def text(self) -> str:
        """Returns the statements that set `names`, and `files` if files can follow, from `before`, `previous` and
        `current`. They are valid in bash and zsh."""
        commands = " | ".join(shlex.quote(each) for each in self._commands)
        lines = [
            "command=repro names= flags= files=",
            'for word in "${before[@]}"; do',
            '  case "$command $word" in',
            f'    {commands}) command="$command $word" ;;',
            "  esac",
            "done",
            'case "$command $previous" in',
            *(f"  {each}" for each in self._after_option),
            "  *)",
            '    case "$command" in',
            *(f"      {each}" for each in self._after_command),
            "    esac",
            "    if [[ $current == -* ]]; then names=$flags files=; fi",
            "    ;;",
            "esac",
        ]
        return "\n".join(f"  {line}" for line in lines)


def _assigned(names: Iterable[str], files: bool) -> str:
    text = " ".join(names)
    return (f"names={shlex.quote(text)} " if text else "") + ("files=1 " if files else "")


_BASH = r"""# Completion of repro for bash; `repro completion bash` printed this script.
_repro() {
  local before current previous command word names flags files line kept cut
  # COMP_WORDS splits a target such as cpu:x86-64-v3 at the colon, so the line is split again, at blanks.
  line=${COMP_LINE:0:COMP_POINT}
  read -ra before <<< "$line"
  current=
  if [[ $line != *[[:space:]] ]]; then
    current=${before[-1]}
    unset "before[-1]"
  fi
  (( ${#before[@]} )) || return
  previous=${before[-1]}
  before=("${before[@]:1}")
  if [[ $current == --*=* ]]; then
    previous=${current%%=*}
    current=${current#*=}
  fi
@CHOICE@
  # The names of a list such as bf16,mxfp8 are completed one after the other.
  kept=${current%"${current##*,}"}
  COMPREPLY=($(compgen -P "$kept" -W "$names" -- "${current#"$kept"}"))
  if [[ -n $files ]]; then
    compopt -o filenames 2> /dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
  fi
  # Bash replaces only the part of a word after its last colon.
  cut=${current%"${current##*:}"}
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -F _repro repro
"""

_ZSH = r"""#compdef repro
# Completion of repro for zsh; `repro completion zsh` printed this script.
_repro() {
  local current previous command word names flags files kept
  local -a before
  before=("${(@)words[2,CURRENT-1]}")
  current=${words[CURRENT]}
  previous=${words[CURRENT-1]}
  if [[ $current == --*=* ]]; then
    previous=${current%%=*}
    current=${current#*=}
    compset -P '*='
  fi
@CHOICE@
  # The names of a list such as bf16,mxfp8 are completed one after the other.
  if [[ $current == *,* ]]; then compset -P '*,'; fi
  compadd -- ${=names}
  if [[ -n $files ]]; then _files; fi
}
if [[ $funcstack[1] == _repro ]]; then _repro "$@"; else compdef _repro repro; fi
"""
