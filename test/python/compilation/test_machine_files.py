# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machine descriptions (docs/contributors/machines.md) influence the compiled code but never the bits. Invalid
descriptions are refused with the reason."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.errors import CompileError
from repro_mlir.compilation import cpu
from repro_mlir.compilation import gpu as device_code
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.runner.plan import read_plan
from support import device_kit, kit

ROOT = Path(__file__).resolve().parents[3]
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
    assert sorted(FILES) == sorted([*cpu.levels(), *device_code.architectures()])


@pytest.mark.parametrize("name", FILES)
def test_files_have_the_form_of_the_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{FILES[name]['kind']}"})
    validator.validate(FILES[name])
    for key in FILES[name]["sizes"]:
        broken = copy.deepcopy(FILES[name])
        del broken["sizes"][key]["source"]
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
