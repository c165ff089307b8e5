//===- Launch.h - Launches of kernels on buffers ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_LAUNCH_H
#define REPRO_LAUNCH_LAUNCH_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "dialects/Launch/IR/LaunchEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Launch/IR/LaunchAttrs.h.inc"

#include "dialects/Launch/IR/LaunchDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/Launch/IR/LaunchOps.h.inc"

namespace mlir::repro::launch {

/// What a kernel does with its buffer `index`; nothing if it does not say so.
std::optional<Access> getAccess(FunctionOpInterface kernel, unsigned index);

/// An element of n bits takes the next power of two of bytes.
int64_t getElementBytes(Type element);

/// Whether a static shape has row-major strides of 63 bits, where an extent of
/// 0 counts as 1: MLIR aborts where it is asked for others.
bool hasRowMajorStrides(MemRefType type);

/// Bytes of a buffer of static shape.
int64_t getBufferBytes(MemRefType type);

} // namespace mlir::repro::launch

#endif // REPRO_LAUNCH_LAUNCH_H
