# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the causes that are assigned to PyTorch's operators: against PyTorch's own lists, and against what its kernels
compute with other numbers of threads."""

import re

import pytest

torch = pytest.importorskip("torch")

from repro_mlir.frontends.torch.eager_operators import causes  # noqa: E402
from repro_mlir.frontends.torch.eager_operators.classes import CLASSES, cause_of, name_of  # noqa: E402
from repro_mlir.frontends.torch.eager_operators.recording import executed_operators  # noqa: E402

aten = torch.ops.aten
X = torch.linspace(-3, 3, 12).view(3, 4)
N = torch.arange(12).view(3, 4)
INDEX = torch.tensor([0, 0, 2])


def cause(operator, *args, **kwargs) -> str:
    return cause_of(operator, args, kwargs, operator(*args, **kwargs)).name


def cause_of_function(function, name: str) -> str:
    """Returns the cause of the operator `name` that a function executes."""
    (found,) = [each for each in executed_operators(function, {}) if each.name == f"aten.{name}"]
    return found.cause.name


def test_each_name_is_an_operator_of_pytorch() -> None:
    names = {name[6:].partition(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    known = {name.removeprefix("_foreach_").rstrip("_") for name in names} | {name.strip("_") for name in names} | names
    assert not CLASSES.keys() - known


def test_the_operators_that_pytorch_calls_nondeterministic_are_not_fine_on_cuda() -> None:
    """Maps each entry of the page of torch.use_deterministic_algorithms to the operator that runs."""
    listed = {
        "Conv": "convolution convolution_backward",
        "ReplicationPad": "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward",
        "ReflectionPad": "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward",
        "put_": "put",
        "index_put": "index_put",
        "scatter_add_": "scatter_add",
        "gather": "scatter_add",
        "index_add": "index_add",
        "index_select": "index_add",
        "repeat_interleave": "index_add",
        "index_copy": "index_copy",
        "scatter": "scatter",
        "scatter_reduce": "scatter_reduce",
        "MaxPool3d": "max_pool3d_with_indices_backward",
        "AvgPool3d": "avg_pool3d_backward",
        "AdaptiveAvgPool": "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward",
        "AdaptiveMaxPool2d": "adaptive_max_pool2d_backward",
        "FractionalMaxPool": "fractional_max_pool2d_backward fractional_max_pool3d_backward",
        "MaxUnpool": "max_unpool2d max_unpool3d",
        "interpolate": "upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward "
        "upsample_trilinear3d_backward",
        "NLLLoss": "nll_loss2d_forward",
        "CTCLoss": "_ctc_loss_backward",
        "EmbeddingBag": "_embedding_bag_dense_backward",
        "histc": "histc",
        "bincount": "bincount",
        "median": "median",
        "grid_sample": "grid_sampler_2d_backward grid_sampler_3d_backward",
        "cumsum": "cumsum",
        "resize_": "",
        "bmm": "",
        "__getitem__": "index_put",
    }
    # Operators of quantized or sparse tensors share their names with others, so these entries have none.
    page = torch.use_deterministic_algorithms.__doc__
    entries = {name.rpartition(".")[2] for name in re.findall(r"\* :\w+:`([\w.]+)`", page)}
    patterns = [rf"{re.escape(name)}(Transpose)?(\dd)?" for name in listed]
    assert {entry for entry in entries if not any(re.fullmatch(each, entry) for each in patterns)} == set()
    for names in listed.values():
        for name in names.split():
            assert CLASSES[name].cuda is causes.Grade.RUN or CLASSES[name].cpu is causes.Grade.RUN, name


def test_operators_that_draw_are_random() -> None:
    torch.manual_seed(0)
    assert cause_of_function(lambda: torch.randn(3), "randn") == "random numbers"
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    q = torch.ones(1, 1, 2, 4)
    assert cause(attention, q, q, q) == "order"


@pytest.mark.parametrize(
    "operator, args, kwargs, expected",
    [
        (aten.add.Tensor, (X, X), {}, "exact"),
        (aten.add.Tensor, (X, X), {"alpha": 2}, "roundings"),
        (aten.add.Tensor, (N, N), {"alpha": 2}, "exact"),
        (aten._foreach_add.List, ([X], [X]), {"alpha": 2}, "roundings"),
        (aten.div.Tensor, (X, X + 9), {}, "exact"),
        (aten.div.Tensor, (X, 3.0), {}, "roundings"),
        (aten.div.Tensor, (X, -0.25), {}, "exact"),
        (aten.div.Tensor, (X, torch.tensor(3.0)), {}, "roundings"),
        (aten.pow.Tensor_Scalar, (X, 2), {}, "exact"),
        (aten.pow.Tensor_Scalar, (X, 3), {}, "functions"),
        (aten.mul.Tensor, (torch.complex(X, X), X), {}, "roundings"),
        (aten.round.decimals, (X,), {"decimals": 2}, "roundings"),
        (aten.allclose.default, (X, X), {}, "roundings"),
        (aten.isclose.default, (X, X), {}, "roundings"),
        (aten.lerp.Scalar, (X, X, 0.3), {}, "roundings"),
        (aten.addcmul.default, (X, X, X), {}, "roundings"),
        (aten.addcdiv.default, (X, X, X + 9), {}, "roundings"),
        (aten.dist.default, (X, X), {}, "order"),
        (aten.arange.start_step, (0.0, 1.0, 0.1), {}, "roundings"),
        (aten.arange.default, (4,), {}, "exact"),
        (aten.sgn.default, (X,), {}, "exact"),
        (aten.sgn.default, (torch.complex(X, X),), {}, "roundings"),
        (aten.sum.default, (X,), {}, "order"),
        (aten.sum.default, (N,), {}, "exact"),
        (aten.cumsum.default, (X, 0), {}, "atomics on CUDA"),
        (aten.cumsum.default, (N, 0), {}, "exact"),
        (aten.bincount.default, (INDEX,), {}, "exact"),
        (aten.bincount.default, (INDEX, X[0, :3]), {}, "atomics on CUDA"),
        (aten.index_add.default, (X, 0, INDEX, X), {}, "atomics on CUDA"),
        (aten.index_put.default, (X, [INDEX], X), {}, "races"),
        (aten.index_put.default, (X, [INDEX], X[0, 0]), {}, "exact"),
        (aten.index_put.default, (X, [INDEX], X, True), {}, "atomics on CPU"),
        (aten.index_put.default, (N, [INDEX], N, True), {}, "exact"),
        (aten.index_put.default, (X, [X > 0], X[X > 0]), {}, "exact"),
        (aten.scatter.src, (X, 0, N % 3, X), {}, "choice on CUDA"),
        (aten.scatter.value, (X, 0, N % 3, 1.0), {}, "exact"),
        (aten.scatter_reduce.two, (X, 0, N % 3, X, "sum"), {}, "atomics on CUDA"),
        (aten.scatter_reduce.two, (X, 0, N % 3, X, "amax"), {}, "exact"),
        (aten.topk.default, (X, 2), {}, "choice"),
        (aten.exp.default, (X,), {}, "functions"),
        (aten.permute_copy.default, (X, [1, 0]), {}, "exact"),
        (aten.special_scaled_modified_bessel_k0.default, (X.abs() + 1,), {}, "functions"),
    ],
)
def test_arguments_decide(operator, args, kwargs, expected: str) -> None:
    assert cause(operator, *args, **kwargs) == expected


def test_an_operator_without_a_class_is_unknown() -> None:
    with torch.library._scoped_library("determinism_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")
        operator = torch.ops.determinism_test.twice.default
        assert cause(operator, X) == "unknown"
    assert causes.UNKNOWN.cpu is causes.UNKNOWN.cuda is causes.Grade.UNKNOWN
    assert cause(aten.to_mkldnn.default, X) == "unknown"


def test_exact_operators_give_the_same_bits_with_each_number_of_threads() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(257, 1031), torch.randn(257, 1031).abs() + 0.1
    index = torch.randint(1000, (300_000,))
    calls = [
        (aten.add.Tensor, (x, y)), (aten.mul.Tensor, (x, y)), (aten.div.Tensor, (x, y)), (aten.sqrt.default, (y,)),
        (aten.relu.default, (x,)), (aten.amax.default, (x, [1])), (aten.reciprocal.default, (y,)),
        (aten.pow.Tensor_Scalar, (x, 2)), (aten.gather.default, (x[0], 0, index)),
        (aten.index_put.default, (torch.zeros(1000, dtype=torch.int64), [index], index, True)),
        (aten.scatter.value, (torch.zeros(1000), 0, index, 1.0)),
    ]  # fmt: skip
    threads = torch.get_num_threads()
    try:
        for operator, args in calls:
            assert cause(operator, *args) == "exact", name_of(operator)
            results = []
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                results.append(operator(*args))
            assert all(torch.equal(results[0], each) for each in results[1:]), name_of(operator)
    finally:
        torch.set_num_threads(threads)
