//===- ElementaryFunctions.h - Correctly rounded functions ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_FUNCTIONS_ELEMENTARYFUNCTIONS_H
#define REPRO_CODEGEN_FUNCTIONS_ELEMENTARYFUNCTIONS_H

#include "mlir/IR/Builders.h"

namespace mlir::repro {

/// Whether `repro.<mnemonic>` is one of the elementary functions (S5).
bool isElementaryFunction(llvm::StringRef mnemonic);

/// (S5) Emits the correctly rounded value of `repro.<mnemonic>` with arith,
/// math.fma, math.sqrt, bit operations and, for rare arguments, scf.if.
///
/// The operands are f32 or vectors of f32; functions of one operand, and
/// `powi`, also accept f64 instead of f32. The exponent of `powi` is an integer
/// of at most 64 bits, or a vector of such integers. Returns a null value for
/// an unsupported mnemonic or operand type.
Value buildFunction(OpBuilder &builder, Location loc, llvm::StringRef mnemonic,
                    ValueRange operands);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_FUNCTIONS_ELEMENTARYFUNCTIONS_H
