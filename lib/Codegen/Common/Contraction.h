//===- Contraction.h - Fused multiply-add folds over two factors *- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K1) Contractions fma(f(A..), g(B..), acc) with lanes = 1. M denotes the
// parallel dimensions that only f reads, N those that only g reads; the other
// parallel dimensions are the batch, and all reduction dimensions are K.
// Accesses are linear, so an element's position is a sum of an M (or N), a K
// and a batch part.
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
  SmallVector<unsigned> ownDims; ///< parallel dimensions of this factor only
  /// Loops over `ownDims`. Access i is input i; then follow the inputs of the
  /// epilogue and, last, the output.
  SmallVector<CollapsedDim> loops;
  /// Loops over K. Access i is input i.
  SmallVector<CollapsedDim> reduction;
  int64_t size = 1; ///< product of the extents of `ownDims`
};

/// An element-wise op that reads the results of a contraction; only the results
/// of the op are stored. Its loops are the fold's parallel dimensions.
struct Epilogue {
  Epilogue() = default;
  Epilogue(KernelBuilder &b, FoldOp fold, linalg::GenericOp op);

  linalg::GenericOp op; ///< null if there is no epilogue
  BlockArgument result; ///< the body argument of the contraction's result
  SmallVector<BlockArgument> arguments; ///< other arguments that are read
  // These accesses are functions of the fold's dimensions.
  SmallVector<Access> inputs; ///< of `arguments`
  Access output;
};

/// A fold viewed as a contraction of the factors rows (M) and columns (N).
class Contraction {
public:
  Contraction(KernelBuilder &b, FoldOp op) : b(b), fold(b, op) {}
  Contraction(KernelBuilder &b, FoldOp op, linalg::GenericOp epilogue)
      : b(b), epilogue(b, op, epilogue), fold(b, op, this->epilogue.output) {}

  /// Finds the factors; fails if the fold is not a contraction of this
  /// structure.
  LogicalResult matchFactors();
  /// Returns the properties that the choice of tiles depends on; call it
  /// before `settleFactors`.
  ContractionShape getShape() const;
  /// Decides which factor is rows; `swap` exchanges the factors.
  void settleFactors(bool swap);
  /// Appends to the kernel's attribute `launch.tiles`, which only informs
  /// readers.
  void noteTiles(StringRef description);

protected:
  /// Computes the factor's value from the values of its inputs.
  Value computeFactor(const Factor &factor, int64_t lanes,
                      function_ref<Value(unsigned leaf)> load);

  KernelBuilder &b;
  Epilogue epilogue;
  FoldInfo fold;
  Factor rows, columns;
  /// Loops over the batch. The accesses are the inputs of rows, those of
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
