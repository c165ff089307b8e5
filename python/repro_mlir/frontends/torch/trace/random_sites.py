# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Draws random numbers at numbered sites: rules (R1) and (R2) of docs/reference/numerics.md.

Every random ATen operator becomes arithmetic on the distributions of `repro.random`. Each distribution is a custom
operator with its site as an argument.
"""

import math
import threading
from collections.abc import Callable, Sequence
from contextvars import Token
from typing import Any

import torch

from repro_mlir.frontends.torch.base.caught_errors import current_origin
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_internals import TorchDispatchMode, current_dispatch_modes
from repro_mlir.random import devices
from repro_mlir.random.generator import CAPTURING

aten = torch.ops.aten


def philox_bits(seed: torch.Tensor, step: torch.Tensor, site: int, size: Sequence[int]) -> torch.Tensor:
    """Computes (R1) Philox4x32-10 in plain i64 arithmetic, to run a captured graph in eager mode.

    Args:
      seed, step: i64, shape [].
      site: the site's number, below 2^32.
      size: shape of the result.
    Returns:
      i64 of shape `size`; each element contains 32 bits, zero-extended.
    """
    first = torch.zeros(1, dtype=torch.int64)
    return devices.bits_of_runs(first, math.prod(size), seed, site, step).reshape(list(size))


def _uniform_eager(seed: torch.Tensor, step: torch.Tensor, site: int, size: Sequence[int]) -> torch.Tensor:
    return devices.uniform(philox_bits(seed, step, site, size))


def _bernoulli_eager(
    seed: torch.Tensor, step: torch.Tensor, site: int, size: Sequence[int], probability: float
) -> torch.Tensor:
    return devices.bernoulli(philox_bits(seed, step, site, size), probability)


def _randint_eager(seed: torch.Tensor, step: torch.Tensor, site: int, size: Sequence[int], extent: int) -> torch.Tensor:
    return devices.randint(philox_bits(seed, step, site, size), 0, extent)


def _normal_eager(seed: torch.Tensor, step: torch.Tensor, site: int, size: Sequence[int]) -> torch.Tensor:
    u = _uniform_eager(seed, step, site, [*size, 2])
    radius = torch.sqrt(-2.0 * torch.log(1.0 - u[..., 0]))
    return radius * torch.cos(6.2831854820251465 * u[..., 1])  # 0x40c90fdb, 2*pi rounded to f32


def _define(distribution: str, eager: Callable[..., torch.Tensor], element: torch.dtype, parameter: str = "") -> Any:
    """Defines the operator of a `repro.random` distribution; `parameter` is the schema of its own parameter, if any."""

    def write(build: Builder, seed: Any, step: Any, site: int, size: Sequence[int], *parameters: Any) -> list[Any]:
        attributes = {"distribution": build.attribute(f"#repro<distribution {distribution}>"), "site": build.i64(site)}
        if distribution == "bernoulli":
            attributes["probability"] = build.f32(parameters[0])
        elif distribution == "randint":
            attributes["range"] = build.i64(parameters[0])
        operands = [[build.scalar(seed), build.scalar(step)], [build.empty(build.types[0])]]
        return build.create("repro.random", operands, build.types, attributes)

    return define(
        f"random_{distribution}(Tensor seed, Tensor step, int site, SymInt[] size{parameter}) -> Tensor",
        eager=eager,
        meta=lambda seed, step, site, size, *_: seed.new_empty(size, dtype=element),
        write=write,
    )


_UNIFORM = _define("uniform", _uniform_eager, torch.float32)
_BERNOULLI = _define("bernoulli", _bernoulli_eager, torch.bool, ", float probability")
_RANDINT = _define("randint", _randint_eager, torch.int64, ", int extent")
_NORMAL = _define("normal", _normal_eager, torch.float32)


class RandomSites(TorchDispatchMode):
    """Replaces random operators by numbered sites while a program is traced.

    A site is numbered when it is drawn, before anything is removed or merged (R1). While the mode is active,
    `torch.get_rng_state` and `torch.set_rng_state` read and set the number of the next site, so a recomputation
    that restores the generator (`torch.utils.checkpoint`) draws from the same sites again.

    Attributes:
      drawn: whether any site was drawn.
      origin: the user's line or the module that has drawn first, if known.
    """

    def __init__(self, seed: torch.Tensor, step: torch.Tensor) -> None:
        """`seed`, `step`: i64 of shape [], the state from which the sites draw."""
        super().__init__()
        self.seed = seed
        self.step = step
        self.drawn = False
        self.origin: str | None = None
        self._next = 0
        self._saved: list[tuple[Any, str, Any]] = []
        self._captures: list[Token[bool]] = []

    def __enter__(self) -> "RandomSites":
        thread, originals = threading.get_ident(), (torch.get_rng_state, torch.set_rng_state)

        def get_rng_state() -> torch.Tensor:
            return _SiteNumber.wrap(self._next) if threading.get_ident() == thread else originals[0]()

        def set_rng_state(state: torch.Tensor) -> None:
            if threading.get_ident() != thread:
                return originals[1](state)
            self._next = _SiteNumber.unwrap(state)

        for module in (torch, torch.random):
            for name, replacement in (("get_rng_state", get_rng_state), ("set_rng_state", set_rng_state)):
                self._saved.append((module, name, getattr(module, name)))
                setattr(module, name, replacement)
        # `torch.manual_seed` looks this name up when it is called, also if the user has imported it by another name.
        default = torch.random.default_generator
        self._saved.append((torch.random, "default_generator", default))
        torch.random.default_generator = _DefaultGenerator.wrap(default, thread)
        self._captures.append(CAPTURING.set(True))
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        CAPTURING.reset(self._captures.pop())
        while self._saved:
            setattr(*self._saved.pop())
        super().__exit__(*exception)

    def uniform(self, size: Sequence[int]) -> torch.Tensor:
        """Draws (R2) f32 of shape `size` from [0, 1), at a new site."""
        return _UNIFORM(self.seed, self.step, self.take(), list(size))

    def bernoulli(self, size: Sequence[int], probability: float) -> torch.Tensor:
        """Draws (R2) booleans of shape `size`, true with `probability`, at a new site."""
        if not 0.0 <= probability <= 1.0:
            raise CaptureError(f"expected a probability from 0 to 1, got {probability}")
        return _BERNOULLI(self.seed, self.step, self.take(), list(size), probability)

    def randint(self, size: Sequence[int], low: int, high: int) -> torch.Tensor:
        """Draws (R2) i64 of shape `size` from [low, high), at a new site."""
        extent = high - low
        if not 0 < extent <= 2**32:
            raise CaptureError(f"expected a range of 1 to 2^32 values for random integers, got [{low}, {high})")
        drawn = _RANDINT(self.seed, self.step, self.take(), list(size), extent)
        return drawn + low if low else drawn

    def normal(self, size: Sequence[int]) -> torch.Tensor:
        """Draws (R2) standard normal f32 of shape `size`, at a new site."""
        return _NORMAL(self.seed, self.step, self.take(), list(size))

    def take(self) -> int:
        """Returns the number of a new site, from which the caller draws."""
        if self.origin is None:
            self.origin = current_origin()
        self.drawn = True
        self._next += 1
        return self._next - 1

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        generator = kwargs.get("generator", function)
        if isinstance(generator, torch.Generator):
            raise CaptureError(
                "the step draws from a torch.Generator, whose state a compiled step cannot advance: leave out "
                "generator=, and pass seed= to Trainer"
            )
        if generator is None:
            function = _WITHOUT_GENERATOR.get(function, function)
        sample = _SAMPLERS.get(function)
        if sample is not None:
            return sample(self, *args, **{k: v for k, v in kwargs.items() if k != "generator"})
        if torch.Tag.nondeterministic_seeded in getattr(function, "tags", ()):
            raise CaptureError(f"random operator {function} is not supported")
        return function(*args, **kwargs)


def current_sites() -> RandomSites:
    """Returns the active sites. Raises CaptureError if no `RandomSites` is active."""
    for mode in reversed(current_dispatch_modes()):
        if isinstance(mode, RandomSites):
            return mode
    raise CaptureError("expected random-number state (seed and step) for a random operator, got none")


class _SiteNumber:
    """A generator state that contains a site number. The state is not a tensor, because a tensor would be traced."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CaptureError(f"the step reads {name} of the generator's state: expected only torch.set_rng_state")

    @classmethod
    def wrap(cls, number: int) -> Any:
        return cls(number)

    @classmethod
    def unwrap(cls, state: Any) -> int:
        if not isinstance(state, cls):
            raise CaptureError("expected a state that the same step has read for torch.set_rng_state, got another")
        return state.number


class _DefaultGenerator:
    """The default generator of PyTorch, whose state a thread that traces a step must not set or read."""

    def __init__(self, generator: torch.Generator, thread: int) -> None:
        self._generator = generator
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        if threading.get_ident() == self._thread:
            raise CaptureError(
                f"the step calls {name} of torch's random numbers, which a compiled step draws from its own seed and "
                "the number of the step: pass seed= to Trainer, or keep random numbers that stay the same in a buffer"
            )
        return getattr(self._generator, name)

    @classmethod
    def wrap(cls, generator: torch.Generator, thread: int) -> Any:
        return cls(generator, thread)


def _native_dropout(
    sites: RandomSites, x: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if train is False:
        return x, torch.ones_like(x, dtype=torch.bool)
    if p >= 1.0:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = sites.bernoulli(x.shape, 1.0 - p)
    return mask * x * (1.0 / (1.0 - p)), mask


def _dtype(x: torch.Tensor | None, dtype: torch.dtype | None, default: torch.dtype | None = None) -> torch.dtype:
    if dtype is not None:
        return dtype
    if x is not None:
        return x.dtype
    return default or torch.get_default_dtype()


def _rand(sites: RandomSites, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return sites.uniform(size).to(_dtype(None, dtype))


def _rand_like(sites: RandomSites, x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return sites.uniform(x.shape).to(_dtype(x, dtype))


def _randn(sites: RandomSites, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return sites.normal(size).to(_dtype(None, dtype))


def _randn_like(sites: RandomSites, x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return sites.normal(x.shape).to(_dtype(x, dtype))


def _randint(
    sites: RandomSites, high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return sites.randint(size, 0, high).to(_dtype(None, dtype, torch.int64))


def _randint_low(
    sites: RandomSites, low: int, high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return sites.randint(size, low, high).to(_dtype(None, dtype, torch.int64))


def _randint_like(
    sites: RandomSites, x: torch.Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return sites.randint(x.shape, 0, high).to(_dtype(x, dtype))


def _randint_like_low(
    sites: RandomSites, x: torch.Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return sites.randint(x.shape, low, high).to(_dtype(x, dtype))


def _randperm(sites: RandomSites, count: int, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    # The sort is stable (D2), so elements with equal bits have a defined order.
    return torch.sort(sites.randint([count], 0, 2**32), stable=True)[1].to(_dtype(None, dtype, torch.int64))


def _uniform(sites: RandomSites, x: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    return (sites.uniform(x.shape) * (high - low) + low).to(x.dtype)


def _normal(sites: RandomSites, x: torch.Tensor, mean: float = 0.0, std: float = 1.0) -> torch.Tensor:
    return (sites.normal(x.shape) * std + mean).to(x.dtype)


def _log_normal(sites: RandomSites, x: torch.Tensor, mean: float = 1.0, std: float = 2.0) -> torch.Tensor:
    return torch.exp(sites.normal(x.shape) * std + mean).to(x.dtype)


def _exponential(sites: RandomSites, x: torch.Tensor, rate: float = 1.0) -> torch.Tensor:
    return (-torch.log(1.0 - sites.uniform(x.shape)) / rate).to(x.dtype)


def _random_from_to(sites: RandomSites, x: torch.Tensor, low: int, high: int | None = None) -> torch.Tensor:
    if high is None:
        raise CaptureError("expected an upper bound for Tensor.random_, got none")
    return sites.randint(x.shape, low, high).to(x.dtype)


def _random_to(sites: RandomSites, x: torch.Tensor, high: int) -> torch.Tensor:
    return sites.randint(x.shape, 0, high).to(x.dtype)


def _bernoulli(sites: RandomSites, x: torch.Tensor) -> torch.Tensor:
    return (sites.uniform(x.shape) < x.to(torch.float32)).to(x.dtype)


def _bernoulli_p(sites: RandomSites, x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    return sites.bernoulli(x.shape, p).to(x.dtype)


def _bernoulli_tensor(sites: RandomSites, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return (sites.uniform(x.shape) < p.to(torch.float32)).to(x.dtype)


def _normal_tensor_float(sites: RandomSites, mean: torch.Tensor, std: float = 1.0) -> torch.Tensor:
    return (sites.normal(mean.shape) * std + mean).to(mean.dtype)


def _normal_float_tensor(sites: RandomSites, mean: float, std: torch.Tensor) -> torch.Tensor:
    return (sites.normal(std.shape) * std + mean).to(std.dtype)


def _normal_tensor_tensor(sites: RandomSites, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    return (sites.normal(torch.broadcast_shapes(mean.shape, std.shape)) * std + mean).to(mean.dtype)


def _normal_float_float(
    sites: RandomSites, mean: float, std: float, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return (sites.normal(size) * std + mean).to(_dtype(None, dtype))


def _multinomial(sites: RandomSites, x: torch.Tensor, count: int, replacement: bool = False) -> torch.Tensor:
    # With e_i exponential, the largest p_i / e_i has index i with probability p_i, and the next ones are draws without
    # replacement.
    if replacement and count > 1:
        scores = x.unsqueeze(-2) / _exponential(sites, x.unsqueeze(-2).expand(*x.shape[:-1], count, x.shape[-1]))
        return scores.argmax(-1)
    scores = x / _exponential(sites, x)
    return scores.argmax(-1, keepdim=True) if count == 1 else scores.topk(count, -1)[1]


def _cauchy(sites: RandomSites, x: torch.Tensor, median: float = 0.0, sigma: float = 1.0) -> torch.Tensor:
    return (median + sigma * torch.tan(torch.pi * (sites.uniform(x.shape) - 0.5))).to(x.dtype)


def _geometric(sites: RandomSites, x: torch.Tensor, p: float) -> torch.Tensor:
    return torch.ceil(torch.log(1.0 - sites.uniform(x.shape)) / math.log1p(-p)).to(x.dtype)


def _rrelu(
    sites: RandomSites,
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
) -> torch.Tensor:
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2))
    slope = torch.where(x > 0, torch.ones([], dtype=x.dtype), _uniform(sites, x, lower, upper))
    noise.copy_(slope)
    return x * slope


def _in_place(sampler: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def sample(sites: RandomSites, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return x.copy_(sampler(sites, x, *args, **kwargs))

    return sample


_SAMPLERS: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.rand.default: _rand,
    aten.rand_like.default: _rand_like,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn_like,
    aten.randint.default: _randint,
    aten.randint.low: _randint_low,
    aten.randint_like.default: _randint_like,
    aten.randint_like.low_dtype: _randint_like_low,
    aten.randperm.default: _randperm,
    aten.uniform.default: _uniform,
    aten.uniform_.default: _in_place(_uniform),
    aten.normal_.default: _in_place(_normal),
    aten.normal_functional.default: _normal,
    aten.normal.Tensor_float: _normal_tensor_float,
    aten.normal.float_Tensor: _normal_float_tensor,
    aten.normal.Tensor_Tensor: _normal_tensor_tensor,
    aten.normal.float_float: _normal_float_float,
    aten.log_normal_.default: _in_place(_log_normal),
    aten.exponential.default: _exponential,
    aten.exponential_.default: _in_place(_exponential),
    getattr(aten.random_, "from"): _in_place(_random_from_to),
    aten.random_.to: _in_place(_random_to),
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli_p,
    aten.bernoulli_.float: _in_place(_bernoulli_p),
    aten.bernoulli_.Tensor: _in_place(_bernoulli_tensor),
    aten.multinomial.default: _multinomial,
    aten.cauchy_.default: _in_place(_cauchy),
    aten.geometric_.default: _in_place(_geometric),
    aten.rrelu_with_noise.default: _rrelu,
}

_WITHOUT_GENERATOR: dict[Any, Any] = {
    aten.rand.generator: aten.rand.default,
    aten.randn.generator: aten.randn.default,
    aten.randint.generator: aten.randint.default,
    aten.randint.low_generator: aten.randint.low,
    aten.randperm.generator: aten.randperm.default,
}
"""Operators that accept a generator, each with the equivalent operator for the default generator."""
