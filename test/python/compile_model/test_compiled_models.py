# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro_mlir.compile` accepts models of each kind, and its executables for them have the same bits."""

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")


@pytest.fixture(scope="module")
def model() -> "torch.nn.Module":
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 4)).eval()


@pytest.fixture(scope="module")
def inputs() -> "torch.Tensor":
    return torch.linspace(-2, 2, 18).reshape(3, 6)


def run(executable: repro_mlir.Executable, inputs: "torch.Tensor") -> np.ndarray:
    (result,) = executable(executable.program.initial_state(), inputs)[1].values()
    return np.asarray(result)


def test_models_exported_models_and_files(model: "torch.nn.Module", inputs: "torch.Tensor", tmp_path: Path) -> None:
    program = repro_mlir.capture(model, inputs)
    want = run(repro_mlir.compile(program), inputs)
    torch.testing.assert_close(torch.from_numpy(want), model(inputs).detach())
    exported = torch.export.export(model, (inputs,))
    torch.export.save(exported, tmp_path / "model.pt2")
    for given, examples in ((model, inputs), (exported, None), (tmp_path / "model.pt2", None)):
        for target in ("cpu", "reference"):
            executable = repro_mlir.compile(given, target, inputs=examples)
            assert executable.program.hash == program.hash
            np.testing.assert_array_equal(run(executable, inputs).view(np.uint32), want.view(np.uint32))
    assert repro_mlir.compile(str(tmp_path / "model.pt2"), threads=1).threads == 1


def test_arguments_that_are_not_models(model: "torch.nn.Module", inputs: "torch.Tensor", tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=r"a model with inputs=... \(examples of its inputs\), got a Sequential"):
        repro_mlir.compile(model)
    with pytest.raises(ReproError, match="got a int"):
        repro_mlir.compile(3)
    with pytest.raises(ReproError, match=r"expected a torch.nn.Module|expected .*Module"):
        repro_mlir.compile(3, inputs=inputs)
    with pytest.raises(ReproError, match="its own sizes"):
        repro_mlir.compile(repro_mlir.capture(model, inputs), inputs=inputs)
    for path, message in (
        (tmp_path / "missing.pt2", r"cannot read .*missing\.pt2: No such file or directory"),
        (tmp_path, "expected a regular file, got a directory"),
        ("/dev/null", "/dev/null: expected a regular file, got a device"),
        ("a" * 5000, r"cannot read a*: File name too long"),
        ("a\0b", r"cannot read 'a.*b': expected a path"),
    ):
        with pytest.raises(ReproError, match=message):
            repro_mlir.compile(path)
    (tmp_path / "text.pt2").write_text("no archive")
    with pytest.raises(ReproError, match=r"expected a file of torch\.export\.save, which cannot be read"):
        repro_mlir.compile(tmp_path / "text.pt2")


class Trap:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_file_whose_weights_are_other_objects(
    model: "torch.nn.Module", inputs: "torch.Tensor", tmp_path: Path
) -> None:
    torch.export.save(torch.export.export(model, (inputs,)), tmp_path / "model.pt2")
    touched = tmp_path / "touched"
    with zipfile.ZipFile(tmp_path / "model.pt2") as good, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
        for name in good.namelist():
            data = good.read(name)
            bad.writestr(name, pickle.dumps(Trap(touched)) if name.endswith(".pt") else data)
    former = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    try:
        repro_mlir.compile(tmp_path / "bad.pt2")
    except ReproError:
        pass
    assert not touched.exists() and os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") == former


def test_a_damaged_file(model: "torch.nn.Module", inputs: "torch.Tensor", tmp_path: Path) -> None:
    torch.export.save(torch.export.export(model, (inputs,)), tmp_path / "model.pt2")
    data = bytearray((tmp_path / "model.pt2").read_bytes())
    weight = next(iter(model.parameters())).detach().numpy().tobytes()
    data[data.index(weight) + 2] ^= 1
    (tmp_path / "damaged.pt2").write_bytes(data)
    with pytest.raises(ReproError, match=r"damaged.pt2: .* is damaged"):
        repro_mlir.compile(tmp_path / "damaged.pt2")
    (tmp_path / "short.pt2").write_bytes(data[:-100])
    with pytest.raises(ReproError, match=r"short.pt2: expected a file of torch.export.save, which cannot be read"):
        repro_mlir.compile(tmp_path / "short.pt2")
