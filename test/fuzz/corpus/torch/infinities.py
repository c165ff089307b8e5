# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (1, 2, 3, 4), "special", 3),
    ("float32", (1, 2, 2, 2), "special", 6),
    ("float32", (1, 1, 2, 2), "unit", 4),
    ("float32", (12, 1), "special", 5),
]


def f(x0, x1, x2, x3):
    v0 = F.interpolate(x0, size=(3, 5), mode="bilinear", align_corners=True)
    v1 = F.grid_sample(x1, x2 * 3 - 1.5, "bilinear", "zeros", align_corners=False)
    v2 = torch.linalg.vector_norm(x3, 2, dim=1)
    return (v0, v1, v2)
