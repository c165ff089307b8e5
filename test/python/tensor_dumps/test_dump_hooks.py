# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Dumps of eager PyTorch (`repro_mlir.dump_hooks`), also compared with torch.compile."""

import dataclasses
import json
import struct
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.tensor_dumps.comparison import Comparison, compare_sides
from repro_mlir.tensor_dumps.listing import list_side

torch = pytest.importorskip("torch")


class Transformer(torch.nn.Module):
    """A transformer of two layers, with an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 32)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(32, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(tokens)))


def train(model: Any, steps: int, scale: float = 1.0) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        tokens = (torch.arange(24) * (step + 3) % 64).reshape(2, 12)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()) * scale
        loss.backward()
        optimizer.step()


def transformer() -> Transformer:
    torch.manual_seed(0)
    return Transformer()


def compared(first: Path, second: Path) -> Comparison:
    return compare_sides(list_side(str(first)), list_side(str(second)))


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def test_a_dump_has_outputs_and_gradients_in_order(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    for number in range(4):
        if number == 1:
            with repro_mlir.dump_hooks(model, tmp_path / "dump", every=2):
                for _ in range(3):
                    model(torch.ones(2, 3)).sum().backward()
        model(torch.ones(2, 3)).sum().backward()
    found = lines_of(tmp_path / "dump")
    names = [each["name"] for each in found]
    assert [each["step"] for each in found] == [1] * 8 + [3] * 8 and names[:8] == names[8:]
    assert names[:3] == ["0/output", "1/output", "output"]
    assert set(names[3:8]) == {"output/grad", "1/output/grad", "0/output/grad", "0.weight/grad", "0.bias/grad"}
    assert {each["name"]: each["module"] for each in found}["0.weight/grad"] == "0"
    assert not model._forward_hooks and not model[0]._forward_hooks and not model[0].weight._backward_hooks


def test_hooks_change_no_bit(tmp_path: Path) -> None:
    plain, watched = transformer(), transformer()
    train(plain, 2)
    with repro_mlir.dump_hooks(watched, tmp_path / "dump"):
        train(watched, 2)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, watched.state_dict()[name]), name


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "complex64"])
def test_a_dump_keeps_the_bits_of_small_types(tmp_path: Path, dtype: str) -> None:
    class Cast(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(getattr(torch, dtype))

    x = torch.linspace(-3, 3, 50)
    model = Cast()
    with repro_mlir.dump_hooks(model, tmp_path / "full"):
        model(x)
    (line,) = lines_of(tmp_path / "full")
    data = (tmp_path / "full" / line["file"]).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    assert data[8 + size :] == bytes(x.to(getattr(torch, dtype)).view(torch.uint8).tolist())


def test_several_outputs_and_calls(tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = torch.nn.GRU(3, 4)
            self.act = torch.nn.Tanh()

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y, _ = self.rnn(x)
            return {"y": self.act(self.act(y))}

    model = Twice()
    with repro_mlir.dump_hooks(model, tmp_path / "dump", modules=lambda name: name in ("rnn", "act", "")):
        with torch.no_grad():
            model(torch.ones(5, 1, 3))
    names = [each["name"] for each in lines_of(tmp_path / "dump")]
    assert names == ["rnn/output.0", "rnn/output.1", "act/output", "act/output#2", "output.y"]


class Named(NamedTuple):
    logits: torch.Tensor
    count: int


@dataclasses.dataclass(frozen=True)
class Output:
    loss: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    cache: Any = None


OUTPUTS: dict[str, tuple[Callable[[torch.Tensor], Any], list[str]]] = {
    "dataclass": (lambda x: Output(x, (x, x)), ["loss", "hidden.0", "hidden.1"]),
    "dataclass in a list": (lambda x: [Output(x, ())], ["0.loss"]),
    "named tuple": (lambda x: Named(x, 3), ["logits"]),
    "mapping": (lambda x: types.MappingProxyType({"y": x}), ["y"]),
    "torch.return_types": (lambda x: x.max(dim=0), ["0", "1"]),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_containers_of_outputs(tmp_path: Path, case: str) -> None:
    function, names = OUTPUTS[case]

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    model = Model()
    with repro_mlir.dump_hooks(model, tmp_path / "dump"):
        model(torch.ones(3))
    assert [each["name"] for each in lines_of(tmp_path / "dump")] == [f"output.{name}" for name in names]


def test_an_object_that_is_not_written_gives_a_warning(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"y": x, "state": types.SimpleNamespace(hidden=x), "size": 3, "name": None}

    model = Model()
    with repro_mlir.dump_hooks(model, tmp_path / "dump"):
        with pytest.warns(UserWarning, match="output.state: a SimpleNamespace is not written: expected tensors in"):
            model(torch.ones(3))
    assert [each["name"] for each in lines_of(tmp_path / "dump")] == ["output.y"]


def test_gradients_have_the_names_of_their_outputs(tmp_path: Path) -> None:
    """Calls are numbered in the order of the outputs; a backward pass after later steps repeats no name."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = torch.nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.act(x) * 2)

    model = Model()
    with repro_mlir.dump_hooks(model, tmp_path / "dump", modules=lambda name: name == "act"):
        x = torch.ones(2, requires_grad=True)
        first = model(x).sum()
        first.backward(retain_graph=True)
        for _ in range(3):
            model(x)
        first.backward()
    folder = tmp_path / "dump"
    assert [(each["step"], each["name"]) for each in lines_of(folder) if each["name"].count("grad")] == [
        (1, "act/output#2/grad"), (1, "act/output/grad"), (1, "act/output#2/grad#2"), (1, "act/output/grad#2"),
    ]  # fmt: skip
    assert compared(folder, folder).is_equal


def test_two_dumps_of_a_transformer(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The runs part in the second step, at the gradient of the logits."""
    for name in "abc":
        model = transformer()
        with repro_mlir.dump_hooks(model, tmp_path / name):
            train(model, 1)
            train(model, 1, 1.0 if name < "c" else 1.0 + 2**-23)
    assert compared(tmp_path / "a", tmp_path / "b").is_equal
    assert main(["diff", "--dumps", str(tmp_path / "a"), str(tmp_path / "c"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    first = found["differences"][0]
    assert (first["step"], first["name"], found["steps"]) == (2, "head/output/grad", [2, 2])
    assert {each["step"] for each in found["differences"]} == {2}


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.split(2)


def test_an_unused_output_has_no_gradient(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), Halves())
    with repro_mlir.dump_hooks(model, tmp_path / "dump"):
        model(torch.ones(4, 3))[0].sum().backward()
    names = [each["name"] for each in lines_of(tmp_path / "dump")]
    assert names[:4] == ["0/output", "1/output.0", "1/output.1", "output.0"]
    assert {each for each in names if each.endswith("/grad")} == {
        "output.0/grad", "1/output.0/grad", "0/output/grad", "0.weight/grad", "0.bias/grad"
    }  # fmt: skip


def test_tensors_that_are_not_dense_are_refused(tmp_path: Path) -> None:
    model = torch.nn.Embedding(4, 2, sparse=True)
    with (
        pytest.raises(ReproError, match=r"^step 1: weight/grad: expected a dense tensor .* is torch\.sparse_coo$"),
        repro_mlir.dump_hooks(model, tmp_path / "sparse"),
    ):
        model(torch.tensor([1])).sum().backward()
    same = torch.nn.Identity()
    with (
        pytest.raises(ReproError, match=r"^step 1: output: expected a dense tensor .* is meta$"),
        repro_mlir.dump_hooks(same, tmp_path / "meta"),
    ):
        same(torch.ones(2, device="meta"))


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("")
    for folder, every, message in (
        ("old", 1, "old: expected a new or empty folder, got a folder with files: name another"),
        ("old/file", 1, "file: expected a new or empty folder, got a file"),
        ("old/file/new", 1, "cannot write .*new: Not a directory"),
        ("new", 0, "of at least 1, got 0"),
        ("new", 1.5, "of at least 1, got 1.5"),
        ("new", "2", "of at least 1, got '2'"),
    ):
        with pytest.raises(ReproError, match=message), repro_mlir.dump_hooks(torch.nn.ReLU(), tmp_path / folder, every):
            raise AssertionError


def test_names_of_a_compiled_model(tmp_path: Path) -> None:
    """The backend "eager" of torch.compile computes the bits of eager mode; the dumps have the same names."""
    for name, compiled in (("eager", False), ("compiled", True)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
        called = torch.compile(model, backend="eager") if compiled else model
        with repro_mlir.dump_hooks(called, tmp_path / name):
            called(torch.ones(2, 3)).sum().backward()
    found = compared(tmp_path / "eager", tmp_path / "compiled")
    assert found.is_equal and found.compared == 8


@pytest.mark.exhaustive
def test_eager_against_inductor(tmp_path: Path) -> None:
    """Inductor's code for two layers of a transformer gives other bits than eager mode; both dumps have the same
    tensors, and the first difference is in the first step."""
    with repro_mlir.dump_hooks(eager := transformer(), tmp_path / "eager"):
        train(eager, 2)
    model = torch.compile(transformer(), backend="inductor")
    with repro_mlir.dump_hooks(model, tmp_path / "inductor"):
        train(model, 2)
    found = compared(tmp_path / "eager", tmp_path / "inductor")
    assert found.compared > 60 and found.different and found.differences[0].step == 1
    assert not any(found.missing_steps)


class Returning(torch.nn.Module):
    """Returns the output of a function of the input."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def containing_itself(x: Any) -> Any:
    found = [x]
    found.append({"again": found})
    return found


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (containing_itself, "^output.1.again: expected a tensor, got a list that contains itself"),
        (lambda x: {"fine": x, "\ud800": x}, r"^'output\.\\ud800': expected the name of a tensor without surrogates"),
    ],
)
def test_outputs_that_cannot_be_named(tmp_path: Path, function: Callable[[Any], Any], message: str) -> None:
    model = Returning(function)
    with repro_mlir.dump_hooks(model, tmp_path / "dump"), pytest.raises(ReproError, match=message):
        model(torch.ones(2))
    assert not (tmp_path / "dump" / "step1").exists() and not (tmp_path / "dump" / "manifest.jsonl").read_text()


def test_modules_that_cannot_be_named(tmp_path: Path) -> None:
    model = torch.nn.Sequential()
    model.add_module("\udc80", torch.nn.ReLU())
    with pytest.raises(ReproError, match="without surrogates: rename the module"):
        with repro_mlir.dump_hooks(model, tmp_path / "dump"):
            raise AssertionError


def test_one_container_in_two_places(tmp_path: Path) -> None:
    model = Returning(lambda x: [inner := [x], inner])
    with repro_mlir.dump_hooks(model, tmp_path / "dump"):
        model(torch.ones(2))
    assert len((tmp_path / "dump" / "manifest.jsonl").read_text().splitlines()) == 2
