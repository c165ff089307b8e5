# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of the rows that a mask selects: values and gradients match those of eager PyTorch; unsupported uses are
refused."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir import ReproError, Trainer
from repro_mlir.frontends.torch.trace.tracing import first_stage, second_stage
from torch import nn

_NAN = float("nan")
_generator = torch.Generator().manual_seed(1)


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_generator)


X, Y, W, B = _normal(6, 5), _normal(6, 5), _normal(3, 5), _normal(3)
MASK = torch.tensor([1, 0, 1, 1, 0, 1], dtype=torch.bool)
NONE = torch.zeros(6, dtype=torch.bool)
TARGET = torch.tensor([0, -100, 2, 1, -100, 0])
HIDDEN = torch.where(MASK[:, None], X, torch.tensor(_NAN))
"""Data with NaN in all rows that the mask excludes."""
CUBE = _normal(2, 3, 4)
PAIRS = torch.tensor([[1, 0, 1], [0, 0, 1]], dtype=torch.bool)


def _write_scaled(x: torch.Tensor) -> Any:
    x = x.clone()
    x[x > 0.5] *= 10
    return x


def _write_sum(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> Any:
    x = x.clone()
    x[mask] += y[mask]
    return x


def _write_several(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> Any:
    x, y = x.clone(), y.clone()
    x[mask] = 1.5
    y[mask] = x[mask].sigmoid() * y[mask]
    x[~mask] = y[0]
    x[mask, 2] = y[mask, 1]
    x[:, mask[:5]] = y[:, mask[:5]] * 2
    return x * y


def _write_nested(x: torch.Tensor, mask: torch.Tensor) -> Any:
    rows = x[mask]
    rows[rows > 0] = 0
    return rows.sum()


def _write_at_places(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> Any:
    (places,) = torch.where(mask)
    x = x.clone()
    x[places] = y[places] * 2
    return x


def _experts(x: torch.Tensor, mask: torch.Tensor) -> Any:
    out = torch.zeros_like(x)
    expert, token = torch.where(torch.stack([mask, ~mask]))
    out.index_add_(0, token, x[None, token].reshape(-1, 5) * (expert + 1)[:, None])
    return out


def _places(x: torch.Tensor, mask: torch.Tensor) -> Any:
    places = mask.nonzero().squeeze(1)
    return x[places].square().mean() + x.index_select(0, places).sum()


def _cross_entropy(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, t: torch.Tensor) -> Any:
    o = F.linear(x, w, b)
    smooth = F.cross_entropy(o[t >= 0], t[t >= 0], weight=b.detach().exp(), label_smoothing=0.1)
    total = F.cross_entropy(o[t >= 0], t[t >= 0], reduction="sum")
    each = F.nll_loss(o[t >= 0].log_softmax(-1), t[t >= 0], reduction="none").mean()
    chosen = o[t >= 0].log_softmax(-1)[torch.arange((t >= 0).sum()), t[t >= 0]].mean()
    return F.cross_entropy(o[t >= 0], t[t >= 0]) + smooth * total - each * chosen


def _losses(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> Any:
    a, b = x[mask], y[mask]
    p, q = a.sigmoid(), b.sigmoid().detach()
    return (
        F.mse_loss(a, b) * F.l1_loss(a, b)
        + F.smooth_l1_loss(a, b) * F.huber_loss(a, b)
        + F.binary_cross_entropy(p, q) * F.binary_cross_entropy_with_logits(a, q)
        + F.kl_div(a.log_softmax(-1), b.softmax(-1).detach(), reduction="batchmean")
        + F.cosine_embedding_loss(a, b, torch.ones(1)) * F.cosine_similarity(a, b, dim=-1).mean()
    )


def _reductions(x: torch.Tensor, mask: torch.Tensor) -> Any:
    z = x[mask]
    return z.mean() * z.sum() + z.var() * z.std() + z.norm() * z[:, 0].max() * z[:, 1].min() + z.logsumexp(0).sum()


def _along_rows(x: torch.Tensor, mask: torch.Tensor) -> Any:
    z = x[mask]
    return z.mean(0).prod() + z.amax(0).sum() + z.var(0).sum() + (z.softmax(0) * z).sum() + (z.cumsum(0) * z).sum()


def _shapes(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> Any:
    z = x[mask]
    flat = z.view(-1).square().mean() + z.unsqueeze(1).flatten(1).sum() + z.reshape(-1, 1, 5).mean()
    joined = torch.cat([z, y[~mask]]).square().mean() + torch.cat([z, y[mask]], 1).mean()
    return flat + joined + torch.stack([z, y[mask]], 1).mean() + z.sum() / z.shape[0] + z.sum() / z.numel()


def _row_networks(x: torch.Tensor, w: torch.Tensor, mask: torch.Tensor) -> Any:
    z = F.layer_norm(F.gelu(F.linear(x[mask], w)), (3,), torch.ones(3) * 2)
    attention = torch.softmax(x[mask] @ x[mask].t(), -1) @ x[mask]
    filtered = F.conv1d(x[mask].unsqueeze(1), torch.ones(1, 1, 3))
    return z.square().mean() + attention.square().sum() + filtered.square().mean() + (z.t() @ z).square().sum()


CASES: list[tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    (_write_scaled, (X,)),
    (_write_sum, (X, HIDDEN, MASK)),
    (_write_several, (X, Y, MASK)),
    (_write_nested, (X, MASK)),
    (_write_at_places, (X, HIDDEN, MASK)),
    (_experts, (X, MASK)),
    (_places, (HIDDEN, MASK)),
    (_cross_entropy, (HIDDEN, W, B, TARGET)),
    (_losses, (HIDDEN, Y, MASK)),
    (_reductions, (HIDDEN, MASK)),
    (_along_rows, (HIDDEN, MASK)),
    (_shapes, (X, Y, MASK)),
    (_row_networks, (HIDDEN, W, MASK)),
    (lambda x, mask: x.masked_select(mask[:, None]).view(-1, 5).square().mean(), (HIDDEN, MASK)),
    (lambda x: x[x > 0].log().sum(), (CUBE,)),
    (lambda x, mask: x[mask].square().mean() + x[:, mask[0]].mean(1).square().sum(), (CUBE, PAIRS)),
    (lambda x, y, mask: x[mask].mean() * y[~mask].sum() + x[mask & (y[:, 0] > 0)].sum(), (X, Y, MASK)),
    (lambda x, mask: x[mask][x[mask][:, 0] > 0].square().mean(), (X, MASK)),
    (lambda w, t: F.embedding(t[t >= 0], w).square().mean(), (W, TARGET)),
    (lambda x, pairs: x[torch.where(pairs)].sum(), (CUBE[0], PAIRS)),
    (lambda x, mask: (x[mask.nonzero().squeeze(1)[:, None]] * 2).sum(1).square().sum(), (X, MASK)),
    (lambda x, mask: x[mask].sum() * torch.full((2,), mask.sum().item()).sum(), (X, MASK)),
    (lambda x, mask: functools.reduce(torch.mul, [1.01] * 200, x)[mask].sum(), (X, MASK)),
    (lambda x, mask: x[mask].mean(), (X, NONE)),
    (lambda x, mask: x[mask].sum() + F.batch_norm(x[mask], None, None, training=True).pow(3).mean(), (X, MASK)),
]


def _step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that computes the result of `function`, followed by the gradients of the sum of the squared
    result with respect to the arguments."""

    def step(*arguments: torch.Tensor) -> list[torch.Tensor]:
        leaves = [each.detach().requires_grad_(each.is_floating_point()) for each in arguments]
        result = function(*leaves)
        found = torch.autograd.grad(result.square().sum(), [leaf for leaf in leaves if leaf.requires_grad])
        return [result.detach(), *found]

    return step


@pytest.mark.parametrize("case", range(len(CASES)))
def test_values_and_gradients(case: int) -> None:
    function, arguments = CASES[case]
    expected = _step(function)(*arguments)
    graph = second_stage(first_stage(_step(function), arguments))
    torch.testing.assert_close([*graph(*arguments)], expected, equal_nan=True, rtol=1e-4, atol=1e-5)


def test_rows_without_a_gradient() -> None:
    def counts(t: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        known = t[t >= 0]
        hits = (x[t >= 0].argmax(-1) == known).float().mean()
        return [
            known.sum(),
            known.max(),
            (known // known.amax()).sum(),
            (x[t > 0] > 0).any(),
            hits,
            x.bfloat16()[t > 0].mean(),
            *torch.std_mean(x.bfloat16()[t > 0] + 3),
            x.bfloat16()[t > 0].var(),
        ]

    graph = second_stage(first_stage(counts, (TARGET, X)))
    torch.testing.assert_close([*graph(TARGET, X)], counts(TARGET, X))


def _check_count(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    torch._check(mask.sum().item() > 1, lambda: "too few")
    return x[mask].sum()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_check_count, "too few"),
        (lambda x, m: x[m].norm(torch.inf), "the largest magnitude of the rows that a mask selects"),
        (lambda x, m: x[m].max(), "max of the rows that a mask selects"),
    ],
)
def test_checks_of_the_step(function: Callable[..., torch.Tensor], message: str) -> None:
    graph = second_stage(first_stage(lambda x, m: [function(x, m)], (X, MASK)))
    torch.testing.assert_close(graph(X, MASK)[0], function(X, MASK))
    with pytest.raises(RuntimeError, match=message):
        graph(X, NONE)


class _Masked(nn.Module):
    """A language model without attention: an embedding, layers with a normalization, and logits of 11 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 11))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(self.words(ids))


def _masked_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output[target != -100], target[target != -100])


def test_training_of_a_masked_language_model() -> None:
    ids = torch.randint(0, 11, (3, 6), generator=_generator)
    labels = torch.where(torch.rand(3, 6, generator=_generator) < 0.4, ids, -100)
    torch.manual_seed(0)
    model = _Masked()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    found = []
    for target in ("cpu", "reference"):
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        trainer = Trainer(model, _masked_loss, optimizer, target=target)
        found.append([float(trainer.step(ids, labels)) for _ in range(2)])
    assert found[0] == found[1]
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    expected = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = _masked_loss(model(ids), labels)
        loss.backward()
        optimizer.step()
        expected.append(float(loss.detach()))
    assert found[0] == pytest.approx(expected, rel=1e-5)


def test_inference() -> None:
    class Scale(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
            x = x.clone()
            x[mask] *= 10
            return [x, x[mask].mean(0), x[x > 3].sum()]

    compiled = repro_mlir.compile(Scale(), threads=1, inputs=(HIDDEN, MASK))
    for mask in (MASK, ~MASK, NONE):
        _, found = compiled({}, HIDDEN, mask)
        torch.testing.assert_close([*map(torch.as_tensor, found.values())], Scale()(HIDDEN, mask), equal_nan=True)


@pytest.mark.parametrize("whole", [True, False])
def test_torch_compile(whole: bool) -> None:
    def loss(x: torch.Tensor, w: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        o = F.linear(x, w)
        return F.cross_entropy(o[t >= 0], t[t >= 0]) + o[t >= 0].std()

    def written(x: torch.Tensor, w: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x = x * w[0]
        x[t >= 0] *= 10
        return x

    for function in (loss, written):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=repro_mlir.backend(threads=1), fullgraph=whole)
        gradients, results = [], []
        for each in (compiled, function):
            leaves = [X.clone().requires_grad_(), W.clone().requires_grad_()]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(each(*leaves, TARGET))
            results[-1].square().sum().backward()
            gradients.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(results[0], results[1])
        torch.testing.assert_close(gradients[0], gradients[1])


_REFUSED = [
    (lambda x, m: x[m], "a result is rows that a mask selects"),
    (lambda x, m: x[m].sort(0)[0].sum(), "sort along"),
    (lambda x, m: x[m][0], "a row by its number"),
    (lambda x, m: x[m].median(), r"median of rows that a mask selects \(selected at test_selections.py:\d+\)"),
    (lambda x, m: (x[m] + x[~m]).sum(), "rows that different masks select"),
    (lambda x, m: (x[m] + torch.ones(4, 5)).sum(), "with a dimension of 4"),
    (lambda x, m: x.unique().sum(), "unique2? returns a tensor whose shape depends on tensor values"),
    (lambda x, m: x.repeat_interleave(m.long(), 0).sum(), "repeat_interleave returns"),
    (lambda x, m: torch.bincount(m.long()).sum(), "bincount returns"),
    (lambda x, m: x[: m.sum().item()].sum(), "a slice ends at a number"),
    (lambda x, m: x if x.sum() > 0 else -x, r"if, while.* torch.where\(condition, a, b\)"),
    (lambda x, m: x[int(m.sum())], r"int\(\) is called on a tensor; use the tensor itself, as in x\[index\]"),
    (lambda x, m: next(x for _ in range(m.sum())), r"range\(\) .* fixed number of steps"),
    (lambda x, m: x * float(x.sum()), r"float\(\) is called on a tensor"),
    (lambda x, m: x.select(0, m.sum().item()), "a Python index depends"),
    (lambda x, m: x[m][:, : m.sum().item()].sum(), "a slice ends at a number"),
    (lambda x, m: x * x[m].item(), "an element of rows that a mask selects is read"),
    (lambda x, m: torch.zeros(3, 5).put(torch.where(m)[0], x[m][:, 0]).sum(), "put of rows that a mask selects"),
    (lambda x, m: x[m].sum() if x[m].numel() else x, "Python code branches on a computed number"),
    (lambda x, m: torch.tensor(x.numpy()), r"\.numpy\(\) is called on a tensor"),
    (lambda x, m: x if torch.allclose(x, x) else -x, r"\(allclose\)"),
]


@pytest.mark.parametrize("case", range(len(_REFUSED)))
def test_refusals(case: int) -> None:
    function, reason = _REFUSED[case]
    with pytest.raises(ReproError, match=rf"^test_selections.py:\d+: [^\n]*{reason}[^\n]*$") as error:
        second_stage(first_stage(lambda x, m: [function(x, m)], (X, MASK)))
    assert not any(word in str(error.value) for word in ("SymInt", "FakeTensor", "u0", "torch-mlir", "LLVM"))
