# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K1) Products of few rows and a wide matrix. Compiled code reads the columns of the matrix in long streams. Covers
epilogues, batches and storage types."""

import numpy as np
import pytest
import repro_mlir
from support import kit

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")


class Layer(torch.nn.Module):
    def __init__(self, k: int, n: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(k, n).to(dtype))
        self.bias = torch.nn.Parameter(torch.randn(n).to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight + self.bias)


class Products(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x, y) * 2


CASES = {
    "a masked end": (lambda: Layer(530, 4203, torch.float32), [(1, 530)]),
    "several rows": (lambda: Layer(530, 4208, torch.float32), [(7, 530)]),
    "bf16": (lambda: Layer(519, 700, torch.bfloat16), [(1, 519)]),
    "a batch of rows": (Products, [(3, 1, 530), (3, 530, 701)]),
    "a batch of several rows": (Products, [(2, 4, 1030), (2, 1030, 90)]),
}


@pytest.mark.parametrize("name", CASES)
def test_k1_few_rows_times_wide_matrices(name: str) -> None:
    make, shapes = CASES[name]
    torch.manual_seed(0)
    model = make()
    dtype = next((each.dtype for each in model.parameters()), torch.float32)
    inputs = tuple(torch.randn(shape).to(dtype) for shape in shapes)
    program = repro_mlir.capture(model, inputs)

    def bits(target: str, threads: int) -> np.ndarray:
        executable = repro_mlir.compile(program, target, threads)
        (result,) = executable(program.initial_state(), *inputs)[1].values()
        return np.asarray(result.float()).view(np.uint32)

    want = bits("reference", 1)
    for level in kit.levels():
        for threads in (1, 2):
            np.testing.assert_array_equal(bits(f"cpu:{level}", threads), want, err_msg=f"{level}, {threads}")
