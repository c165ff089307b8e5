# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures operators as one program: results must be near those of eager PyTorch, and the interpreter and compiled code
must return equal bits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import repro_mlir
import torch
import torch.utils._pytree as pytree
from repro_mlir.frontends.torch.trace.representation import represented
from repro_mlir.reference.interpreter import Interpreter
from support import kit

Function = Callable[..., Any]


class _Module(torch.nn.Module):
    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *values: torch.Tensor) -> list[torch.Tensor]:
        results = (function(*values) for function in self.functions.values())
        return [value for result in results for value in pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]


def gradients(function: Function) -> Function:
    """Returns a function that computes the floating-point results of `function`, followed by the gradients of a loss,
    the sum of the squared results, with respect to the arguments."""

    @torch.enable_grad()
    def call(*values: torch.Tensor) -> list[torch.Tensor]:
        inputs = [v.detach().requires_grad_() if v.is_floating_point() or v.is_complex() else v for v in values]
        results = [r for r in pytree.tree_leaves(function(*inputs)) if isinstance(r, torch.Tensor) and r.requires_grad]
        total = sum((r * r.conj()).real.sum() for r in results)
        sources = [v for v in inputs if v.requires_grad]
        found = torch.autograd.grad(total, sources, allow_unused=True)
        return [*(r.detach() for r in results), *(g for g in found if g is not None)]

    return call


def check(
    functions: Mapping[str, Function], *arguments: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-5
) -> list[torch.Tensor]:
    """Captures one program that applies all functions to the arguments, and compares its results with eager PyTorch's.
    Returns the results; complex ones are pairs (Z1)."""
    program = repro_mlir.capture(_Module(functions), arguments)
    wanted = [represented(each) for each in _Module(functions)(*(a.clone() for a in arguments))]
    given = [*map(_numpy, map(represented, arguments))]
    known = kit.read(program.text)
    results = Interpreter(known).run(*given)
    for name, got, want in zip(_names(functions, arguments), results, wanted, strict=True):
        array = _numpy(want)
        assert got.shape == array.shape, name
        np.testing.assert_allclose(got.astype(array.dtype), array, rtol, atol, err_msg=name)
    # Compares one CPU configuration only; the coverage suite covers the other CPU levels.
    kit.check(program.text, given, kit.configurations()[-1:], runs=1, want=kit.bits_of(results, known))
    return [torch.from_numpy(np.ascontiguousarray(each)) for each in results]


def _names(functions: Mapping[str, Function], arguments: Sequence[torch.Tensor]) -> list[str]:
    names = []
    for name, function in functions.items():
        leaves = pytree.tree_leaves(function(*(a.clone() for a in arguments)))
        names += [name] * sum(isinstance(each, torch.Tensor) for each in leaves)
    return names


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()
