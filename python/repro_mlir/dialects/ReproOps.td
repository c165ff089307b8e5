// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

include "dialects/Repro/IR/ImportedOps.td"
include "dialects/Repro/IR/PartitionedOps.td"
include "dialects/Repro/IR/ReproOps.td"
