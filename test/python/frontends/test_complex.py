# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Complex numbers as pairs (Z1) and Fourier transforms (Z2): the results are near those of eager PyTorch, and the bits
are the same on every target."""

from collections.abc import Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import repro_mlir
import torch
from operator_checks import Function, check, gradients
from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.torch import CaptureError
from repro_mlir.frontends.torch.operators.complex_functions import RULES, Pair
from repro_mlir.frontends.torch.operators.fourier import _table


def _complex(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(3))


def test_Z1_arithmetic_and_functions() -> None:
    functions = {
        "add": lambda x, y, r: x + y * (1 - 2j),
        "sub": lambda x, y, r: torch.sub(x, y, alpha=2j),
        "real": lambda x, y, r: (r * x, r + x, r - x, x / r, r / x),
        "mul": lambda x, y, r: x * y,
        "div": lambda x, y, r: x / y,
        "pow": lambda x, y, r: (x**y, x**-3),
        "conj": lambda x, y, r: (x.conj() * y).real,
        "equal": lambda x, y, r: (x == y, x != x, torch.isfinite(x)),
        "parts": lambda x, y, r: (x.abs(), x.angle(), torch.polar(r.abs(), r), torch.complex(r, r), x.sgn()),
        "write": lambda x, y, r: x.clone().mul_(1j).add_(r)[2:],
        "where": lambda x, y, r: torch.where(r > 0, x, 1.5),
        "join": lambda x, y, r: torch.cat([x, r]),
        "functions": lambda x, y, r: (torch.exp(x), torch.sqrt(x), torch.tanh(x)),
        "sums": lambda x, y, r: (x.sum(), x.mean(), x.prod(), x.cumprod(0), x.std(), torch.linalg.vector_norm(x)),
        "matmul": lambda x, y, r: (torch.outer(x, y) @ x, torch.vdot(x, y), torch.outer(x, y).mH @ r.to(x.dtype)),
    }
    check(functions, _complex(7), _complex(14)[7:] * 2, torch.randn(7), rtol=2e-5)


@pytest.mark.parametrize(
    "name", "exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid log1p expm1 sinc".split()
)
def test_Z1_functions(name: str) -> None:
    x = torch.cat([_complex(200), _complex(50) * 5, _complex(50) * 1e-3])
    found, wanted = RULES[name](Pair(x.real, x.imag)), getattr(torch, name)(x)
    torch.testing.assert_close(torch.complex(found.re, found.im), wanted, rtol=1e-5, atol=1e-5)


def test_Z1_gradients() -> None:
    check(
        {
            "mul": gradients(lambda x, y: x * y.conj() + (1 + 1j) * x),
            "abs": gradients(lambda x, y: (x / y).abs()),
            "functions": gradients(lambda x, y: torch.exp(x) * torch.tanh(y)),
            "matmul": gradients(lambda x, y: torch.outer(x, y) @ y),
        },
        _complex(4),
        _complex(8)[4:],
        rtol=1e-4,
    )


def test_Z1_divisions_do_not_overflow() -> None:
    great, small = torch.tensor([1e30, 1e-30, 0.0, 1e30]), torch.tensor([1e30, 1e-30, 2.0, 0.0])
    quotient = RULES["div"](Pair(great, small), Pair(great, small))
    torch.testing.assert_close(quotient.re, torch.ones(4))
    torch.testing.assert_close(quotient.im, torch.zeros(4))
    by_zero = RULES["div"](
        Pair(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0])), Pair(torch.zeros(2), torch.zeros(2))
    )
    assert by_zero.re[0] == torch.inf and by_zero.im[0] == -torch.inf and by_zero.re[1].isnan()


@pytest.mark.parametrize("n", [1, 2, 7, 32, 33, 100])
def test_Z2_tables_are_rounded_correctly(n: int) -> None:
    cosines, sines = _table(n, n, n, True)
    with mp.workdps(40):
        for j in range(n):
            angle = mp.mpf(2 * j) / n
            assert cosines[j, 1 % n] == float(mp.cospi(angle if n > 1 else 0))
            assert sines[j, 1 % n] == float(mp.sinpi(angle if n > 1 else 0))
    assert np.array_equal(_table(n, n, n, False)[1], 0.0 - sines)


def test_Z2_transforms() -> None:
    functions = {
        **{f"fft{n}": lambda x, r, n=n: torch.fft.fft(x, n=n) for n in (1, 7, 36)},
        **{f"irfft{n}": lambda x, r, n=n: torch.fft.irfft(x, n=n, norm="ortho") for n in (1, 2, 7, 40)},
        "ifft2": lambda x, r: torch.fft.ifft2(x),
        "rfft": lambda x, r: torch.fft.rfft2(r, norm="forward"),
        "hfft": lambda x, r: (torch.fft.hfft(x), torch.fft.ihfft(r)),
        "stft": lambda x, r: torch.stft(r, 8, window=torch.ones(8), return_complex=True),
        "rfft grad": gradients(lambda x, r: torch.fft.rfft(r)),
        "irfft grad": gradients(lambda x, r: torch.fft.irfft(x)),
    }
    check(functions, _complex(2, 40), torch.randn(2, 40), rtol=1e-4, atol=1e-4)


def test_Z2_of_a_great_prime_number_is_refused() -> None:
    class Transform(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fft(x).real

    with pytest.raises(CaptureError, match="2053 elements: expected a number without prime factors above 1024"):
        repro_mlir.capture(Transform(), (torch.randn(2053),))


def test_complex_operators_that_are_not_defined_are_named() -> None:
    class Solve(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x)

    with pytest.raises(CaptureError, match=r"operator aten.linalg_eig\S* is not supported on complex numbers"):
        repro_mlir.capture(Solve(), (torch.randn(3, 3),))


def test_a_rule_must_give_the_shape_of_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x)

    monkeypatch.setitem(RULES, "exp", lambda x: x.map(torch.unsqueeze, 0))
    match = r"test_complex.py:\d+: aten.exp returns complex64 of shape \[1, 5\], expected complex64 of shape \[5\]"
    with pytest.raises(CaptureError, match=match):
        repro_mlir.capture(Model(), (_complex(5),))


def test_torch_compile_takes_and_gives_complex_tensors() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        z = torch.fft.fft(x * y.conj())
        return [z, z.T, z.abs(), torch.view_as_real(z), z[1:]]

    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(y)
        return x.sum()

    def loss(function: Function, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([(result.abs() ** 2).sum() for result in function(x, y)]).sum()

    backend = repro_mlir.backend(threads=1)
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    x, y = _complex(3, 8).requires_grad_(), _complex(8, 3).T
    for got, want in zip(compiled(x, y), function(x, y), strict=True):
        assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
        torch.testing.assert_close(got, want)
    found, wanted = (torch.autograd.grad(loss(each, x, y), x)[0] for each in (compiled, function))
    torch.testing.assert_close(found, wanted)
    changed, expected = x.detach().clone(), x.detach().clone()
    torch.compile(update, backend=backend, fullgraph=True)(changed, y)
    update(expected, y)
    torch.testing.assert_close(changed, expected)


class _Filter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(_complex(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.ifft(torch.fft.fft(x) * self.weight).real


def test_a_model_with_complex_parameters_trains() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    ours, theirs = _Filter(), _Filter()
    trainer = repro_mlir.Trainer(ours, torch.nn.functional.mse_loss, torch.optim.SGD(ours.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(2):
        trainer.step(x, y)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(theirs(x), y).backward()
        optimizer.step()
    trainer.sync()
    torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD])
@pytest.mark.diagonal(make=[torch.optim.AdamW, torch.optim.SGD])
def test_optimizers_take_real_and_imaginary_parts_by_themselves(make: Any) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(_complex(6, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.to(torch.complex64) @ self.weight).abs().sum()

    ours, theirs, x = Model(), Model(), torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    trainer = repro_mlir.Trainer(ours, None, make(ours.parameters(), lr=1e-2))
    optimizer = make(theirs.parameters(), lr=1e-2)
    for _ in range(3):
        trainer.step(x)
        optimizer.zero_grad()
        theirs(x).backward()
        optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-4, atol=1e-5)


def _numbers(shape: Sequence[int], seed: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(tuple(shape), dtype=dtype, generator=torch.Generator().manual_seed(seed))


_DIFFERENTIATED: dict[str, Function] = {
    "mul": lambda x, y: x * y.conj() + (1 + 1j) * x,
    "div": lambda x, y: (x / y, 2j / y, y.real / x),
    "pow": lambda x, y: (x**y, x**3, x**-2, x**0.5, 2.0**x),
    "exp": lambda x, y: (x.exp(), x.log(), x.sqrt(), x.sin(), x.tanh(), x.sigmoid()),
    "abs": lambda x, y: (x.abs(), x.angle(), x.sgn(), torch.polar(x.abs(), y.real)),
    "conj": lambda x, y: (x.conj(), x.conj().imag, x.mH @ y, -x.conj().T, (x * 1j).conj().imag),
    "parts": lambda x, y: (x.real * y.imag, torch.view_as_real(x * y), torch.complex(x.imag, y.abs())),
    "matmul": lambda x, y: (x @ y.T, torch.vdot(x[0], y[0]), torch.addmm(x @ x.T, x, y.T, beta=2j)),
    "sum": lambda x, y: (x.sum(0), x.mean(), x.prod(1), x.cumsum(0), torch.var(y)),
    "move": lambda x, y: (x[1:] * y[:-1], torch.cat([x, y.conj()]), torch.where(x.abs() > 1, x, y * 2j)),
    "fft": lambda x, y: (torch.fft.fft(x), torch.fft.ifft2(x * y), torch.fft.irfft(x), torch.fft.rfft(y.imag)),
}


def _all(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    found = (function(x, y) for function in _DIFFERENTIATED.values())
    return [each for results in found for each in (results if isinstance(results, tuple) else (results,))]


def _scalar(results: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> torch.Tensor:
    pairs = zip(results, weights, strict=True)
    return torch.stack([(each * weight.to(each.dtype)).real.sum() for each, weight in pairs]).sum()


@pytest.mark.exhaustive
def test_gradients_of_complex_numbers_by_both_doors_are_those_of_differences() -> None:
    """Compares gradients with difference quotients. In PyTorch's convention, a gradient is the derivative with respect
    to the real part plus i times the derivative with respect to the imaginary part."""
    x, y = _numbers((3, 4), 1), _numbers((3, 4), 2)
    weights = [_numbers(each.shape, 3, each.dtype) for each in _all(x, y)]
    wide = [value.to(torch.complex128) for value in (x, y)]
    wanted = [torch.zeros_like(value) for value in wide]
    for k, at, unit in ((k, at, unit) for k in (0, 1) for at in range(x.numel()) for unit in (1, 1j)):
        around = []
        for step in (1e-6, -1e-6):
            moved = [value.clone() for value in wide]
            moved[k].view(-1)[at] += step * unit
            around.append(_scalar(_all(*moved), weights).item())
        wanted[k].view(-1)[at] += unit * (around[0] - around[1]) / 2e-6

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x, self.y = torch.nn.Parameter(x.clone()), torch.nn.Parameter(y.clone())

        def forward(self, *weights: torch.Tensor) -> torch.Tensor:
            return _scalar(_all(self.x, self.y), weights)

    torch._dynamo.reset()
    given = [value.clone().requires_grad_() for value in (x, y)]
    compiled = torch.compile(_all, backend=repro_mlir.backend(target="reference"), fullgraph=True)
    _scalar(compiled(*given), weights).backward()
    model = Model()
    trainer = repro_mlir.Trainer(model, None, torch.optim.SGD(model.parameters(), lr=1.0), target="reference")
    trainer.step(*weights)
    trainer.sync()
    for k, (start, parameter) in enumerate(((x, model.x), (y, model.y))):
        want = wanted[k].to(torch.complex64)
        torch.testing.assert_close(given[k].grad, want, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(start - parameter.detach(), want, rtol=1e-3, atol=1e-3)


def test_torch_compile_takes_conjugates_and_writes_to_them() -> None:
    def function(x: torch.Tensor, r: torch.Tensor) -> list[torch.Tensor]:
        x.mul_(2j).conj().add_(1)
        return [x.conj(), x.mH.imag, x * 3, r.conj().imag]

    compiled = torch.compile(function, backend=repro_mlir.backend(threads=1), fullgraph=True)
    forms = [lambda x: x, lambda x: x.conj(), lambda x: x.mH, torch._neg_view, lambda x: torch._neg_view(x).conj()]
    for form in forms:
        torch._dynamo.reset()
        x, y = form(_complex(4, 3)), form(_complex(4, 3))
        for got, want in zip(compiled(x, y[1:]), function(y, y[1:]), strict=True):
            torch.testing.assert_close(got, want)
        torch.testing.assert_close(x, y)


class _Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(_complex(4))

    def forward(self, x: torch.Tensor, r: torch.Tensor) -> dict[str, Any]:
        z = torch.fft.fft(x * self.weight)
        return {"z": z, "more": (z.abs(), [z.mH, torch.view_as_real(z)], z.sum()), "r": torch.polar(r, r), "e": z[:0]}


def _like_eager(outputs: dict[str, Any], wanted: Any) -> None:
    for path, want in torch.utils._pytree.tree_flatten_with_path(wanted)[0]:
        got = torch.as_tensor(outputs[f"output{torch.utils._pytree.keystr(path)}"])
        torch.testing.assert_close(got, want.detach().resolve_conj(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_Z1_results_of_inference_are_complex(target: str, tmp_path: Any) -> None:
    model, x, r = _Nested(), _complex(3, 4), torch.rand(5)
    executable = repro_mlir.compile(model, target, 1, inputs=(x, r))
    program, wanted = executable.program, model(x, r)
    assert [str(kind) for kind in program.inputs] == ["batch[0]: 3x4xcomplex<f32>", "batch[1]: 5xf32"]
    program.save(tmp_path / "program")
    loaded = repro_mlir.compile(repro_mlir.Program.load(tmp_path / "program"), target, 1)
    arrays = x.numpy(), r.numpy()
    for each, state, given in (
        (executable, {"weight": model.weight}, (x, r)),
        (executable, program.initial_state(), arrays),
        (executable, program.initial_state(), (torch.view_as_real(x), r)),
        (executable, program.initial_state(), (x.mH.contiguous().mH, r)),
        (loaded, program.initial_state(), (x, r)),
    ):
        _like_eager(each(state, *given)[1], wanted)
    state = program.initial_state()
    with pytest.raises(
        ReproError,
        match=r"expected complex<f32> of shape \[3, 4\], or its real and imaginary parts, f32 .*got float32 of sh",
    ):
        executable(state, x.real, r)
    with pytest.raises(ReproError, match=r"expected elements of complex<f32>, got complex<f64>"):
        executable(state, x.to(torch.complex128), r)
    with pytest.raises(ReproError, match=r"batch\[1\]: expected elements of f32, got complex<f32>"):
        executable(state, x, _complex(5))


def test_Z1_exported_programs_and_dynamic_shapes_have_complex_results() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x * 2j, x.abs(), (x + 1).conj()

    model, x, y = Model(), _complex(3, 4), _complex(5, 4)
    executable = repro_mlir.compile(torch.export.export(model, (x,)), threads=1)
    _like_eager(executable({}, x)[1], model(x))
    executable = repro_mlir.compile(model, threads=1, inputs=(x,), dynamic_shapes=({0: torch.export.Dim("n", max=9)},))
    _like_eager(executable({}, x)[1], model(x))
    _like_eager(executable({}, y)[1], model(y))


def test_a_trainer_takes_and_gives_complex_tensors(tmp_path: Any) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(_complex(3, 4).T)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            z = x @ self.weight
            return {"loss": (z.abs() ** 2).sum(), "z": z}

    ours, theirs, x = Model(), Model(), _complex(2, 4)
    trainer = repro_mlir.Trainer(ours, None, torch.optim.Adam(ours.parameters(), lr=0.1), threads=1)
    result = trainer.step(x, returns=("outputs", "gradients"))
    wanted = theirs(x)
    wanted["loss"].backward()
    torch.testing.assert_close(result.outputs["z"], wanted["z"].detach())
    torch.testing.assert_close(result.gradients["weight"], theirs.weight.grad, rtol=1e-4, atol=1e-5)
    trainer.save_checkpoint(tmp_path / "checkpoint")
    again = Model()
    other = repro_mlir.Trainer(again, None, torch.optim.Adam(again.parameters(), lr=0.1), threads=1)
    other.load_checkpoint(tmp_path / "checkpoint")
    assert trainer.step(x) == other.step(x) and trainer.state_hash() == other.state_hash()


def test_Z1_functions_of_infinities_and_nan() -> None:
    parts = [0.0, -0.0, 1.0, -1.5, 1e30, float("inf"), -float("inf"), float("nan")]
    names = "sqrt exp exp2 sin cos tan sinh cosh tanh asinh acosh atan atanh reciprocal sigmoid"
    check(
        {name: getattr(torch, name) for name in names.split()},
        torch.tensor([complex(a, b) for a in parts for b in parts]),
    )
    known = torch.tensor([complex(a, b) for a in parts[:-1] for b in parts[:-1]])
    check({"asin": torch.asin, "acos": torch.acos}, known)
    check({"atanh": torch.atanh}, torch.tensor([complex(1, 1e-30), complex(-1, 1e-30)]))
