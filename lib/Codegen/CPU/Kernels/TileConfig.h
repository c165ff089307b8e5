//===- TileConfig.h - How a contraction is tiled ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A register tile is `tileRows` (MR) times `tileVectors` vectors (NR) along N,
// a panel. Of a chunk of K (F1) one K-block (KC) of a panel, which fits into
// the L1 cache, is used with all rows of a block (MC); the accumulators of the
// tiles wait in memory from K-block to K-block, so that each result sees its
// elements in the order of (F1). A work item is a block of rows times a group
// of panels; neighbouring items of a thread form a strip: groups of panels for
// which the rows are packed once, or, where one group holds all panels, blocks
// of rows for which those are. Either factor is read where it lies, or what is
// read of it is packed, f or g applied, before: the columns of a K-block before
// the rows need them, the rows of a tile when the first panel does, or, where
// rows lie side by side, those of a chunk before all panels.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_TILECONFIG_H
#define REPRO_CODEGEN_CPU_KERNELS_TILECONFIG_H

#include "Codegen/Common/ContractionShape.h"
#include "Target/Level.h"

#include <optional>
#include <string>

namespace mlir::repro::cpu {

/// Elements of K whose rows are packed together; K-blocks hold a multiple.
constexpr int64_t kPackedTogether = 8;

/// How a contraction is tiled. Nothing of it decides a bit.
struct TileConfig {
  bool swapsFactors = false; ///< rows are columns, and columns rows
  int64_t lanes = 0;         ///< of a vector
  int64_t tileRows = 0;      ///< MR
  int64_t tileVectors = 0;   ///< vectors of NR
  bool rowsPacked = false, columnsPacked = false;
  bool rowsInPlace = false;   ///< not packed, and worth reading ahead
  bool rowsAlongRows = false; ///< the rows are read along M
  bool transposed = false;    ///< the columns are read along K
  bool masked = false;        ///< some vectors have lanes that are no results
  int64_t rowVectors = 0;     ///< vectors along the innermost loop of N
  int64_t vectorCount = 0;    ///< of all of N
  int64_t span = 0;           ///< elements of a chunk
  int64_t kBlockSize = 0;     ///< KC, elements of a K-block of it
  /// Panel after panel of one K-block, instead of K-block after K-block of one
  /// panel: columns that one tile reads in place come from memory in few long
  /// streams.
  bool kBlocksOutside = false;
  int64_t blockRows = 0; ///< MC
  int64_t blockTiles = 0, rowBlocks = 0, panels = 0;
  int64_t groupPanels = 0; ///< panels that are packed together
  int64_t groups = 0;      ///< of panels, of all of N
  int64_t stripGroups = 0; ///< most of a strip
  int64_t stripBlocks = 0; ///< blocks of rows, most of a strip
  int64_t stripTiles = 0, stripRows = 0;
  /// Of the packed rows: from row to row of a K-block, or where `rowsAlongRows`
  /// from tile to tile, and from K-block to K-block; of the packed columns:
  /// from panel to panel.
  int64_t rowStride = 0, rowKBlockStride = 0, panelStride = 0;
  int64_t items = 0, grain = 0; ///< of work

  bool hasKBlocks() const { return kBlockSize < span; }
  /// In one line.
  std::string describe() const;
};

/// The tiles for a contraction on a machine; none where no factor has a
/// dimension along which vectors could go. `isShared`: threads share the items.
std::optional<TileConfig>
chooseTileConfig(const kernels::ContractionShape &shape, const Level &level,
                 bool isShared);

/// Whether the elements of the accesses of K's `loops` lie next to each other,
/// in ascending or, as in a flipped kernel, descending order.
bool isInRuns(ArrayRef<kernels::CollapsedDim> loops);

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_TILECONFIG_H
