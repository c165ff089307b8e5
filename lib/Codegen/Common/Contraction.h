//===- Contraction.h - Fused multiply-add folds over two factors *- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K1) Contractions fma(f(A..), g(B..), acc) with lanes = 1. M denotes the
// parallel dimensions that only f reads, and N those that only g reads. The
// other parallel dimensions are the batch; all reduction dimensions are K.
// Accesses are linear: the position of an element is the sum of a part that
// depends on M (or N), one that depends on K, and one that depends on the
// batch.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_CONTRACTION_H
#define REPRO_CODEGEN_COMMON_CONTRACTION_H

#include "Codegen/Common/ContractionShape.h"
#include "Codegen/Common/FoldSupport.h"
#include "dialects/Repro/IR/ContractionBody.h"

namespace mlir::repro::kernels {

/// One factor of the products: f or g, with the loops of its inputs.
struct Factor : ContractionBody::Factor {
  SmallVector<unsigned> ownDims; ///< parallel dimensions of this factor only
  /// Loops over `ownDims`. Their accesses are the factor's inputs, the inputs
  /// of the epilogue and the output, in this order.
  SmallVector<CollapsedDim> loops;
  /// Loops over K. Their accesses are the factor's inputs.
  SmallVector<CollapsedDim> reduction;
  int64_t size = 1; ///< product of the extents of `ownDims`
};

/// An elementwise operation that reads the results of a contraction (F7). Only
/// its own results are stored. Its loops are the parallel dimensions of the
/// fold.
struct Epilogue {
  Epilogue() = default;
  Epilogue(KernelBuilder &b, FoldOp fold, linalg::GenericOp op);

  linalg::GenericOp op; ///< null if there is no epilogue
  BlockArgument result; ///< the body argument of the contraction's result
  SmallVector<BlockArgument> arguments; ///< other arguments that are read
  // Accesses as functions of the fold's dimensions.
  SmallVector<Access> inputs; ///< of `arguments`
  Access output;
};

/// A fold as a contraction of two factors: rows (M) and columns (N).
class Contraction {
public:
  Contraction(KernelBuilder &b, FoldOp op) : b(b), fold(b, op) {}
  Contraction(KernelBuilder &b, FoldOp op, linalg::GenericOp epilogue)
      : b(b), epilogue(b, op, epilogue), fold(b, op, this->epilogue.output) {}

  /// Finds the factors. Fails if the fold is not a contraction as described
  /// above (K1).
  LogicalResult matchFactors();
  /// Returns the properties that decide the tiling. Must be called before
  /// `settleFactors`.
  ContractionShape getShape() const;
  /// Finishes both factors, after exchanging rows and columns if `swap`.
  void settleFactors(bool swap);
  /// Appends `description` to the kernel's attribute `launch.tiles`, which is
  /// only for human readers.
  void noteTiles(StringRef description);

protected:
  /// Returns a factor's value, computed from its inputs; `load` returns the
  /// value of an input.
  Value computeFactor(const Factor &factor, int64_t lanes,
                      function_ref<Value(unsigned leaf)> load);

  KernelBuilder &b;
  Epilogue epilogue;
  FoldInfo fold;
  Factor rows, columns;
  /// Loops over the batch. Their accesses are the inputs of rows and of
  /// columns, the inputs of the epilogue and the output, in this order.
  SmallVector<CollapsedDim> batch;
  Type type; ///< of the accumulator

private:
  void collapseFactor(Factor &factor);
  ContractionShape::Factor getShape(const Factor &factor) const;

  SmallVector<unsigned> batchDims;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_CONTRACTION_H
