//===- Cores.h - Programs of cores ------------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CORES_CORES_H
#define REPRO_CORES_CORES_H

#include "dialects/Launch/IR/Launch.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <array>

#include "dialects/Cores/IR/CoresEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Cores/IR/CoresAttrs.h.inc"

#include "dialects/Cores/IR/CoresDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Cores/IR/CoresTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Cores/IR/CoresOps.h.inc"

namespace mlir::repro::cores {

/// Whether a buffer lies in the data memory of a core.
bool isLocal(MemRefType type);

/// Whether a buffer lies in the data memory of another core.
bool isRemote(MemRefType type);

/// Returns the type in the data memory of the core or of another one, or the
/// type in the DRAM.
MemRefType getLocalType(MemRefType type);
MemRefType getRemoteType(MemRefType type);
MemRefType getDramType(MemRefType type);

} // namespace mlir::repro::cores

#endif // REPRO_CORES_CORES_H
