# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds the executor and the emulator, which need no LLVM, with sanitizers, and runs their tests and fuzzers.

AddressSanitizer and UndefinedBehaviorSanitizer: the readers of artifacts and of PTX on their corpus and its mutations,
the executor. ThreadSanitizer: the executor and its thread pool. Prints what each run did; the status is 1 where one
failed. With --seconds 0 the corpus alone is read.
"""

import argparse
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-sanitizers"
NATIVE = ROOT / "test" / "fuzz" / "native"
CORPUS = ROOT / "test" / "fuzz" / "corpus"
MEMORY = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
THREADS = ["-fsanitize=thread"]
COMMON = ["-std=c++17", "-O1", "-g1", "-UNDEBUG", "-D_GLIBCXX_ASSERTIONS", "-I", str(ROOT / "lib")]
# As lib/Emulator/CMakeLists.txt has it: numbers wrap, and registers are read as what an instruction takes them for.
EMULATOR = ["-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"]


def sources(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / "lib" / folder).glob("*.cpp") if path.stem != "OperationsGeneric")


def flags_of(source: Path) -> list[str]:
    """The flags that the build has for a source."""
    flags = list(EMULATOR) if source.parent.name == "Emulator" else []
    if source.stem.startswith("OperationsX86V"):
        flags.append(f"-march=x86-64-v{source.stem[-1]}")
    return flags


def build(name: str, files: list[Path], sanitizers: list[str], jobs: int) -> Path:
    """Compiles what has changed, and links a program."""
    compiler = shutil.which("c++") or "g++"
    cached = [shutil.which("ccache")] if shutil.which("ccache") else []
    folder = BUILD / ("threads" if sanitizers is THREADS else "memory")
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.parent.name}-{source.stem}.o"
        command = [*cached, compiler, *COMMON, *flags_of(source), *sanitizers, "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        return target

    with ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(compile_one, files))
    program = folder / name
    subprocess.run([compiler, *sanitizers, *map(str, objects), "-pthread", "-o", str(program)], check=True)
    return program


def run(program: Path, *arguments: object) -> bool:
    """Runs a program in its folder, where a fuzzer leaves its last input."""
    start = time.monotonic()
    command = [str(program), *map(str, arguments)]
    result = subprocess.run(command, cwd=program.parent, capture_output=True, text=True)
    seconds = time.monotonic() - start
    said = result.stdout.strip() if result.returncode == 0 else result.stderr
    print(f"{program.parent.name}/{program.name}: status {result.returncode} after {seconds:.0f} s: {said}", flush=True)
    return result.returncode == 0


def has_sanitizers() -> bool:
    """Whether the compiler of this machine has their libraries."""
    BUILD.mkdir(exist_ok=True)
    compiler = shutil.which("c++") or "g++"
    commands = [[compiler, *flags, "-x", "c++", "-", "-o", str(BUILD / "probe")] for flags in (MEMORY, THREADS)]
    return all(
        subprocess.run(c, input="int main() {}", text=True, capture_output=True).returncode == 0 for c in commands
    )


def main() -> int:
    """0 where every run succeeded, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="of each fuzzer")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if not has_sanitizers():
        print("not checked: the C++ compiler of this machine has no sanitizers")
        return 0
    standalone, runtime = NATIVE / "standalone.cpp", sources("Runtime")
    emulator = [*runtime, *sources("Emulator")]
    executor = [NATIVE / "executor.cpp", *runtime]
    passed = [
        run(build("executor", executor, THREADS, options.jobs)),
        run(build("executor", executor, MEMORY, options.jobs)),
    ]
    for name, files in (("artifact", runtime), ("ptx", emulator)):
        program = build(name, [NATIVE / f"{name}.cpp", standalone, *files], MEMORY, options.jobs)
        passed.append(run(program, options.seconds, *sorted((CORPUS / name).iterdir())))
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
