//===- SoftRoutines.h - f64 and i64 arithmetic in integers ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOWERING_SOFTROUTINES_H
#define REPRO_CODEGEN_CPU_LOWERING_SOFTROUTINES_H

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Function;
class Module;
} // namespace llvm

namespace mlir::repro {

/// Returns the private routine of that name, and defines it in the module at
/// its first use. Arguments and results of f64 are their bits, as i64. A name
/// is one of
///   add mul fma div sqrt fmod      f64, correctly rounded or exact (S1, S4)
///   floor ceil trunc round roundeven   f64, exact
///   equal less lessEqual unordered f64, an i1
///   extend narrow                  f32 to f64 and back; an f32 as its bits
///   fromSigned fromUnsigned        i64 to f64
///   singleFromSigned singleFromUnsigned   i64 to the bits of an f32
///   toSigned toUnsigned            f64 to i64, toward zero, saturating (S3)
///   divide remainder               unsigned i64; undefined for a divisor of 0
/// A NaN is a quiet NaN without a payload (V4).
llvm::Function *getSoftRoutine(llvm::Module &module, llvm::StringRef name);

/// Whether the function is such a routine.
bool isSoftRoutine(const llvm::Function &function);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOWERING_SOFTROUTINES_H
