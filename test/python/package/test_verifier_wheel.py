# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The wheel of repro-mlir-verify imports nothing from outside of it, and verifies receipts without the compiler."""

import ast
import base64
import contextlib
import csv
import functools
import hashlib
import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.cli.main import main, make_parser
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.program import read_signature
from repro_mlir.random import Generator, draws
from repro_mlir.sandbox_worker import work
from repro_mlir.verification import executors
from support import stored_programs
from support.stored_mutations import mutate
from test_import_graph import FOREIGN, USERS_OF_TENSORS, imports, sources

ROOT = Path(__file__).resolve().parents[3]
VERIFIER = runpy.run_path(str(ROOT / "tools" / "release" / "verifier.py"))
RECEIPTS = ROOT / "test" / "data" / "compatibility"
SIGNED = RECEIPTS / "signed.receipt"
MISSING = r"repro_mlir\.(\S+) needs the compiler: install repro-mlir \(docs/guides/install\.md\)"

OUTSIDE = ("jax", "jaxlib", "onnx", "tensorflow", "torch", "torch_mlir", "transformers")
"""Packages that are in the environment of the tests, and must not be imported."""

REMOVED = {
    *("aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp"),
    *("lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau"),
    *("telnetlib", "uu", "xdrlib"),
}
"""Modules of Python 3.11 that are not in 3.12 or 3.13 (PEP 594, PEP 632)."""


@functools.cache
def modules() -> dict[str, Path]:
    """Returns the Python files of the wheel by the names of their modules within the package."""
    paths = {path for path in VERIFIER["members"]().values() if path.suffix == ".py"}
    return {name: path for name, path in sources().items() if path in paths}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return VERIFIER["write_wheel"](tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the files of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    # An import of these packages fails.
    for name in OUTSIDE:
        (folder / f"{name}.py").write_text(f"raise AssertionError('{name} was imported')\n")
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", *arguments]
    environment["PYTHONPATH"] = str(installed)
    return subprocess.run(command, env=environment, cwd=installed.parent, capture_output=True, text=True)


def repro(installed: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run(installed, "-m", "repro_mlir", *map(str, arguments))


def test_each_room_is_in_one_wheel() -> None:
    """Whole rooms are in the wheel, except the modules that the table names and the commands."""
    found, listed = modules(), VERIFIER["NEED_MLIR"]
    without = {name.removesuffix(".py").replace("/", ".") for name in listed}
    for name in sources():
        room = name.split(".")[0]
        if room in VERIFIER["ROOMS"]:
            assert (name in found) != (name in without), name
        elif room != "cli" and name not in ("", "__main__"):
            assert name not in found, name
    for name in without:
        bindings = [each for each in imports() if each.importer == name and each.module.split(".")[0] in FOREIGN]
        assert any(each.kind == "module" for each in bindings), name


def test_imports_at_import_time_stay_in_the_wheel() -> None:
    known = {*sys.stdlib_module_names} - REMOVED | {"numpy", "blake3", "gmpy2", "packaging"}
    # These modules are imported only if the user has these packages.
    known_at = {
        *((name, "torch") for name in (*USERS_OF_TENSORS, "conformance.libraries.of_torchao")),
        *(("conformance.libraries.of_" + name, name) for name in ("gfloat", "ml_dtypes", "torchao")),
        ("base.tensors.typed_arrays", "ml_dtypes"),
    }
    for each in imports():
        if each.importer in modules() and each.kind == "module":
            root = each.module.split(".")[0]
            inside = each.module in modules() or each.module == ""
            assert inside if each.own else root in known or (each.importer, root) in known_at, each


def outside_imports() -> list[str]:
    """Returns the modules outside of the wheel that functions of the wheel's modules import."""
    return sorted(
        {
            each.module
            for each in imports()
            if each.importer in modules() and each.kind == "function" and each.own and each.module not in modules()
        }
        - {""}
    )


def test_imports_in_functions_name_the_package_that_is_needed(installed: Path) -> None:
    names = outside_imports()
    assert {"ir", "_mlir_libs", "script_runs.batches", "program.debugging"} <= {*names}
    code = f"""
import importlib, sys
import repro_mlir
from repro_mlir.base.compiler import CompilerMissing
for name in {names}:
    try:
        importlib.import_module("repro_mlir." + name)
    except CompilerMissing as error:
        assert isinstance(error, repro_mlir.ReproError) and isinstance(error, ImportError)
        print(error)
for statement in ("from repro_mlir import ir", "import repro_mlir; repro_mlir.Trainer"):
    try:
        exec(statement)
    except repro_mlir.ReproError as error:
        print(error)
"""
    done = run(installed, "-c", code)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == len(names) + 2
    assert all(re.fullmatch(MISSING, line) for line in told), told


def test_every_module_can_be_imported(installed: Path) -> None:
    names = [f"repro_mlir.{name}" for name in modules() if name and not name.endswith("__main__")]
    foreign = *USERS_OF_TENSORS, "base.tensors.typed_arrays", "conformance.libraries.of_"
    names = [name for name in names if not name.removeprefix("repro_mlir.").startswith(foreign)]
    code = f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
    code += "import repro_mlir; print(repro_mlir.__file__, repro_mlir.__version__)"
    done = run(installed, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(installed / "repro_mlir" / "__init__.py"), repro_mlir.__version__]


def test_the_syntax_is_that_of_the_oldest_python() -> None:
    project = message_from_bytes(VERIFIER["contents"]()[f"{VERIFIER['_stem']()}.dist-info/METADATA"])
    oldest = re.fullmatch(r">=3\.(\d+)", project["Requires-Python"])
    assert oldest is not None
    for path in modules().values():
        ast.parse(path.read_text(), feature_version=(3, int(oldest[1])))


def test_two_builds_give_the_same_bytes(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VERIFIER["write_wheel"](tmp_path).read_bytes() == wheel.read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    dated = VERIFIER["write_wheel"](tmp_path / "dated")
    assert dated.read_bytes() != wheel.read_bytes()
    with zipfile.ZipFile(dated) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_the_wheel_follows_the_specification(wheel: Path) -> None:
    name, version, _, tags = parse_wheel_filename(wheel.name)
    assert (name, str(version)) == ("repro-mlir-verify", repro_mlir.__version__)
    assert {str(tag) for tag in tags} == {"py3-none-any"}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None and len({*names}) == len(names)
        (record,) = [each for each in names if each.endswith("/RECORD")]
        rows = {row[0]: row[1:] for row in csv.reader(archive.read(record).decode().splitlines())}
        assert {*rows} == {*names} and rows.pop(record) == ["", ""]
        for each, (digest, size) in rows.items():
            data = archive.read(each)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={hashed}", len(data))
        metadata = message_from_bytes(archive.read(record.replace("RECORD", "METADATA")))
    needed = [Requirement(each) for each in metadata.get_all("Requires-Dist")]
    assert [each.name for each in needed] == ["numpy", "blake3", "gmpy2", "packaging", "cryptography"]
    assert [str(each.marker) for each in needed[:4]] == ["None"] * 4 and str(needed[4].marker) == 'extra == "sign"'


def test_verify(installed: Path) -> None:
    done = repro(installed, "verify", SIGNED, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["right"] and found["target"] == "reference"
    assert found["verified_steps"] == found["steps"] == 5


def test_verify_finds_a_wrong_step(installed: Path, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt"
    shutil.copytree(SIGNED, receipt)
    inputs = receipt / "inputs.bin"
    data = bytearray(inputs.read_bytes())
    data[-1] ^= 1
    inputs.write_bytes(data)
    done = repro(installed, "verify", receipt)
    assert done.returncode == 1 and done.stdout.startswith("WRONG"), done


def test_verify_without_what_windows_lacks(installed: Path) -> None:
    script = ROOT / "test" / "support" / "without_unix.py"
    done = run(installed, str(script), "verify", str(SIGNED), "--json")
    assert done.returncode == 0, done.stderr
    own = repro(installed, "verify", SIGNED, "--json")
    answers = [json.loads(each.stdout) | {"seconds": 0} for each in (done, own)]
    assert answers[0] == answers[1]
    assert done.stderr.count("programs are read without limits on time and memory") == 1 and own.stderr == ""


def test_the_example_of_the_guide(installed: Path) -> None:
    text = (ROOT / "docs" / "guides" / "verifier.md").read_text()
    (command, output) = re.findall(r"^```sh\nrepro (verify [^\n]*)\n```\n\n```text\n(.*?)^```", text, re.M | re.S)[0]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(installed)
    words = [sys.executable, "-P", "-m", "repro_mlir", *command.split()]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, output)


def test_one_step_in_python(installed: Path) -> None:
    text = (ROOT / "docs" / "guides" / "verifier.md").read_text()
    ((code, output),) = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, re.M | re.S)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    words = [sys.executable, "-P", "-c", code]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, output), done
    assert json.loads((SIGNED / "steps.jsonl").read_text().splitlines()[2])["loss"] in output
    receipt = repro_mlir.Receipt(SIGNED)
    state, inputs = receipt.state_after(2), receipt.inputs(3)
    copies = {name: array.copy() for name, array in state.items()}
    repro_mlir.interpret(receipt.program, state, *inputs)
    assert all(np.array_equal(state[name], copies[name]) for name in state)
    names = [kind.name for kind in receipt.program.state]
    for arguments, message in (
        (({}, *inputs), f"expected an array for each state tensor, got none for {names[0]}"),
        ((state, *inputs[1:]), "expected 4 inputs"),
        ((state | {names[0]: np.zeros(7, np.float32)}, *inputs), f"state {names[0]}: expected shape"),
        ((state, *inputs[:2], inputs[3], inputs[3]), r"input batch\[0\]: expected elements of f32"),
    ):
        with pytest.raises(ReproError, match=message):
            repro_mlir.interpret(receipt.program, *arguments)
    with pytest.raises(ReproError, match="expected a Program, got a str"):
        repro_mlir.interpret("program.repro", state)


def test_other_commands(installed: Path, tmp_path: Path) -> None:
    for name, file in (
        ("receipt", SIGNED),
        ("program", RECEIPTS / "program.repro"),
        ("bundle", RECEIPTS / "bundle.rmb"),
        ("program of a receipt", next((SIGNED / "programs").iterdir())),
    ):
        done = repro(installed, "inspect", file)
        assert done.returncode == 0 and done.stdout.startswith("program "), (name, done)
    told = repro(installed, "diff", SIGNED, SIGNED).stdout.splitlines()
    assert told[0] == "no difference" and told[1].startswith("note ") and "repro verify" in told[1]
    agreed = repro(installed, "dispute", SIGNED, SIGNED)
    assert agreed.returncode == 0, agreed
    for name in ("cyclonedx", "page"):
        files = [tmp_path / f"{name}.{number}" for number in range(2)]
        done = repro(installed, "attest", SIGNED, "--format", name, "-o", files[0])
        assert done.returncode == 0 == main(["attest", str(SIGNED), "--format", name, "-o", str(files[1])]), done
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_dispute_ends_at_one_operator(installed: Path) -> None:
    """One party flips a bit of an operator's result; the verdict is reached, and its evidence is a program."""
    code = f"""
import numpy as np
from repro_mlir.program import Program
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.verification.operators import OperatorGraph, Tracer

graph = OperatorGraph(Program.load({str(RECEIPTS / "program.repro")!r}))
target = next(each for each in graph.operators if each.name == "repro.fold")
given = [[np.full(kind.shape, 0.5, kind.dtype) for kind in graph.program.inputs]] * 2

def override(operator, values):
    return tuple(value + 1 for value in values) if operator == target else values

def run(**options):
    tracer = Tracer(graph, **options)
    results = lambda _, arrays: tracer.results(arrays)
    return RecordedRun(graph.step, given, results, tracer=lambda _: tracer, graph=graph)

provers = [LocalChannel(Prover(each)) for each in (run(), run(override=override))]
verdict = settle(*provers)
print(verdict.outcome, *verdict.wrong, verdict.step, verdict.operator == target)
program = verdict.evidence.extraction.program
print([each.name for each in OperatorGraph(program).operators].count("repro.fold"))
"""
    done = run(installed, "-c", code)
    assert done.stdout == "operator B 1 True\n1\n", done


def test_vectors(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    assert repro(installed, "vectors", "write", "-o", folder).returncode == 0
    group = "--groups", "fold/product"
    done = repro(installed, "vectors", "check", folder, "--library", "reference", *group, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["right"] == found["cases"] > 0


def test_dumps_without_what_windows_lacks(installed: Path, tmp_path: Path) -> None:
    script = str(ROOT / "test" / "support" / "without_unix.py")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "step1.npz", x=np.arange(4.0), y=np.full(3, ord(name), np.int32))
    done = run(installed, script, "diff", "--dumps", *(str(tmp_path / name) for name in "ab"), "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["equal"], found["different"]) == (1, False, 1), done
    same = run(installed, script, "diff", "--dumps", *[str(tmp_path / "a")] * 2)
    assert same.returncode == 0, same


def test_random_numbers(installed: Path) -> None:
    code = """
from repro_mlir import random
whole, part = (random.randn((4, 6), generator=random.Generator(seed=7), **local) for local in LOCALS)
assert (whole[0:2, 2:4] == part).all()
print(whole.tobytes().hex())
"""
    locals_ = "({}, {'local': (slice(0, 2), slice(2, 4))})"
    done = run(installed, "-c", code.replace("LOCALS", locals_))
    own = draws.randn((4, 6), generator=Generator(seed=7))
    assert done.stdout.strip() == own.tobytes().hex(), done


def test_check_resume(installed: Path, tmp_path: Path) -> None:
    """The command starts the script, which has no PyTorch to observe here."""
    script = tmp_path / "loop.py"
    script.write_text("print('a loop')\n")
    done = repro(installed, "check-resume", script, "--steps", 1)
    assert done.returncode == 2 and done.stderr.startswith("repro: error: "), done


def test_commands_of_the_compiler_are_named(installed: Path, tmp_path: Path) -> None:
    listed = re.findall(r"^  (\w\S*)  ", repro(installed, "--help").stdout.partition("\nverify:\n")[2], re.M)
    assert listed == ["verify", "attest", "dispute", "inspect", "diff", "check-resume", "doctor", "vectors"]
    for name in listed:
        done = repro(installed, name, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: repro {name} "), done
    for arguments in (["train", "x.py", "--steps", "1"], ["run-bundle"], ["compile", "--help"]):
        done = repro(installed, *arguments)
        assert done.returncode == 2 and not done.stdout
        assert done.stderr == (
            f"repro: error: repro {arguments[0]} is a command of repro-mlir, and only repro-mlir-verify is installed: "
            "install repro-mlir (docs/guides/install.md)\n"
        )
    for arguments, message in (
        (
            ["frobnicate"],
            "expected verify, attest, dispute, inspect, diff, check-resume, doctor or vectors, got frobnicate",
        ),
        (["verify", SIGNED, "--target", "foo"], "unknown target foo: use the target reference"),
        (
            ["verify", SIGNED, "--target", "cpu"],
            "the target cpu needs the compiler",
        ),
        (
            ["verify", RECEIPTS / "microbatches.receipt"],
            "a receipt of steps in microbatches needs the compiler",
        ),
        (
            ["verify", SIGNED, "--script", RECEIPTS / "training.py"],
            "--script needs the compiler: install",
        ),
        (["inspect", SIGNED, "--text"], "error: --text needs the compiler: install repro-mlir"),
        (
            ["attest", SIGNED, "--format", "page", "--machine", "h100", "-o", tmp_path / "page"],
            "error: --machine needs the compiler: install repro-mlir",
        ),
    ):
        done = repro(installed, *arguments)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done


def test_kinds_of_targets() -> None:
    """The verifier distinguishes the targets of the compiler from misspelled ones."""
    kinds = {re.split("[:+]", name)[0] for name in repro_mlir.targets()}
    assert kinds == {*executors._KINDS, "reference"}


def test_doctor(installed: Path) -> None:
    done = repro(installed, "doctor", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["faults"] == [] and found["cores"] >= 1
    assert [each["name"] for each in found["packages"]][:4] == ["numpy", "blake3", "gmpy2", "packaging"]
    assert all(each["version"] and each["range"] and each["fits"] for each in found["packages"])
    lines = repro(installed, "doctor").stdout.splitlines()
    assert lines[0].startswith("versions  repro-mlir-verify ") and "no faults" in lines
    assert any("the commands train, compile, " in line for line in lines)
    # One package is too old, and one is absent.
    code = """
import importlib.metadata, sys
from repro_mlir.cli.main import main
installed = importlib.metadata.version
def version(name):
    if name == "gmpy2":
        raise importlib.metadata.PackageNotFoundError(name)
    return "1.0" if name == "numpy" else installed(name)
importlib.metadata.version = version
sys.exit(main(["doctor"]))
"""
    done = run(installed, "-c", code)
    assert done.returncode == 1 and "FAULTS    gmpy2 is not installed: pip install 'gmpy2>=2.2'" in done.stdout, done
    assert "numpy 1.0 is outside of the tried versions >=1.24: pip install 'numpy>=1.24'" in done.stdout


def test_names_of_the_compiler(installed: Path) -> None:
    """Messages name the public function, not its module."""
    for name in ("compile", "Trainer", "diff", "targets"):
        done = run(installed, "-c", f"import repro_mlir; repro_mlir.{name}")
        assert f"\nrepro_mlir.base.compiler.CompilerMissing: repro_mlir.{name} needs the compiler: " in done.stderr


def test_options_that_need_the_compiler(installed: Path) -> None:
    for command, count in (("verify", 8), ("inspect", 3), ("attest", 1), ("diff", 6), ("dispute", 5)):
        text = " ".join(repro(installed, command, "--help").stdout.split())
        assert len(re.findall(r"needs? the compiler \(repro-", text)) == count, (command, text)
    assert "the compiler (repro-mlir)" not in make_parser().format_help()


@pytest.mark.parametrize("group", stored_programs.GROUPS[:6])
def test_sizes_are_those_of_the_compiler(group: str) -> None:
    """The reader of the interpreter finds the largest tensor and the constants that MLIR finds."""
    for text in stored_programs.programs(group):
        data = to_bytes(text)
        assert work._sizes(data) == work._sizes_of_body(work.read_program(data).body)


def test_a_damaged_program_is_refused_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MLIR's verifier, a program is refused before it runs, or only a check of the program fails."""
    monkeypatch.setattr(work, "has_compiler", lambda: False)
    program = Program.load(RECEIPTS / "program.repro")
    draw, outcomes = random.Random(5), {"refused": 0, "run": 0}
    for _ in range(200):
        data = mutate(program.data, draw)
        try:
            work.read(data, constant_bytes=1 << 20, tensor_bytes=1 << 20)
            found = read_signature(data, untrusted=True)
        except (ReproError, work.TooMuch):
            outcomes["refused"] += 1
            continue
        state, inputs = ([np.zeros(kind.shape, kind.dtype) for kind in kinds] for kinds in (found.state, found.inputs))
        names = [kind.name for kind in found.state]
        with contextlib.suppress(StepFailed):
            executors.compile_step(found, "reference", 1)(dict(zip(names, state, strict=True)), *inputs)
        outcomes["run"] += 1
    assert all(outcomes.values()), outcomes
