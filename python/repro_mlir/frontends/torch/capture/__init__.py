# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures training steps, evaluations, inference and files of torch.export as imported programs.

`programs` implements `repro_mlir.capture`; `capture` traces and lowers. `step_results` describes the results of a step,
and `microbatches` splits a batch.
"""
