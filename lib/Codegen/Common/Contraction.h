//===- Contraction.h - fma folds over two factors ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K1) fma(f(A..), g(B..), acc) with lanes = 1. The parallel dimensions that
// only f reads are M, those that only g reads are N, the others are the batch;
// all reduction dimensions are K. Every access is linear, hence the position
// of an element is a sum of a part of M (or N), one of K and one of the batch.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_CONTRACTION_H
#define REPRO_CODEGEN_COMMON_CONTRACTION_H

#include "Codegen/Common/ContractionShape.h"
#include "Codegen/Common/FoldSupport.h"
#include "dialects/Repro/IR/ContractionBody.h"

namespace mlir::repro::kernels {

/// One factor of the product.
struct Factor : ContractionBody::Factor {
  SmallVector<unsigned> ownDims; ///< the parallel ones that the other has not
  /// Loops over `ownDims`; access i is input i, then the inputs of the epilogue
  /// follow, the last one is the output.
  SmallVector<CollapsedDim> loops;
  /// Loops over K; access i is input i.
  SmallVector<CollapsedDim> reduction;
  int64_t size = 1; ///< product of the extents of `ownDims`
};

/// The element-wise op on the results of a contraction, which it stores in
/// place of them. Its loops are the fold's parallel dimensions.
struct Epilogue {
  Epilogue() = default;
  Epilogue(KernelBuilder &b, FoldOp fold, linalg::GenericOp op);

  linalg::GenericOp op;                 ///< null: none
  BlockArgument result;                 ///< in the body
  SmallVector<BlockArgument> arguments; ///< the others that are read
  // In terms of the fold's dimensions.
  SmallVector<Access> inputs; ///< of `arguments`
  Access output;
};

/// A fold as a contraction of the factors of rows (M) and columns (N).
class Contraction {
public:
  Contraction(KernelBuilder &b, FoldOp op) : b(b), fold(b, op) {}
  Contraction(KernelBuilder &b, FoldOp op, linalg::GenericOp epilogue)
      : b(b), epilogue(b, op, epilogue), fold(b, op, this->epilogue.output) {}

  /// Finds the factors; failure where the fold is no such contraction.
  LogicalResult matchFactors();
  /// What the choice of tiles sees, before `settleFactors`.
  ContractionShape getShape() const;
  /// Settles which factor is rows: the other one where they are swapped.
  void settleFactors(bool swap);
  /// Adds to `launch.tiles` of the kernel, which is for readers alone.
  void noteTiles(StringRef description);

protected:
  /// The factor's value from those of its inputs.
  Value computeFactor(const Factor &factor, int64_t lanes,
                      function_ref<Value(unsigned leaf)> load);

  KernelBuilder &b;
  Epilogue epilogue;
  FoldInfo fold;
  Factor rows, columns;
  /// Loops over the batch; the accesses are the inputs of rows, those of
  /// columns, the inputs of the epilogue, and the output.
  SmallVector<CollapsedDim> batch;
  Type type; ///< of the accumulator

private:
  void collapseFactor(Factor &factor);
  ContractionShape::Factor getShape(const Factor &factor) const;

  SmallVector<unsigned> batchDims;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_CONTRACTION_H
