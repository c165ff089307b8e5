# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the targets "cores:<machine>", and the simulator with a plan made by hand."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.cli.main import main
from repro_mlir.compilation import cores
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.cores import CoresBackend, compile_for
from repro_mlir.execute.executor import describe
from repro_mlir.program import Program
from repro_mlir.roofline.cores import map_step
from support import handmade
from support.cores import core_plan, machine
from support.predicted import product, program_of
from support.small_script import SMALL_SCRIPT
from support.target_checks import check_target

PLAN = """
#local = #cores.memory<local>
#id = affine_map<(i) -> (i)>

func.func private @add(%x: memref<8xf32> {launch.access = #launch<access read>},
    %y: memref<8xf32> {launch.access = #launch<access read|write>}, %scratch: memref<?xi8>, %error: memref<1xi64>,
    %begin: index, %end: index) attributes {cores.cycles = 80} {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  }
  return
}

cores.plan @main machine "tiny-2x2" states(%s: memref<8xf32> {repro.name = "s"})
    inputs(%x: memref<8xf32> {repro.name = "x"}) outputs(%y: memref<8xf32> {repro.name = "y"})
    arena(%a: memref<32xi8>) messages [] {
  cores.program at [1, 1] scratch [256, 64] error 0 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[64] : memref<1024xi8, #local> to memref<8xf32, #local>
    %m = launch.view %local[128] : memref<1024xi8, #local> to memref<8xf32, #local>
    %0 = cores.copy %s to %l : memref<8xf32> to memref<8xf32, #local>
    %1 = cores.copy %x to %m : memref<8xf32> to memref<8xf32, #local>
    cores.wait %0
    cores.wait %1
    cores.run @add(read %l, read|write %m) : memref<8xf32, #local>, memref<8xf32, #local>
    %2 = cores.copy %m to %s : memref<8xf32, #local> to memref<8xf32>
    %3 = cores.send %m to [[0, 0]] at 64 counter 0 : memref<8xf32, #local>
    cores.wait %2
    cores.wait %3
  }
  cores.program at [0, 0] scratch [256, 0] error 0 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.acquire 0 count 1
    %l = launch.view %local[64] : memref<1024xi8, #local> to memref<8xf32, #local>
    %0 = cores.copy %l to %y : memref<8xf32, #local> to memref<8xf32>
    cores.wait %0
  }
}
"""


def arrays() -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    return [np.arange(8, dtype=np.float32)], [np.full(8, 0.1, np.float32)], [np.zeros(8, np.float32)]


def test_a_plan_made_by_hand() -> None:
    backend = CoresBackend(core_plan(PLAN))
    assert [(kind.name, kind.shape) for kind in (*backend.states, *backend.inputs, *backend.outputs)] == [
        ("s", (8,)),
        ("x", (8,)),
        ("y", (8,)),
    ]
    states, inputs, outputs = arrays()
    want = states[0]
    for _ in range(2):
        want = want + inputs[0]
        backend.run(states, inputs, outputs)
        assert states[0].tobytes() == outputs[0].tobytes() == want.tobytes()
        report = backend.report
        # Cycles of 10 ns: 20 of a call, 80 of the kernel.
        assert report["kernels"] == [{"name": "add", "runs": 1, "seconds": pytest.approx(1e-6)}]
        assert [core["at"] for core in report["cores"]] == [[1, 1], [0, 0]]
        assert report["bounds"]["compute"] == report["cores"][0]["run"]
        assert max(report["bounds"].values()) == report["bound_seconds"] <= report["seconds"]
        (channel,) = (link for link in report["links"] if link["kind"] == "channel")
        assert channel["bytes"] == 4 * 32
        assert "timeline" not in report
    backend.timeline = True
    backend.run(states, inputs, outputs)
    timeline = backend.report["timeline"]
    assert {each["kind"] for each in timeline} == {"run", "synchronize", "wait", "transfer"}
    assert max(each["end"] for each in timeline) == backend.report["seconds"]


def test_an_error_of_the_plan() -> None:
    late = PLAN.replace("    cores.wait %1\n", "").replace(
        "    cores.wait %2\n", "    cores.wait %1\n    cores.wait %2\n"
    )
    backend = CoresBackend(core_plan(late))
    with pytest.raises(
        ReproError, match=r"the core plan is wrong: race: core \[1, 1\], op 3 \(run add\) reads byte 128"
    ):
        backend.run(*arrays())
    with pytest.raises(ValueError, match="not a core plan"):
        CoresBackend(b"other bytes")
    with pytest.raises(ValueError, match="damaged core plan"):
        CoresBackend(core_plan(PLAN)[:-1])


def test_it_gives_the_bits_of_the_cpu() -> None:
    check_target("cores:tiny-2x2")


def test_a_machine_file(tmp_path: Path) -> None:
    program, seconds = handmade.program(), []
    for clock in (50_000_000, 10_000_000):
        path = machine(tmp_path, core={"clock_hz": clock})
        # The cached plan is that of the file's content.
        backend = CoresBackend(cores.cached_compile(program.data, cores.read_machine(path)))
        state = program.initial_state()
        backend.run([state[kind.name] for kind in program.state], *_arguments(program))
        seconds.append(backend.report["seconds"])
    assert seconds[1] > 1.5 * seconds[0]
    executable = repro_mlir.compile(program, f"cores:{path}")
    state = program.initial_state()
    with pytest.raises(StepFailed, match="index out of range"):
        executable(state, *handmade.steps(1)[0][:2], 3)


NUMBER = '{"kind": "cores", "extends": "tiny-2x2", "core": {"data_bytes": {"value": %s, "source": "of this test"}}}'
NO_DRAM = (
    '{"kind": "cores", "extends": "tiny-2x2", "dram": {"bytes": {"value": 0, "source": "none"}, '
    '"interleave_bytes": {"value": 0, "source": "none"}, "channels": []}}'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected JSON"),
        ("[" * 60000, "expected at most 8 nested objects"),
        ("[" * (1 << 20), "expected at most 65536 bytes"),
        ('{"extends": "x86-64-v3"}', "extends: expected one of tiny-2x2, "),
        ('{"kind": "cores", "extends": "wrong.json"}', "extends: expected one of tiny-2x2, "),
        (NUMBER % -4096, "core.data_bytes: expected a whole number from 1024 to 1073741824, got -4096"),
        (NUMBER % "1e999", "core.data_bytes: expected a whole number from 1024 to 1073741824, got inf"),
        (NUMBER % "NaN", "Invalid JSON value"),
        (NO_DRAM, "expected a machine with DRAM"),
    ],
    ids=["empty", "deep", "large", "cpu", "itself", "negative", "infinite", "nan", "no-dram"],
)
def test_a_wrong_machine_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ReproError, match=message) as found:
        repro_mlir.compile(handmade.program(), f"cores:{path}")
    assert "\n" not in str(found.value)


def _arguments(program: repro_mlir.Program) -> tuple[list[np.ndarray], list[np.ndarray]]:
    inputs = [np.asarray(value, kind.dtype) for value, kind in zip(handmade.steps(1)[0], program.inputs, strict=True)]
    return inputs, [kind.empty() for kind in program.outputs]


def test_names() -> None:
    names = [name for name in cores.machines() if name != "cortex-m4f"]
    assert [f"cores:{name}" for name in names] == [each for each in repro_mlir.targets() if each.startswith("cores:")]
    for name in ("cortex-m4f", "cores:cortex-m4f"):
        with pytest.raises(ReproError, match="got a microcontroller: repro compile --target cortex-m4f writes"):
            repro_mlir.compile(handmade.program(), name)
    with pytest.raises(ReproError, match=r"unknown target .cores:spinaker2.*did you mean cores:spinnaker2"):
        repro_mlir.compile(handmade.program(), "cores:spinaker2")
    with pytest.raises(ReproError, match=r"nowhere\.json"):
        repro_mlir.compile(handmade.program(), "cores:nowhere.json")


def test_the_commands_of_receipts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Receipts of a CPU and of many cores agree; a receipt with another learning rate is found."""
    pytest.importorskip("torch")
    script, other = tmp_path / "script.py", tmp_path / "other.py"
    script.write_text(SMALL_SCRIPT.replace("{options}", "{}"))
    other.write_text(script.read_text().replace("lr=0.1", "lr=0.2"))
    small = machine(tmp_path, core={"data_bytes": 2048})
    cpu, many, wrong = (str(tmp_path / f"{name}.receipt") for name in ("cpu", "many", "wrong"))
    target = ["--target", "cores:tiny-2x2"]
    for text, options in ((script, ["--receipt", cpu]), (script, ["--receipt", many, *target])):
        assert main(["train", str(text), "--steps", "2", *options]) == 0
    assert main(["train", str(other), "--steps", "2", "--receipt", wrong, "--target", f"cores:{small}"]) == 0
    capsys.readouterr()

    def answered(*command: str) -> tuple[int, dict[str, Any]]:
        status = main([*command, "--json"])
        return status, json.loads(capsys.readouterr().out)

    for receipt, options in ((cpu, target), (many, []), (wrong, target)):
        assert answered("verify", receipt, *options)[0] == 0
    assert answered("diff", cpu, many)[0] == answered("dispute", cpu, many, *target)[0] == 0
    status, found = answered("diff", many, wrong)
    assert (status, found["step"]) == (1, 1)
    status, found = answered("dispute", many, wrong, "--terms", cpu, *target)
    assert (status, found["wrong"], found["step"]) == (1, ["B"], 1)


def test_run_on_a_machine_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, inputs = tmp_path / "step.repro", tmp_path / "inputs.npz"
    small = machine(tmp_path, core={"data_bytes": 2048})
    handmade.program().save(program)
    names = [kind.name for kind in handmade.program().inputs]
    np.savez(inputs, **dict(zip(names, _arguments(handmade.program())[0], strict=True)))
    run = ["run", str(program), "--inputs", str(inputs), "--json", "--target"]
    hashes = set()
    for target in ("cpu", f"cores:{small}"):
        assert main([*run, target]) == 0
        hashes.add(json.loads(capsys.readouterr().out)["state_hash"])
    assert len(hashes) == 1
    before = Path(small).read_text()
    assert main([*run, f"cores:{small}", "--save", small]) == 2
    assert "this overwrites cores:" in capsys.readouterr().err and Path(small).read_text() == before


def test_a_relative_path_for_a_program_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child process that compiles such a program has another current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRO_MLIR_CACHE", "off")
    machine(tmp_path, core={"clock_hz": 50_000_000})
    handmade.program().save("step.repro")
    received = Program.load("step.repro")
    assert received.untrusted
    executable = repro_mlir.compile(received, "cores:machine.json")
    with pytest.raises(ReproError, match="run a step first"):
        _ = executable.report
    executable(received.initial_state(), *handmade.steps(1)[0])
    assert executable.report["seconds"] > 0
    assert map_step(received, "machine.json").data["machine"] == "machine.json"


def test_a_machine_file_is_read_once(tmp_path: Path) -> None:
    """A later change of the file changes neither the plan nor its key in the cache."""
    program, level = handmade.program(), native_level()
    path = machine(tmp_path, core={"clock_hz": 50_000_000})
    read = cores.read_machine(path)
    plan = cores.compile(program.data, read, level)
    machine(tmp_path, core={"clock_hz": 10_000_000})
    assert cores.compile(program.data, read, level) == plan
    assert cores.cached_compile(program.data, read) == plan
    assert cores.cached_compile(program.data, cores.read_machine(path)) != plan


@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9.json"), 'a {b}"c"\n{d.json'], ids=["latin-1", "signs"])
def test_any_path_of_a_machine_file(name: str, tmp_path: Path) -> None:
    missing = f"cores:{tmp_path / name}"
    with pytest.raises(ReproError, match="expected a file that describes a machine") as found:
        repro_mlir.compile(handmade.program(), missing)
    assert str(found.value).isprintable()
    path = machine(tmp_path, name, core={"data_bytes": 1 << 16})
    repro_mlir.compile(handmade.program(), f"cores:{path}")
    assert "\n" not in map_step(handmade.program(), path).data["machine"]


def test_an_interrupt_ends_a_step(tmp_path: Path) -> None:
    """The handler of a signal runs while a step is simulated, and the state stays as it was."""
    read = cores.read_machine(machine(tmp_path, core={"data_bytes": 1 << 18}))
    program = program_of(product(1024))
    backend = compile_for(program, read)
    inputs = [np.ones(kind.shape, kind.dtype) for kind in program.inputs]
    outputs = [np.zeros(kind.shape, kind.dtype) for kind in program.outputs]

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            backend.run([], inputs, outputs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    # A complete step writes all outputs.
    assert not outputs[0].all()


def test_reports_of_other_targets() -> None:
    executable = repro_mlir.compile(handmade.program(), "reference")
    with pytest.raises(ReproError, match="expected a target cores:<machine>, whose steps are measured, got reference"):
        _ = executable.report


def test_a_receipt_does_not_contain_the_path_of_a_machine_file(tmp_path: Path) -> None:
    path = machine(tmp_path, core={"clock_hz": 50_000_000})
    target = describe(f"cores:{path}", 1)["target"]
    assert re.fullmatch(r"cores:blake3:[0-9a-f]{64}", target)
    machine(tmp_path, core={"clock_hz": 10_000_000})
    assert describe(f"cores:{path}", 1)["target"] != target
    assert describe("cores:tiny-2x2", 1)["target"] == "cores:tiny-2x2"
    assert repro_mlir.compile(handmade.program(), f"cores:{path}", threads=7).threads == 1
