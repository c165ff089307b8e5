# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (0, 2), "normal", 3),
    ("float32", (2, 4, 0), "normal", 4),
    ("float32", (6, 0, 1, 3), "normal", 5),
    ("bfloat16", (3, 0, 3), "normal", 6),
    ("int64", (1,), "below 3", 7),
    ("float32", (0, 2, 0), "normal", 8),
    ("float32", (2, 1, 3), "normal", 9),
]


def f(x0, x1, x2, x3, x4, x5, x6):
    v0 = F.softshrink(x0)
    v1 = F.group_norm(x1, 2)
    v2 = torch.kthvalue(x2, 1, -2)[0]
    v3 = x3[:, :, x4]
    v4 = x1.repeat(1, 0, 2)
    v5 = F.mse_loss(x0, x0)
    v6 = F.conv_transpose1d(x5, x6, padding=1, dilation=2)
    return (v0, v1, v2, v3, v4, v5, v6)
