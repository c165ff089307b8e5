# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (2, 4, 5, 6), "small", 11),
    ("float32", (4, 2, 2, 3), "normal", 12),
    ("bfloat16", (1, 2, 7), "normal", 13),
]


def f(x0, x1, x2):
    v0 = F.conv2d(x0, x1, None, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    v1 = F.avg_pool2d(v0, (2, 3), 2, 1, True, False)
    v2 = F.pad(x2, [-1, 2], mode="replicate")
    v3 = torch.logcumsumexp(v2, -1)
    return (v1, v3)
