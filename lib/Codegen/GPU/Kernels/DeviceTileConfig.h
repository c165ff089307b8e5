//===- DeviceTileConfig.h - Tile sizes of contractions ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_DEVICETILECONFIG_H
#define REPRO_CODEGEN_GPU_KERNELS_DEVICETILECONFIG_H

#include "Codegen/Common/ContractionShape.h"
#include "Target/Architecture.h"

namespace mlir::repro::device {

/// The tiling of a contraction on a device. No field affects the bits of the
/// results.
struct DeviceTileConfig {
  bool swapsFactors = false; ///< exchange rows and columns
  /// A thread block computes bm x bn results, from slices of bk elements of K.
  /// A thread computes tm x tn of these results.
  int64_t bm = 0, bn = 0, bk = 0, tm = 0, tn = 0;
  int64_t rowTiles = 0, columnTiles = 0;
  int64_t splits = 1;   ///< chunks, each computed by a block of its own
  int64_t sumLanes = 1; ///< sums per register, and per fma
  /// The number of blocks that should fit on a multiprocessor at once.
  int64_t blocksPerProcessor = 1;

  int64_t getThreads() const { return bm / tm * (bn / tn); }
  /// Returns a description of the configuration in one line.
  std::string describe() const;
};

/// The number of elements of one memory access, and of a vector of
/// accumulators.
constexpr int64_t kVector = 4;

/// Chooses the tiling of a contraction for an architecture.
DeviceTileConfig chooseDeviceTileConfig(const kernels::ContractionShape &shape,
                                        const Architecture &architecture);

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICETILECONFIG_H
