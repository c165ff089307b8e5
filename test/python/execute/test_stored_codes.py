# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Inference on stored codes has the bits of inference on stored weights. With stored weights, the program quantizes
them in each run."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import Program, ReproError
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.program import read_signature
from repro_mlir.reference.low_precision.binary_formats import ELEMENT_FORMATS
from repro_mlir.reference.low_precision.block_quantization import BlockFormat, quantize
from repro_mlir.reference.low_precision.block_scales import SCALE_RULES

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
nn = torch.nn

TOKENS = np.arange(6).reshape(2, 3) * 5 % 12


class Model(nn.Module):
    """A model with an embedding and three linear layers; the last one has the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(12, 32)
        self.wide, self.narrow = nn.Linear(32, 48), nn.Linear(48, 32)
        self.head = nn.Linear(32, 12, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.narrow(torch.relu(self.wide(self.tokens(tokens)))))


@functools.cache
def plain() -> Program:
    torch.manual_seed(3)
    return repro_mlir.capture(Model().eval(), (torch.from_numpy(TOKENS),))


def outputs(program: Program, target: str = "cpu") -> np.ndarray:
    _, found = repro_mlir.compile(program, target, 1)(program.initial_state(), TOKENS)
    (logits,) = found.values()
    return np.asarray(logits).view(np.uint32)


@pytest.mark.parametrize(
    "recipe",
    ["mxfp8", "mxint8", "nvfp4", "fp8_tensorwise", "blocks_mxfp4", "blocks_nvfp4", "blackwell_nvfp4"],
)
def test_stored_codes_give_the_bits_of_codes_that_are_made_in_each_run(recipe: str) -> None:
    program = repro_mlir.apply_precision(plain(), recipe)
    stored = repro_mlir.store_codes(program)
    assert stored.hash != program.hash and stored.inputs == program.inputs and stored.outputs == program.outputs
    names = {kind.name for kind in stored.state}
    assert {"wide.weight.codes", "narrow.weight.scales", "wide.bias", "tokens.weight"} <= names
    assert not {"wide.weight", "narrow.weight"} & names
    assert ("wide.weight.tensor" in names) == recipe.endswith("nvfp4")
    assert stored.text.count("repro.quantize") < program.text.count("repro.quantize")
    np.testing.assert_array_equal(outputs(stored), outputs(program))
    assert not np.array_equal(outputs(program), outputs(plain()))


@pytest.mark.parametrize("target", ["cpu:x86-64-v2", "reference", "ptx-emulator"])
def test_stored_codes_are_the_same_on_every_target(target: str) -> None:
    program = repro_mlir.apply_precision(plain(), "nvfp4")
    stored, elsewhere = repro_mlir.store_codes(program), repro_mlir.store_codes(program, target, 1)
    assert stored.hash == elsewhere.hash
    for first, second in zip(stored.initial, elsewhere.initial, strict=True):
        assert first.dtype == second.dtype and first.tobytes() == second.tobytes()
    np.testing.assert_array_equal(outputs(stored, target), outputs(program))


def test_stored_codes_are_those_of_the_reference() -> None:
    stored = repro_mlir.store_codes(repro_mlir.apply_precision(plain(), "mxfp8")).initial_state()
    form = BlockFormat(ELEMENT_FORMATS["f8E4M3FN"], (1, 32), SCALE_RULES["rceil"])
    for name in ("wide", "narrow", "tokens"):
        want = quantize(plain().initial_state()[f"{name}.weight"], form)
        np.testing.assert_array_equal(stored[f"{name}.weight.codes"].view(np.uint8), want.codes)
        np.testing.assert_array_equal(stored[f"{name}.weight.scales"].view(np.uint8), want.scales)


@pytest.mark.parametrize(("recipe", "bits"), [("mxfp8", 8), ("mxfp6", 6), ("mxfp4", 4)])
def test_a_file_of_codes_is_read_back_and_has_their_bits(recipe: str, bits: int, tmp_path: Path) -> None:
    stored = repro_mlir.store_codes(repro_mlir.apply_precision(plain(), recipe))
    stored.save(tmp_path / "stored.repro")
    loaded = Program.load(tmp_path / "stored.repro")
    assert loaded.hash == stored.hash
    np.testing.assert_array_equal(outputs(loaded), outputs(stored))
    weights = 2 * 32 * 48
    sizes = {kind.name: np.prod(kind.shape) for kind in stored.state}
    # (Q7) Two f4 codes share a byte in memory, as in the file.
    in_memory = sum(stored.initial_state()[f"{name}.weight.codes"].nbytes for name in ("wide", "narrow"))
    assert in_memory == (weights // 2 if bits == 4 else weights)
    pairs = [
        (kind, value)
        for kind, value in zip(stored.state, stored.initial, strict=True)
        if kind.name.startswith(("wide.weight", "narrow.weight"))
    ]
    packed = len(write_tensors(tuple(kind for kind, _ in pairs), tuple(value for _, value in pairs)))
    # A block of 32 elements has a scale of one byte. The rest of the file is the header with names and shapes.
    content = weights * bits // 8 + sizes["wide.weight.scales"] + sizes["narrow.weight.scales"]
    assert content < packed < content + 600


@pytest.mark.parametrize("recipe", ["mxfp4", "blocks_mxfp4"])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "reference", "ptx-emulator"])
@pytest.mark.diagonal
def test_Q7_rows_of_an_odd_length(recipe: str, target: str) -> None:
    torch.manual_seed(3)
    x = torch.randn(4, 45)
    program = repro_mlir.apply_precision(repro_mlir.capture(nn.Linear(45, 7, bias=False).eval(), (x,)), recipe)
    stored = repro_mlir.store_codes(program)
    assert [(kind.element, kind.shape) for kind in stored.state] == [("i8", (7, 23)), ("f8E8M0FNU", (7, 2))]
    want = repro_mlir.compile(program, "reference")(program.initial_state(), x)[1]
    found = repro_mlir.compile(stored, target, 1)(stored.initial_state(), x)[1]
    for first, second in zip(want.values(), found.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(first).view(np.uint32), np.asarray(second).view(np.uint32))


def test_one_weight_in_two_formats_has_codes_of_both() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) @ self.layer.weight

    torch.manual_seed(3)
    x = torch.randn(4, 32)
    program = repro_mlir.apply_precision(repro_mlir.capture(Twice().eval(), (x,)), "mxfp8")
    stored = repro_mlir.store_codes(program)
    names = [kind.name for kind in stored.state]
    assert names == [f"layer.weight{number}.{part}" for number in ("", ".1") for part in ("codes", "scales")]
    found = [repro_mlir.compile(each, "cpu", 1)(each.initial_state(), x)[1] for each in (program, stored)]
    for first, second in zip(*(each.values() for each in found), strict=True):
        np.testing.assert_array_equal(np.asarray(first).view(np.uint32), np.asarray(second).view(np.uint32))


def test_stored_codes_keep_the_checks_of_inputs() -> None:
    stored = repro_mlir.store_codes(repro_mlir.apply_precision(plain(), "mxfp8"))
    with pytest.raises(ReproError, match="index"):
        repro_mlir.compile(stored, "cpu", 1)(stored.initial_state(), TOKENS + 12)


def test_a_module_without_names() -> None:
    text = """
    #format = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>,
                                  rounding = #repro.rounding<direction = rne>>
    func.func @main(%spare: tensor<i8>, %w: tensor<4x32xf32>, %x: tensor<4x32xf32>)
        -> (tensor<i8>, tensor<4x32xf32>, tensor<4x32xf32>) attributes {repro.num_state = 2 : i64} {
      %codes, %scales = repro.quantize #format %w : tensor<4x32xf32> -> tensor<4x32xf4E2M1FN>, tensor<4x1xf8E8M0FNU>
      %values = repro.dequantize #format %codes, %scales
          : tensor<4x32xf4E2M1FN>, tensor<4x1xf8E8M0FNU> -> tensor<4x32xf32>
      %empty = tensor.empty() : tensor<4x32xf32>
      %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>,
                                              affine_map<(d0, d1) -> (d0, d1)>],
                             iterator_types = ["parallel", "parallel"]}
          ins(%x, %values : tensor<4x32xf32>, tensor<4x32xf32>) outs(%empty : tensor<4x32xf32>) {
      ^bb0(%a: f32, %b: f32, %out: f32):
        %c = arith.addf %a, %b : f32
        linalg.yield %c : f32
      } -> tensor<4x32xf32>
      return %spare, %w, %sum : tensor<i8>, tensor<4x32xf32>, tensor<4x32xf32>
    }
    """
    spare, w, x = np.array(-1, np.int8), *np.random.default_rng(0).standard_normal((2, 4, 32), dtype=np.float32)
    program = read_signature(to_bytes(text)).with_initial([spare, w])
    stored = repro_mlir.store_codes(program)
    assert [(kind.element, kind.shape) for kind in stored.state] == [
        ("i8", ()), ("i8", (4, 16)), ("f8E8M0FNU", (4, 1)),
    ]  # fmt: skip
    found = [repro_mlir.compile(each, "cpu", 1)(each.initial_state(), x)[1] for each in (program, stored)]
    (first,), (second,) = (each.values() for each in found)
    np.testing.assert_array_equal(np.asarray(first).view(np.uint32), np.asarray(second).view(np.uint32))


def training() -> Program:
    torch.manual_seed(3)
    model = nn.Linear(32, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(4, 32), torch.zeros(4, dtype=torch.int64)
    return repro_mlir.capture(model, nn.functional.cross_entropy, optimizer, batch, precision="mxfp8")


def test_programs_whose_weights_cannot_be_stored() -> None:
    cases: list[tuple[Any, str]] = [
        (3, "expected a Program, got a int"),
        (training(), "expected inference, which does not change the state"),
        (
            plain(),
            "expected inference under a recipe with weights in blocks, got one that quantizes no state",
        ),
        (repro_mlir.apply_precision(plain(), "bf16"), "quantizes no state"),
        (repro_mlir.apply_precision(plain(), {"fprop": {"activation": MX}}), "quantizes no state"),
        (repro_mlir.apply_precision(plain(), "mxfp8").with_initial(()), "without initial values"),
    ]
    for given, message in cases:
        with pytest.raises(ReproError, match=message):
            repro_mlir.store_codes(given)


MX = {"element": "f8E4M3FN", "tile": [1, 32], "scale": "rceil"}
