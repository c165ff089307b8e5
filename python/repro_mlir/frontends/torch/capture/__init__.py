# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures: training steps, evaluations, inference and files of torch.export as imported programs.

`programs` is `repro_mlir.capture`; `capture` traces and lowers. `step_results` describes what a step returns,
`microbatches` how a batch is cut.
"""
