//===- CanonicalOps.h - The operations of a canonical program ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_CANONICALOPS_H
#define REPRO_IDENTITY_CANONICALOPS_H

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::repro {

/// How an inherent attribute takes part in the identity (H2).
enum class AttributeForm {
  integer,          ///< an i64
  integerPredicate, ///< an enumeration, as the six that follow
  floatPredicate,
  kind,
  combine,
  direction,
  distribution,
  blockStep,
  integers,        ///< an array of i64
  optionalInteger, ///< an i64, or none
  blockFormat,     ///< the format of a tensor in blocks
  segments,        ///< how many operands each role of the operation has
  reassociation,   ///< an array of arrays of integers
  maps,            ///< an array of affine maps without symbols
  iterators,       ///< an array of parallel or reduction
  order,           ///< the order of a fold
  accumulator,     ///< that of a contraction in blocks (M5)
  constant,        ///< the value of a constant
  none,            ///< must be absent, or flags that are all clear
  text             ///< for people, no part of the identity
};

struct CanonicalAttribute {
  llvm::StringLiteral name;
  AttributeForm form;
};

/// Where an operation may stand.
enum class CanonicalPlace {
  program,  ///< in the block of the function
  anywhere, ///< there and in the body of a structured operation
  generic,  ///< in the body of a linalg.generic
  fold,     ///< in the body of a repro.fold
  pad       ///< in the body of a tensor.pad
};

/// An operation of the contract "canonical program" of docs/architecture.md.
struct CanonicalOp {
  CanonicalPlace place;
  /// Every inherent attribute of the operation, in the order in which the
  /// identity writes them.
  llvm::ArrayRef<CanonicalAttribute> attributes;
};

/// The name of an operation in the identity: that of MLIR, but for operations
/// with an attribute that was added later.
llvm::StringRef getStoredName(Operation *op);

/// The name in MLIR of an operation of the identity.
llvm::StringRef getOperationName(llvm::StringRef storedName);

/// The entry of the table, null for an operation that is not canonical.
const CanonicalOp *lookupCanonicalOp(llvm::StringRef storedName);

/// The pass that decomposes an operation of imported programs; empty for every
/// other one.
llvm::StringRef getDecomposition(OperationName name);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALOPS_H
