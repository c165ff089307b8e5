//===- TotalOrder.h - Comparison of keys (D2) -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_TOTALORDER_H
#define REPRO_CODEGEN_COMMON_TOTALORDER_H

#include "Codegen/Common/KernelBuilder.h"

namespace mlir::repro::kernels {

enum class KeyOrder {
  Greatest,   ///< arg-max: NaN first
  Least,      ///< arg-min: NaN first
  Ascending,  ///< sort: NaN last
  Descending, ///< sort: NaN first
};

/// (D2) Returns whether key `a` strictly precedes key `b`, for scalars or
/// vectors. -0 equals +0, integers are signed, and i1 false is less than true.
Value comesBefore(KernelBuilder &builder, KeyOrder order, Value a, Value b);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_TOTALORDER_H
