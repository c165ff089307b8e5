//===- FunctionTraits.h - Traits of elementary functions --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_FUNCTIONTRAITS_H
#define REPRO_IR_FUNCTIONTRAITS_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::repro {
/// Marks the elementary functions that (S5) defines for f64 too.
template <typename ConcreteType>
class OfDouble : public OpTrait::TraitBase<ConcreteType, OfDouble> {};
} // namespace mlir::repro

#endif // REPRO_IR_FUNCTIONTRAITS_H
