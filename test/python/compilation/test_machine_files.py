# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machine descriptions (docs/contributors/machines.md) influence the compiled code but never the bits. Invalid
descriptions are refused with the reason."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.compilation import cores, cpu
from repro_mlir.compilation import gpu as device_code
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.runner.plan import read_plan
from support import device_kit, kit

ROOT = Path(__file__).resolve().parents[3]
MANY_CORES = cores.machines()
FILES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "lib/Target/machines").glob("*.json"))}
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "machine.schema.json").read_text())

PROGRAM = """
func.func @main(%a: tensor<{a}x{t}>, %b: tensor<{b}x{t}>, %c: tensor<{m}x{n}x{t}>) -> tensor<{m}x{n}x{t}>
    attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
    maps [affine_map<(i, j, k) -> ({am})>, affine_map<(i, j, k) -> ({bm})>, affine_map<(i, j, k) -> (i, j)>]
    iterators [parallel, parallel, reduction] ins(%a, %b : tensor<{a}x{t}>, tensor<{b}x{t}>)
    outs(%c : tensor<{m}x{n}x{t}>) {{
  ^bb0(%x: {t}, %y: {t}, %s: {t}):
    %f = math.fma %x, %y, %s : {t}
    repro.yield %f : {t}
  }} -> tensor<{m}x{n}x{t}>
  return %r : tensor<{m}x{n}x{t}>
}}
"""


def product(m: int, n: int, k: int, layout: str, t: str = "f32") -> tuple[str, list[np.ndarray]]:
    """Returns a program that multiplies two matrices, and its operands. `layout` has a letter for each matrix: "t" if
    it is transposed, else "n"."""
    a, am = ((m, k), "i, k") if layout[0] == "n" else ((k, m), "k, i")
    b, bm = ((k, n), "k, j") if layout[1] == "n" else ((n, k), "j, k")
    text = PROGRAM.format(a="x".join(map(str, a)), b="x".join(map(str, b)), am=am, bm=bm, m=m, n=n, t=t)
    random = np.random.default_rng(m * n + k)
    return text, [random.standard_normal(shape).astype(f"f{int(t[1:]) // 8}") for shape in (a, b, (m, n))]


def write(folder: Path, extends: str, **sizes: int) -> str:
    """Writes a machine description to a file and returns the file's path."""
    path = folder / "machine.json"
    made = {key: {"value": value, "source": "made up"} for key, value in sizes.items()}
    path.write_text(json.dumps({"extends": extends, "sizes": made}))
    return str(path)


def run(artifact: bytes, inputs: list[np.ndarray]) -> bytes:
    return CpuBackend(artifact, 2).run([], [x.copy() for x in inputs])[0].tobytes()


def test_files_are_the_machines() -> None:
    assert sorted(FILES) == sorted([*cpu.levels(), *device_code.architectures(), "thumbv7em", *MANY_CORES])
    # Code for microcontrollers is not part of an artifact.
    with pytest.raises(CompileError, match=r"expected one of the CPU levels x86-64-v2, .*, got thumbv7em"):
        cpu.compile(product(2, 2, 2, "nn")[0], "thumbv7em")


@pytest.mark.parametrize("name", FILES)
def test_files_have_the_form_of_the_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{FILES[name]['kind']}"})
    validator.validate(FILES[name])
    for section, entries in FILES[name].items():
        for key, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict) and "source" in entry:
                broken = copy.deepcopy(FILES[name])
                del broken[section][key]["source"]
                assert not validator.is_valid(broken)


@pytest.mark.parametrize("name", cpu.levels())
def test_the_same_sizes_give_the_same_code(name: str, tmp_path: Path) -> None:
    program, _ = product(70, 90, 600, "nt")
    path = write(tmp_path, name, l1_bytes=FILES[name]["sizes"]["l1_bytes"]["value"])
    assert cpu.compile(program, path) == cpu.compile(program, name)


# The smallest and the largest value of each size of the caches, first one at a time and then together.
CACHES = [
    {"line_bytes": 32},
    {"line_bytes": 256},
    {"l1_bytes": 4096, "l1_ways": 1},
    {"l1_bytes": 4096, "l1_ways": 64},
    {"l1_bytes": 1 << 20, "l1_ways": 16},
    {"l2_bytes": 65536},
    {"l2_bytes": 1 << 24},
    {"line_bytes": 256, "l1_bytes": 4096, "l1_ways": 16, "l2_bytes": 65536},
    {"line_bytes": 32, "l1_bytes": 1 << 20, "l1_ways": 64, "l2_bytes": 1 << 24},
]


@pytest.mark.parametrize("level", cpu.runnable_levels())
@pytest.mark.diagonal(level=cpu.runnable_levels()[-1:])
def test_no_size_changes_a_bit(level: str, tmp_path: Path) -> None:
    cases = [((600, 90, 1100, "nt", "f32"), CACHES)]
    cases += [((70, 200, 520, "tt", "f32"), CACHES[-2:]), ((130, 33, 1030, "tn", "f64"), CACHES[-2:])]
    codes = set()
    for case, caches in cases:
        program, inputs = product(*case)
        plain = cpu.compile(program, level)
        want = run(plain, inputs)
        for sizes in caches:
            artifact = cpu.compile(program, write(tmp_path, level, **sizes))
            assert run(artifact, inputs) == want, (case, sizes)
            if artifact != plain:
                codes.add(artifact)
    assert len(codes) > 4, "sizes that change nothing test nothing"


def test_multiprocessors_choose_the_blocks(tmp_path: Path) -> None:
    program, inputs = product(70, 68, 1100, "nn")
    want = CpuBackend(cpu.compile(program)).run([], [x.copy() for x in inputs])[0]
    launches = set()
    for count in (1, 128, 4096):
        code = device_code.compile(program, write(tmp_path, "sm_75", multiprocessors=count))
        launches.add(len(read_plan(code.plan, "gpu", "plan").launches))
        code = device_code.DeviceCode("sm_75", code.ptx, code.constants, code.plan)
        got = device_kit.run_code(code, kit.read(program), inputs)[0]
        assert np.array_equal(got, np.ascontiguousarray(want).view(np.uint32)), count
    assert len(launches) == 2


def test_wrong_files(tmp_path: Path) -> None:
    """Tests one invalid file for each type of machine (CPU and GPU); test/Target tests all reasons for a refusal."""
    program, _ = product(2, 3, 4, "nn")
    for extends, compile_for, size in (
        ("x86-64-v3", cpu.compile, "line_bytes"),
        ("sm_75", device_code.compile, "multiprocessors"),
    ):
        path = write(tmp_path, extends, **{size: 1 << 62})
        with pytest.raises(CompileError, match=rf"{path}: sizes\.{size}: expected a .*, got {1 << 62}"):
            compile_for(program, path)


def schema_accepts(description: object) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    return bool(jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/file"}).is_valid(description))


def read_cores(folder: Path, description: object) -> dict[str, Any]:
    path = folder / "machine.json"
    path.write_text(description if isinstance(description, str) else json.dumps(description))
    return dict(json.loads(cores.read_machine(str(path)).text))


@pytest.mark.parametrize("name", MANY_CORES)
def test_complete_descriptions_of_many_cores(name: str, tmp_path: Path) -> None:
    """The text of each machine is a complete description, which the schema accepts and which gives the same text."""
    text = cores.read_machine(name).text
    complete = json.loads(text)
    assert "extends" not in complete
    assert schema_accepts(complete)
    assert read_cores(tmp_path, complete) == complete
    assert cores.read_machine(str(tmp_path / "machine.json")).text == text


def entry(value: object) -> dict[str, object]:
    return {"value": value, "source": "made up"}


def channel(at: list[int], bytes_per_second: float) -> dict[str, object]:
    return {"at": entry(at), "bytes_per_second": entry(bytes_per_second), "latency_seconds": entry(0)}


def test_a_file_changes_a_machine_of_many_cores(tmp_path: Path) -> None:
    tiny = json.loads(cores.read_machine("tiny-2x2").text)
    changes = {
        "grid": {"columns": entry(3), "absent": entry([[0, 1]])},
        "cycles": {"fma": entry(0.5)},
        "dram": {"channels": [channel([2, 1], 1e9), channel([0, 0], 1)]},
    }
    assert schema_accepts({"extends": "tiny-2x2", **changes})
    found = read_cores(tmp_path, {"extends": "tiny-2x2", **changes})
    for section, entries in changes.items():
        assert found[section] == {**tiny[section], **entries}
    assert {key: found[key] for key in found if key not in changes} == {
        key: tiny[key] for key in tiny if key not in changes
    }
    assert read_cores(tmp_path, {"kind": "cores", "extends": "tiny-2x2"}) == tiny


# Changes of tiny-2x2, the error, and whether the schema refuses the changes, too.
REFUSED: list[tuple[dict[str, Any], str, bool]] = [
    ({"extends": "sm_90"}, "extends: expected one of tiny-2x2, .*, got 'sm_90'", True),
    ({"extends": 3}, "extends: expected one of tiny-2x2, .*, got ''", True),
    ({"kind": "cpu"}, "kind: expected 'cores'", True),
    ({"sizes": {}}, "unknown key 'sizes', expected one of kind, grid, core, .*, calibration", True),
    ({"grid": 3}, "grid: expected an object", True),
    ({"grid": {"colums": entry(2)}}, "grid: unknown key 'colums', expected one of columns, rows, absent", True),
    ({"grid": {"columns": 2}}, "grid.columns: expected an object with 'value' and 'source'", True),
    ({"grid": {"columns": {"value": 2}}}, "grid.columns: expected the key 'source'", True),
    (
        {"grid": {"columns": {"value": 2, "source": " "}}},
        "grid.columns: expected a source that says where the value is from",
        True,
    ),
    ({"grid": {"columns": entry(0)}}, "grid.columns: expected a whole number from 1 to 1024, got 0", True),
    ({"grid": {"columns": entry(1.5)}}, "grid.columns: expected a whole number from 1 to 1024, got 1.5", True),
    ({"grid": {"columns": entry("2")}}, "grid.columns: expected a whole number from 1 to 1024, got no number", True),
    ({"grid": {"absent": entry(3)}}, "grid.absent: expected an array of points", True),
    ({"grid": {"absent": entry([[0]])}}, "grid.absent: expected a column and a row of the grid of 2 x 2", True),
    ({"grid": {"absent": entry([[0, -1]])}}, "grid.absent: expected a column and a row of the grid of 2 x 2", True),
    ({"grid": {"absent": entry([[0, 2]])}}, "grid.absent: expected a column and a row of the grid of 2 x 2", False),
    ({"grid": {"absent": entry([[0, 1], [0, 1]])}}, "grid.absent: expected each point once", True),
    (
        {"grid": {"absent": entry([[0, 0], [0, 1], [1, 0], [1, 1]])}},
        "grid.absent: expected at least one core that is not absent",
        False,
    ),
    (
        {"core": {"clock_hz": entry(1e12)}},
        "core.clock_hz: expected a number from 1000 to 100000000000, got 1000000000000",
        True,
    ),
    (
        {"core": {"data_bytes": entry(65537)}},
        "core.data_bytes: expected a multiple of dma.alignment = 8, got 65537",
        False,
    ),
    (
        {"group": {"columns": entry(3)}},
        "group.columns: expected a divisor of the grid's extent 2, got 3",
        False,
    ),
    (
        {"network": {"router_rows": entry(3)}},
        "network.router_rows: expected a divisor of the grid's extent 2, got 3",
        False,
    ),
    (
        {"network": {"link_bytes_per_cycle": entry(0)}},
        "network: expected positive payload_bytes and link_bytes_per_cycle",
        False,
    ),
    ({"network": {"multicast": entry(1)}}, "network.multicast: expected true or false", True),
    ({"cycles": {"fma": entry(-1)}}, "cycles.fma: expected a number from 0 to 1000000, got -1", True),
    ({"matrix": {"depth": entry(0)}}, "matrix: expected no number that is 0, or 0 for all numbers", False),
    ({"dma": {"alignment": entry(12)}}, "dma.alignment: expected a power of two, got 12", False),
    ({"dram": {"channels": 3}}, "dram.channels: expected an array of at most 64 channels", True),
    ({"dram": {"channels": []}}, "dram: expected bytes and channels, or 0 bytes and no channels", False),
    ({"dram": {"channels": [{}]}}, r"dram.channels\[0\]: expected the key 'at'", True),
    (
        {"dram": {"channels": [channel([2, 0], 1)]}},
        r"dram.channels\[0\].at: expected a column and a row of the grid of 2 x 2",
        False,
    ),
    (
        {"dram": {"channels": [channel([0, 0], 0)]}},
        r"dram.channels\[0\].bytes_per_second: expected a number from 1 to 1000000000000000, got 0",
        True,
    ),
    (
        {"dram": {"interleave_bytes": entry(0)}},
        "dram.interleave_bytes: expected a positive multiple of dma.alignment = 8, got 0",
        False,
    ),
    (
        {"chips": {"columns": entry(2)}},
        "chips.link_bytes_per_second: expected a positive number for several chips",
        False,
    ),
    (
        {"chips": {"columns": entry(1024), "rows": entry(1024), "link_bytes_per_second": entry(1)}},
        "chips: expected at most 1048576 cores, got 4194304",
        False,
    ),
    (
        {"calibration": {"dram_efficiency": entry(1.5)}},
        "calibration.dram_efficiency: expected a number from 0.001 to 1, got 1.5",
        True,
    ),
]


@pytest.mark.parametrize(("changes", "error", "by_schema"), REFUSED)
def test_wrong_files_of_many_cores(changes: dict[str, Any], error: str, by_schema: bool, tmp_path: Path) -> None:
    description = {"extends": "tiny-2x2", **changes}
    with pytest.raises(ReproError, match=f"machine.json: {error}"):
        read_cores(tmp_path, description)
    assert schema_accepts(description) is not by_schema


def test_incomplete_files_of_many_cores(tmp_path: Path) -> None:
    complete = json.loads(cores.read_machine("tiny-2x2").text)
    for key in complete:
        without = {other: complete[other] for other in complete if other != key}
        with pytest.raises(ReproError, match=f"machine.json: expected the key '{key}'"):
            read_cores(tmp_path, without)
        assert not schema_accepts(without)
    for section in complete.keys() - {"kind"}:
        for key in complete[section]:
            broken = copy.deepcopy(complete)
            del broken[section][key]
            with pytest.raises(ReproError, match=f"machine.json: {section}: expected the key '{key}'"):
                read_cores(tmp_path, broken)
            assert not schema_accepts(broken)


def test_broken_files_of_many_cores(tmp_path: Path) -> None:
    text = cores.read_machine("tiny-2x2").text
    for broken, error in (
        ("", "expected JSON: "),
        ("[]", "expected an object"),
        ("[" * 60000, "expected at most 8 nested objects"),
        (" " * 65537, "expected at most 65536 bytes"),
        (text.replace('"kind":"cores"', '"kind":"cores","kind":"cores"'), "expected each key of an object once"),
    ):
        with pytest.raises(ReproError, match=f"machine.json: {error}"):
            read_cores(tmp_path, broken)
    with pytest.raises(ReproError, match=r"none\.json: expected a file that describes a machine"):
        cores.read_machine(str(tmp_path / "none.json"))
    with pytest.raises(ReproError, match="unknown machine of many cores 'none', expected one of tiny-2x2, "):
        cores.read_machine("none")


def test_spinnaker2_has_the_same_facts_for_predictions() -> None:
    """The file of the roofline predictions and the one of the compiler describe the same chip."""
    described = json.loads(cores.read_machine("spinnaker2").text)
    value = {
        (section, key): each["value"]
        for section, entries in described.items()
        if section != "kind"
        for key, each in entries.items()
        if key != "channels"
    }
    chip = read_machine("spinnaker2")
    assert isinstance(chip, Accelerator)
    count = value["grid", "columns"] * value["grid", "rows"] - len(value["grid", "absent"])
    products = count * value["matrix", "rows"] * value["matrix", "columns"] * value["core", "clock_hz"]
    channels = described["dram"]["channels"]
    board = json.loads(cores.read_machine("spinnaker2-board").text)["chips"]
    for found, expected in (
        (chip.multiprocessors, count),
        (chip.clock_hz, value["core", "clock_hz"]),
        (chip.f32_flops, count * value["core", "clock_hz"] / value["cycles", "add"]),
        (chip.int8_matrix_ops, 2 * products),
        (chip.memory_bytes, value["dram", "bytes"]),
        (chip.memory_bandwidth, sum(each["bytes_per_second"]["value"] for each in channels)),
        (chip.matrix_efficiency, value["calibration", "matrix_efficiency"]),
        (chip.memory_efficiency, value["calibration", "dram_efficiency"]),
        (chip.launch_seconds, value["calibration", "call_seconds"]),
        (chip.node_devices, board["columns"]["value"] * board["rows"]["value"]),
    ):
        assert found == expected
