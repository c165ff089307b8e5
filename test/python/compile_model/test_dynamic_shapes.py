# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch models with dynamic shapes become one program, from which an executable is made for each size."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.program.symbolic import PerSize

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
from torch import nn  # noqa: E402

BATCH = torch.export.Dim("batch", max=64)
SEQUENCE = torch.export.Dim("seq", max=16)


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, stride=2)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        x = torch.max_pool2d(torch.relu(self.norm(self.first(x))), 2, 1)
        return self.head(self.second(x).mean((2, 3)))


class Text(nn.Module):
    """A transformer with learned position embeddings and a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.positions = nn.Parameter(torch.zeros(16, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        length = tokens.shape[1]
        x = self.embedding(tokens) + self.positions[:length]
        mask = torch.full((length, length), float("-inf")).triu(1)
        return self.head(self.layer(x, src_mask=mask))


class Case(NamedTuple):
    model: Callable[[], nn.Module]
    inputs: Callable[[int, int], Any]
    shapes: dict[int, Any]


def rows(*shape: int) -> Any:
    """Returns random numbers of this shape. A smaller batch consists of the first rows of a larger batch."""
    whole = torch.randn([16, *shape[1:]], generator=torch.Generator().manual_seed(5))
    return whole[: shape[0]]


def tokens(batch: int, length: int) -> Any:
    return torch.arange(16 * length).reshape(16, length)[:batch] * 7 % 11


CASES = {
    "mlp": Case(
        lambda: nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 4)),
        lambda batch, _: rows(batch, 6),
        {0: BATCH},
    ),
    "cnn": Case(Image, lambda batch, _: rows(batch, 2, 6, 6), {0: BATCH}),
    "transformer": Case(Text, tokens, {0: BATCH, 1: SEQUENCE}),
}
SIZES = [(1, 1), (1, 5), (3, 2), (4, 5), (7, 16)]


class Made(NamedTuple):
    case: Case
    model: nn.Module
    program: repro_mlir.SymbolicProgram


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest) -> Made:
    case = CASES[request.param]
    torch.manual_seed(2)
    model = case.model().eval()
    return Made(case, model, repro_mlir.capture(model, case.inputs(4, 5), dynamic_shapes=[case.shapes]))


def outputs(executable: Any, *inputs: Any) -> np.ndarray:
    (result,) = executable(executable.program.initial_state(), *inputs)[1].values()
    return np.asarray(result)


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.shape == b.shape
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


def test_bits_are_those_of_a_static_capture(made: Made) -> None:
    executable = repro_mlir.compile(made.program)
    for batch, length in SIZES:
        inputs = made.case.inputs(batch, length)
        found = outputs(executable, inputs)
        same(found, outputs(repro_mlir.compile(repro_mlir.capture(made.model, inputs)), inputs))
        torch.testing.assert_close(torch.from_numpy(found), made.model(inputs).detach(), atol=2e-6, rtol=1e-5)


def test_bits_are_those_of_all_targets(made: Made) -> None:
    inputs = made.case.inputs(3, 2)
    found = outputs(repro_mlir.compile(made.program), inputs)
    for target in ("cpu:x86-64-v2", "reference", "ptx-emulator"):
        same(found, outputs(repro_mlir.compile(made.program, target), inputs))


def test_P0_bits_of_a_row_do_not_depend_on_the_size(made: Made) -> None:
    executable = repro_mlir.compile(made.program)
    inputs = made.case.inputs(7, 5)
    whole = outputs(executable, inputs)
    for batch in (1, 3, 7):
        same(outputs(executable, inputs[-batch:].contiguous()), whole[-batch:])


@pytest.mark.exhaustive("transformer")
def test_one_identity_for_all_sizes(made: Made) -> None:
    """The identity does not depend on the sizes of the example inputs, nor on names of dimensions."""
    other = torch.export.Dim("n", max=64), torch.export.Dim("m", max=16)
    for batch, length in ((1, 1), (4, 5), (2, 7)):
        shapes = {dim: other[dim] for dim in made.case.shapes}
        program = repro_mlir.capture(made.model, made.case.inputs(batch, length), dynamic_shapes=[shapes])
        assert program.hash == made.program.hash
    narrow = {**made.case.shapes, 0: torch.export.Dim("batch", max=63)}
    assert repro_mlir.capture(made.model, made.case.inputs(4, 5), dynamic_shapes=[narrow]).hash != made.program.hash


def test_the_program_of_a_size_is_a_program(made: Made, tmp_path: Path) -> None:
    inputs = made.case.inputs(3, 2)
    program = made.program.specialize(**made.program.sizes_of([inputs]))
    static = repro_mlir.capture(made.model, inputs)
    assert program.inputs == static.inputs and program.outputs == static.outputs and program.state == static.state
    program.save(tmp_path / "program")
    loaded = repro_mlir.Program.load(tmp_path / "program")
    assert loaded.hash == program.hash
    same(outputs(repro_mlir.compile(loaded), inputs), outputs(repro_mlir.compile(made.program), inputs))


@pytest.mark.exhaustive("transformer")
def test_exported_models_and_files(made: Made, tmp_path: Path) -> None:
    exported = torch.export.export(made.model, (made.case.inputs(4, 5),), dynamic_shapes=[made.case.shapes])
    torch.export.save(exported, tmp_path / "model.pt2")
    expected = repro_mlir.compile(made.program)
    for given in (exported, tmp_path / "model.pt2"):
        executable = repro_mlir.compile(given)
        assert [(each.least, each.most) for each in executable.program.symbols] == [
            (each.least, each.most) for each in made.program.symbols
        ]
        for batch, length in ((1, 2), (3, 5)):
            inputs = made.case.inputs(batch, length)
            same(outputs(executable, inputs), outputs(expected, inputs))
    # With example inputs, `compile` returns an executable for their sizes.
    inputs = made.case.inputs(2, 3)
    fixed = repro_mlir.compile(exported, inputs=inputs)
    assert isinstance(fixed, repro_mlir.Executable) and fixed.program.inputs[0].shape == tuple(inputs.shape)


def test_an_executable_per_size_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    program = repro_mlir.capture(CASES["mlp"].model().eval(), rows(2, 6), dynamic_shapes=[{0: BATCH}])
    executable = repro_mlir.compile(program, "reference", threads=1)
    assert isinstance(executable, repro_mlir.SymbolicExecutable)
    first = executable.at(batch=1)
    assert executable.of([rows(1, 6)]) is first and first.program.inputs[0].shape == (1, 6)
    monkeypatch.setattr(PerSize, "MOST", 2)
    for batch in (2, 1, 3):
        executable.at(batch=batch)
    assert executable.at(batch=1) is first
    executable.at(batch=2)
    executable.at(batch=3)
    assert executable.at(batch=1) is not first
    assert executable.threads == 1 and executable.target == "reference"


def test_sizes_that_are_refused(made: Made) -> None:
    executable = repro_mlir.compile(made.program)
    state = made.program.initial_state()
    with pytest.raises(ReproError, match="expected a size of batch from 1 to 64, got 0"):
        executable(state, made.case.inputs(0, 2))
    with pytest.raises(ReproError, match="expected a size of batch from 1 to 64, got 65"):
        executable.at(**{"batch": 65, "seq": 2} if len(made.program.symbols) > 1 else {"batch": 65})
    with pytest.raises(ReproError, match=r"expected sizes of batch.*, got one of length"):
        executable.at(batch=3, length=2)
    with pytest.raises(ReproError, match="expected a size of batch from 1 to 64, got None"):
        executable.at()
    with pytest.raises(ReproError, match="expected 1 inputs, got 0"):
        executable(state)
    with pytest.raises(ReproError, match=r"expected \d dimensions, got shape \[1, 1, 1, 1, 1\]"):
        executable(state, torch.zeros(1, 1, 1, 1, 1))
    with pytest.raises(ReproError, match="unknown target"):
        repro_mlir.compile(made.program, "cpu:none")
    with pytest.raises(ReproError, match="its own sizes"):
        repro_mlir.compile(made.program, inputs=made.case.inputs(1, 1))


def test_equal_symbols_are_equal_extents() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.sum(0) + y.sum(0)

    program = repro_mlir.capture(Two(), (rows(2, 3), rows(2, 3)), dynamic_shapes={"x": {0: BATCH}, "y": {0: BATCH}})
    executable = repro_mlir.compile(program, "reference")
    x = rows(5, 3)
    np.testing.assert_allclose(outputs(executable, x, x), 2 * x.sum(0), rtol=1e-6)
    with pytest.raises(ReproError, match=r"batch is 5 in batch\[0\] and 4 in dimension 0 of batch\[1\]"):
        executable({}, x, x[:4])
    with pytest.raises(ReproError, match=r"expected shape \[5, 3\], got \[5, 2\]"):
        executable({}, x, x[:, :2])


def test_extents_made_of_symbols() -> None:
    class Twice(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.cat([x, x + 1]) * y

    shapes = {"x": {0: BATCH}, "y": {0: 2 * BATCH}}
    exported = torch.export.export(Twice(), (rows(2, 3), rows(4, 3)), dynamic_shapes=shapes)
    captured = repro_mlir.capture(Twice(), (rows(2, 3), rows(4, 3)), dynamic_shapes=shapes)
    for program in (captured, repro_mlir.capture(exported)):
        executable = repro_mlir.compile(program, "reference")
        x, y = rows(3, 3), rows(6, 3)
        same(outputs(executable, x, y), (torch.cat([x, x + 1]) * y).numpy())
        with pytest.raises(ReproError, match=r"expected shape \[6, 3\], got \[5, 3\]"):
            executable({}, x, y[:5])


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """Writes a copy of a file of torch.export in which the JSON of its program is edited."""
    changed = path.with_name("changed.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                program = json.loads(data)
                edit(program)
                data = json.dumps(program).encode()
            new.writestr(entry, data)
    return changed


def bounds(least: Any, most: Any) -> Callable[[dict[str, Any]], None]:
    def edit(program: dict[str, Any]) -> None:
        assert program["range_constraints"]
        for name in program["range_constraints"]:
            program["range_constraints"][name] = {"min_val": least, "max_val": most}

    return edit


def test_files_with_odd_sizes(tmp_path: Path) -> None:
    """A file with unusual size constraints causes one error, or gives a program with the bounds that the file
    states."""
    torch.manual_seed(2)
    exported = torch.export.export(CASES["mlp"].model().eval(), (rows(2, 6),), dynamic_shapes=[{0: BATCH}])
    torch.export.save(exported, tmp_path / "model.pt2")

    def forget(program: dict[str, Any]) -> None:
        program["range_constraints"].clear()

    for edit in (bounds(9, 3), bounds(-5, -1), bounds("a", None), bounds(2**40, 2**50), bounds(1, 1), forget):
        with pytest.raises(ReproError) as caught:
            repro_mlir.compile(change(tmp_path / "model.pt2", edit))
        assert len(str(caught.value).splitlines()) == 1
    (symbol,) = repro_mlir.compile(change(tmp_path / "model.pt2", bounds(-(2**50), 2**62))).program.symbols
    assert (symbol.least, symbol.most) == (1, 2**31 - 1)
