# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares two sets of tensors that any program wrote to files: two dumps of a run, or two checkpoints.

A side is a file or a folder. `listing` finds its tensors, by the names of files or by a manifest; `tensor_files`
recognizes the form of a file and calls the reader of this form (`npy_files`, `safetensors_files`, `pickled_tensors`).
A reader parses only headers and returns a `StoredTensor`, which reads elements in parts. `comparison` compares two
sides, tensor by tensor, with the arithmetic of `element_kinds`; `report` and `page` describe the result. `dump_hooks`
writes the tensors of a model in eager PyTorch; no other module of the room imports PyTorch, and none imports MLIR.

Files may come from strangers: sizes are checked before memory is allocated, and a pickle is interpreted by
`pickled_tensors`, which has no means to call a function that a file names.
"""
