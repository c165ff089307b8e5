//===- KernelCost.h - Predicted time of tiles -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_KERNELCOST_H
#define REPRO_CODEGEN_CORES_MAPPING_KERNELCOST_H

#include "Codegen/Cores/Lowering/ByteProducts.h"
#include "KernelTiles.h"
#include "Target/ManyCore.h"
#include "dialects/Cores/IR/Cores.h"

namespace mlir::repro::cores {

/// Predicts the cycles that a core needs for tiles of a kernel, from the
/// operations of the kernel's body and the machine's units.
class KernelCost {
public:
  KernelCost(const KernelTiles &tiles, const ManyCore &machine);

  /// Returns the cycles of one run on a tile, without those of the call.
  double getCycles(ArrayRef<Interval> tile) const;

private:
  void addMatrix(FoldOp fold, const ManyCore &machine);
  /// Returns the cycles of a fold that the matrix array computes: those of the
  /// array, with filling and draining, and of the additions of its results.
  double getMatrixCycles(ArrayRef<Interval> tile) const;

  const KernelTiles &tiles;
  double cyclesPerIteration = 0; ///< of the operations of the body
  double loopCycles = 0;         ///< of a loop without unrolling
  double loadCycles = 0;         ///< of a word
  double cyclesPerResult = 0;    ///< to store the elements of the outputs
  double cyclesPerElement = 0;   ///< of operations without a body
  MatrixAttr matrix;             ///< null if the core computes alone
  ByteProducts products;
  double cyclesPerCall = 0; ///< of the array, for all terms
  double cyclesPerSum = 0;  ///< of the core, for a result of a slice
};

/// Returns the number of bytes of a part of a buffer.
int64_t getBoxBytes(const KernelTiles &tiles, unsigned access,
                    ArrayRef<Interval> tile);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_KERNELCOST_H
