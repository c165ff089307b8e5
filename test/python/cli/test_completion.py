# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro completion: the script for bash completes commands, options, values and files; that for zsh has the same."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from repro_mlir.cli.main import main, make_parser
from repro_mlir.cli.parsers import walk

LINES = {
    "repro ver": {"verify"},
    "repro cert": {"certify-device"},
    "repro roofline ca": {"calibrate"},
    "repro train --nonf": {"--nonfinite-loss"},
    "repro train x.py --nonfinite-loss ": {"warn", "stop", "ignore"},
    # Bash replaces only the part of a word after its last colon.
    "repro train x.py --target cpu:aarch": {"aarch64", "aarch64-dotprod"},
    "repro train x.py --target=ref": {"reference"},
    "repro diff x.py --targets eager,refe": {"eager,reference"},
    "repro precision x.py --recipes bf16,mxfp": {"bf16,mxfp4", "bf16,mxfp6", "bf16,mxfp8"},
    "repro roofline predict --machine epyc": {"epyc-zen4", "epyc-zen5"},
    "repro roofline transformer mega": {"megatron-1t", "megatron-22b"},
    "repro completion ": {"bash", "zsh"},
    "repro train --steps ": set(),
    "repro cache ": set(),
    "repro train scr": {"script one.py"},
    "repro verify --script scr": {"script one.py"},
    "repro run --sav": {"--save"},
    "repro nothing --x": set(),
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash(capsys, tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "completion").write_text(capsys.readouterr().out)
    (tmp_path / "script one.py").touch()
    code = """
source ./completion
while IFS= read -r line; do
  COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
  _repro
  printf '%s\\n' "> $line" "${COMPREPLY[@]}"
done
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", code], input="\n".join(LINES) + "\n", capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0 and done.stderr == ""
    found: dict[str, set[str]] = {}
    for part in re.split(r"^> ", done.stdout, flags=re.M)[1:]:
        line, *completions = part.split("\n")
        found[line] = {each for each in completions if each}
    assert found == LINES


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_scripts_have_every_command_and_option(capsys, shell: str) -> None:
    assert main(["completion", shell, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["shell"] == shell
    for parser in walk(make_parser()):
        (flags,) = re.findall(rf"^ *'?{re.escape(parser.prog)}'?\) flags='([^']*)'", report["script"], flags=re.M)
        options = {each for action in parser._actions for each in action.option_strings}
        assert options - {"-h"} <= set(flags.split()), parser.prog


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(capsys, tmp_path: Path) -> None:
    main(["completion", "zsh"])
    (tmp_path / "_repro").write_text(capsys.readouterr().out)
    subprocess.run(["zsh", "-n", tmp_path / "_repro"], check=True)
