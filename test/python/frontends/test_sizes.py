# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests captures with dynamic sizes, which are stated in the notation of torch.export, and with Python branches on
these sizes."""

from typing import Any

import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.program.imported import GREATEST_SIZE

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

N = Dim("n", max=99)
X = torch.linspace(-1, 2, 24).reshape(6, 4)


class Applied(nn.Module):
    """Wraps a function as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, *others: Any) -> Any:
        return self.function(x, *others)


def capture(function: Any, inputs: Any = (X,), shapes: Any = ({0: N},)) -> repro_mlir.SymbolicProgram:
    return repro_mlir.capture(Applied(function).eval(), inputs, dynamic_shapes=shapes)


def symbols(program: repro_mlir.SymbolicProgram) -> list[tuple[str, int, int]]:
    return [(each.name, each.least, each.most) for each in program.symbols]


def test_notations() -> None:
    for shapes in (
        ({0: N},),
        [{0: N, 1: None}],
        {"x": {0: N}},
        ((N, None),),
        [[N, Dim.STATIC]],
        {"x": {0: N, 1: 4}},
    ):
        program = capture(lambda x: x + 1, (X,), shapes)
        assert symbols(program) == [("n", 1, 99)] and program.inputs[0].extents == ("s0", 4)
    both = capture(lambda x: x + 1, (X,), ({0: Dim("n", min=3), 1: Dim.AUTO},))
    assert symbols(both) == [("n", 3, GREATEST_SIZE), ("batch_0_1", 1, GREATEST_SIZE)]
    assert symbols(capture(lambda x: x + 1, (X,), ({0: Dim.DYNAMIC(min=2, max=8)},))) == [("batch_0_0", 2, 8)]
    # Forms of `dynamic_shapes`: for a single tensor, for several arguments, for containers and for keyword arguments.
    assert symbols(repro_mlir.capture(Applied(torch.sin), X, dynamic_shapes=[{0: N}])) == [("n", 1, 99)]
    rest = capture(lambda x, y, z: x + y + z, (X, X, X), {"x": {0: N}, "others": ({0: N}, {0: N})})
    assert [each.extents for each in rest.inputs] == [("s0", 4)] * 3
    shapes = [{0: N}, {"a": {0: N}, "b": [(N, 4)]}]
    nested = capture(lambda x, y: x + y["a"] + y["b"][0], (X, {"a": X, "b": [X]}), shapes)
    assert [each.extents for each in nested.inputs] == [("s0", 4)] * 3
    named = repro_mlir.capture(Applied(torch.sin), {"x": X}, dynamic_shapes={"x": {0: N}})
    assert named.inputs[0].name == "batch['x']" and named.inputs[0].extents == ("s0", 4)


def test_notations_that_are_refused() -> None:
    for shapes, reason in (
        ([{0: N}, {0: N}], "dynamic_shapes of inputs: expected 1 entries"),
        ({"y": {0: N}}, "dynamic_shapes names 'y', expected names of x"),
        ([{2: N}], r"inputs\[0\]: expected dimensions from 0 to 1"),
        ([{-1: N}], r"inputs\[0\]: expected dimensions from 0 to 1"),
        ([{"0": N}], r"inputs\[0\]: expected dimensions from 0 to 1"),
        ([(N,)], r"inputs\[0\]: expected 2 entries, one per dimension"),
        ([{0: "n"}], r"batch_0_0: expected a torch.export.Dim, got 'n'"),
        ([{0: 5}], "batch_0_0 has extent 6, expected 5"),
        ([{0: N, 1: N}], r"batch\[0\] has extent 4 in dimension 1, expected n = 6"),
        ([{0: N, 1: Dim("n", max=7)}], "n has different bounds: 1 to 99 and 1 to 7"),
        ([{0: 2 * N}], r"expected a dimension of extent n, got only expressions of it"),
        ([{0: Dim("n", max=5)}], r"n is 6 in the example, expected 1 to 5"),
        ([{0: N, 1: 2 * N}], r"batch\[0\] has extent 4 in dimension 1, expected 2\*n = 12"),
        ([{}], "expected a torch.export.Dim for at least one dimension"),
        ({}, "expected a torch.export.Dim for at least one dimension"),
        (3, "dynamic_shapes of inputs: expected 1 entries, got 3"),
    ):
        with pytest.raises(ReproError, match=reason):
            capture(lambda x: x + 1, (X,), shapes)
    with pytest.raises(ReproError, match=r"expected None for a int, got \{0: "):
        capture(lambda x, k: x + k, (X, 3), [None, {0: N}])
    loss = nn.functional.mse_loss
    optimizer = torch.optim.SGD(nn.Linear(4, 4).parameters())
    with pytest.raises(ReproError, match="dynamic_shapes is for inference only"):
        repro_mlir.capture(nn.Linear(4, 4), loss, optimizer, (X, X), dynamic_shapes=[{0: N}])
    exported = torch.export.export(Applied(torch.sin), (X,))
    with pytest.raises(ReproError, match="has the dynamic shapes that it was exported with"):
        repro_mlir.capture(exported, dynamic_shapes=[{0: N}])
    with pytest.raises(ReproError, match="expected static sizes of attention with attention_block"):
        repro_mlir.capture(Applied(torch.sin), X, dynamic_shapes=[{0: N}], attention_block=8)
    with pytest.raises(ReproError, match="call exact_contractions for each size"):
        repro_mlir.capture(Applied(torch.sin), X, dynamic_shapes=[{0: N}], exact_digits=2)


def test_decisions_are_conditions() -> None:
    """The capture takes the branch of the example's size. The program is refused for sizes that take the other
    branch."""
    doubled = capture(lambda x: x * 2 if x.shape[0] > 5 else x)
    doubled.specialize(n=6)
    with pytest.raises(ReproError, match=r"^n = 5: the program holds for sizes with n > 5$"):
        doubled.specialize(n=5)
    single = capture(lambda x: x * 2 if x.shape[0] > 5 else x, (X[:3],))
    single.specialize(n=5)
    with pytest.raises(ReproError, match=r"^n = 6: the program holds for sizes with n <= 5$"):
        single.specialize(n=6)
    pairs = capture(lambda x: x.view(x.shape[0] // 2, 8))
    pairs.specialize(n=8)
    with pytest.raises(ReproError, match=r"^n = 7: the program holds for sizes with "):
        pairs.specialize(n=7)
    two = capture(lambda x, y: x + y, (X, X), [{0: N}, {0: Dim("m")}])
    two.specialize(n=3, m=3)
    with pytest.raises(ReproError, match=r"^n = 3, m = 4: the program holds for sizes with n == m$|with m == n$"):
        two.specialize(n=3, m=4)


def test_an_einsum_keeps_its_conditions() -> None:
    """An einsum label that occurs twice in an operand requires that both dimensions have the same extent."""
    program = capture(lambda x: torch.einsum("ii->i", x), (X[:4],), [{0: N, 1: Dim("m")}])
    program.specialize(n=4, m=4)
    with pytest.raises(ReproError, match=r"^n = 3, m = 4: the program holds for sizes with "):
        program.specialize(n=3, m=4)


def test_a_squeeze_is_a_condition() -> None:
    """A squeeze requires that the dynamic extent is not 1: squeezing a dimension of extent 1 would change the rank."""
    for dims in ((), (0,), ((0, 1),), (-2,)):
        program = capture(lambda x, dims=dims: x.squeeze(*dims))
        program.specialize(n=2)
        with pytest.raises(ReproError, match=r"^n = 1: the program holds for sizes with n != 1$"):
            program.specialize(n=1)


def test_a_choice_of_an_algorithm_is_none() -> None:
    """PyTorch selects algorithms and memory formats by size. Such a choice must not limit the sizes of the program."""
    w = torch.ones(4, 3)
    functions: list[Any] = [
        lambda x: x.t()[None] @ x,
        lambda x: torch.matmul(x[None].transpose(1, 2), x),
        lambda x: nn.functional.linear(x[None].transpose(0, 1), w.t()),
        lambda x: x[None].transpose(1, 2).reshape(-1),
        lambda x: x.t().flatten(),
        lambda x: nn.functional.conv1d(x[None].transpose(1, 2), torch.ones(2, 4, 1)),
    ]
    for function in functions:
        program = capture(function)
        for size in (1, 2, 7):
            executable = repro_mlir.compile(program.specialize(n=size), "reference")
            (found,) = executable(program.initial_state(), X[:1].expand(size, 4).contiguous())[1].values()
            torch.testing.assert_close(found, function(X[:1].expand(size, 4).contiguous()))


def test_models_without_symbolic_sizes() -> None:
    with pytest.raises(ReproError, match=r"the model only runs with size 6 of n"):
        capture(lambda x: sum(x[row] for row in range(x.shape[0])))
    with pytest.raises(ReproError, match=r"test_sizes.py:\d+: a shape depends on tensor values"):
        capture(lambda x: x[x[:, 0] > 0])
