# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Optimizer steps as tensor programs.

`optimizer_rules` implements the update rules of torch.optim; `traced_optimizers` traces any other optimizer written in
Python and represents its Python numbers with `traced_numbers`. `loss_scaling` and `averages` add `torch.amp.GradScaler`
and `AveragedModel` to a training step.
"""
