# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests programs of ONNX models (signature, state, locations and sizes), and refusals of invalid models."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.frontends.onnx import load

onnx = pytest.importorskip("onnx")
pytest.importorskip("torch_mlir")

TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHT = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, tuple[int, Any]],
    outputs: Sequence[str],
    arrays: dict[str, np.ndarray] | None = None,
    version: int = 17,
    **options: Any,
) -> Any:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, F32, ["any"]) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (arrays or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8, **options)


def linear(batch: int | str = "batch") -> Any:
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["product"], name="fc"),
        helper.make_node("Shape", ["product"], ["shape"]),
        helper.make_node("Concat", ["shape", "one"], ["longer"], axis=0),
        helper.make_node("Reshape", ["product", "longer"], ["y"]),
    ]
    return model_of(nodes, {"x": (F32, [batch, 3])}, ["y"], {"fc.weight": WEIGHT, "one": np.array([1])})


def run(program: Any, *inputs: np.ndarray, target: str = "cpu") -> dict[str, np.ndarray]:
    _, outputs = repro_mlir.compile(program, target)(program.initial_state(), *inputs)
    return outputs


def test_names_are_those_of_the_graph() -> None:
    program = load(linear(), sizes={"batch": 2})
    assert [str(kind) for kind in program.state] == ["fc.weight: 3x4xf32"]
    assert [str(kind) for kind in program.inputs] == ["x: 2x3xf32"]
    assert [str(kind) for kind in program.outputs] == ["y: 2x4x1xf32"]
    assert 'loc("node fc (MatMul)")' in program.text
    np.testing.assert_allclose(run(program, X)["y"][..., 0], X @ WEIGHT, rtol=1e-6)


def test_weights_are_state() -> None:
    program = load(linear(2))
    _, outputs = repro_mlir.compile(program)({"fc.weight": WEIGHT * 2}, X)
    np.testing.assert_array_equal(outputs["y"], run(program, X)["y"] * 2)


def test_example_inputs_give_sizes() -> None:
    assert load(linear(), inputs={"x": X}).hash == load(linear(2)).hash


def test_numbers_of_the_graph_are_not_state() -> None:
    """Constants with which the graph computes a size are folded, so the program has no state."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["floats"], to=F32),
        helper.make_node("Mul", ["floats", "factor"], ["more"]),
        helper.make_node("Cast", ["more"], ["sizes"], to=I64),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest"),
    ]
    factor = {"factor": np.array([1, 2], np.float32)}
    program = load(model_of(nodes, {"x": (F32, [2, 3])}, ["y"], factor))
    assert not program.state
    np.testing.assert_array_equal(run(program, X)["y"], X.repeat(2, 1))


def test_constants_are_computed_by_the_program_not_by_pytorch() -> None:
    """The exponential of a constant has the bits of the program's exponential, not those of PyTorch's."""
    nodes = [helper.make_node("Exp", ["c"], ["e"]), helper.make_node("Add", ["x", "e"], ["y"])]
    exponent = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(X))
    program = load(model_of([exponent, *nodes], {"x": (F32, [2, 3])}, ["y"]))
    given = load(model_of(nodes, {"x": (F32, [2, 3]), "c": (F32, [2, 3])}, ["y"]))
    zero = np.zeros_like(X)
    for target in ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator"):
        assert run(program, zero, target=target)["y"].tobytes() == run(given, zero, X, target=target)["y"].tobytes()


def test_bytes_within_a_graph() -> None:
    """(I2) Quantized activations are UINT8 tensors, which other operators can read as integers."""
    scale, zero = np.array(0.02, np.float32), np.array(100, np.uint8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("Transpose", ["q"], ["t"]),
        helper.make_node("DequantizeLinear", ["t", "scale", "zero"], ["y"]),
        helper.make_node("Cast", ["t"], ["numbers"], to=F32),
    ]
    program = load(model_of(nodes, {"x": (F32, [2, 3])}, ["y", "numbers"], {"scale": scale, "zero": zero}))
    quantized = np.clip(np.rint(X / scale) + 100, 0, 255).T
    assert quantized.max() == 200 and quantized.min() == 0
    expected = (quantized - 100).astype(np.float32) * scale
    for target in ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator"):
        outputs = run(program, X, target=target)
        np.testing.assert_array_equal(outputs["y"], expected)
        np.testing.assert_array_equal(outputs["numbers"], quantized)


def test_inputs_that_decide_shapes_can_be_fixed() -> None:
    model = model_of(
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="last")],
        {"x": (F32, [2, 3]), "shape": (I64, [1])},
        ["y"],
    )
    with pytest.raises(ReproError, match=r"node last \(Reshape\): the values of 'shape' determine"):
        load(model)
    program = load(model, constants={"shape": [-1]})
    assert [kind.name for kind in program.inputs] == ["x"] and program.outputs[0].shape == (6,)


def test_versions_before_13() -> None:
    """Before opset 13, axes and the bounds of Clip are attributes, and Softmax normalizes over all dimensions from the
    axis on."""
    nodes = [
        helper.make_node("Unsqueeze", ["x"], ["a"], axes=[0]),
        helper.make_node("Softmax", ["a"], ["b"], axis=1),
        helper.make_node("Clip", ["b"], ["y"], max=0.25),
    ]
    program = load(model_of(nodes, {"x": (F32, [2, 3])}, ["y"], version=7))
    exponents = np.exp(X - X.max())
    expected = np.minimum(exponents / exponents.sum(), np.float32(0.25))
    np.testing.assert_allclose(run(program, X)["y"][0], expected, rtol=1e-5)


def test_functions_of_the_model_and_of_the_standard() -> None:
    body = [
        helper.make_node("Add", ["a", "a"], ["twice"]),
        helper.make_node("MeanVarianceNormalization", ["twice"], ["b"], axes=[0, 1]),
    ]
    opset = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, opset)
    model = model_of(
        [helper.make_node("Twice", ["x"], ["y"], domain="own", name="call")],
        {"x": (F32, [2, 3])},
        ["y"],
        functions=[function],
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    program = load(model)
    assert 'loc("node call (own.Twice)")' in program.text
    np.testing.assert_allclose(run(program, X)["y"], (X - X.mean()) / X.std(), rtol=1e-4)


def loop(most: int, depth: int = 1) -> Any:
    """Returns a model of `depth` nested loops with `most` iterations each; the innermost body adds 1."""
    node = helper.make_node("Add", ["s0", "unit"], ["t0"])
    for level in range(depth):
        taken, given = ("i", I64), ("c", TensorProto.BOOL)
        ins = [helper.make_tensor_value_info(f"{n}{level}", k, []) for n, k in (taken, given, ("s", F32))]
        outs = [helper.make_tensor_value_info(f"{n}{level}", k, []) for n, k in (("d", TensorProto.BOOL), ("t", F32))]
        go_on = helper.make_node("Identity", [f"c{level}"], [f"d{level}"])
        body = helper.make_graph([go_on, node], f"body{level}", ins, outs)
        last = level == depth - 1
        names = ["x"] if last else [f"s{level + 1}"], ["y"] if last else [f"t{level + 1}"]
        node = helper.make_node("Loop", ["most", "", *names[0]], names[1], body=body)
    arrays = {"most": np.array(most), "unit": np.array(1, np.float32)}
    return model_of([node], {"x": (F32, [])}, ["y"], arrays)


def test_loops_are_unrolled_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(load(loop(3, depth=2)), np.array(0, np.float32))["y"] == 9
    monkeypatch.setattr("repro_mlir.frontends.onnx.evaluation.MOST_CALLS", 1000)
    with pytest.raises(ReproError, match=r"\(Loop\): expected at most 1,000 runs of nodes"):
        load(loop(60, depth=6))


def test_long_loops_are_refused_before_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a node of the loop was evaluated")

    monkeypatch.setattr("repro_mlir.frontends.onnx.evaluation.GraphEvaluation._subgraph", fail)
    with pytest.raises(ReproError, match=r"\(Loop\): expected at most 20,000 runs of nodes"):
        load(loop(10**9))


@pytest.mark.parametrize(
    "nodes, message",
    [
        ([helper.make_node("NonZero", ["x"], ["y"], name="n")], r"node n \(NonZero\): the values of 'x' determine"),
        ([helper.make_node("Unique", ["x"], ["y"], name="u")], r"node u \(Unique\): .*depends on tensor values"),
        ([helper.make_node("RandomNormalLike", ["x"], ["y"])], r"node 0 \(RandomNormalLike\): operator .* not"),
        ([helper.make_node("Nothing", ["x"], ["y"])], "invalid ONNX model: .*Nothing"),
        ([helper.make_node("Relu", ["other"], ["y"])], "invalid ONNX model: "),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT4)], r"node 0 \(Cast\): the element type UINT4"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)], r"node 0 \(Cast\): the element type STRING"),
        ([helper.make_node("Gather", ["x", "x"], ["y"], axis=5)], r"node 0 \(Gather\): expected an axis"),
    ],
)
def test_unsupported_models_have_one_line_of_error(nodes: list[Any], message: str) -> None:
    with pytest.raises(ReproError, match=message) as caught:
        load(model_of(nodes, {"x": (F32, [2, 3])}, ["y"]))
    assert len(str(caught.value).splitlines()) == 1


def test_sizes_are_asked_for() -> None:
    with pytest.raises(ReproError, match=r"input 'x': dimension 0 \(batch\) has no size: pass sizes="):
        load(linear())
    with pytest.raises(ReproError, match="expected sizes among batch, got 'rows'"):
        load(linear(), sizes={"rows": 2})
    with pytest.raises(ReproError, match="expected extent 2 in dimension 0, got 5 in the example"):
        load(linear(2), inputs={"x": np.zeros((5, 3))})
    with pytest.raises(ReproError, match="exceeds tensor_bytes"):
        load(linear(), sizes={"batch": 1 << 60})


def test_tensors_in_files_next_to_the_model(tmp_path: Path) -> None:
    expected = load(linear(2)).hash
    path = tmp_path / "model" / "linear.onnx"
    path.parent.mkdir()
    options = {"save_as_external_data": True, "location": "weights", "size_threshold": 0, "convert_attribute": False}
    onnx.save(linear(2), path, **options)
    assert load(path).hash == expected
    (path.parent / "weights").rename(tmp_path / "weights")
    with pytest.raises(ReproError, match="cannot read"):
        load(path)
    model = onnx.load(path, load_external_data=False)
    with pytest.raises(ReproError, match=r"'fc\.weight' is in an external file: pass the path of the model"):
        load(model)
    outside = "../weights", str(tmp_path / "weights"), "", "link"
    os.symlink(tmp_path / "weights", path.parent / "link")
    for location in outside:
        for entry in (entry for tensor in model.graph.initializer for entry in tensor.external_data):
            if entry.key == "location":
                entry.value = location
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ReproError, match="expected a file in the folder of the model"):
            load(path)


def test_damaged_files(tmp_path: Path) -> None:
    """A damaged file must raise one of our errors, or load as another valid model."""
    path = tmp_path / "damaged.onnx"
    data = linear(2).SerializeToString()
    rng = np.random.default_rng(0)
    for cut in range(0, len(data), 37):
        path.write_bytes(data[:cut])
        with pytest.raises(ReproError):
            load(path)
    for _ in range(60):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), 2):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            load(path)
        except ReproError as error:
            assert len(str(error).splitlines()) == 1


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, inputs = tmp_path / "linear.onnx", tmp_path / "inputs.npz"
    onnx.save(linear(), path)
    np.savez(inputs, x=X)
    saved = tmp_path / "program.repro"
    assert main(["compile", str(path), "--size", "batch=2", "-o", str(saved)]) == 0
    assert main(["run", str(path), "--size", "batch=2", "--inputs", str(inputs)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(path), "--size", "batch=2"]) == 0
    assert repro_mlir.Program.load(saved).hash in capsys.readouterr().out
    assert repro_mlir.compile(path, sizes={"batch": 2}).program.hash == repro_mlir.Program.load(saved).hash
    assert main(["run", str(path), "--inputs", str(inputs)]) == 2
    assert "dimension 0 (batch) has no size" in capsys.readouterr().err
