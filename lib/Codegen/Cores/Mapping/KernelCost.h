//===- KernelCost.h - Predicted time of tiles -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_KERNELCOST_H
#define REPRO_CODEGEN_CORES_MAPPING_KERNELCOST_H

#include "KernelTiles.h"
#include "Target/ManyCore.h"

namespace mlir::repro::cores {

/// Predicts the cycles that a core needs for tiles of a kernel, from the
/// operations of the kernel's body and the machine's units.
class KernelCost {
public:
  KernelCost(const KernelTiles &tiles, const ManyCore &machine);

  /// Returns the cycles of one run on a tile, without those of the call.
  double getCycles(ArrayRef<Interval> tile) const;

private:
  const KernelTiles &tiles;
  double cyclesPerIteration = 0; ///< of the loops of the body
  double cyclesPerResult = 0;    ///< to store the elements of the outputs
  double cyclesPerElement = 0;   ///< of operations without a body
};

/// Returns the number of bytes of a part of a buffer.
int64_t getBoxBytes(const KernelTiles &tiles, unsigned access,
                    ArrayRef<Interval> tile);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_KERNELCOST_H
