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

/// Computes a number at one point of the loops from the elements `extra` and
/// the elements read there, to which `point` maps the body's arguments. The
/// function clones the operations that it needs through `point`.
using PointFunction = llvm::function_ref<Value(
    ImplicitLocOpBuilder &b, IRMapping &point, ValueRange extra)>;

/// Returns the numbers that `compute` returns at each point, summed over all
/// loop dimensions except `dims`, as a tensor over `dims` in this order.
/// Returns null if `compute` returns null.
Value computeOver(ImplicitLocOpBuilder &b, const Loops &loops,
                  ArrayRef<int64_t> dims, Type element,
                  ArrayRef<Loops::Read> extra, PointFunction compute);

/// Clones an operation of the body, unless it is a check or the terminator,
/// into the body of a `linalg.generic`. `point` maps its operands, and then
/// also its results.
void cloneAtPoint(ImplicitLocOpBuilder &b, Operation &op, IRMapping &point);

/// (J4) Sums `values`, a tensor over the loop dimensions `dims` in this order,
/// into the elements of a tensor of `type` that `map` selects.
Value accumulate(ImplicitLocOpBuilder &b, const Loops &loops, Value values,
                 ArrayRef<int64_t> dims, AffineMap map, RankedTensorType type);

/// (J4) Sums a number for each point of the loops into a tensor of the type
/// that `read`, an operation of the body, reads from. The indices of `read`
/// select the element of the tensor.
Value accumulate(ImplicitLocOpBuilder &b, const Loops &loops,
                 tensor::ExtractOp read, ArrayRef<Loops::Read> extra,
                 PointFunction compute);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_LOOPS_H
