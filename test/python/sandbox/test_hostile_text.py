# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs that crash, hang or exhaust a child process cause one clear error, and the next program can be read."""

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.cli.main import main
from repro_mlir.program import Program
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.sandbox import NoProgram, admit, compile_device, compile_native, import_module
from repro_mlir.sandbox.requests import _SERVER
from repro_mlir.sandbox_worker import work
from support.hostile import BEFORE_PARSING, DEEP, IN_THE_CHILD, NOT_STORED, TOO_LARGE, generic, program, slow_to_compile

DATA = to_bytes(program().decode())


def test_a_fault_of_the_child_says_nothing_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in our own code in the child process must not be blamed on the text, because a receipt could then count
    as wrong."""

    def fail(data: bytes, **options: int) -> bytes:
        raise AttributeError("ours")

    monkeypatch.setitem(work.WORK, "read", fail)
    monkeypatch.setattr(_SERVER, "exchange", lambda request, seconds, done: (0, work.perform(request), b""))
    with pytest.raises(ReproError, match="the program could not be read: AttributeError: ours") as error:
        admit(DATA)
    assert not isinstance(error.value, NoProgram)


@pytest.mark.parametrize("name", BEFORE_PARSING)
def test_limits_before_parsing(name: str) -> None:
    text, message = BEFORE_PARSING[name]
    start = time.process_time()
    with pytest.raises(ReproError, match=message):
        import_module(text, is_text=True)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", IN_THE_CHILD)
def test_the_child_takes_the_blow(name: str) -> None:
    text, message = IN_THE_CHILD[name]
    with pytest.raises(ReproError, match=message):
        import_module(text, is_text=True)
    assert examine(import_module(program(), is_text=True)).identity == examine(DATA).identity


@pytest.mark.parametrize("name", NOT_STORED)
def test_bytes_that_are_not_a_stored_program(name: str) -> None:
    data, message = NOT_STORED[name]
    with pytest.raises(NoProgram, match=message):
        admit(data)
    assert admit(DATA) == DATA


@pytest.mark.parametrize("name", TOO_LARGE)
def test_programs_that_are_too_large(name: str) -> None:
    """The error does not say that the text is wrong, because the text can be a valid program that exceeds the
    limits."""
    data, message = TOO_LARGE[name]
    with pytest.raises(ReproError, match=message) as error:
        admit(data)
    assert not isinstance(error.value, NoProgram)


def test_bytes_of_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_LIMITS", f"text_bytes={len(DATA)}")
    assert admit(DATA) == DATA
    monkeypatch.setenv("REPRO_MLIR_LIMITS", f"text_bytes={len(DATA) - 1}")
    with pytest.raises(ReproError, match=f"expected a program of at most {len(DATA) - 1} bytes, got {len(DATA)}"):
        admit(DATA)


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    text = program(before=f"// {'[' * DEEP}", location=f'loc("{"([{<" * 1000}" : 1 : 2)'.replace(" : ", ":"))
    assert b"([{<" in import_module(text, is_text=True)


def test_aliases_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 aliases expand to 2^64 elements. Reading them must take neither memory nor time in this process."""
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "read_seconds=3,memory_bytes=1G")
    aliases = "\n".join(["#a0 = [1]", *(f"#a{i} = [#a{i - 1}, #a{i - 1}]" for i in range(1, 64))])
    data = import_module(program(before=aliases, attributes="x = #a63, "), is_text=True)
    assert examine(data).identity == examine(DATA).identity


def test_deep_aliased_locations() -> None:
    """Aliases nest locations deeply, although the text has no nested brackets."""
    chain = "\n".join(['#l0 = loc("x")', *(f'#l{i} = loc(callsite("a" at #l{i - 1}))' for i in range(1, DEEP))])
    with pytest.raises(ReproError, match="ended by SIG"):
        import_module(program(before=chain, location=f"loc(#l{DEEP - 1})"), is_text=True)


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "memory_bytes=700M")
    rows = ", ".join(["1.5"] * 6_000_000)
    text = program(f"%c = arith.constant dense<[{rows}]> : tensor<6000000xf32>")
    with pytest.raises(ReproError, match=r"more than 0.68\S* GiB of memory|ended by SIG"):
        import_module(text, is_text=True)


def test_compile_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If compiling takes too long, the child process is ended and the error names the limit."""
    data = to_bytes(slow_to_compile().decode())
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "compile_seconds=1")
    start = time.monotonic()
    with pytest.raises(ReproError, match=r"could not be compiled for x86-64-v2 within 1 s \(see REPRO_MLIR_LIMITS"):
        compile_native(data, "x86-64-v2")
    assert time.monotonic() - start < 30
    monkeypatch.delenv("REPRO_MLIR_LIMITS")
    assert admit(DATA)


def test_artifacts_are_those_of_this_process() -> None:
    from repro_mlir.compilation.cpu import compile
    from repro_mlir.compilation.device_code import compile_data

    data = to_bytes(generic("affine_map<(i) -> (i)>").decode())
    assert compile_native(data, "x86-64-v2") == compile(data, "x86-64-v2")
    assert compile_device(data, "sm_75", False) == compile_data(data, "sm_75", False)
    with pytest.raises(NoProgram, match="the program cannot be compiled for x86-64-v9: "):
        compile_native(data, "x86-64-v9")


def test_programs_of_strangers_are_compiled_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was read from a file is compiled in a child process. This process compiles only programs that it
    has captured."""
    import numpy as np
    import repro_mlir
    from repro_mlir.base.numerics.tensors import TensorType
    from repro_mlir.compilation import cache, microcontroller
    from repro_mlir.execute.executable import check_runs

    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    kind = TensorType("a", "f32", (4,))
    own = Program(DATA, (kind,), (), (), 0, (np.zeros(4, np.float32),))
    own.save(tmp_path / "p.repro")
    loaded = Program.load(tmp_path / "p.repro")
    # The first call of `check_runs` compiles a program in this process, so the call is made before compilations are
    # recorded.
    check_runs("cpu:x86-64-v2")
    here: list[str] = []
    compiled = cache.compile
    monkeypatch.setattr(cache, "compile", lambda *a, **k: here.append(a[1]) or compiled(*a, **k))
    repro_mlir.compile(loaded, "cpu:x86-64-v2", 1)
    assert here == []
    repro_mlir.compile(own, "cpu:x86-64-v2", 1)
    assert here == ["x86-64-v2"]
    made = microcontroller.make_object
    monkeypatch.setattr(microcontroller, "make_object", lambda *a, **k: here.append("thumb") or made(*a, **k))
    library = microcontroller.compile(loaded, "step")
    assert here == ["x86-64-v2"]
    assert microcontroller.compile(own, "step") == library
    assert here == ["x86-64-v2", "thumb"]


def test_the_child_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child process inherits neither the environment nor the file descriptors of this process."""
    monkeypatch.setenv("SECRET_TOKEN", "1234")
    _SERVER.stop()
    secret, _ = os.pipe()
    os.set_inheritable(secret, True)
    admit(DATA)
    process = _SERVER._process
    assert process is not None
    assert b"SECRET_TOKEN" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    open_files = {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")}
    assert os.readlink(f"/proc/self/fd/{secret}") not in open_files
    os.close(secret)


def test_the_server_ends_with_its_caller() -> None:
    code = (
        "from repro_mlir.sandbox.requests import _SERVER, admit; import os, sys; "
        f"admit({DATA!r}); print(_SERVER._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    pid = int(found.stdout)
    deadline = time.monotonic() + 30
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "value", ["memory_bytes", "memory_bytes=-1", "memory_bytes=0", "speed=3", "memory_bytes=1Q", "=", "a=b=c"]
)
def test_limits_that_are_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("REPRO_MLIR_LIMITS", value)
    with pytest.raises(ReproError, match="REPRO_MLIR_LIMITS: expected entries such as memory_bytes=32G"):
        admit(DATA)


@pytest.mark.parametrize("command", ["inspect", "run"])
@pytest.mark.parametrize(
    "name", ["deep attributes", "deep negation", "division by zero", "not canonical", "zero bytes"]
)
def test_commands_on_text(command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hostile module gives one line of error and status 2."""
    (tmp_path / "p.mlir").write_bytes((BEFORE_PARSING | IN_THE_CHILD)[name][0])
    assert main([command, str(tmp_path / "p.mlir")]) == 2
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1 and told.err.startswith("repro: error: ")


@pytest.mark.parametrize("command", ["inspect", "run"])
@pytest.mark.parametrize("name", ["deep sums", "many splats", "text"])
def test_commands(command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hostile program file gives one line of error and status 2."""
    data, _ = (NOT_STORED | TOO_LARGE)[name]
    kind = {"name": "a", "element": "f32", "shape": [4]}
    signature = {"format": 2, "numerics": 1, "num_hyper_parameters": 0, "state": [kind], "inputs": [], "outputs": []}
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    with zipfile.ZipFile(tmp_path / "p.repro", "w") as archive:
        archive.writestr("program.repro", data)
        archive.writestr("signature.json", json.dumps(signature))
        archive.writestr("state.safetensors", len(header).to_bytes(8, "little") + header + bytes(16))
    assert main([command, str(tmp_path / "p.repro")]) == 2
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1 and told.err.startswith("repro: error: ")
