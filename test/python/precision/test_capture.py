# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests recipes in capture and training: options, checkpoints, microbatches, commands."""

from __future__ import annotations

import functools
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.cli import main as cli
from repro_mlir.precision import (
    Format,
    Rule,
    apply_precision,
    blocks,
    precision_summary,
    recipe_of,
)
from repro_mlir.program.microbatches import MicrobatchProgram
from support.recipes import of_roles
from support.small_script import SMALL_SCRIPT, program_of_command
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[3]

SR = of_roles("sr", dgrad={"gradient": blocks("f8E5M2", "mx", "rceil", "sr8")})


def given(dropout: float = 0.0) -> tuple[Any, ...]:
    torch.manual_seed(0)
    layers = [nn.Linear(32, 48), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else []), nn.Linear(48, 16)]
    model = nn.Sequential(*layers)
    return model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(32, 32, generator=rng), torch.randint(16, (32,), generator=rng)


def test_capture_and_trainer_have_the_program_of_the_recipe() -> None:
    plain = repro_mlir.capture(*given(), batch())
    expected = apply_precision(plain, "mxfp8")
    assert repro_mlir.capture(*given(), batch(), precision="mxfp8").hash == expected.hash
    assert repro_mlir.Trainer(*given(), precision="mxfp8").prepare(*batch()).hash == expected.hash
    inference = repro_mlir.capture(given()[0], batch()[0], precision="mxfp8")
    assert inference.text.count("repro.quantize") == 4
    with pytest.raises(ReproError, match="expected a recipe among"):
        repro_mlir.Trainer(*given(), precision="fp3")
    misspelt = recipe_of("mxfp8").with_rules(Rule("haed.*", skip=True))
    with pytest.raises(ReproError, match=r"the layers 'haed\.\*', and the program has none of them"):
        repro_mlir.Trainer(*given(), precision=misspelt).prepare(*batch())


def test_exact_sums_of_quantized_operands() -> None:
    program = repro_mlir.capture(*given(), batch(), exact_digits=2, precision="mxfp8")
    assert {each.order for each in repro_mlir.contractions(program)} == {"#repro.exact<digits = 2>"}
    assert "repro.quantize" in program.text


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_stochastic_rounding_draws_from_the_state_of_the_trainer(dropout: float, tmp_path: Path) -> None:
    trainer = repro_mlir.Trainer(*given(dropout), precision=SR, seed=3, target="reference")
    program = trainer.prepare(*batch())
    assert [kind.name for kind in program.state][-2:] == ["seed", "step"]
    # The random site of dropout, if any, is numbered before that of stochastic rounding.
    sites = sorted(int(each) for each in re.findall(r"site = (\d+)", program.text))
    assert sites == ([0, 1] if dropout else [0])
    losses = [trainer.step(*batch(i)) for i in range(2)]
    trainer.save_checkpoint(tmp_path / "run.checkpoint")
    losses += [trainer.step(*batch(i)) for i in range(2, 4)]
    other = repro_mlir.Trainer(*given(dropout), precision=SR, target="reference")
    other.load_checkpoint(tmp_path / "run.checkpoint")
    assert [other.step(*batch(i)) for i in range(2, 4)] == losses[2:]
    assert other.state_hash() == trainer.state_hash()
    assert trainer.evaluate(*batch()) > 0
    unlike = repro_mlir.Trainer(*given(dropout), precision=SR, seed=4, target="reference")
    for i in range(4):
        unlike.step(*batch(i))
    assert unlike.state_hash() != trainer.state_hash()


def test_a_receipt_has_the_state_of_stochastic_rounding(tmp_path: Path) -> None:
    path = tmp_path / "receipt"
    with repro_mlir.Trainer(*given(), precision=SR, receipt=path, target="reference") as trainer:
        for i in range(2):
            trainer.step(*batch(i))
    assert repro_mlir.verify(path, target="reference").steps == 2


def test_microbatches_are_in_the_precision_of_the_recipe() -> None:
    trainer = repro_mlir.Trainer(*given(), precision="mxfp8", microbatches=2, target="reference")
    program = trainer.prepare(*batch())
    assert isinstance(program, MicrobatchProgram)
    plain = repro_mlir.Trainer(*given(), microbatches=2, target="reference").prepare(*batch())
    assert isinstance(plain, MicrobatchProgram)
    assert apply_precision(plain, "mxfp8").hash == program.hash != plain.hash
    assert program.finish.hash == plain.finish.hash
    summary = precision_summary(plain, "mxfp8")
    roles = sorted((each.role, each.layer) for each in summary.contractions)
    assert roles == [
        ("dgrad", "2.weight"),
        ("fprop", "0.weight"),
        ("fprop", "2.weight"),
        ("wgrad", "0.weight"),
        ("wgrad", "2.weight"),
    ]
    assert not summary.untouched
    assert np.isfinite(trainer.step(*batch()))


def test_microbatches_round_stochastically_each_with_its_own_numbers() -> None:
    trainer = repro_mlir.Trainer(*given(), precision=SR, microbatches=2, target="reference")
    trainer.step(*batch())
    assert int(trainer.state["step"]) == 2
    plain = repro_mlir.Trainer(*given(), microbatches=2, target="reference").prepare(*batch())
    with pytest.raises(ReproError, match="expected a program with them"):
        apply_precision(plain, SR)


def test_an_evaluation_is_in_the_precision_of_the_forward_pass() -> None:
    model, loss, optimizer = given()
    quantized = repro_mlir.Trainer(model, loss, optimizer, precision="mxfp4", target="reference")
    plain = repro_mlir.Trainer(model, loss, optimizer, target="reference")
    gradients_alone = of_roles("w", wgrad={"gradient": Format("bf16")})
    gradients = repro_mlir.Trainer(model, loss, optimizer, precision=gradients_alone, target="reference")
    assert quantized.evaluate(*batch()) != plain.evaluate(*batch()) == gradients.evaluate(*batch())
    stochastic = of_roles("f", fprop={"weight": blocks("f8E5M2", "mx", "rceil", "sr8")})
    with pytest.raises(ReproError, match="stochastic rounding of the forward pass is for training steps only"):
        repro_mlir.Trainer(model, loss, optimizer, precision=stochastic).evaluate(*batch())


def test_f16_with_a_scaled_loss() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
    trainer = repro_mlir.Trainer(*given(), precision="f16", loss_scale=scaler)
    losses = [trainer.step(*batch()) for _ in range(4)]
    assert losses[-1] < losses[0]
    assert "f32 to f16" in trainer.program.text
    assert float(trainer.state["loss_scale.scale"]) == 2.0**10


def test_operands_of_autocast_are_quantized_before_the_cast() -> None:
    program = repro_mlir.capture(*given(), batch(), autocast=torch.bfloat16, precision="mxfp8")
    layers = {(each.role, each.layer) for each in repro_mlir.contractions(program)}
    assert ("fprop", "0.weight") in layers and ("wgrad", "0.weight") in layers
    executable = repro_mlir.compile(program, "reference")
    numbers = np.float32(0.1), np.float32(0.9)
    _, outputs = executable(program.initial_state(), *numbers, *(each.numpy() for each in batch()))
    assert np.isfinite(outputs["loss"])


def test_an_onnx_model_in_the_precision_of_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    from repro_mlir.frontends.onnx import load

    weight = onnx.numpy_helper.from_array(np.ones((32, 8), np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 32])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 8])],
        [weight],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    program = load(model, precision="mxfp8")
    assert program.hash == apply_precision(load(model), "mxfp8").hash
    assert [(each.role, each.layer) for each in repro_mlir.contractions(program)] == [("fprop", "w")]
    path, written = str(tmp_path / "model.onnx"), str(tmp_path / "program.repro")
    onnx.save(model, path)
    assert cli.main(["compile", path, "-o", written, "--precision", "mxfp8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["program"] == program.hash
    assert cli.main(["compile", path, "-o", written, "--precision", ""]) == 2
    assert "expected a recipe among" in capsys.readouterr().err


def test_open_sizes_have_no_precision() -> None:
    size = torch.export.Dim("n", min=2, max=64)
    with pytest.raises(ReproError, match="call apply_precision for each size"):
        repro_mlir.capture(given()[0], batch()[0], dynamic_shapes=[{0: size}], precision="bf16")  # type: ignore[call-overload]


def test_the_option_of_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In every command that captures a script, the option of the command line replaces that of the script."""
    plain, chosen, receipt = tmp_path / "plain.py", tmp_path / "chosen.py", str(tmp_path / "receipt")
    plain.write_text(SMALL_SCRIPT.replace("{options}", "{}"))
    chosen.write_text(SMALL_SCRIPT.replace("{options}", "{'precision': 'bf16'}"))

    program = functools.partial(program_of_command, capsys)
    trained = program("train", str(plain), "--steps", "2", "--receipt", receipt, "--precision", "bf16")
    assert trained == program("verify", receipt, "--script", str(chosen))
    assert trained == program("verify", receipt, "--script", str(plain), "--precision", "bf16")
    as_json = '{"fprop": {"weight": "bf16"}}'
    assert trained != program("compile", str(plain), "-o", str(tmp_path / "program.repro"), "--precision", as_json)
    assert cli.main(["verify", receipt, "--script", str(plain)]) == 1
    assert "WRONG    program: differs from that of" in capsys.readouterr().out
    terms = ["--terms", str(plain), "--precision", "bf16"]
    assert cli.main(["dispute", receipt, receipt, *terms]) == 0
    assert cli.main(["diff", str(plain), "--targets", "eager,cpu", "--ulps", "1000000000", "--precision", "bf16"]) == 0
    capsys.readouterr()
    assert cli.main(["verify", receipt, "--precision", "bf16"]) != 0
    assert "a precision can be given for a script only" in capsys.readouterr().err


def test_the_page_of_recipes_is_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "guides" / "precision.md").read_text()
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, flags=re.M)
    exec("".join(textwrap.dedent(block) for block in blocks if "    program = " in block), {})
    assert [kind.name for kind in repro_mlir.Program.load("model.repro").state][-1] == "2.weight.scales"
    (example,) = re.findall(r"^```json\n(.*?)^```", text, flags=re.M | re.S)
    assert len(recipe_of(example).rules) == 2
