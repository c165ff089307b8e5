# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Facts about the shapes of traced tensors, whose extents may be symbolic."""

import torch


def is_empty(x: torch.Tensor) -> bool:
    """Whether a tensor is known to have no elements; the check adds no guard on symbolic extents."""
    return any(isinstance(extent, int) and extent == 0 for extent in x.shape)
