# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares checkpoints that torch.save wrote."""

from pathlib import Path
from typing import Any

import pytest
from repro_mlir.cli.main import main
from repro_mlir.tensor_dumps.comparison import Comparison, compare_sides
from repro_mlir.tensor_dumps.listing import list_side
from repro_mlir.tensor_dumps.stored_tensors import StoredTensor
from repro_mlir.tensor_dumps.tensor_files import read_values

torch = pytest.importorskip("torch")


def compared(first: Path, second: Path) -> Comparison:
    return compare_sides(list_side(str(first)), list_side(str(second)))


def train(steps: int, lr: float = 1e-3) -> dict[str, Any]:
    """Returns the checkpoint of a training as users write it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    return states | {"epoch": steps, "name": "run", "rng": torch.get_rng_state()}


def test_checkpoints_of_two_runs(tmp_path: Path) -> None:
    torch.save(train(3), tmp_path / "a.pt")
    torch.save(train(3), tmp_path / "b.pt")
    equal = compared(tmp_path / "a.pt", tmp_path / "b.pt")
    assert equal.is_equal and equal.compared > 40
    changed = train(3)
    changed["model"]["2.weight"][1, 5] += 1
    changed["optimizer"]["param_groups"][0]["betas"] = (0.9, 0.99)
    changed["name"] = "other"
    del changed["model"]["2.bias"]
    torch.save(changed, tmp_path / "b.pt")
    found = compared(tmp_path / "a.pt", tmp_path / "b.pt")
    assert [(each.name, each.reason) for each in found.differences] == [
        ("model.2.weight", "elements"), ("optimizer.param_groups.0.betas.1", "elements"), ("name", "value"),
    ]  # fmt: skip
    assert found.differences[0].element is not None and found.differences[0].element.index == (1, 5)
    assert found.differences[2].first == "'run'"
    assert found.missing == ([(None, "model.2.bias")], [])


@pytest.mark.parametrize(
    "dtype",
    [
        *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32"),
        *("bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"),
    ],
)
def test_each_type_keeps_its_bits(tmp_path: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    tensor = torch.tensor([[1.0, 1, 0], [1, 0, 1]]).to(kind)
    other = torch.tensor([[1.0, 1, 0], [1, 1, 1]]).to(kind)
    torch.save(
        {"w": tensor, "t": tensor.t(), "part": tensor[1, 1:], "p": torch.nn.Parameter(tensor, False)}, tmp_path / "a"
    )
    torch.save(
        {"w": other, "t": other.t(), "part": other[1, 1:], "p": torch.nn.Parameter(other, False)}, tmp_path / "b"
    )
    assert compared(tmp_path / "a", tmp_path / "a").is_equal
    found = compared(tmp_path / "a", tmp_path / "b").differences
    expected = {"w": (1, 1), "t": (1, 1), "part": (0,), "p": (1, 1)}
    part = (0,) if kind.is_complex else ()
    assert {each.name: each.element and each.element.index for each in found} == {
        name: (*index, *part) for name, index in expected.items()
    }
    if dtype not in ("float8_e8m0fnu", "bool"):
        values = {(each.element.first, each.element.second) for each in found if each.element is not None}
        assert values in ({("0.0", "1.0")}, {("0", "1")})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([], {}), ([], ()), ({}, set()), (None, "None"), (2**70, hex(2**70)), ({1}, {"1"}), (b"x", "b'x'"),
        (set(), "{}"),
    ],
)  # fmt: skip
def test_texts_name_one_value(tmp_path: Path, first: Any, second: Any) -> None:
    torch.save({"a": first, "b": 1}, tmp_path / "a.pt")
    torch.save({"a": second, "b": 1}, tmp_path / "b.pt")
    (found,) = compared(tmp_path / "a.pt", tmp_path / "b.pt").differences
    assert (found.name, found.reason) == ("a", "value") and found.first != found.second
    assert compared(tmp_path / "a.pt", tmp_path / "a.pt").is_equal


def test_an_empty_container_of_one_side(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "hooks": {}}, tmp_path / "a.pt")
    torch.save({"a": torch.ones(1)}, tmp_path / "b.pt")
    found = compared(tmp_path / "a.pt", tmp_path / "b.pt")
    assert found.missing == ([(None, "hooks")], []) and not found.is_equal


def test_equal_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.zeros(1)}, tmp_path / "x.pt")
    assert main(["diff", "--dumps", str(tmp_path / "x.pt"), str(tmp_path / "x.pt")]) == 2
    assert "expected one value with the name 'a.b', got two" in capsys.readouterr().err


def test_views_containers_and_other_values(tmp_path: Path) -> None:
    value = {
        "expanded": torch.ones(1).expand(50, 50), "empty": torch.zeros(0, 3), "scalar": torch.tensor(2.5),
        "nested": [1, (2.5, None), {"x"}], "large": 2**100, "dtype": torch.float32, "size": torch.Size([1, 2]),
        "device": torch.device("cpu"), 7: "key", "bytes": b"x",
    }  # fmt: skip
    torch.save(value, tmp_path / "a.pt")
    values = read_values(str(tmp_path / "a.pt"), False)
    shown = {name: str(each) for name, each in values.items()}
    assert shown["expanded"] == "f32 [50, 50]" and shown["empty"] == "f32 [0, 3]" and shown["scalar"] == "f32 []"
    assert (shown["nested.0"], shown["nested.1.0"], shown["nested.1.1"], shown["7"]) == ("1", "2.5", "None", "'key'")
    assert shown["large"] == hex(2**100) and (shown["size.0"], shown["size.1"], shown["device"]) == ("1", "2", "'cpu'")
    assert compared(tmp_path / "a.pt", tmp_path / "a.pt").is_equal
    torch.save(torch.ones(3), tmp_path / "tensor.pt")
    assert isinstance(read_values(str(tmp_path / "tensor.pt"), False)[""], StoredTensor)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("legacy", "expected a zip file of torch.save, got a pickle, which was not executed"),
        ("model", "got torch.nn.modules.linear.Linear; the pickle was not executed: save only a state_dict"),
        ("conjugate", "a tensor with the conjugate or the negative bit"),
        ("script", "expected tensors, numbers, strings and containers"),
        ("sparse", "got torch._utils._rebuild_sparse_tensor"),
        ("storage", "expected tensors, got a storage as 's': save a tensor of it"),
    ],
)
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_other_files_of_torch_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, name: str, message: str
) -> None:
    path = str(tmp_path / "x.pt")
    model = torch.nn.Linear(2, 2)
    if name == "script":
        torch.jit.trace(model, torch.ones(2)).save(path)
    else:
        conjugate = torch.ones(2, dtype=torch.complex64).conj()
        values = {
            "legacy": model.state_dict(),
            "model": model,
            "conjugate": conjugate,
            "sparse": torch.eye(2).to_sparse(),
            "storage": {"s": torch.ones(2).untyped_storage()},
        }
        torch.save(values[name], path, _use_new_zipfile_serialization=name != "legacy")
    assert main(["diff", "--dumps", path, path]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
