# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""torch.cond, while_loop, scan, map and associative_scan: the results are near those of eager PyTorch, and the bits are
equal on the targets that `check` compares."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from operator_checks import check, gradients
from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.torch.trace.control_flow import calls_of_operators
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as map_rows
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.checkpoint import checkpoint

X = torch.tensor([[0.0, -1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]])
W = torch.tensor([3.0, 0.0, 1.0, 1.0])
FAR = torch.tensor([5, 77])


@pytest.fixture
def eager_without_compiling() -> Iterator[None]:
    """In eager mode, lets the control-flow operators call their functions directly. By default, PyTorch compiles these
    functions, which takes seconds."""
    with calls_of_operators():
        yield


def cond(pred: torch.Tensor, first: Callable[..., Any], second: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Calls torch.cond in a trace. In eager mode, where torch.cond has no gradient, calls the chosen function
    instead."""
    if isinstance(pred, FakeTensor):
        return torch.cond(pred, first, second, operands)
    return (first if pred else second)(*operands)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2 * ctx.saved_tensors[0]


def asserted(x: torch.Tensor) -> torch.Tensor:
    torch._assert_async(x.sum() < 0, "expected a sum below 0")
    return x + 1


def written(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.add_(1)
    y[0] += 1
    return y


@pytest.mark.usefixtures("eager_without_compiling")
def test_choice_by_values() -> None:
    check(
        {
            "first": lambda x, w, i: torch.cond(x.sum() > 0, torch.sin, lambda x: 1 / x, (x,)),
            "second": lambda x, w, i: torch.cond(x.sum() < 0, torch.log, lambda x: x * 2, (x,)),
            "number": lambda x, w, i: torch.cond(x.sum(), torch.sin, torch.cos, (x,)),
            "indices": lambda x, w, i: torch.cond(i.max() < 4, lambda x: x[:, i], lambda x: x[:, :2] * 2, (x,)),
            "embedding": lambda x, w, i: torch.cond(i.max() < 2, lambda x: F.embedding(i, x), torch.exp, (x,)),
            "assertion": lambda x, w, i: torch.cond(x.sum() < 0, asserted, lambda x: x * 2, (x,)),
            "masked_scatter": lambda x, w, i: torch.cond(
                x.sum() < 0, lambda x: x.masked_scatter(x > -9, w), lambda x: x * 2, (x,)
            ),
            "several": lambda x, w, i: torch.cond(
                x.sum() < 0, lambda x: {"a": x, "b": w}, lambda x: {"a": x * 2, "b": w + 1}, (x,)
            ),
        },
        *(X, W, FAR),
    )


def test_gradients_of_branches_not_taken_are_zero() -> None:
    def nested(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> Any:
        def outer(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return cond(i.min() > 2, lambda x, i: x[:, i] * torch.sqrt(w[:2] - w[:2]), lambda x, i: x[:, i], (x, i))

        return cond(i.max() < 4, outer, lambda x, i: x[:, :2] * 2 * w[:2], (x, i))

    results = check(
        {
            "operand": gradients(lambda x, w, i: cond(x.sum() < 0, lambda x: (x - x).log(), torch.exp, (x,))),
            "outside": gradients(
                lambda x, w, i: cond(x.sum() < 0, lambda x: x * w.sqrt().log(), lambda x: x * w, (x,))
            ),
            "nested": gradients(nested),
            "function": gradients(lambda x, w, i: cond(x.sum() < 0, lambda x: Squared.apply(x), lambda x: x * 2, (x,))),
            "taken": gradients(lambda x, w, i: cond(x.sum() > 0, written, lambda x: x * 2, (x,))),
        },
        *(X, W, FAR),
    )
    assert all(bool(each.isfinite().all()) for each in results)


def test_taken_branch_checks_its_indices() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
            return torch.cond(i.max() > 4, lambda x, i: x[:, i], lambda x, i: x[:, :2], (x, i))

    executable = repro_mlir.compile(repro_mlir.capture(Model(), (X, FAR)), target="reference")
    executable({}, X, torch.tensor([3, 3]))
    with pytest.raises(ReproError, match=r"expected an index of dimension 1 within 0 \.\. 3, got 5"):
        executable({}, X, FAR)


def test_constant_choice_computes_one_branch() -> None:
    def text(choose: Callable[[torch.Tensor], torch.Tensor]) -> str:
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return choose(x)

        return repro_mlir.capture(Model(), (X,)).text

    for pred in (
        lambda x: x.shape[0] > 1,
        lambda x: torch.tensor(True),
        lambda x: torch.ones(2, dtype=torch.int64).sum() > torch.zeros(1),
    ):
        assert "repro.sin" not in text(lambda x, pred=pred: torch.cond(pred(x), lambda x: x + 1, torch.sin, (x,)))  # type: ignore[misc]
    assert "repro.sin" in text(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, torch.sin, (x,)))


def test_a_tensor_written_before_a_choice_is_not_a_constant() -> None:
    """Both calls of torch.cond read `flag`, which is written between them, as a whole or through a view. The capture
    must not treat `flag` as a constant."""

    class Model(torch.nn.Module):
        def __init__(self, written: str) -> None:
            super().__init__()
            self.written = written

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            flag = torch.zeros(2)
            view, (first, _) = flag[0], flag.unbind(0)
            before = torch.cond(view > 0, lambda x: x + 1, lambda x: x - 1, (x,))
            (flag if self.written == "whole" else first).add_(1)
            return before + torch.cond(view > 0, lambda x: x * 2, lambda x: x * 3, (x,))

    for written in ("whole", "part"):
        executable = repro_mlir.compile(repro_mlir.capture(Model(written), (X,)), target="reference")
        (found,) = executable({}, X)[1].values()
        torch.testing.assert_close(torch.as_tensor(found), X - 1 + X * 2, rtol=0, atol=0)


def test_a_checkpoint_within_a_branch_is_refused() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def again(x: torch.Tensor) -> torch.Tensor:
                return checkpoint(torch.sin, x, use_reentrant=False)

            x = self.layer(x)
            return torch.cond(x.sum() > 0, again, torch.cos, (x,)).sum()

    model = Model()
    with pytest.raises(ReproError, match="checkpoint within a branch that depends on tensor values is not supported"):
        repro_mlir.capture(model, None, torch.optim.SGD(model.parameters()), (torch.ones(3, 4),))


def test_loops_over_no_rows_are_refused() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch._higher_order_ops.map(lambda row: row + 1, x)

    with pytest.raises(ReproError, match="Leading dimensions of mapped xs cannot be 0"):
        repro_mlir.capture(Model(), (torch.ones(0, 4),))


@pytest.mark.usefixtures("eager_without_compiling")
def test_loops() -> None:
    def loop(start: Any) -> Callable[..., Any]:
        return lambda x, w: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (start(), x))[1]

    check(
        {
            "tensor": loop(lambda: torch.tensor(0)),
            "zeros": loop(lambda: torch.zeros([], dtype=torch.int32)),
            "number": loop(lambda: 0),
            "none": loop(lambda: torch.tensor(7)),
            "scan": gradients(lambda x, w: scan(lambda c, y: (c + y, c * y), torch.zeros(4), x)),
            "reverse": gradients(
                lambda x, w: scan(lambda c, y: (c + y, c * y), torch.zeros(2), x, dim=1, reverse=True)
            ),
            "map": gradients(lambda x, w: map_rows(lambda row, w: [(row * w).cos()], x, w)),
            "associative": gradients(
                lambda x, w: associative_scan(lambda a, b: a * b + a, x, 1, combine_mode="generic")
            ),
            "choice": lambda x, w: scan(
                lambda c, y: (torch.cond(y.sum() > 5, torch.sqrt, lambda c: c + 1, (c,)), y.clone()), w, x
            ),
        },
        *(X, W),
    )


def _sizes_in_a_tensor(x: torch.Tensor) -> torch.Tensor:
    sizes = torch.tensor([2, 2])
    first = sizes[0]
    return x.reshape(sizes[0], sizes[1], -1).repeat(int(sizes.sum()), 1, 1) * int(first)


def _written_sizes(x: torch.Tensor) -> torch.Tensor:
    sizes = torch.tensor([2, 2])
    kept, view = sizes * 3, sizes[:1]
    sizes[0] = 3
    return x * int(view) + int(kept[0])


def _often_written(x: torch.Tensor) -> torch.Tensor:
    count = torch.tensor([0, 1])
    for _ in range(1500):
        count.add_(1)
    return x * int(count[0])


@pytest.mark.exhaustive
def test_elements_of_small_constants_are_known() -> None:
    check({"sizes": _sizes_in_a_tensor, "written": _written_sizes, "often written": _often_written}, X)


def _written_by_a_view(x: torch.Tensor) -> torch.Tensor:
    flags = torch.tensor([False, False])
    for i in range(2):
        flags[i] = x[i, 0] > 0
    return x + 1 if bool(flags.all()) else x - 1


def _read_by_a_view(x: torch.Tensor) -> torch.Tensor:
    sizes = torch.tensor([1.0, 2.0])
    view = sizes[1:]
    sizes.copy_(x[0, :2])
    return x * float(view)


def _computed_of_a_written_one(x: torch.Tensor) -> torch.Tensor:
    one = torch.tensor([1.0])
    one[0] = x[0, 0]
    return x * float((one * 2)[0])


def _written_from_afar(x: torch.Tensor) -> torch.Tensor:
    one = torch.tensor([1.0])
    one[0] = functools.reduce(lambda y, _: y + 1, range(1500), x)[0, 0]
    return x * float(one)


def _drawn(x: torch.Tensor) -> torch.Tensor:
    numbers = torch.tensor([1.0, 2.0])
    numbers[1:].uniform_()
    return x * float(numbers[1])


@pytest.mark.parametrize(
    "function", [_written_by_a_view, _read_by_a_view, _computed_of_a_written_one, _written_from_afar, _drawn]
)
def test_elements_that_are_written_from_others_are_not_known(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.raises(ReproError, match="depends on tensor values"):
        repro_mlir.capture(Model(), (X,))


OUTSIDE = torch.zeros(4)


def writes_outside(x: torch.Tensor) -> torch.Tensor:
    OUTSIDE.add_(1)
    return x.clone()


REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "steps": (
        lambda x: while_loop(lambda i, x: x.sum() < 50, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)),
        r"test_control_flow.py:\d+: the number of steps of while_loop depends on tensor values",
    ),
    "many": (
        lambda x: while_loop(lambda i, x: i < 10**9, lambda i, x: (i + 1, x), (0, x)),
        "while_loop is unrolled: expected at most 4,096 steps",
    ),
    "outside": (
        lambda x: torch.cond(x.sum() > 0, writes_outside, torch.exp, (x,)),
        "writes to a tensor from outside of the branch by aten.add_.Tensor",
    ),
    "argument": (
        lambda x: torch.cond(x.sum() > 0, lambda x: x.add_(1).clone(), torch.exp, (x * 1,)),
        "writes to a tensor from outside of the branch by aten.add_.Tensor",
    ),
    "statistics": (
        lambda x: torch.cond(x.sum() > 0, lambda x: F.batch_norm(x, W, W, training=True), torch.exp, (x,)),
        "writes to a tensor from outside of the branch by ",
    ),
    "shapes": (
        lambda x: torch.cond(x.sum() > 0, lambda x: x[0], torch.exp, (x,)),
        r"the branches of cond return float32\[4\] and float32\[2, 4\]",
    ),
    "structure": (
        lambda x: torch.cond(x.sum() > 0, lambda x: (x,), torch.exp, (x,)),
        "results of different structure",
    ),
    "function of what is outside": (
        gradients(lambda x: torch.cond(x.sum() > 0, lambda y: Squared.apply(x), torch.exp, (x,))),
        "passes a tensor from outside of the branch to an autograd function",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, message = REFUSED[name]

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    with pytest.raises(ReproError, match=message):
        repro_mlir.capture(Model(), (X,))


def _with_gradients(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    given = [each.clone().requires_grad_(each.is_floating_point()) for each in arguments]
    result = function(*given)
    sources = [each for each in given if each.requires_grad]
    return [result.detach(), *torch.autograd.grad((result * result).sum(), sources)]


def test_torch_compile() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x = torch.cond(i.max() < 4, lambda x, i: x[:, i] / (x - x)[:, :2], lambda x, i: x[:, :2] * w[:2], (x, i))
        x = scan(lambda c, y: (c + y, c * y), torch.zeros(2), x)[1]
        return x * map_rows(lambda row: row.cos(), x)

    compiled = torch.compile(function, backend=repro_mlir.backend(threads=1), fullgraph=True)
    arguments = X, W, FAR
    torch.testing.assert_close(_with_gradients(compiled, arguments), _with_gradients(function, arguments))


def test_torch_compile_loops_by_a_counter() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, x: i.sum() < 3, lambda i, x: (i + 1, x.sin()), (torch.zeros(1), x))[1]

    compiled = torch.compile(function, backend=repro_mlir.backend(threads=1), fullgraph=True)
    torch.testing.assert_close(compiled(X), function(X))


def test_exported_choice() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
            return torch.cond(i.max() < 4, lambda x, i: x[:, i], lambda x, i: x[:, :2] * 2, (x, i))

    exported = torch.export.export(Model(), (X, FAR))
    _, outputs = repro_mlir.compile(exported, target="reference")({}, X, FAR)
    (result,) = outputs.values()
    assert torch.equal(torch.as_tensor(result), X[:, :2] * 2)


def test_random_numbers_of_branches_have_sites_of_their_own() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            drawn = torch.cond(x.sum() > 0, lambda x: torch.rand(4), lambda x: torch.rand(4), (x,))
            return drawn, torch.rand(4)

    program = repro_mlir.capture(Model(), (X,))
    executable = repro_mlir.compile(program, target="reference")
    results = [executable(program.initial_state(), x)[1].values() for x in (X, -X)]
    (first, after), (second, same) = ([torch.as_tensor(each) for each in each] for each in results)
    assert torch.equal(after, same)
    assert not torch.equal(first, second)
