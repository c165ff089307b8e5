# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators that the frontend composes from other operators: the results are near those of eager PyTorch, and the bits
are the same on every target."""

import mpmath as mp
import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from operator_checks import check, gradients
from repro_mlir.frontends.torch import CaptureError
from repro_mlir.frontends.torch.operators.scans import DECOMPOSITIONS as RUNNING
from repro_mlir.frontends.torch.operators.special_functions import DECOMPOSITIONS as SPECIAL_FUNCTIONS
from repro_mlir.frontends.torch.operators.special_polynomials import DECOMPOSITIONS as POLYNOMIALS

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def test_D4_running_products_counts_and_bits() -> None:
    x = torch.tensor([[1.5, 2.0, 2.0, -0.0], [3.0, 1.5, 1.5, 3.0], [NAN, 7.0, NAN, 1e-40]])
    finite = _normal(3, 4)
    lengths = torch.tensor([2, 0, 1])
    functions = {
        "mode": lambda x, y, n: torch.mode(x[:2], 1),
        "nonzero_static": lambda x, y, n: (
            torch.nonzero_static(y > 0, size=3),
            torch.nonzero_static(y > 0, size=14, fill_value=-7),
        ),
        "histogram": lambda x, y, n: (
            *torch.histogram(y, 4),
            *torch.histogram(y, 3, range=(-1.0, 1.0), weight=y.abs(), density=True),
            *torch.histogram(y, torch.tensor([-1.0, 0.0, 2.0])),
        ),
        "histogramdd": lambda x, y, n: torch.histogramdd(y, [2, 3, 1, 2])[0],
        "segments": lambda x, y, n: [
            torch.segment_reduce(y, kind, lengths=n, initial=1.0) for kind in ("sum", "mean", "max", "min", "prod")
        ],
        "segment gradients": gradients(
            lambda x, y, n: [torch.segment_reduce(y, kind, lengths=n, initial=1.0) for kind in ("mean", "max", "prod")]
        ),
        "cumprod": lambda x, y, n: (y.cumprod(1), n.cumprod(0)),
        "cummax": lambda x, y, n: (*torch.cummax(x, 0), *torch.cummin(x, 1)),
        "bits": lambda x, y, n: (
            y.view(torch.int32),
            n.view(torch.float64),
            torch.frexp(x[:2]),
            torch.frexp(x[2:, 3:]),
        ),
        "nextafter": lambda x, y, n: (torch.nextafter(x, y), torch.nextafter(x[:2], y[:2] * INF)),
        "index": lambda x, y, n: aten.index_put(y, [None, n.to(torch.int32)], y[:, :3], True),
        "loss": gradients(lambda x, y, n: F.nll_loss(y[0], n[0])),
    }
    check(functions, x, finite, lengths)


def test_sums_of_booleans_are_whether_one_is_true() -> None:
    functions = {
        "scatter_add": lambda x, n: x.scatter_add(0, n, ~x),
        "index_add": lambda x, n: x.index_add(0, n, x),
        "index_put": lambda x, n: torch.index_put(x, [n], x, accumulate=True),
        "scatter_reduce": lambda x, n: [x.scatter_reduce(0, n, ~x, kind) for kind in ("sum", "amin", "amax")],
        "functions": lambda x, n: (torch.lgamma(n), x.angle(), n.reciprocal(), torch.copysign(n, -1.0), torch.erfc(x)),
    }
    check(functions, torch.tensor([True, False, True, True]), torch.tensor([1, 1, 1, 2]))


def test_V4_the_bits_of_a_nan_are_canonical() -> None:
    (bits,) = check({"bits": lambda x: x.view(torch.int32)}, torch.tensor([1.0, NAN]))
    assert bits.tolist() == [0x3F800000, 0x7FC00000]


def test_a_view_as_a_type_of_another_width_is_refused() -> None:
    class View(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(torch.int8)

    with pytest.raises(CaptureError, match=r"operator aten\.view\.dtype is not supported"):
        repro_mlir.capture(View(), (torch.ones(2),))


def test_D3_running_extremes_are_those_of_one_element_after_the_other() -> None:
    choices = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, INF])
    x = choices[torch.randint(0, 6, (200, 23), generator=torch.Generator().manual_seed(1))]
    for name in ("cummax", "cummin"):
        values, indices = RUNNING[getattr(aten, name).default](x, 1)
        wanted = getattr(torch, name)(x, 1)
        assert torch.equal(indices, wanted.indices)
        torch.testing.assert_close(values, wanted.values, rtol=0, atol=0, equal_nan=True)


def test_pooling_resampling_and_losses() -> None:
    grid = torch.rand(1, 2, 2, 2, 3, generator=torch.Generator().manual_seed(1)) * 2.6 - 1.3
    samples = torch.rand(1, 2, 3, generator=torch.Generator().manual_seed(2))
    targets = torch.tensor([[1, 2, 2], [3, 1, 0]])
    functions = {
        "adaptive": gradients(lambda x, g, s, t: F.adaptive_avg_pool3d(x, (2, 3, 3))),
        "unbatched": gradients(
            lambda x, g, s, t: (F.avg_pool2d(x[0, 0], 2), F.avg_pool1d(x[0, 0, 0], 2), F.max_pool2d(x[0, 0], 2))
        ),
        "fractional": gradients(
            lambda x, g, s, t: (
                F.fractional_max_pool3d(x, 2, (2, 3, 3), _random_samples=s.detach()),
                F.fractional_max_pool2d(x[:, :, 0], 2, (3, 2), _random_samples=s[..., :2].detach()),
            )
        ),
        "antialiased": gradients(
            lambda x, g, s, t: [
                F.interpolate(x[:, :, 0], (3, 9), mode=mode, antialias=True) for mode in ("bilinear", "bicubic")
            ]
        ),
        "volumes": gradients(
            lambda x, g, s, t: [
                F.grid_sample(x, g, padding_mode=mode, align_corners=mode == "border")
                for mode in ("zeros", "border", "reflection")
            ]
        ),
        "nearest volumes": lambda x, g, s, t: F.grid_sample(x, g, mode="nearest", align_corners=False),
        "ctc": gradients(
            lambda x, g, s, t: F.ctc_loss(
                x[0, :, :, :, 0].permute(1, 0, 2).log_softmax(2), t, torch.tensor([4, 3]), torch.tensor([3, 1])
            )
        ),
    }
    check(functions, _normal(1, 2, 4, 5, 7), grid, samples, targets, rtol=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_loss_of_targets_in_one_row(reduction: str) -> None:
    from repro_mlir.frontends.torch.operators.ctc import ctc_loss

    scores = _normal(6, 3, 4).log_softmax(2)
    # The last target (4 labels for 3 inputs) is too long for any alignment, so its loss is infinite.
    arguments = torch.tensor([1, 2, 3, 3, 3, 3]), torch.tensor([6, 5, 3]), torch.tensor([2, 0, 4])
    for zero_infinity in (False, True):
        found, wanted = (
            function(scores, *arguments, reduction=reduction, zero_infinity=zero_infinity)
            for function in (ctc_loss, F.ctc_loss)
        )
        torch.testing.assert_close(found, wanted)


def test_householder_reflections() -> None:
    functions = {
        "geqrf": lambda a, b: torch.geqrf(a),
        "product": gradients(lambda a, b: torch.linalg.householder_product(a, b[0, :3] * 0.3)),
        "ormqr": lambda a, b: (
            torch.ormqr(a, b[0, :3], b),
            torch.ormqr(a, b[0, :3], b.mT.contiguous(), left=False, transpose=True),
        ),
    }
    check(functions, _normal(5, 3), _normal(5, 4), rtol=1e-4)


_KINDS = ("t", "u", "v", "w")


@pytest.mark.parametrize("kind", _KINDS)
def test_chebyshev_polynomials(kind: str) -> None:
    x = torch.tensor([-1.5, -1.0, -0.6, 0.0, 0.3, 1.0, 1.2])
    for degree in (-1, 0, 1, 2, 9, 1000):
        found = POLYNOMIALS[getattr(aten, f"special_chebyshev_polynomial_{kind}").default](
            x, torch.tensor(float(degree))
        )
        for argument, value in zip(x.tolist(), found.tolist(), strict=True):
            with mp.workdps(40):
                u, t = (mp.chebyu(n, mp.mpf(argument)) if n > -1 else mp.mpf(0) for n in (degree, degree - 1))
                exact = {"t": mp.chebyt(max(degree, 0), argument), "u": u, "v": u - t, "w": u + t}
                wanted = float(exact[kind]) if degree >= 0 else 0.0
            assert value == pytest.approx(wanted, rel=1e-6, abs=1e-6) or abs(wanted) > 3e38
    zeros = POLYNOMIALS[getattr(aten, f"special_shifted_chebyshev_polynomial_{kind}").n_scalar](x * 0 + 0.5, 2)
    plain = POLYNOMIALS[getattr(aten, f"special_chebyshev_polynomial_{kind}").n_scalar](x * 0, 2)
    assert torch.equal(zeros, plain)


def test_polynomials_by_steps() -> None:
    x, n = torch.linspace(-2, 2, 9).unsqueeze(1), torch.tensor([-1.0, 0.0, 1.0, 2.0, 5.0, 11.0])
    for name in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"):
        found = POLYNOMIALS[getattr(aten, f"special_{name}").default](x, n)
        torch.testing.assert_close(found, getattr(torch.special, name)(x, n), rtol=1e-5, atol=1e-5)
    assert POLYNOMIALS[aten.special_hermite_polynomial_h.n_scalar](x, 129).isnan().all()
    with pytest.raises(RuntimeError, match="a degree above 128"):
        POLYNOMIALS[aten.special_laguerre_polynomial_l.n_scalar](x, 129)


def test_complementary_error_function() -> None:
    x = torch.cat([torch.linspace(-4, 10.1, 300), torch.tensor([0.0, INF, -INF, 12.5])])
    found = SPECIAL_FUNCTIONS[aten.erfc.default](x)
    with mp.workdps(30):
        for argument, value in zip(x.tolist(), found.tolist(), strict=True):
            exact = mp.erfc(mp.mpf(argument))
            unit = max(float(exact) * 2.0**-23, 2.0**-149)
            assert abs(value - float(exact)) <= 1.6 * unit, argument


def test_ctc_loss_of_large_logarithms() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 2, 5, generator=generator).log_softmax(-1)
    targets = torch.randint(1, 5, (2, 4), generator=generator)
    functions = {
        "loss": lambda x, t: F.ctc_loss(x + 100, t, (12, 9), (4, 2), reduction="none"),
        "gradient": gradients(lambda x, t: F.ctc_loss(x + 3, t, (12, 9), (4, 2))),
    }
    check(functions, x, targets)


def test_distances_that_count_have_gradients_of_zero() -> None:
    x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [3.0, 2.0]])
    functions = {
        "cdist": gradients(lambda x: torch.cdist(x, x + 1, 0.0)),
        "pdist": gradients(lambda x: F.pdist(x, 0.0)),
        "logit": gradients(lambda x: torch.logit(x / 2 - 0.1, 0.1)),
    }
    check(functions, x)
