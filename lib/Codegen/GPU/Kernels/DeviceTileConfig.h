//===- DeviceTileConfig.h - How a contraction is tiled ----------*- C++ -*-===//
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

/// How a contraction is tiled on a device. Nothing of it decides a bit.
struct DeviceTileConfig {
  bool swapsFactors = false; ///< rows are columns, and columns rows
  /// Of a block: results, and elements of K of a slice; of a thread: results.
  int64_t bm = 0, bn = 0, bk = 0, tm = 0, tn = 0;
  int64_t rowTiles = 0, columnTiles = 0;
  int64_t splits = 1;   ///< chunks that have a block each
  int64_t sumLanes = 1; ///< of a sum in a register, and of an fma
  /// That a multiprocessor should hold at once.
  int64_t blocksPerProcessor = 1;

  int64_t getThreads() const { return bm / tm * (bn / tn); }
  /// In one line.
  std::string describe() const;
};

/// Elements of one access, and of a vector of accumulators.
constexpr int64_t kVector = 4;

/// The tiles for a contraction on a machine.
DeviceTileConfig chooseDeviceTileConfig(const kernels::ContractionShape &shape,
                                        const Architecture &architecture);

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICETILECONFIG_H
