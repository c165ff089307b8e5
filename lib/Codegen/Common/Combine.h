//===- Combine.h - The combination of scatter and scan ----------*- C++ -*-===//
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

/// (F7) the type in which elements of `element` accumulate; maximum and minimum
/// are the same in f32.
Type getCombineType(Type element);

/// op(lhs, rhs) for scalars or vectors; not for `replace`. Integers are
/// signed, i1 false is less than true (D2).
Value createCombine(KernelBuilder &b, Combine combine, Value lhs, Value rhs);

/// (F4) the start value.
TypedAttr getCombineStart(Combine combine, Type type);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_COMBINE_H
