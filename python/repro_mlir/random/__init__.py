# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random numbers with the same bits on every device and for every sharding, without the compiler.

    from repro_mlir import random

    generator = random.Generator(seed=7)
    random.randn((4, 6), generator=generator)                                      # an array of NumPy
    random.randn((4, 6), generator=generator, device="cuda")                       # a tensor of PyTorch
    random.randn((4, 6), generator=generator, local=(slice(0, 2), slice(2, 4)))    # a part of the tensor

`rand`, `randn`, `randint`, `randperm` and `dropout` draw by rules (R1) and (R2) of docs/reference/numerics.md: each
number is a function of the seed, the step, the site of the draw and the number of the element in the whole tensor, and
of nothing else. A `Generator` counts steps and sites as a compiled training step does. `local_slices` returns the part
of a sharded tensor that a rank holds.

This room is the only implementation of the distributions for NumPy, on the Philox generator of base/numerics, and
`initialize` draws from it. The reference interpreter computes the distributions as programs do, from uniform numbers.
boxes.py describes parts of tensors, and devices.py is the only module that imports PyTorch. Draws on CUDA and MPS have
not been run on such devices yet.
"""

from repro_mlir.random.boxes import local_slices
from repro_mlir.random.draws import dropout, rand, randint, randn, randperm
from repro_mlir.random.generator import Generator

__all__ = ["Generator", "dropout", "local_slices", "rand", "randint", "randn", "randperm"]
