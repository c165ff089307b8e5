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

#include "dialects/Launch/IR/PlanOpInterface.h.inc"

#define GET_OP_CLASSES
#include "dialects/Launch/IR/LaunchOps.h.inc"

namespace mlir::repro::launch {

/// Returns how a kernel accesses buffer number `index`; std::nullopt if the
/// kernel does not declare the access.
std::optional<Access> getAccess(FunctionOpInterface kernel, unsigned index);

/// Returns the number of bytes that an element takes in memory: its bits are
/// rounded up to whole bytes, and the bytes to a power of two.
int64_t getElementBytes(Type element);

/// Whether the row-major strides of a static shape fit into 63 bits if extents
/// of 0 count as 1. MLIR aborts when it computes larger strides.
bool hasRowMajorStrides(MemRefType type);

/// Returns the size in bytes of a buffer with a static shape.
int64_t getBufferBytes(MemRefType type);

/// Returns the number of bytes from the first element of a buffer to the end of
/// the last one; std::nullopt if that number is dynamic or overflows, or if the
/// buffer is not row-major or has an offset or a negative stride.
std::optional<int64_t> getExtent(MemRefType type);

/// Whether the buffer is read-only: a constant or an input of a plan, or a view
/// of one.
bool isReadOnly(Value buffer);

} // namespace mlir::repro::launch

#endif // REPRO_LAUNCH_LAUNCH_H
