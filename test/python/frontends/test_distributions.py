# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""torch.distributions with validated arguments: values near those of eager mode, and validation as checks in the step
(E1)."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import repro_mlir
import torch
from repro_mlir.base.errors import StepFailed
from support.applied import Applied
from torch import distributions as d

pytest.importorskip("torch_mlir")

POSITIVE = torch.tensor([0.3, 1.0, 2.5])
REAL = torch.tensor([-1.5, 0.2, 3.0])
UNIT = torch.tensor([0.1, 0.5, 0.8])
BITS = torch.tensor([0.0, 1.0, 1.0])


Run = Callable[..., list[torch.Tensor]]


def _compiled(function: Callable[..., Sequence[torch.Tensor]], *tensors: torch.Tensor) -> Run:
    executable = repro_mlir.compile(Applied(function), "reference", inputs=tensors)

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        _, outputs = executable(executable.program.initial_state(), *given)
        return [*outputs.values()]

    return run


def _run(function: Callable[..., Sequence[torch.Tensor]], *tensors: torch.Tensor) -> list[torch.Tensor]:
    return _compiled(function, *tensors)(*tensors)


def densities(real: torch.Tensor, positive: torch.Tensor, unit: torch.Tensor, bits: torch.Tensor) -> list[torch.Tensor]:
    normal = d.Normal(real, positive, validate_args=True)
    moved = d.TransformedDistribution(normal, [d.AffineTransform(1.0, 2.0), d.ExpTransform()])
    squashed = d.TransformedDistribution(normal, d.TanhTransform(cache_size=1))
    category = d.Categorical(probs=unit)
    logits = d.Categorical(logits=real)
    coin, coin_of_logits = d.Bernoulli(probs=unit), d.Bernoulli(logits=real)
    whole = d.MultivariateNormal(real, torch.diag(positive) + 0.1)
    return [
        normal.log_prob(unit),
        normal.entropy(),
        normal.cdf(unit),
        d.kl_divergence(normal, d.Normal(unit, 1.5)),
        d.Independent(normal, 1).log_prob(unit),
        d.Independent(normal, 1).entropy(),
        moved.log_prob(positive),
        squashed.log_prob(unit),
        category.log_prob(torch.tensor([0, 2])),
        category.entropy(),
        logits.log_prob(torch.tensor([0, 2])),
        logits.entropy(),
        d.kl_divergence(category, logits),
        coin.log_prob(bits),
        coin.entropy(),
        coin_of_logits.log_prob(bits),
        coin_of_logits.entropy(),
        d.kl_divergence(coin, coin_of_logits),
        d.Beta(positive, positive + 1).log_prob(unit),
        d.Laplace(real, positive).log_prob(unit),
        d.Exponential(positive).log_prob(positive),
        d.LogNormal(real, positive).log_prob(positive),
        d.Gamma(positive, positive).log_prob(positive),
        d.StudentT(positive + 1).log_prob(real),
        d.Poisson(positive).log_prob(bits),
        d.OneHotCategorical(logits=real).log_prob(torch.tensor([0.0, 1.0, 0.0])),
        d.Dirichlet(positive).log_prob(unit / unit.sum()),
        whole.log_prob(unit),
        whole.entropy(),
        d.MixtureSameFamily(category, normal).log_prob(torch.tensor(0.3)),
    ]


def test_densities_entropies_and_divergences_are_near_eager_mode() -> None:
    given = REAL, POSITIVE, UNIT, BITS
    for number, (one, other) in enumerate(zip(_run(densities, *given), densities(*given), strict=True)):
        torch.testing.assert_close(
            one, other, rtol=1e-4, atol=1e-5, msg=lambda text, number=number: f"{number}: {text}"
        )


def test_samples_follow_from_the_parameters() -> None:
    def function(real: torch.Tensor, positive: torch.Tensor) -> list[torch.Tensor]:
        normal = d.Normal(real, positive)
        sample = normal.rsample((500,))
        return [sample, (sample - real) / positive, d.Categorical(logits=real).sample((500,)).float()]

    sample, drawn, category = _run(function, REAL, POSITIVE)
    torch.testing.assert_close(sample, REAL + POSITIVE * drawn, rtol=1e-4, atol=1e-4)
    assert abs(drawn.mean()) < 0.1
    assert abs(drawn.std() - 1) < 0.1
    share = (category == 2).float().mean()
    assert abs(share - REAL.softmax(0)[2]) < 0.1


REFUSALS = {
    "parameter scale of the distribution Normal: expected GreaterThan(lower_bound=0.0)": (
        lambda x: [d.Normal(x, x).log_prob(UNIT)],
        POSITIVE,
        REAL,
    ),
    "a value is not in the support of the distribution Bernoulli (Boolean())": (
        lambda x: [d.Bernoulli(UNIT).log_prob(x)],
        BITS,
        UNIT,
    ),
    "a value is not in the support of the distribution Uniform (Interval)": (
        lambda x: [d.Uniform(x - 1, x + 1).log_prob(UNIT)],
        UNIT,
        REAL,
    ),
    "parameter covariance_matrix of the distribution MultivariateNormal: expected PositiveDefinite()": (
        lambda x: [d.MultivariateNormal(UNIT, torch.diag(x)).log_prob(UNIT)],
        POSITIVE,
        REAL,
    ),
    "parameter logits of the distribution Categorical: expected IndependentConstraint(Real(), 1)": (
        lambda x: [d.Categorical(logits=x).entropy()],
        REAL,
        REAL * float("nan"),
    ),
}


@pytest.fixture
def validation() -> Iterator[None]:
    """Enables validation of arguments, because an earlier torch.compile in this process may have disabled it."""
    default = d.Distribution._validate_args
    d.Distribution.set_default_validate_args(True)
    yield
    d.Distribution.set_default_validate_args(default)


@pytest.mark.usefixtures("validation")
@pytest.mark.parametrize("message", REFUSALS)
def test_values_that_eager_mode_refuses_fail_the_step(message: str) -> None:
    function, good, bad = REFUSALS[message]
    function(good)
    with pytest.raises(ValueError, match="Expected"):
        function(bad)
    compiled = _compiled(function, good)
    compiled(good)
    with pytest.raises(StepFailed) as found:
        compiled(bad)
    assert message in str(found.value)


def test_without_validation_there_is_no_check() -> None:
    (found,) = _run(lambda x: [d.Normal(x, x, validate_args=False).log_prob(UNIT)], REAL)
    assert found[0].isnan()
