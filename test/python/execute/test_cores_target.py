# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the targets "cores:<machine>", and the simulator with a plan made by hand."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.compilation import cores
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.cores import CoresBackend
from support import handmade
from support.target_checks import check_target

TOOLS = Path(_repro.__file__).parent

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


def tool(name: str, *options: str, text: bytes) -> bytes:
    return subprocess.run([TOOLS / name, *options], input=text, capture_output=True, check=True).stdout


def core_plan(text: str) -> bytes:
    level = native_level()
    pipeline = f"builtin.module(cpu-expand{{level={level}}},cpu-lower{{level={level}}})"
    lowered = tool("repro-opt", f"--pass-pipeline={pipeline}", text=text.encode())
    return tool("repro-translate", "--cores-to-plan", f"--level={level}", text=lowered)


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
    program, path = handmade.program(), tmp_path / "slow.json"
    seconds = []
    for clock in (50_000_000, 10_000_000):
        path.write_text(
            json.dumps(
                {
                    "kind": "cores",
                    "extends": "tiny-2x2",
                    "core": {"clock_hz": {"value": clock, "source": "of this test"}},
                }
            )
        )
        # The cached plan is that of the file's content.
        backend = CoresBackend(cores.cached_compile(program.data, str(path)))
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
