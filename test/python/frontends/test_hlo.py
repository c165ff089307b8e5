# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports HLO modules as linalg, with features of HLO that JAX does not generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jaxlib")

import jax
import ml_dtypes
import repro_mlir
from jaxlib import _jax
from repro_mlir import Program, ReproError
from repro_mlir.frontends.stablehlo.hlo import Parameter, lower_hlo
from repro_mlir.program import canonicalize
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.interpreter import Interpreter

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")

ALIAS = (
    'mhlo.input_output_alias = [{alias = {kind = "may_alias", parameter_index = array<i64>, '
    "parameter_number = 1 : i64}, output_index = array<i64: 2>}]"
)
SOURCE = f"""
module attributes {{{ALIAS}}} {{
  func.func @main(%x: tensor<3xf32>, %w: tensor<3xf32>, %m: tensor<3xi1>, %b: tensor<3xbf16>, %u: tensor<ui8>)
      -> (tensor<3xf32>, tensor<ui8>, tensor<3xf32>) {{
    %0 = stablehlo.add %x, %w : tensor<3xf32> loc("outer/add")
    %1 = stablehlo.convert %b : (tensor<3xbf16>) -> tensor<3xf32> loc("cast")
    %2 = stablehlo.select %m, %0, %1 : tensor<3xi1>, tensor<3xf32>
    return %2, %u, %0 : tensor<3xf32>, tensor<ui8>, tensor<3xf32>
  }}
}}
"""
PLACES = {"outer/add": ("user.py", 7, 1), "cast": None}
PARAMETERS = [
    Parameter("x"),
    Parameter("w", is_state=True),
    Parameter("m", value=np.array([True, False, True])),
    Parameter("b", value=np.array([1.5, 2.5, -3.0], ml_dtypes.bfloat16)),
    Parameter("u"),
]


def hlo_of(text: str) -> bytes:
    return _jax.mlir.mlir_module_to_xla_computation(text, False, True).as_serialized_hlo_module_proto()


def test_parameters_become_state_inputs_and_constants() -> None:
    lowered = lower_hlo(hlo_of(SOURCE), PARAMETERS, ["y", "v"], PLACES.__getitem__)
    assert [str(kind) for kind in lowered.state] == ["w: 3xf32"]
    assert [str(kind) for kind in lowered.inputs] == ["x: 3xf32", "u: ui8"]
    assert [str(kind) for kind in lowered.outputs] == ["y: 3xf32", "v: ui8"]
    interpreter = Interpreter(to_bytes(canonicalize(lowered.text)))
    state, x = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    new, y, v = interpreter.run(state, x, np.int8(-1) * np.ones((), np.int8))
    assert (new.tolist(), y.tolist(), int(v)) == ([11.0, 22.0, 33.0], [11.0, 2.5, 33.0], -1)


def test_locations_are_the_users_lines_else_nodes() -> None:
    text = lower_hlo(hlo_of(SOURCE), PARAMETERS, ["y", "v"], PLACES.__getitem__).text
    assert 'loc("user.py":7:1)' in text and 'loc("node cast")' in text
    assert "outer/add" not in text and "select.1" not in text


def test_refusals_name_the_line_and_the_node() -> None:
    source = """
module {
  func.func @main(%x: tensor<f32>) -> tensor<3xf32> {
    %0 = stablehlo.constant dense<3> : tensor<1xi64>
    %1 = stablehlo.rng %x, %x, %0, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32> loc("RNG")
    return %1 : tensor<3xf32>
  }
}
"""  # noqa: E501
    for place, message in ((("a.py", 3, 0), "^a.py:3: node N: operation stablehlo.rng"), (None, "^node N: operation")):
        with pytest.raises(ReproError, match=message):
            lower_hlo(hlo_of(source.replace("RNG", "N")), [Parameter("x")], ["y"], {"N": place}.__getitem__)
    with pytest.raises(ReproError, match="expected 2 parameters and 1 results in addition to the state, got 1 and 1"):
        lower_hlo(hlo_of(source), [Parameter("x"), Parameter("z")], ["y"], {}.__getitem__)


@pytest.mark.parametrize("shape", [(), (3,), (4,), (3, 5), (3, 4, 5)])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
@pytest.mark.diagonal
def test_random_bits_are_those_of_xla(shape: tuple[int, ...], dtype: str) -> None:
    """Compares random bits with those of XLA's generators, also for a Philox counter whose lower word overflows within
    the tensor."""
    words = [[3 * 2**40 + 5, 2**33 + 7], [2**63 + 1, 2**64 - 2]]
    with jax.enable_x64(True):
        for name, given in (("THREE_FRY", words[0]), ("PHILOX", words[0]), ("PHILOX", words[1])):
            algorithm = getattr(jax.lax.RandomAlgorithm, f"RNG_{name}")
            seed = np.array(given, np.uint64)
            # JAX takes the 64-bit words of a Philox key as pairs of 32-bit words.
            key = seed.view(np.uint32) if name == "PHILOX" else seed
            state, bits = jax.lax.rng_bit_generator(key, shape, dtype, algorithm)
            lowered = jax.jit(jax.lax.rng_bit_generator, static_argnums=(1, 2, 3)).lower(key, shape, dtype, algorithm)
            text = lower_hlo(hlo_of(lowered.as_text()), [Parameter("k")], ["s", "b"], {}.__getitem__).text
            found = Interpreter(to_bytes(canonicalize(text))).run(key.view(key.dtype.str.replace("u", "i")))
            assert found[0].tobytes() == np.asarray(state).tobytes()
            assert found[1].tobytes() == np.asarray(bits).tobytes()


def run(tmp_path: Path, body: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """Runs a StableHLO function on every target, checks that the bits are equal, and returns its results."""
    path = tmp_path / "x.mlir"
    path.write_text(body)
    program, found = Program.load(path), []
    for target in TARGETS:
        found.append(list(repro_mlir.compile(program, target)({}, *inputs)[1].values()))
    for other in found[1:]:
        assert [each.tobytes() for each in other] == [each.tobytes() for each in found[0]]
    return found[0]


def test_batch_normalization(tmp_path: Path) -> None:
    body = """
func.func @main(%x: tensor<5x3x2xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>, %g: tensor<5x3x2xf32>)
    -> (tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3x2xf32>) {
  %y, %m, %v = "stablehlo.batch_norm_training"(%x, %s, %o) {epsilon = 0.1 : f32, feature_index = 1 : i64}
    : (tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %a, %b, %c = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {epsilon = 0.1 : f32, feature_index = 1 : i64}
    : (tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3x2xf32>)
    -> (tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %z = "stablehlo.batch_norm_inference"(%x, %s, %o, %o, %s) {epsilon = 0.1 : f32, feature_index = 1 : i64}
    : (tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<5x3x2xf32>
  return %y, %m, %v, %a, %b, %c, %z : tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3x2xf32>
}
"""  # noqa: E501
    draw = np.random.default_rng(0)
    x, g = draw.normal(size=(2, 5, 3, 2)).astype(np.float32)
    s, o = np.abs(draw.normal(size=(2, 3))).astype(np.float32)

    def forward(x: Any, s: Any, o: Any) -> Any:
        mean, variance = x.mean((0, 2)), x.var((0, 2))
        return normalize(x, s, o, mean, variance), mean, variance

    def normalize(x: Any, s: Any, o: Any, mean: Any, variance: Any) -> Any:
        s, o, mean, variance = (each[None, :, None] for each in (s, o, mean, variance))
        return (x - mean) / (variance + 0.1) ** 0.5 * s + o

    expected = [*forward(x, s, o), *jax.vjp(lambda *a: forward(*a)[0], x, s, o)[1](g), normalize(x, s, o, o, s)]
    for got, want in zip(run(tmp_path, body, x, s, o, g), expected, strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_a_window_of_one_position_is_computed_once(tmp_path: Path) -> None:
    body = """
func.func @main(%x: tensor<2x8xf32>, %y: tensor<1x1xf32>) -> tensor<2x8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%y, %0) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 1, 1>} : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<2x8xf32>
  %3 = stablehlo.divide %x, %2 : tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}
"""
    (found,) = run(tmp_path, body, np.ones((2, 8), np.float32), np.full((1, 1), 2, np.float32))
    np.testing.assert_array_equal(found, np.full((2, 8), 0.5))


def test_a_size_that_is_set_is_that_of_the_tensor(tmp_path: Path) -> None:
    body = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = stablehlo.constant dense<8> : tensor<i32>
  %1 = "stablehlo.set_dimension_size"(%x, %0) {dimension = 1 : i64} : (tensor<2x8xf32>, tensor<i32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}
"""
    x = np.ones((2, 8), np.float32)
    np.testing.assert_array_equal(run(tmp_path, body, x)[0], x)
    with pytest.raises(ReproError, match="set_dimension_size is not supported with the size 7 for the extent 8"):
        run(tmp_path, body.replace("dense<8>", "dense<7>"), x)
