# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests bundles: reading returns what was written, equal arguments give equal bytes, and each kind of damage gives one
clear error."""

import json
import zipfile
from pathlib import Path

import blake3
import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.bundle.writer import expect, write_bundle
from repro_mlir.frontends.torch.capture.initialization import initialize
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.runner import Bundle
from repro_mlir.runner.execution import choose_architecture
from repro_mlir.runner.initial import describe_initial, initial_array
from repro_mlir.runner.manifest import MANIFEST, STATE
from repro_mlir.runner.plan import write_plan
from support import handmade


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    program = handmade.program()
    steps = handmade.steps(3)
    path = tmp_path / "model.rmb"
    codes = [handmade.code("sm_75"), handmade.code("sm_90", cubin=b"\x7fELF", constants=bytes(64))]
    write_bundle(path, program, codes, steps=steps, expected=expect(program, steps))
    return path


def test_a_round_trip_is_exact(bundle: Path) -> None:
    program = handmade.program()
    found = Bundle(bundle)
    assert (found.state, found.inputs, found.outputs) == (program.state, program.inputs, program.outputs)
    assert found.program == program.hash and found.module() == program.data
    assert found.architectures == ["sm_75", "sm_90"] and found.steps == 3 and found.num_hyper_parameters == 1
    assert [found.has_cubin(name) for name in found.architectures] == [False, True]
    assert found.code("sm_75") == handmade.code("sm_75")
    assert found.code("sm_90") == handmade.code("sm_90", cubin=b"\x7fELF", constants=bytes(64))
    for expected, array in zip(program.initial, found.initial_state(), strict=True):
        assert expected.dtype == array.dtype and np.array_equal(expected, array)
    loaded = Program.load(bundle)
    assert loaded.hash == program.hash and (loaded.state, loaded.inputs) == (program.state, program.inputs)
    assert all(np.array_equal(a, b) for a, b in zip(loaded.initial, program.initial, strict=True))
    pairs = [(array, kind.element) for array, kind in zip(program.initial, program.state, strict=True)]
    assert found.initial_state_hash == state_hash(pairs)
    for step, inputs in enumerate(handmade.steps(3)):
        assert all(np.array_equal(a, b) for a, b in zip(inputs, found.recorded_inputs(step), strict=True))
    assert found.expected is not None and sorted(found.expected.state) == [1, 3]
    assert len(found.expected.outputs["loss"]) == 3
    with pytest.raises(ReproError, match="has the inputs of 3 steps, expected those of 4"):
        found.recorded_inputs(3)


def test_equal_arguments_give_equal_bytes(bundle: Path, tmp_path: Path) -> None:
    program = handmade.program()
    codes = [handmade.code("sm_75"), handmade.code("sm_90", cubin=b"\x7fELF", constants=bytes(64))]
    steps = handmade.steps(3)
    write_bundle(tmp_path / "again.rmb", program, codes, steps=steps, expected=expect(program, steps))
    assert (tmp_path / "again.rmb").read_bytes() == bundle.read_bytes()


def _rewrite(path: Path, change) -> None:
    """Rewrites a zip file with the members that `change` has edited."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _manifest(members: dict[str, bytes], **changes: object) -> None:
    members[MANIFEST] = json.dumps(json.loads(members[MANIFEST]) | changes).encode()


def _change(members: dict[str, bytes], part: str, change) -> None:
    manifest = json.loads(members[MANIFEST])
    change(manifest[part])
    members[MANIFEST] = json.dumps(manifest).encode()


def _listed(members: dict[str, bytes], name: str, data: bytes) -> None:
    """Adds a member to a bundle's members, and its digest to the manifest."""
    members[name] = data
    entry = {"bytes": len(data), "blake3": blake3.blake3(data).hexdigest()}
    _change(members, "members", lambda listed: listed.update({name: entry}))


def _constants(members: dict[str, bytes], name: str) -> None:
    """Sets the name of the constants' member in each target of the manifest."""
    _change(members, "targets", lambda targets: [target.update(constants=name) for target in targets.values()])


def _unlisted(members: dict[str, bytes], name: str) -> None:
    """Removes a member from the zip and from the manifest."""
    del members[name]
    _change(members, "members", lambda listed: listed.pop(name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update({"sm_75.ptx": m["sm_75.ptx"] + b" "}), "sm_75.ptx is damaged: expected [0-9,]+ bytes, got"),
        (lambda m: m.update({"sm_75.ptx": b" " + m["sm_75.ptx"][1:]}), "sm_75.ptx is damaged: expected BLAKE3"),
        (
            lambda m: _change(m, "members", lambda listed: listed["sm_75.ptx"].update(bytes=5)),
            "sm_75.ptx is damaged: expected 5 bytes, got",
        ),
        (lambda m: m.pop("sm_75.plan"), "no member sm_75.plan"),
        (lambda m: m.update({"more": b""}), "more is not in manifest.json"),
        (lambda m: m.update({"sm_100.ptx": b""}), "sm_100.ptx is not in manifest.json"),
        (lambda m: m.pop(MANIFEST), "expected a bundle of repro-mlir: it has no manifest.json"),
        (lambda m: m.update({MANIFEST: b"{"}), "manifest.json is damaged"),
        (
            lambda m: _manifest(m, format=9),
            "expected a bundle of format 2 and numerics 1, got format 9 and numerics 1",
        ),
        (
            lambda m: _manifest(m, numerics=2),
            "expected a bundle of format 2 and numerics 1, got format 2 and numerics 2",
        ),
        (lambda m: _manifest(m, state=[{}]), r"manifest.json.state\[0\]: expected the key 'name'"),
        (lambda m: _manifest(m, more=1), "unknown key 'more'"),
        (lambda m: _manifest(m, steps=True), "steps: expected a whole number of at least 0"),
        (lambda m: _manifest(m, steps=1 << 40), "at most 4,294,967,296 steps"),
        (lambda m: m.update({MANIFEST: m[MANIFEST].replace(b"{", b'{"steps": 1,', 1)}), "a key occurs twice"),
        (lambda m: m.update({MANIFEST: b"[" * 100_000}), "manifest.json is damaged"),
        (lambda m: _change(m, "targets", lambda t: t.update(sm_80=t["sm_75"])), "expected members named after sm_80"),
        (
            lambda m: _change(m, "expected", lambda e: e["outputs"].update(other=[])),
            "the outputs must be those of the program",
        ),
        (lambda m: _change(m, "expected", lambda e: e["state"].update({"x": "0" * 64})), "the steps must be numbers"),
        (
            lambda m: _change(m, "state", lambda s: s[0].update(shape=[1 << 40])),
            "expected a state of at most .* bytes, got",
        ),
        (lambda m: _change(m, "state", lambda s: s[1].update(name="w")), "state: a name occurs twice"),
        (lambda m: _change(m, "state", lambda s: s[1].update(name="n\x1b[2J")), "expected a tensor's name of at most"),
        (lambda m: _listed(m, "sm_100.ptx", b""), "sm_100.ptx is not a part of a bundle"),
        (lambda m: _unlisted(m, "program.repro"), "no member program.repro"),
        (lambda m: _listed(m, "program.mlir", b""), "program.mlir is not a part of a bundle"),
        (lambda m: _constants(m, "sm_75.ptx.constants"), "expected members named after sm_75"),
        (
            lambda m: _manifest(m, format=1) or m.update({"program.mlir": b"", "sm_75.json": b""}),
            "expected a bundle of format 2 and numerics 1, got format 1 and numerics 1",
        ),
    ],
)
def test_damage(bundle: Path, change, message: str) -> None:
    _rewrite(bundle, change)
    with pytest.raises(ReproError, match=message):
        Bundle(bundle)


def test_damaged_files(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=r"cannot read .*none.rmb: No such file"):
        Bundle(tmp_path / "none.rmb")
    data = bytearray(bundle.read_bytes())
    bundle.write_bytes(data[: len(data) // 2])
    with pytest.raises(ReproError, match="got a damaged or different file"):
        Bundle(bundle)
    data[200] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(ReproError, match="damaged"):
        Bundle(bundle)


def test_plan_of_other_constants(bundle: Path) -> None:
    _rewrite(bundle, lambda m: _listed(m, "sm_75.plan", write_plan(handmade.plan(constant_size=8))))
    with pytest.raises(ReproError, match="expected constants of 8 bytes, got 0"):
        Bundle(bundle).code("sm_75")


def test_the_best_code_for_a_gpu() -> None:
    names = ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100"]
    assert choose_architecture(names, (7, 5), "it") == "sm_75"
    assert choose_architecture(names, (8, 9), "it") == "sm_80"
    assert choose_architecture(names, (9, 0), "it") == "sm_90a"
    assert choose_architecture(names, (10, 0), "it") == "sm_100"
    assert choose_architecture(names[:4], (10, 3), "it") == "sm_90"
    with pytest.raises(ReproError, match=r"it has code for sm_90, which this GPU \(sm_86\) cannot run"):
        choose_architecture(["sm_90"], (8, 6), "it")


def test_initial_state_without_storage(tmp_path: Path) -> None:
    """Constant values and those that `initialize` drew are not stored: a bundle describes how to compute them."""
    torch = pytest.importorskip("torch")
    model = initialize(torch.nn.Sequential(torch.nn.Linear(70, 1000), torch.nn.LayerNorm(1000)), seed=5)
    arrays = {name: value.detach().numpy() for name, value in model.named_parameters()}
    kinds = {name: TensorType(name, "f32", array.shape) for name, array in arrays.items()}
    found = {name: describe_initial(kinds[name], arrays[name], 5, 4) for name in arrays}
    assert found["0.weight"] is not None and found["0.weight"]["from"] == "uniform" and found["0.weight"]["site"] == 0
    assert found["1.weight"] == {"from": "fill", "bits": "0000803f"}
    for name, description in found.items():
        assert description is not None
        assert np.array_equal(initial_array(kinds[name], description).view(np.uint32), arrays[name].view(np.uint32))
    assert describe_initial(kinds["0.weight"], arrays["0.weight"], 6, 4) is None
    other = arrays["0.weight"].copy()
    other[-1, -1] += 1
    assert describe_initial(kinds["0.weight"], other, 5, 4) is None
    text = """
    module { func.func @main(%a: tensor<1000x70xf32>, %b: tensor<4xi1>) -> (tensor<1000x70xf32>, tensor<4xi1>)
        attributes {repro.num_state = 2 : i64} { return %a, %b : tensor<1000x70xf32>, tensor<4xi1> } }"""
    state = (kinds["0.weight"], TensorType("flags", "i1", (4,)))
    initial = (arrays["0.weight"], np.array([True, False, True, True]))
    sizes = write_bundle(tmp_path / "m.rmb", Program(to_bytes(text), state, (), (), 0, initial), [], seed=5)
    assert sizes[STATE] < 200
    assert all(np.array_equal(a, b) for a, b in zip(Bundle(tmp_path / "m.rmb").initial_state(), initial, strict=True))
