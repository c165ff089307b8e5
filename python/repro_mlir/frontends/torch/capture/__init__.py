# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures training steps, evaluations, inference and files of torch.export as imported programs.

`programs` implements `repro_mlir.capture`. A kind of capture (`training`, `evaluation`, `inference`) defines its step
(`steps`, `steps_with_loss`), which `traced_steps` traces and `imported_steps` lowers. `step_results` describes the
results of a step, and `microbatches` splits a batch.
"""
