//===- Combine.h - Combine functions of scatter and scan --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_COMBINE_H
#define REPRO_CODEGEN_COMMON_COMBINE_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// (F7) Returns the type in which elements of type `element` are combined: f32
/// for storage types. (Maximum and minimum give the same results in f32 as in
/// the storage type.)
Type getCombineType(Type element);

/// Combines `lhs` and `rhs`, which are scalars or vectors. `replace` is not
/// supported. Integers are signed, and i1 false is less than true (D2).
Value createCombine(KernelBuilder &b, Combine combine, Value lhs, Value rhs);

/// (F4) Returns the start value of a fold with `combine`.
TypedAttr getCombineStart(Combine combine, Type type);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_COMBINE_H
