//===- Loops.h - Contributions of structured operations -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_DIFFERENTIATION_LOOPS_H
#define REPRO_DIALECT_REPRO_DIFFERENTIATION_LOOPS_H

#include "Adjoints.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::repro {

/// The loops of a `linalg.generic` or a `repro.fold`, and what it reads.
struct Loops {
  /// An operand of the loops: a tensor, or a scalar with a map of no results.
  struct Read {
    Value value;
    AffineMap map;
  };

  explicit Loops(linalg::GenericOp op);
  explicit Loops(FoldOp op);

  Operation *op;
  Block *body;
  unsigned numInputs;
  SmallVector<Read> reads; ///< the operands, outputs last
  SmallVector<int64_t> extents;

  AffineMap getOutputMap(unsigned output) const {
    return reads[numInputs + output].map;
  }
  /// The dimensions of `map`, whose results are dimensions or constants.
  SmallVector<int64_t> getDims(AffineMap map) const;
};

/// Computes a number at a point of the loops: clones what it needs of the body
/// by `point`, which has the elements that are read there, and reads `extra`.
using PointFunction = llvm::function_ref<Value(
    ImplicitLocOpBuilder &b, IRMapping &point, ValueRange extra)>;

/// The numbers that `compute` makes, as a tensor over the dimensions `dims` of
/// the loops in this order, summed up over the others. Null where it makes
/// none.
Value computeOver(ImplicitLocOpBuilder &b, const Loops &loops,
                  ArrayRef<int64_t> dims, Type element,
                  ArrayRef<Loops::Read> extra, PointFunction compute);

/// Clones an operation of the body, as one of a body of `linalg.generic`.
void cloneAtPoint(ImplicitLocOpBuilder &b, Operation &op, IRMapping &point);

/// (J4) Adds up the elements of `values`, of the loops' dimensions `dims` in
/// this order, into those of a tensor of `type` that `map` names.
Value accumulate(ImplicitLocOpBuilder &b, const Loops &loops, Value values,
                 ArrayRef<int64_t> dims, AffineMap map, RankedTensorType type);

/// (J4) Adds up a number for each point of the loops into a tensor of the type
/// of that which `read`, an operation of the body, reads at its indices there.
Value accumulate(ImplicitLocOpBuilder &b, const Loops &loops,
                 tensor::ExtractOp read, ArrayRef<Loops::Read> extra,
                 PointFunction compute);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_LOOPS_H
