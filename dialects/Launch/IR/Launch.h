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

/// The access of a kernel to its buffer `index`; none if it is not declared.
std::optional<Access> getAccess(FunctionOpInterface kernel, unsigned index);

/// The size of an element in bytes: that of n bits is rounded up to a power of
/// two bytes.
int64_t getElementBytes(Type element);

/// Whether the row-major strides of a static shape, with extents of 0 counted
/// as 1, fit into 63 bits. MLIR aborts when it computes larger ones.
bool hasRowMajorStrides(MemRefType type);

/// The size in bytes of a buffer with a static shape.
int64_t getBufferBytes(MemRefType type);

} // namespace mlir::repro::launch

#endif // REPRO_LAUNCH_LAUNCH_H
