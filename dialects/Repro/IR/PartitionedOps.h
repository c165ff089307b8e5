//===- PartitionedOps.h - Exchange between ranks ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_PARTITIONEDOPS_H
#define REPRO_IR_PARTITIONEDOPS_H

#include "dialects/Repro/IR/Repro.h"

#define GET_OP_CLASSES
#include "dialects/Repro/IR/PartitionedOps.h.inc"

#endif // REPRO_IR_PARTITIONEDOPS_H
