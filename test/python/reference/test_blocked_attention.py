# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares attention that is computed element by element, by (K5), with imported attention on every target."""

import numpy as np
import pytest
import repro_mlir
import scalar
from repro_mlir.reference import functions
from support import kit

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

F32 = np.float32
ZERO = F32(0)


def add(x: np.float32, y: np.float32) -> np.float32:
    return x + y


def product(xs: np.ndarray, ys: np.ndarray) -> np.float32:
    """Returns the dot product of two vectors (K1) in the order (P1)."""
    pairs = list(zip(xs, ys, strict=True))
    return scalar.ordered(
        pairs,
        ZERO,
        ZERO,
        lambda acc, x, y: scalar.fma(x, y, acc),
        add,
        chunk=512,
        lanes=1,
        run=len(pairs),
        refold=False,
    )


def products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns x times the transpose of y."""
    return np.array([[product(row, column) for column in y] for row in x], F32).reshape(len(x), len(y))


def total(row: np.ndarray) -> np.float32:
    """Returns the sum of a row in the order (P2)."""
    return scalar.ordered([(x,) for x in row], ZERO, ZERO, add, add, chunk=8192, lanes=64, run=len(row), refold=True)


def attention_K5(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, grad: np.ndarray, mask: np.ndarray, block: int, is_causal: bool
) -> tuple[np.ndarray, ...]:
    """Returns the result and the gradients of attention for q [L, E], k [S, E] and v [S, F], given the gradient [L, F]
    of the result.

    `mask` [L, S] selects the keys that each query attends to; with `is_causal`, it must be the causal mask.
    """
    scale = F32(1 / np.sqrt(q.shape[1]))
    q = q * scale
    queries, keys = mask.shape

    def scores(rows: range, columns: range) -> np.ndarray:
        met = mask[np.ix_(rows, columns)]
        return np.where(met, products(q[rows], k[columns]), F32(-np.inf))

    output, maxima, logarithms = np.zeros_like(grad), np.zeros(queries, F32), np.zeros(queries, F32)
    for first in range(0, queries, block):
        rows = range(first, min(first + block, queries))
        columns = range(min(rows.stop, keys) if is_causal else keys)
        for i, row in zip(rows, scores(rows, columns), strict=True):
            greatest = row.max()
            greatest = ZERO if greatest == -np.inf else greatest
            weights = functions.evaluate("exp", row - greatest)
            sum_of_weights = total(weights)
            sum_of_weights = F32(1) if sum_of_weights == 0 else sum_of_weights
            output[i] = products(weights[None], v[columns].T)[0] / sum_of_weights
            maxima[i] = greatest
            logarithms[i] = functions.evaluate("log", sum_of_weights[None])[0]
    sums = np.array([total(row) for row in grad * output], F32)
    grad_q, grad_k, grad_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    met = min(queries, keys) if is_causal else keys
    for first in range(0, met, block):
        columns = range(first, min(first + block, met))
        rows = range(first if is_causal else 0, queries)
        weights = functions.evaluate("exp", (scores(rows, columns) - maxima[rows][:, None]) - logarithms[rows][:, None])
        grad_scores = weights * (products(grad[rows], v[columns]) - sums[rows][:, None])
        grad_v[columns] = products(weights.T, grad[rows].T)
        grad_k[columns] = products(grad_scores.T, q[rows].T)
        part = products(grad_scores, k[columns].T)
        grad_q[rows] = part if first == 0 else grad_q[rows] + part
    return output, grad_q * scale, grad_k, grad_v


class Attention(torch.nn.Module):
    """Attention as PyTorch users write it: maps (q, k, v, gradient of the result, mask) to the result and the
    gradients."""

    def __init__(self, is_causal: bool, masked: bool) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.masked = masked

    def forward(self, q, k, v, grad, mask):  # type: ignore[no-untyped-def]
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            result = torch.nn.functional.scaled_dot_product_attention(
                *leaves, attn_mask=mask if self.masked else None, is_causal=self.is_causal
            )
        return result.detach(), *torch.autograd.grad(result, leaves, grad)


CASES = [(7, 7, 3, "causal"), (9, 5, 4, "causal"), (5, 9, 4, "causal"), (6, 130, 100, "all"), (130, 6, 64, "masked")]


@pytest.mark.parametrize(("queries", "keys", "block", "kind"), CASES)
@pytest.mark.diagonal("kind")
def test_all_targets_follow_the_rule_K5(queries: int, keys: int, block: int, kind: str) -> None:
    rng = np.random.default_rng(queries)
    q, k, v, grad = (
        rng.standard_normal(shape).astype(F32) for shape in ((queries, 4), (keys, 4), (keys, 3), (queries, 3))
    )
    masks = {
        "causal": np.tri(queries, keys, dtype=bool),
        "all": np.ones((queries, keys), bool),
        "masked": rng.random((queries, keys)) > 0.4,
    }
    mask = masks[kind]
    if kind == "masked":
        mask[3] = False
    is_causal = kind == "causal"
    expected = attention_K5(q, k, v, grad, mask, block, is_causal)
    inputs = (q, k, v, grad, mask)
    model = Attention(is_causal, kind == "masked")
    program = repro_mlir.capture(model, tuple(map(torch.from_numpy, inputs)), attention_block=block)
    levels = [f"cpu:{level}" for level in kit.levels()]
    for target in ("reference", *levels, "ptx-emulator:sm_75", "ptx-emulator:sm_90"):
        for threads in (1, 2) if target in levels else (1,):
            _, outputs = repro_mlir.compile(program, target, threads)({}, *inputs[: len(program.inputs)])
            for want, (name, got) in zip(expected, outputs.items(), strict=True):
                np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32), f"{target} {name}")
