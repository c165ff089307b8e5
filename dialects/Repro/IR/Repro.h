//===- Repro.h - The repro dialect ------------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_REPRO_H
#define REPRO_IR_REPRO_H

#include "dialects/Repro/IR/FunctionTraits.h"
#include "dialects/Repro/IR/Scalar.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/IndexingMapOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Repro/IR/ReproDialect.h.inc"
#include "dialects/Repro/IR/ReproEnums.h.inc"

#include "dialects/Repro/IR/DerivativeOpInterface.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Repro/IR/ReproAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Repro/IR/ReproOps.h.inc"

namespace mlir::repro {
/// Returns the argument of `body` that `value` equals or extends exactly; null
/// if there is none.
BlockArgument getExtendedArgument(Value value, Block *body);

/// (F5) Whether the result of a fold with this step is independent of the
/// order of its elements.
bool isOrderIndependent(Operation *step);
} // namespace mlir::repro

#endif // REPRO_IR_REPRO_H
