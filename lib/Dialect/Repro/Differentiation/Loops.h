//===- Loops.h - Contributions of structured operations ---------*- C++ -*-===//
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

/// The loops of a `linalg.generic` or a `repro.fold`, and the values that they
/// read.
struct Loops {
  /// An operand of the loops: a tensor, or a scalar whose map has no results.
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
  /// Returns the loop dimensions among the results of `map`. Each result of
  /// `map` must be a dimension or a constant.
  SmallVector<int64_t> getDims(AffineMap map) const;
};

/// A callback that returns a number for one point of the loops. `point` maps
/// the body's arguments to the elements that the loops read at this point;
/// `extra` has the elements of additional operands. The callback may clone
/// operations of the body with `point`.
using PointFunction = llvm::function_ref<Value(
    ImplicitLocOpBuilder &b, IRMapping &point, ValueRange extra)>;

/// Returns the numbers that `compute` returns at each point, summed over all
/// loop dimensions except `dims`, as a tensor over `dims` in this order.
/// Returns null if `compute` returns null.
Value computeOver(ImplicitLocOpBuilder &b, const Loops &loops,
                  ArrayRef<int64_t> dims, Type element,
                  ArrayRef<Loops::Read> extra, PointFunction compute);

/// Clones an operation of the body, unless it is a check or the terminator,
/// into the body of a `linalg.generic`. `point` must map the operation's
/// operands. Adds the results of the clone to `point`.
void cloneAtPoint(ImplicitLocOpBuilder &b, Operation &op, IRMapping &point);

/// (J4) Sums `values`, a tensor over the loop dimensions `dims` in this order,
/// into the elements of a tensor of `type` that `map` selects.
Value accumulate(ImplicitLocOpBuilder &b, const Loops &loops, Value values,
                 ArrayRef<int64_t> dims, AffineMap map, RankedTensorType type);

/// (J4) Sums a number for each point of the loops into a tensor. `read` is an
/// operation of the body: the result has the type of the tensor that `read`
/// reads, and the indices of `read` select the element to which a number is
/// added.
Value accumulate(ImplicitLocOpBuilder &b, const Loops &loops,
                 tensor::ExtractOp read, ArrayRef<Loops::Read> extra,
                 PointFunction compute);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_LOOPS_H
