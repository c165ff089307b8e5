# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds the package with sanitizers and runs tests and fuzzers with it (docs/contributors/fuzzing.md).

AddressSanitizer and UndefinedBehaviorSanitizer check all of our C++, linked with the released libraries of LLVM.
ThreadSanitizer checks the executor and its thread pool. Prints the result of each run; exits with 1 if one failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-sanitizers"
OBJECTS = BUILD / "package"
"""The build tree of the instrumented package."""
PACKAGES = BUILD / "packages"
"""A copy of the package that `make build` makes, in which instrumented files replace the originals."""
REPORTS = BUILD / "reports"
SOURCES = ROOT / "tools" / "sanitizers"
NATIVE = ROOT / "test" / "fuzz" / "native"
CORPUS = ROOT / "test" / "fuzz" / "corpus"

# All C++ sources, and the scripts that build and check them.
CHECKED = ["lib", "dialects", "python/*.cpp", "CMakeLists.txt", "**/CMakeLists.txt", "test/CAPI", "test/Runtime"]
CHECKED += ["test/fuzz/native", "tools/sanitizers", "tools/build.py"]

# The check `vptr` is disabled because it needs RTTI, and LLVM is built without RTTI.
MEMORY = ["-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
THREADS = ["-fsanitize=thread"]
COMMON = ["-std=c++17", "-O1", "-g1", "-UNDEBUG", "-D_GLIBCXX_ASSERTIONS", "-I", str(ROOT / "lib")]
# Undefines a macro of the compiler. If the macro were defined, LLVM's headers would poison memory that LLVM's
# libraries, which are not instrumented, use again.
HEADERS_AS_IN_LLVM = "-U__SANITIZE_ADDRESS__"
# As in lib/Emulator/CMakeLists.txt: integers wrap, and the emulator's instructions read registers as values of other
# types.
EMULATOR = ["-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"]

# The tests that run our C++ from Python. test/python/sandbox is excluded, because AddressSanitizer does not work with a
# limited address space; test/fuzz covers the readers of the sandbox.
PYTHON_TESTS = [
    "fuzz",
    "Codegen",
    *(f"python/{name}" for name in ("compilation", "differential", "execute", "program")),
]


class Machine:
    """The compilers of this machine, and whether they support the sanitizers."""

    def __init__(self) -> None:
        BUILD.mkdir(exist_ok=True)
        self.compiler = shutil.which("c++") or "g++"
        self.has_sanitizers = self._links(self.compiler, MEMORY) and self._links(self.compiler, THREADS)
        clang = shutil.which("clang++")
        entry = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }'
        self.fuzzer = clang if clang and self._links(clang, ["-fsanitize=fuzzer", *MEMORY], entry) else None
        """A compiler with libFuzzer."""

    def _links(self, compiler: str, flags: list[str], source: str = "int main() {}") -> bool:
        command = [compiler, *flags, "-x", "c++", "-", "-o", str(BUILD / "probe")]
        return subprocess.run(command, input=source, text=True, capture_output=True).returncode == 0

    def library(self, name: str) -> str:
        """Returns the path of a library that belongs to the compiler."""
        command = [self.compiler, f"-print-file-name={name}"]
        return str(Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()).resolve())


def has_changed(revision: str) -> bool:
    """Returns whether C++ files have changed since the last common commit with a revision; also True if git does not
    have the revision."""
    command = ["git", "diff", "--quiet", "--merge-base", revision, "--", *CHECKED]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL).returncode != 0


# Building -------------------------------------------------------------------------------------------------------------


def build_package(jobs: int, sample: bool) -> Path:
    """Builds, with sanitizers, the programs that lit runs and the package's own libraries; if `sample`, only repro-opt
    and the compiler library.

    Returns the folder with the static libraries.
    """
    flags = " ".join([*MEMORY, HEADERS_AS_IN_LLVM, "-g1"])
    command = [sys.executable, str(ROOT / "tools" / "build.py"), "--folder", str(OBJECTS), "--jobs", str(jobs)]
    libraries = "python_packages/repro_mlir/_mlir_libs"
    names = [] if sample else sorted(p.name for p in (ROOT / "build" / libraries).iterdir() if p.suffix == ".so")
    for target in ("repro-opt", "ReproNativeTests", *(f"{libraries}/{name}" for name in names)):
        command += ["--target", target]
    definitions = {"CMAKE_CXX_FLAGS": flags, "CMAKE_C_FLAGS": flags}
    subprocess.run([*command, "--", *(f"-D{name}={value}" for name, value in definitions.items())], check=True)
    shutil.rmtree(PACKAGES, ignore_errors=True)
    for source in (ROOT / "build" / "python_packages").rglob("*"):
        place = source.relative_to(ROOT / "build" / "python_packages")
        if not source.is_dir():
            (PACKAGES / place).parent.mkdir(parents=True, exist_ok=True)
            instrumented = OBJECTS / "python_packages" / place
            (PACKAGES / place).symlink_to(instrumented if instrumented.exists() else source.resolve())
    return OBJECTS / "lib"


def sources(folder: str) -> list[Path]:
    """Returns the C++ sources of a folder of lib, except the emulator's operations for processors other than this
    one."""
    return sorted(path for path in (ROOT / "lib" / folder).glob("*.cpp") if path.stem != "OperationsGeneric")


def flags_of(source: Path) -> list[str]:
    """Returns the additional flags with which the build compiles a source."""
    flags = list(EMULATOR) if source.parent.name == "Emulator" else []
    if source.stem.startswith("OperationsX86V"):
        flags.append(f"-march=x86-64-v{source.stem[-1]}")
    return flags


def build(program: Path, files: list[Path], compiler: str, sanitizers: list[str], jobs: int) -> Path:
    """Compiles the sources among `files`, with ccache if it is installed, and links the program. Static libraries are
    linked as they are."""
    cached = [shutil.which("ccache")] if shutil.which("ccache") else []
    program.parent.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        if source.suffix == ".a":
            return source
        target = program.parent / f"{source.parent.name}-{source.stem}.o"
        command = [*cached, compiler, *COMMON, *flags_of(source), *sanitizers, "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        return target

    with ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(compile_one, files))
    subprocess.run([compiler, *sanitizers, *map(str, objects), "-pthread", "-o", str(program)], check=True)
    return program


# Running --------------------------------------------------------------------------------------------------------------


def execute(command: list[object], folder: Path, environment: dict[str, str]) -> tuple[int, str, list[str]]:
    """Runs a command. Returns its exit status, its output, and the reports of sanitizers from all its processes."""
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir()
    result = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.returncode, result.stdout, [path.read_text(errors="replace") for path in sorted(REPORTS.iterdir())]


def run(name: str, command: list[object], folder: Path = ROOT, **environment: str) -> bool:
    """Runs a command and prints the result; returns whether it succeeded without a report of a sanitizer."""
    start = time.monotonic()
    status, output, reports = execute(command, folder, environment)
    passed = status == 0 and not reports
    said = (output.strip().splitlines() or [""])[-1] if passed else "\n".join([output, *reports])
    print(f"{name}: status {status} after {time.monotonic() - start:.0f} s: {said}", flush=True)
    return passed


def check_native(machine: Machine, archives: Path, seconds: int, jobs: int, sample: bool) -> list[bool]:
    """Runs programs without Python that test the executor and the readers of artifacts and PTX. Returns, for each run,
    whether it succeeded."""
    executor, runtime = NATIVE / "executor.cpp", archives / "libReproRuntime.a"
    memory, threads = BUILD / "memory", BUILD / "threads"
    passed = [
        run("threads", [build(threads / "executor", [executor, *sources("Runtime")], machine.compiler, THREADS, jobs)]),
        run("executor", [build(memory / "executor", [executor, runtime], machine.compiler, MEMORY, jobs)]),
    ]
    for name, part in (("artifact", "Runtime"), ("plan", "Runtime"), ("ptx", "Emulator")):
        harness, inputs = NATIVE / f"{name}.cpp", sorted((CORPUS / name).iterdir())
        if machine.fuzzer and not sample:
            files = [harness, *sources("Runtime"), *(sources(part) if part != "Runtime" else [])]
            flags = [*MEMORY, "-fsanitize=fuzzer"]
            program = build(BUILD / "fuzzer" / name, files, machine.fuzzer, flags, jobs)
            (found := BUILD / "fuzzer" / f"{name}-found").mkdir(exist_ok=True)
            command = [program, f"-max_total_time={seconds}", "-rss_limit_mb=4096", found, CORPUS / name]
            passed.append(run(f"{name}, libFuzzer", command, program.parent))
        else:
            files = [harness, NATIVE / "standalone.cpp", archives / f"libRepro{part}.a", runtime]
            program = build(memory / name, files, machine.compiler, MEMORY, jobs)
            passed.append(run(name, [program, seconds, *inputs], program.parent))
    return passed


def check_package(machine: Machine, jobs: int, programs: int, sample: bool) -> list[bool]:
    """Runs lit, random programs and, unless `sample`, the Python tests with the instrumented package. Returns, for each
    run, whether it succeeded."""
    options = BUILD / "options.so"
    define = f'-DREPORTS="{REPORTS / "report"}"'
    subprocess.run(
        ["cc", "-shared", "-fPIC", define, str(SOURCES / "options.c"), "-o", str(options), "-ldl"], check=True
    )
    # The libraries must be preloaded: Python does not link the C++ library, in which AddressSanitizer looks up
    # functions at startup.
    preloaded = [str(options), *map(machine.library, ("libasan.so", "libubsan.so", "libstdc++.so.6"))]
    environment = {
        "PYTHONPATH": str(PACKAGES),
        "LD_PRELOAD": ":".join(preloaded),
        "REPRO_MLIR_LIMITS": "memory_bytes=4194304T,read_seconds=600,compile_seconds=3600",
        "REPRO_MLIR_CACHE": "off",
    }
    tools = {
        "REPRO_PACKAGES": str(PACKAGES),
        "REPRO_NATIVE_TESTS": str(OBJECTS / "native_tests"),
        "REPRO_TEST_TIMEOUT": "600",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    # mistakes.c contains deliberate errors. If the sanitizers did not report them, a run without reports would mean
    # nothing.
    mistakes = BUILD / "mistakes.so"
    subprocess.run(["cc", "-shared", "-fPIC", *MEMORY, str(SOURCES / "mistakes.c"), "-o", str(mistakes)], check=True)
    for name, expected in (("write_behind", "heap-buffer-overflow"), ("shift_negative", "left shift of negative")):
        call = f"import ctypes; ctypes.CDLL({str(mistakes)!r}).{name}(8)"
        _, _, reports = execute([sys.executable, "-c", call], ROOT, environment)
        if not any(expected in report for report in reports):
            print(f"expected a report of {expected}, got {reports}")
            return [False]
    passed = [run("lit", [Path(sys.executable).parent / "lit", f"-j{jobs}", "-q", "test"], **tools)]
    first = ["--first", 30_000, "--count", programs]
    passed.append(run("programs", [sys.executable, "test/fuzz/semantic.py", *first], **environment))
    if not sample:
        tests = [f"test/{name}" for name in PYTHON_TESTS]
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "worksteal", *tests]
        passed.append(run("tests", pytest, **environment))
    return passed


def main() -> int:
    """Builds and runs everything; returns 0 if every run succeeded, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", action="store_true", help="what CI takes: the compiler alone, by lit and programs")
    parser.add_argument("--seconds", type=int, default=60, help="of each reader's mutations")
    parser.add_argument("--programs", type=int, default=100, help="random ones")
    parser.add_argument("--since", metavar="REVISION", help="runs only if C++ files differ from it, or git lacks it")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.since and not has_changed(options.since):
        print(f"not checked: no C++ file differs from {options.since}")
        return 0
    machine = Machine()
    if not machine.has_sanitizers:
        print("not checked: the C++ compiler of this machine has no sanitizers")
        return 0
    archives = build_package(options.jobs, options.sample)
    passed = check_native(machine, archives, options.seconds, options.jobs, options.sample)
    passed += check_package(machine, options.jobs, options.programs, options.sample)
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
