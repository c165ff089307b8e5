# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles a script to a bundle and runs the bundle on a simulated GPU, with commands only."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import Program, TensorType
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.cli.main import main
from repro_mlir.runner import Bundle
from repro_mlir.runner.command import main as run
from repro_mlir.runner.driver import LIBRARY_VARIABLE

pytest.importorskip("torch")

SCRIPT = """
import repro_mlir, torch

def training():
    torch.manual_seed(0)
    model = repro_mlir.initialize(torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    def batches():
        while True:
            optimizer.param_groups[0]["lr"] *= 0.5
            yield torch.randn(4, 5), torch.randint(3, (4,))
    return model, torch.nn.functional.cross_entropy, optimizer, batches()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def output(capsys: pytest.CaptureFixture[str]) -> dict:
    report: dict = json.loads(capsys.readouterr().out)
    return report


def test_a_bundle_has_the_bits_of_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    path = str(tmp_path / "model.rmb")
    target = ["--target", "cuda:sm_75,sm_90"]
    assert main(["compile", script, *target, "--steps", "3", "--expect", "-o", path, "--json"]) == 0
    made = output(capsys)
    assert main(["train", script, "--steps", "3", "--json"]) == 0
    trained = output(capsys)
    assert made["state"] == trained["state_hash"] and made["program"] == trained["program"]
    for options in ([], ["--ptx"]):
        assert run([path, "--json", *options]) == 0
        found = output(capsys)
        assert found["state_hash"] == trained["state_hash"] and found["differences"] == []
        assert found["scalars"]["loss"] == trained["losses"]
    bundle = Bundle(path)
    assert bundle.architectures == ["sm_75", "sm_90"]
    # The bundle records for each step the learning rate that the optimizer had in that step.
    assert [round(bundle.recorded_inputs(step)[0].item(), 6) for step in range(3)] == [0.05, 0.025, 0.0125]
    # `initialize` has drawn the initial values, so the bundle describes how to draw them and has no member with the
    # state.
    assert "state.safetensors" not in bundle.member_sizes()
    assert main(["inspect", path, "--json"]) == 0
    shown = output(capsys)
    assert shown["program"] == made["program"] and shown["targets"]["sm_90"]["launches"] > 0
    assert shown["steps"] == 3 and shown["expected"]["3"] == trained["state_hash"]
    assert main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert "sm_75: " in text and "3 recorded" in text
    assert main(["inspect", path, "--text"]) == 0
    assert "func.func @main" in capsys.readouterr().out
    assert main(["train", script, "--steps", "3", "--target", "cuda", "--json"]) == 0
    assert output(capsys)["state_hash"] == trained["state_hash"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "cuda:sm_76"], "unknown GPU 'sm_76', expected one of sm_75"),
        (["--target", "cpu", "--steps", "2"], "--steps, --expect and --sign are for bundles"),
        (["--expect"], "--steps, --expect and --sign are for bundles"),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str, arguments: list[str], message: str
) -> None:
    assert main(["compile", script, *arguments, "-o", str(tmp_path / "m.rmb")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "passes"),
    [
        ([], []),
        (["--target", "cpu:x86-64-v3"], ["ReproExpandKernels"]),
        (["--target", "ptx-emulator"], ["ReproExpandDeviceKernels"]),
        (["--target", "cores:tiny-2x2"], ["ReproMapTile", "ReproExpandKernels"]),
        (["--target", "cortex-m4f"], ["ReproExpandKernels"]),
    ],
)
def test_timing_tells_the_time_of_each_pass(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, script: str, target: list[str], passes: list[str]
) -> None:
    assert main(["compile", script, *target, "--timing", "--json", "-o", str(tmp_path / "p.repro")]) == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)["program"]
    assert re.search(r"^capture  [0-9.]+ s$", shown.err, re.MULTILINE)
    assert ("Execution time report" in shown.err) == bool(target)
    assert all(name in shown.err for name in passes)


def test_timing_of_a_module_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A child process compiles the module, so this process does not do it again to measure the passes."""
    (tmp_path / "layer.mlir").write_text(LAYER)
    command = ["compile", str(tmp_path / "layer.mlir"), "-o", str(tmp_path / "p.repro"), "--timing"]
    assert main([*command, "--target", "cpu"]) == 2
    assert "an MLIR module is compiled in a child process" in capsys.readouterr().err


def test_a_folder_is_made_only_for_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    module, folder = tmp_path / "layer.mlir", tmp_path / "new" / "layer"
    command = ["compile", str(module), "--target", "cortex-m4f", "-o", str(folder)]
    for text, message in (
        (None, "there is no such file"),
        ("func.func @main() {", "cannot be imported"),
        (
            LARGE,
            "expected a step with at most 2147483647 bytes, which a microcontroller can address, got 2400000004: "
            "state 0, inputs 2400000000, outputs 4, constants 0, intermediate results 0",
        ),
    ):
        if text is not None:
            module.write_text(text)
        assert main(command) == 2
        assert message in capsys.readouterr().err and not folder.parent.exists()
    module.write_text(LAYER)
    assert main(command) == 0
    assert sorted(each.name for each in folder.iterdir()) == ["layer.h", "layer.o"]
    for taken in (folder, folder / "layer.h"):
        assert main([*command[:-1], str(taken)]) == 2
        assert "expected a new or empty folder" in capsys.readouterr().err


def test_mistyped_targets(capsys: pytest.CaptureFixture[str], script: str, tmp_path: Path) -> None:
    for target, message in (
        ("cortex-m4", "did you mean cortex-m4f?"),
        ("cores:cortex-m4f", "got a microcontroller: repro compile --target cortex-m4f writes"),
        ("wormhole", "did you mean cores:wormhole-n150?"),
    ):
        assert main(["compile", script, "--target", target, "-o", str(tmp_path / "p.repro")]) == 2
        assert message in capsys.readouterr().err


LARGE = """
func.func @main(%x: tensor<600000000xf32>) -> tensor<1xf32> attributes {repro.num_state = 0 : i64} {
  %one = tensor.extract_slice %x[7] [1] [1] : tensor<600000000xf32> to tensor<1xf32>
  return %one : tensor<1xf32>
}
"""


def test_codes_are_stored_in_place_of_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str) -> None:
    (tmp_path / "layer.mlir").write_text(LAYER)
    weight = np.random.default_rng(0).standard_normal((64, 48), dtype=np.float32)
    kind = TensorType("weight", "f32", weight.shape)
    (tmp_path / "state.safetensors").write_bytes(write_tensors([kind], [weight]))
    command = ["compile", str(tmp_path / "layer.mlir"), "--state", str(tmp_path / "state.safetensors")]
    path = tmp_path / "stored.repro"
    assert main([*command, "--precision", "mxfp4", "--store-codes", "-o", str(path)]) == 0
    program = Program.load(path)
    assert program.hash in capsys.readouterr().out
    assert [(kind.name, kind.element) for kind in program.state] == [
        ("weight.codes", "i8"), ("weight.scales", "f8E8M0FNU"),
    ]  # fmt: skip
    for given, message in (
        ([*command, "--store-codes"], "got one that quantizes no state"),
        (
            ["compile", script, "--precision", "mxfp4", "--store-codes"],
            "expected inference, which does not change",
        ),
    ):
        assert main([*given, "-o", str(path)]) == 2
        assert message in capsys.readouterr().err


LAYER = """
func.func @main(%weight: tensor<64x48xf32> {repro.name = "weight"}, %x: tensor<3x64xf32>)
    -> (tensor<64x48xf32> {repro.name = "weight"}, tensor<3x48xf32>) attributes {repro.num_state = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x48xf32>) -> tensor<3x48xf32>
  %y = linalg.matmul ins(%x, %weight : tensor<3x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<3x48xf32>) -> tensor<3x48xf32>
  return %weight, %y : tensor<64x48xf32>, tensor<3x48xf32>
}
"""
