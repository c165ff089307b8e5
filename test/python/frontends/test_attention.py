# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K5) Blockwise attention has the results and gradients of the framework's attention, up to rounding."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir.frontends.torch import CaptureError, capture_inference, capture_training
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from support.applied import Applied
from support.tracing import trace
from torch import nn


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def _capture(
    function: Callable[..., Sequence[torch.Tensor]], arguments: Sequence[torch.Tensor], block: int
) -> repro_mlir.Program:
    return repro_mlir.capture(Applied(function), tuple(arguments), attention_block=block)


def _run(program: repro_mlir.Program, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    _, outputs = repro_mlir.compile(program, "cpu", 1)(program.initial_state(), *arguments)
    return list(outputs.values())


def _with_gradients(function: Callable[..., torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    """Returns a function whose arguments are the gradient of the result, followed by the arguments of `function`. It
    returns the result, followed by the gradients with respect to the arguments."""

    def both(grad: torch.Tensor, *arguments: torch.Tensor) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in arguments]
            result = function(*leaves)
            wanted = [x for x in leaves if x.requires_grad]
            return [result.detach(), *torch.autograd.grad(result, wanted, grad)]

    return both


def _compare(
    function: Callable[..., torch.Tensor], *arguments: torch.Tensor, block: int, tolerance: float = 2e-5
) -> repro_mlir.Program:
    """Captures `function` with blockwise attention and compares the compiled program with eager mode. Returns the
    program."""
    both = _with_gradients(function)
    inputs = [torch.randn_like(function(*arguments)), *arguments]
    program = _capture(both, inputs, block)
    for got, want in zip(_run(program, inputs), both(*inputs), strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    return program


def _operands(
    queries: int, keys: int, size: int = 4, width: int = 5, batch: tuple[int, ...] = (2, 3), dtype: Any = torch.float32
) -> tuple[torch.Tensor, ...]:
    shapes = ((queries, size), (keys, size), (keys, width))
    return tuple(torch.randn(*batch, *shape, dtype=dtype) for shape in shapes)


@pytest.mark.parametrize(
    ("queries", "keys", "block"), [(8, 8, 4), (10, 10, 4), (5, 11, 4), (11, 5, 4), (1, 9, 1), (5, 5, 1), (6, 7, 64)]
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.diagonal
def test_blocks_of_all_shapes_K5(queries: int, keys: int, block: int, causal: bool) -> None:
    _compare(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        *_operands(queries, keys),
        block=block,
    )


@pytest.mark.parametrize("batch", [(), (2,), (2, 1, 3)])
def test_any_number_of_dimensions_K5(batch: tuple[int, ...]) -> None:
    _compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *_operands(6, 7, batch=batch), block=4)


@pytest.mark.parametrize("scale", [0.3, 2])
def test_scale_K5(scale: float) -> None:
    _compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), *_operands(6, 7), block=4)


def test_batch_dimensions_that_broadcast_K5() -> None:
    q, k, v = torch.randn(2, 3, 6, 4), torch.randn(3, 7, 4), torch.randn(1, 1, 7, 5)
    _compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v, block=4)


def test_grouped_heads_K5() -> None:
    q, k, v = torch.randn(2, 6, 7, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 4)
    _compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), q, k, v, block=3)


def test_grouped_heads_round_once_K5() -> None:
    q, k, v = torch.randn(1, 8, 5, 4), torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 4)
    low = [x.bfloat16() for x in (q, k, v)]

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    both, narrow = _with_gradients(attend), [torch.randn(1, 8, 5, 4).bfloat16(), *low]
    wide = [x.float() for x in narrow]
    got, want = (_run(_capture(both, inputs, 64), inputs) for inputs in (narrow, wide))
    for x, y in zip(got, want, strict=True):
        assert torch.equal(x, y.bfloat16())


@pytest.mark.parametrize("shape", [(6, 7), (1, 7), (6, 1), (3, 6, 7), (2, 1, 6, 7)])
def test_mask_of_booleans_K5(shape: tuple[int, ...]) -> None:
    mask = torch.rand(shape) > 0.3
    _compare(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *_operands(6, 7), mask, block=4)


@pytest.mark.parametrize("shape", [(6, 7), (1, 7), (3, 6, 1), (2, 1, 6, 7)])
def test_mask_that_is_added_has_a_gradient_K5(shape: tuple[int, ...]) -> None:
    mask = torch.randn(shape)
    _compare(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *_operands(6, 7), mask, block=4)


def test_row_of_large_negative_numbers_has_even_weights_K5() -> None:
    mask = torch.zeros(6, 7)
    mask[2], mask[3, 2:], mask[4] = -1e9, -1e9, torch.finfo(torch.float32).min
    _compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), *_operands(6, 7), block=4)


@pytest.mark.parametrize("added", [False, True])
def test_query_without_keys_has_no_weights_K5(added: bool) -> None:
    mask = torch.rand(6, 7) > 0.3
    mask[2] = mask[5] = False
    given = torch.where(mask, 0.0, -torch.inf) if added else mask

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, given)

    operands = _operands(6, 7)
    inputs = [torch.randn_like(attend(*operands)), *operands]
    output, grad_q, grad_k, grad_v = _run(_capture(_with_gradients(attend), inputs, 4), inputs)
    assert not output[:, :, [2, 5]].any() and not grad_q[:, :, [2, 5]].any()
    assert all(torch.isfinite(x).all() and x.any() for x in (output, grad_q, grad_k, grad_v))


@pytest.mark.parametrize("block", [3, 64])
def test_dropout_keeps_the_same_weights_backward_K5(block: int) -> None:
    rate, size = 0.4, 7
    operands = _operands(size, size, size, size)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate)

    # The values are an identity matrix, so the result consists of the attention weights.
    shown = [operands[0], operands[1], torch.eye(size).expand(2, 3, size, size)]
    (weights,) = _run(_capture(lambda *x: [attend(*x)], shown, block), shown)
    kept = weights != 0
    assert 0.3 < float(kept.float().mean()) < 0.9

    def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.mT * size**-0.5, -1) * kept / (1 - rate) @ v

    inputs = [torch.randn(2, 3, size, size), *operands]
    got = _run(_capture(_with_gradients(attend), inputs, block), inputs)
    for x, y in zip(got, _with_gradients(expected)(*inputs), strict=True):
        torch.testing.assert_close(x, y, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_rounds_operands_and_result_K5(dtype: torch.dtype) -> None:
    q, k, v = _operands(6, 7)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=dtype):
            return F.scaled_dot_product_attention(q, k, v)

    (output,) = _run(_capture(lambda *operands: [attend(*operands)], [q, k, v], 4), [q, k, v])
    assert output.dtype == dtype
    low = [x.to(dtype).float() for x in (q, k, v)]
    want = F.scaled_dot_product_attention(*low).to(dtype)
    torch.testing.assert_close(output, want)


def _has_tensor(program: repro_mlir.Program, rows: int, columns: int) -> bool:
    return re.search(rf"x{rows}x{columns}xf32>", program.text) is not None


def test_no_whole_matrix_is_kept_K5() -> None:
    operands = _operands(12, 12)
    program = _compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *operands, block=4)
    assert _has_tensor(program, 4, 12)
    assert not _has_tensor(program, 12, 12)


@pytest.mark.parametrize(
    "module",
    [
        nn.MultiheadAttention(8, 2, batch_first=True),
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    ],
)
def test_modules_of_the_framework_go_by_blocks_K5(module: nn.Module) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def attend(self, x: torch.Tensor) -> torch.Tensor:
            if isinstance(module, nn.MultiheadAttention):
                return self.inner(x, x, x, need_weights=False)[0]
            return self.inner(x)

        def forward(self, grad: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(_with_gradients(self.attend)(grad, x))

    model, inputs = Model(), (torch.randn(2, 12, 8), torch.randn(2, 12, 8))
    program = repro_mlir.capture(model, inputs, attention_block=4)
    assert _has_tensor(program, 4, 12) and not _has_tensor(program, 12, 12)
    for got, want in zip(_run(program, inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5)


def test_without_the_option_nothing_changes_K5() -> None:
    original = F.scaled_dot_product_attention

    class Attend(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = torch.randn(2, 12, 4)
    plain = capture_inference(Attend(), x).text
    assert capture_inference(Attend(), x, CaptureOptions(attention_block=4)).text != plain
    assert F.scaled_dot_product_attention is original
    assert capture_inference(Attend(), x).text == plain


@pytest.mark.parametrize("block", [0, -1, 1.5, True, "4"])
def test_block_is_a_whole_number_K5(block: Any) -> None:
    model, batch = nn.Linear(2, 2), (torch.randn(3, 2), torch.randn(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    message = f"expected a whole number above 0 as attention_block, got {block!r}"
    with pytest.raises(CaptureError, match=message):
        capture_training(model, F.mse_loss, optimizer, batch, CaptureOptions(attention_block=block))
    with pytest.raises(CaptureError, match=message):
        capture_inference(model, batch[0], CaptureOptions(attention_block=block))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attn_mask": torch.ones(6, 6), "is_causal": True}, "expected either attn_mask or is_causal, got both"),
        (
            {"attn_mask": torch.ones(6, 6, dtype=torch.int64)},
            "expected booleans or floats as attn_mask, got torch.int64",
        ),
        ({"enable_gqa": True}, r"numbers of heads of key and value that divide that of query, got \[2, 3, 6, 4\]"),
        ({"dropout_p": 0.1}, r"expected random-number state \(seed and step\) for a random operator, got none"),
        ({"dropout_p": 1.5}, "expected dropout_p from 0 to 1, got 1.5"),
    ],
)
def test_mistakes_are_errors_with_their_line_K5(options: dict[str, Any], message: str) -> None:
    q, k, v = _operands(6, 6)
    operands = [q, k[:, :2], v[:, :2]] if "enable_gqa" in options else [q, k, v]
    with pytest.raises(CaptureError, match=rf"test_attention.py:\d+: .*{message}"):
        trace(lambda *x: [F.scaled_dot_product_attention(*x, **options)], operands, 4)


def test_second_derivative_is_an_error_K5() -> None:
    def penalty(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        (grad,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)
        return (grad**2).sum()

    operands = _operands(6, 6)
    with pytest.raises(CaptureError, match="attention by blocks has no second derivative"):
        trace(_with_gradients(penalty), [torch.ones([]), *operands], 4)


def test_shapes_that_do_not_fit_are_an_error_with_their_line_K5() -> None:
    q, k, v = _operands(6, 6)
    wrong = {
        "could not|must match|broadcast": (q[:1].expand(3, 3, 6, 4), k, v),
        r"expected query \[..., L, E\]": (q, k, v[:, :, :4]),
        "expected query, key and value of the same element type": (q, k.double(), v),
        r"expected floats of at most 32 bits \(K5\) for attention by blocks, got torch.float64": (
            q.double(),
            k.double(),
            v.double(),
        ),
        "expected query, key and value of 2 dimensions or more": (q[0, 0, 0], k, v),
    }
    for message, operands in wrong.items():
        with pytest.raises(CaptureError, match=rf"test_attention.py:\d+: .*({message})"):
            trace(lambda *x: [F.scaled_dot_product_attention(*x)], operands, 4)
