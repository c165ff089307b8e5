# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The example examples/microcontroller, built by the commands of docs/guides/microcontroller.md."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "microcontroller"
STEPS = 40
REPRO = [sys.executable, "-c", "import sys; from repro_mlir.cli.main import main; sys.exit(main())"]
COMPILER = [sys.executable, "-m", "ziglang", "cc", "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"]
BARE = ["-O2", "-ffreestanding", "-fno-builtin", "-nostdlib", "-Wall", "-Wextra", "-Werror"]


def run(*command: object) -> str:
    """Runs a command; returns its output, which QEMU writes to stderr."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "made"
    run(*REPRO, "compile", EXAMPLE / "network.py", "--target", "cortex-m4f", "-o", folder)
    run(sys.executable, EXAMPLE / "network.py", folder / "batches.h")
    return folder


def test_the_image_trains_as_a_pc(made: Path) -> None:
    image = made / "image.elf"
    sources = (EXAMPLE / "main.c", EXAMPLE / "board.c", made / "network.o")
    run(*COMPILER, *BARE, f"-DSTEPS={STEPS}", "-I", made, "-T", EXAMPLE / "mps2-an386.ld", *sources, "-o", image)
    if not shutil.which("qemu-system-arm"):
        pytest.skip("qemu-system-arm is not installed (apt-get install qemu-system-arm)")
    semihosting = ("-semihosting-config", "enable=on,target=native")
    out = run("qemu-system-arm", "-M", "mps2-an386", "-nographic", *semihosting, "-kernel", image)
    trained = run(*REPRO, "train", EXAMPLE / "network.py", "--steps", STEPS)
    state = out.splitlines()[-1]
    assert state.startswith("state ")
    assert state.removeprefix("state ") in trained


def test_the_header_is_c_and_cpp(made: Path) -> None:
    for name, options in (("c", ["-std=c99", "-pedantic"]), ("cpp", ["-std=c++11"])):
        source = made / f"include.{name}"
        source.write_text('#include "network.h"\n#include "network.h"\n')
        run(*COMPILER, *BARE, *options, "-c", source, "-o", made / "include.o")
