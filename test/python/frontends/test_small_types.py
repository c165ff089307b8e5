# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V1), (S3) Captured functions with inputs of f8E8M0FNU and f4, given as types of PyTorch, JAX and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import repro_mlir

torch = pytest.importorskip("torch")


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return x * scales.float()


def test_V1_scales_of_torch() -> None:
    scales = torch.tensor([[0.5], [2.0]]).to(torch.float8_e8m0fnu)
    program = repro_mlir.capture(Scaled().eval(), (torch.ones(2, 3), scales))
    assert [kind.element for kind in program.inputs] == ["f32", "f8E8M0FNU"]
    executable = repro_mlir.compile(program, "reference")
    for given in (scales, scales.view(torch.uint8).numpy(), np.array([[0.5], [2]]).astype(ml_dtypes.float8_e8m0fnu)):
        _, outputs = executable({}, torch.ones(2, 3), given)
        assert outputs["output"].tolist() == [[0.5] * 3, [2.0] * 3]


def test_V1_S3_f4_of_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    from repro_mlir.frontends.jax import capture

    if not hasattr(jnp, "float4_e2m1fn"):
        pytest.skip("this JAX has no float4_e2m1fn")
    wide = capture(lambda x: x.astype(jnp.float32) * 2, jnp.ones((4,), jnp.float4_e2m1fn))
    codes = np.array([1, 2, -6, 0.5], np.float32).astype(ml_dtypes.float4_e2m1fn)
    _, outputs = repro_mlir.compile(wide, "reference")({}, codes)
    assert outputs["output"].tolist() == [2, 4, -12, 1]
    narrow = capture(lambda x: x.astype(jnp.float4_e2m1fn), jnp.ones((4,), jnp.float32))
    _, outputs = repro_mlir.compile(narrow, "reference")({}, np.array([1, 2.4, 9, -0.2], np.float32))
    assert outputs["output"].tolist() == [2, 4, 7, 8]
