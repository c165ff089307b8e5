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

/// How the identity (H2) encodes an inherent attribute.
enum class AttributeForm {
  integer,          ///< an i64
  integerPredicate, ///< an enumeration, like the next six
  floatPredicate,
  kind,
  combine,
  direction,
  distribution,
  blockStep,
  integers,        ///< an array of i64
  optionalInteger, ///< an i64, or none
  blockFormat,     ///< the format of a block-scaled tensor
  segments,        ///< the number of operands of each segment
  reassociation,   ///< an array of arrays of integers
  maps,            ///< an array of affine maps without symbols
  iterators,       ///< an array of parallel or reduction
  order,           ///< the order of a repro.fold
  accumulator,     ///< the accumulator of a block contraction (M5)
  constant,        ///< the value of a constant
  none,            ///< must be absent or have all flags clear
  text             ///< text for people, not part of the identity
};

/// The name of an inherent attribute and how the identity encodes it.
struct CanonicalAttribute {
  llvm::StringLiteral name;
  AttributeForm form;
};

/// The blocks in which an operation may appear.
enum class CanonicalPlace {
  program,  ///< in the body of the function
  anywhere, ///< in the function and in bodies of structured operations
  generic,  ///< in the body of a linalg.generic
  fold,     ///< in the body of a repro.fold
  pad       ///< in the body of a tensor.pad
};

/// An operation that docs/contributors/architecture.md allows in a canonical
/// program.
struct CanonicalOp {
  CanonicalPlace place;
  /// Every inherent attribute of the operation, in the order in which the
  /// identity writes them.
  llvm::ArrayRef<CanonicalAttribute> attributes;
};

/// Returns the name of an operation in the identity: the MLIR name, except for
/// operations with an attribute that was added after the identity was defined.
llvm::StringRef getStoredName(Operation *op);

/// Returns the MLIR name of the operation whose name in the identity is
/// `storedName`.
llvm::StringRef getOperationName(llvm::StringRef storedName);

/// Returns the entry of the table of canonical operations; null if the
/// operation is not canonical.
const CanonicalOp *lookupCanonicalOp(llvm::StringRef storedName);

/// Returns the name of the pass that decomposes an operation of imported
/// programs; empty for all other operations.
llvm::StringRef getDecomposition(OperationName name);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALOPS_H
