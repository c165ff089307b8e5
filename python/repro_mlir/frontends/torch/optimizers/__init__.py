# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An optimizer's `step` as operations on tensors.

`optimizer_rules` has the rules of torch.optim; `traced_optimizers` traces any other optimizer that is written in
Python, with its numbers as `traced_numbers`. `loss_scaling` and `averages` add GradScaler and AveragedModel.
"""
