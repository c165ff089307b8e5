# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The parsers of all commands: options in full, the nearest name in messages, and what the help lists."""

import argparse
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.base.command_line import Parser
from repro_mlir.cli.main import main, make_parser
from repro_mlir.cli.parsers import OTHER_VALUES, PATHS, actions_of, names_of, subcommands, takes_path, walk
from repro_mlir.precision import NAMED_RECIPES
from repro_mlir.roofline.machines import machine_names
from repro_mlir.roofline.transformer import PRESETS
from repro_mlir.runner.driver import LIBRARY_VARIABLE

ROOT = Path(__file__).resolve().parents[3]
PARSERS = {parser.prog: parser for parser in walk(make_parser())}


def failing(capsys, *arguments: str) -> str:
    """Runs a command that must fail, and returns its message."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err.removeprefix("repro: error: ").strip()


def test_every_command_has_a_parser() -> None:
    assert {"repro", "repro train", "repro doctor", "repro roofline transformer"} <= set(PARSERS)
    assert len(PARSERS) >= 24


@pytest.mark.parametrize("name", PARSERS)
def test_options_must_be_given_in_full(name: str) -> None:
    parser = PARSERS[name]
    assert isinstance(parser, Parser) and not parser.allow_abbrev
    for action in actions_of(parser):
        for option in action.option_strings:
            if option.startswith("--") and option[:-1] not in parser._option_string_actions:
                with pytest.raises(ReproError, match=f"unknown option {option[:-1]}: did you mean "):
                    parser.parse_args([option[:-1]])


def test_an_abbreviation_of_an_option_is_an_error(capsys) -> None:
    message = failing(capsys, "train", "x.py", "--steps", "1", "--microbatches", "5")
    assert message == "unknown option --microbatches: did you mean --microbatches-every? (see repro train --help)"


@pytest.mark.parametrize("option", ["--lr", "--rl", "--epochs-of-my-run"])
def test_an_option_without_a_near_name(capsys, option: str) -> None:
    told = failing(capsys, "train", "x.py", option, "0.1")
    script = "values such as the learning rate are set in the script"
    assert told == f"unknown option {option}: {script} (see repro train --help)"
    assert failing(capsys, "verify", "x", option, "1") == f"unknown option {option} (see repro verify --help)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "got trian: did you mean train? (see repro --help)"),
        (["verfy", "x"], "got verfy: did you mean verify? (see repro --help)"),
        (["roofline", "predcit"], "got predcit: did you mean predict? (see repro roofline --help)"),
        (["--versoin"], "unknown option --versoin: did you mean --version? (see repro --help)"),
        (["train", "x.py", "--stesp", "3"], "unknown option --stesp: did you mean --steps? (see repro train --help)"),
        (["train", "x.py", "--stesp=3"], "unknown option --stesp: did you mean --steps? (see repro train --help)"),
        (["train", "x.py", "y.py", "--steps", "3"], "unexpected argument y.py (see repro train --help)"),
        (["run", "x", "-z"], "unexpected argument -z (see repro run --help)"),
        (["train", "x.py", "--steps", "1", "--nonfinite-loss", "wran"], "got wran: did you mean warn?"),
        (["certify-device"], "(the target ptx-emulator of repro-mlir needs no driver)"),
        (["inspect", "none.repro"], "cannot read none.repro: No such file or directory: check the path"),
        (
            ["train", __file__, "--steps", "1", "--save", "none/file"],
            "cannot write none/file: No such file or directory: ",
        ),
        (["completion", "fish"], "expected bash or zsh, got fish (see repro completion --help)"),
        (["run", "x", "--target", "gpu"], ": did you mean cuda?"),
        (["run", "x", "--target", "x" * 100_000], "reference"),
        (["train", __file__, "--steps", "1", "--precision", "mxfp5"], ": did you mean mxfp"),
        (["roofline", "predict", "x", "--machine", "epyc-zen6"], ": did you mean epyc-zen"),
        (["roofline", "transformer", "lama3-70b", "--machine", "h100"], ": did you mean llama3-70b?"),
        (["roofline", "transformer", "llama3-8b", "--machine", "h100", "--precision", "pf8"], ": did you mean fp8?"),
        (["roofline", "transformer", "llama3-8b", "--machine", "h100", "--recompute", "ful"], ": did you mean full?"),
        (
            ["roofline", "transformer", "llama3-8b", "--machine", "h100", "--set", "memory_bandwith=2x"],
            ": did you mean memory_bandwidth?",
        ),
    ],
)
def test_messages_say_what_to_do(capsys, monkeypatch, arguments: list[str], message: str) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, "libnone.so")
    assert message in failing(capsys, *arguments)


def test_an_option_after_two_dashes_is_an_argument(capsys) -> None:
    assert "--none: expected a script" in failing(capsys, "train", "--steps", "1", "--", "--none")


def test_help_groups_the_commands_by_task(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    listed = re.findall(r"^  ([a-z][a-z-]+) +[a-z]", text, flags=re.M)
    assert [each for each in listed if each != "repro"] == [*subcommands(make_parser())]
    for task in ("train and run:", "verify:", "examine:", "this machine, other libraries:"):
        assert f"\n{task}\n" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_is_described(name: str) -> None:
    for action in actions_of(PARSERS[name]):
        assert action.help, action
    PARSERS[name].format_help()


def test_help_lists_the_names_that_options_accept(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["roofline", "transformer", "--help"])
    words = set(re.findall(r"[\w-]+", re.sub(r"-\n +", "-", capsys.readouterr().out)))
    assert {*PRESETS, "h100", "tpu-v5p", "selective", "optimizer", "mxfp8"} <= words
    assert not {"epyc-zen5", "apple-m2"} & words


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["roofline", "machines"], machine_names()),
        (["roofline", "presets"], [*PRESETS]),
        (["precision", "--list"], [*NAMED_RECIPES]),
    ],
)
def test_lists(capsys, arguments: list[str], names: list[str]) -> None:
    def output(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out

    lines = output(*arguments).splitlines()
    assert [line.split()[0] for line in lines][: len(names)] == names
    orders = [[*arguments, "--json"], *([["precision", "--json", "--list"]] if "--list" in arguments else [])]
    for order in orders:
        (found,) = json.loads(output(*order)).values()
        assert [each if isinstance(each, str) else each["name"] for each in found] == names


def test_examples_of_helps_are_commands() -> None:
    """The parsers take each line of an example; the commands that new users type first have examples."""
    found = {}
    for name, parser in PARSERS.items():
        text = (parser.epilog or "").replace("\\\n", "")
        found[name] = re.findall(r"^  (repro .*?)(?: +[#>|].*)?$", text, flags=re.M)
    for name in ("repro", "repro train", "repro compile", "repro serve", "repro verify"):
        assert len(found[name]) >= 2, name
    for line in {line for lines in found.values() for line in lines}:
        PARSERS["repro"].parse_args(shlex.split(line)[1:])


def test_each_value_is_known() -> None:
    """A value in a usage is a path, a name of a list, or another value; completion and the page of commands rely on
    it."""
    found = {each.metavar for parser in PARSERS.values() for each in actions_of(parser) if each.metavar}
    named = {each.metavar for parser in PARSERS.values() for each in actions_of(parser) if names_of(each)}
    assert not PATHS & OTHER_VALUES and found - named <= PATHS | OTHER_VALUES <= found


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        ("repro verify", "--microbatches", False),
        ("repro roofline predict", "--machine", True),
        ("repro roofline transformer", "transformer", True),
        ("repro roofline transformer", "--precision", False),
        ("repro serve", "--name", False),
        ("repro train", "--target", False),
        ("repro precision", "--recipes", True),
        ("repro diff", "runs", True),
    ],
)
def test_options_that_take_paths(command: str, name: str, expected: bool) -> None:
    (action,) = [each for each in actions_of(PARSERS[command]) if name in (*each.option_strings, each.dest)]
    assert takes_path(action) == expected


def test_names_are_those_that_the_option_accepts() -> None:
    """The names in help and completion are values that the command takes."""
    (machine,) = [each for each in actions_of(PARSERS["repro roofline transformer"]) if each.dest == "machine"]
    assert set(names_of(machine)) < set(machine_names())
    assert names_of(argparse.Action(["--x"], "x")) == []


def test_the_page_of_commands_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools" / "docs")
    tool = runpy.run_path(str(ROOT / "tools" / "docs" / "commands.py"))
    assert tool["PAGE"].read_text() == tool["render"](), "run `make docs`"
