# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The batches of users' loops: a smaller last one, other shapes and structures, mappings, NumPy arrays, epochs."""

import collections
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import BatchesEnded, ReproError
from support import kit

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

cross_entropy = torch.nn.functional.cross_entropy
X = torch.linspace(-2, 3, 10 * 8).sin().reshape(10, 8)
Y = torch.arange(10) % 3


def new_model() -> Any:
    nn = torch.nn
    layers = nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.25), nn.Linear(6, 3)
    return repro_mlir.initialize(nn.Sequential(*layers), 1)


def new_trainer(target: str = "cpu", **options: Any) -> repro_mlir.Trainer:
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return repro_mlir.Trainer(model, cross_entropy, optimizer, target=target, **options)


def loader(size: int = 4) -> Any:
    """Returns three batches; the last one is smaller."""
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=size)


def test_P0_the_last_smaller_batch_on_all_targets() -> None:
    levels = [f"cpu:{level}" for level in kit.levels()]
    results = {}
    for target in ("cpu", *levels, "reference", "ptx-emulator"):
        for threads in (1, 2) if target == "cpu" else (1,):
            trainer = new_trainer(target, threads=threads)
            results[target, threads] = trainer.fit(loader(), 7), trainer.state_hash()
    assert len({repr(result) for result in results.values()}) == 1, results


def test_the_last_smaller_batch_is_eager_s() -> None:
    model, expected = (repro_mlir.initialize(torch.nn.Linear(8, 3), 1) for _ in range(2))
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, expected)]
    trainer = repro_mlir.Trainer(model, cross_entropy, optimizers[0])
    losses, wanted = [], []
    for _ in range(2):
        for x, y in loader():
            losses.append(trainer.step(x, y))
            optimizers[1].zero_grad()
            loss = cross_entropy(expected(x), y)
            loss.backward()
            optimizers[1].step()
            wanted.append(loss.item())
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=1e-5, atol=1e-6)


def test_a_program_for_each_shape_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.train import trainer as module

    trainer = new_trainer()
    captured = []
    capture = module.training_program
    monkeypatch.setattr(module, "training_program", lambda *given: captured.append(len(given[3][0])) or capture(*given))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.fit(loader(), 9)
    assert captured == [4, 2]


def test_more_shapes_than_are_kept_are_warned_of() -> None:
    model = repro_mlir.initialize(torch.nn.Linear(8, 3), 1)
    trainer = repro_mlir.Trainer(model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), target="reference")
    for size in range(1, 9):
        trainer.step(X[:size], Y[:size])
    with pytest.warns(
        RuntimeWarning, match=r"the structure or shape of the batch has changed; such changes are frequent"
    ):
        trainer.step(X[:9], Y[:9])


def test_a_batch_that_fails_leaves_the_run() -> None:
    """If a loop catches the exception of a failing batch, later steps are those of a run without that batch."""
    trainer, whole = new_trainer("reference"), new_trainer("reference")
    for batch in loader():
        trainer.step(*batch)
        whole.step(*batch)
        before = trainer.state_hash()
        for wrong, message in (
            ((X[:4, :5], Y[:4]), r"module 0: .* reduction dim"),
            ((X[:4].double(), Y[:4]), r"module 0: aten.addmm gets tensors of float32 and float64, expected the same"),
            ((X[:4].to(torch.uint8), Y[:4]), r"module 0: aten.addmm gets tensors of float32 and uint8, expected"),
            ((X[:4],), "expected a tuple"),
            ((X[:4].to_sparse(), Y[:4]), "expected a dense tensor"),
            ((np.array(["a"]), Y[:1]), r"NumPy array of <U1"),
        ):
            with pytest.raises(ReproError, match=message) as caught:
                trainer.step(*wrong)
            assert "\n" not in str(caught.value)
        assert (trainer.state_hash(), trainer.steps) == (before, whole.steps)
    assert trainer.state_hash() == whole.state_hash()


def test_a_receipt_names_the_program_of_each_shape(tmp_path: Path) -> None:
    with new_trainer(receipt=tmp_path / "run") as trainer:
        trainer.fit(loader(), 7)
        state = trainer.state_hash()
    verified = repro_mlir.verify(tmp_path / "run", target="reference")
    assert (verified.steps, repro_mlir.Receipt(tmp_path / "run").header.programs[1:] != ()) == (7, True)
    assert state == new_run_hash(7)


def new_run_hash(steps: int) -> str:
    trainer = new_trainer("reference")
    trainer.fit(loader(), steps)
    return trainer.state_hash()


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array,
        lambda array: array.astype(array.dtype.newbyteorder(">")),
        lambda array: array[::-1].copy()[::-1],
        lambda array: np.asfortranarray(array),
        lambda array: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape),
    ],
    ids=["plain", "big-endian", "negative strides", "Fortran order", "read-only"],
)
def test_numpy_batches(change: Any) -> None:
    tensors, arrays = new_trainer("reference"), new_trainer("reference")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in loader():
            assert tensors.step(x, y) == arrays.step(change(x.numpy()), change(y.numpy()))
    assert tensors.state_hash() == arrays.state_hash()


class GivesLoss(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)

    def forward(self, inputs: Any, labels: Any = None, scale: float = 1.0) -> Any:
        return {"loss": cross_entropy(self.layer(inputs) * scale, labels), "other": inputs}


def test_mappings_are_arguments_by_name() -> None:
    """Covers the batches of Hugging Face's collators, which are a dict or another mapping."""
    results = set()
    for wrap in (dict, collections.UserDict, collections.OrderedDict, None):
        model = repro_mlir.initialize(GivesLoss(), 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = repro_mlir.Trainer(model, None, optimizer, target="reference")
        batches = [(x, y) if wrap is None else wrap({"inputs": x, "labels": y}) for x, y in loader()]
        results.add((tuple(trainer.fit(batches, 5)), trainer.step(*loader_first(batches)), trainer.state_hash()))
    assert len(results) == 1


def loader_first(batches: list[Any]) -> tuple[Any, ...]:
    return batches[0] if isinstance(batches[0], tuple) else (batches[0],)


def test_another_structure_of_a_batch_is_another_program() -> None:
    model, expected = (repro_mlir.initialize(GivesLoss(), 1) for _ in range(2))
    trainer = repro_mlir.Trainer(model, None, torch.optim.SGD(model.parameters(), lr=0.0), target="reference")
    batch = {"inputs": X, "labels": Y}
    for more in ({}, {"scale": torch.tensor(2.0)}, {"scale": np.float32(3.0)}, {}):
        loss = trainer.step(batch | more)
        wanted = expected(X, Y, torch.as_tensor(more.get("scale", 1.0)))["loss"].item()
        assert loss == pytest.approx(wanted, rel=1e-5)
    for scale in (2.0, 3.0):
        assert trainer.step(batch | {"scale": scale}) == pytest.approx(expected(X, Y, scale)["loss"].item(), rel=1e-5)


class Record:
    """A class that contains tensors, but is not a container for the frontend."""

    def __init__(self, values: Any) -> None:
        self.values = values


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        (Record(X), "the batch has a Record, expected tensors, NumPy arrays, numbers, strings and None"),
        (np.ma.masked_array(X.numpy(), X.numpy() > 0), "masked NumPy array"),
        (np.array([Record(X)]), "NumPy array of object, expected a type of PyTorch"),
        ({1, 2}, "the batch has a set"),
    ],
)
def test_leaves_that_are_refused(leaf: Any, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        new_trainer("reference").step(leaf, Y)


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)

    def forward(self, batch: Any) -> Any:
        return self.layer(batch["x"])


def test_a_mapping_that_is_used_again_has_its_new_tensors() -> None:
    trainers = []
    for _ in range(2):
        model = repro_mlir.initialize(Nested(), 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainers.append(repro_mlir.Trainer(model, cross_entropy, optimizer, target="reference"))
    held = collections.UserDict()
    for x, y in loader():
        held["x"] = x
        assert trainers[0].step(held, y) == trainers[1].step({"x": x}, y)
    assert trainers[0].state_hash() == trainers[1].state_hash()


def test_a_number_of_numpy_is_a_tensor() -> None:
    model = repro_mlir.initialize(GivesLoss(), 1)
    trainer = repro_mlir.Trainer(model, None, torch.optim.SGD(model.parameters(), lr=0.1), target="reference")
    big_endian = np.array(2.0, ">f4")
    trainer.step(X, Y, big_endian)
    assert trainer.program.inputs[-1].shape == ()
    data = trainer.program.data
    trainer.step(X, Y, np.float32(-0.0))
    assert trainer.program.data == data


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
@pytest.mark.diagonal(target=["cpu"])
@pytest.mark.exhaustive
def test_the_ninth_shape_with_warnings_as_errors(target: str, tmp_path: Path) -> None:
    """Too many shapes cause a warning. If the warning is raised as an error, the step does not run, and later steps and
    the receipt can continue."""
    model = repro_mlir.initialize(torch.nn.Linear(8, 3), 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with repro_mlir.Trainer(model, cross_entropy, optimizer, target=target, receipt=tmp_path / "run") as trainer:
        for size in range(1, 9):
            trainer.step(X[:size], Y[:size])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="the structure or shape of the batch"):
                trainer.step(X[:9], Y[:9])
            assert trainer.steps == 8
            for size in (9, 8, 9):
                trainer.step(X[:size], Y[:size])
    assert repro_mlir.verify(tmp_path / "run", target="reference").steps == 11


@pytest.mark.parametrize(
    ("product", "refused"),
    [
        (lambda x, w: x @ w, "aten.mm"),
        (lambda x, w: torch.bmm(x[None], w[None])[0], "aten.bmm"),
        (lambda x, w: (x @ w[:, 0])[:, None] + w[0], "aten.mv"),
        (lambda x, w: torch.nn.functional.conv1d(x[None], w.t()[:, :, None].expand(3, 8, 1), None)[0].t(), ""),
    ],
    ids=["mm", "bmm", "mv", "convolution"],
)
def test_products_of_several_element_types_are_eager_s(product: Any, refused: str) -> None:
    """Products of different element types give the results of eager PyTorch, or raise PyTorch's error during the
    trace."""

    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8, 3) / 8)

        def forward(self, x: Any) -> Any:
            return product(x if refused else x.t()[:8].contiguous(), self.weight)

    model = Product()
    for dtype in (torch.float64, torch.float16, torch.int64):
        x = X.to(dtype)
        with pytest.raises(RuntimeError):
            model(x)
        trainer = repro_mlir.Trainer(
            model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), target="reference"
        )
        with pytest.raises(ReproError, match=r"gets tensors of .*, expected the same type|RuntimeError: "):
            trainer.step(x, Y)


def test_products_under_autocast_are_of_one_type() -> None:
    trainer = new_trainer("reference", autocast=torch.bfloat16)
    assert np.isfinite(trainer.step(X, Y))


def test_the_exception_of_an_iterator_is_pickled() -> None:
    again = pickle.loads(pickle.dumps(BatchesEnded("expected 5 batches, got 1", [0.5])))
    assert (str(again), again.losses) == ("expected 5 batches, got 1", [0.5])


def test_a_loader_is_repeated_by_epochs() -> None:
    """`fit` iterates over the loader again for each epoch, as a user's loop would, so the loader can draw another
    order."""

    class Shuffled:
        epochs = 0

        def __iter__(self) -> Any:
            self.epochs += 1
            order = torch.randperm(10, generator=torch.Generator().manual_seed(self.epochs))
            return ((X[chosen], Y[chosen]) for chosen in order.split(4))

    batches, trainer, expected = Shuffled(), new_trainer("reference"), new_trainer("reference")
    losses = trainer.fit(batches, 8)
    wanted = [expected.step(*batch) for each in [Shuffled()] for _ in range(3) for batch in each][:8]
    assert (losses, batches.epochs) == (wanted, 3)


def test_an_iterator_that_ends_gives_the_losses() -> None:
    trainer, expected = new_trainer("reference"), new_trainer("reference")
    with pytest.raises(BatchesEnded, match="expected 5 batches, got 3") as caught:
        trainer.fit(iter(loader()), 5)
    assert caught.value.losses == expected.fit(loader(), 3)
    with pytest.raises(BatchesEnded, match="expected 2 batches, got 0") as caught:
        trainer.fit([], 2)
    assert caught.value.losses == []
