//===- TileConfig.h - Tile sizes of a contraction ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A register tile has `tileRows` (MR) rows of `tileVectors` vectors along N
// (NR); the columns of these vectors form a panel. A chunk of K (F1) is divided
// into K-blocks (KC). One K-block of a panel fits into the L1 cache and is used
// with all rows of a block (MC). Between K-blocks, the accumulators of the
// tiles are kept in memory, so that each result adds its elements in the order
// of (F1). A work item is a block of rows times a group of panels. Neighbouring
// items of a thread form a strip: groups of panels that share packed rows, or,
// if one group contains all panels, blocks of rows that share packed columns.
//
// Each factor is read in place or packed before use; packing applies f or g
// (K1). Columns are packed one K-block at a time, before the rows use them.
// Rows are packed one tile at a time, when the first panel uses them, or, if
// they are contiguous along M, for a whole chunk, before all panels.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_TILECONFIG_H
#define REPRO_CODEGEN_CPU_KERNELS_TILECONFIG_H

#include "Codegen/Common/ContractionShape.h"
#include "Target/Level.h"

#include <optional>
#include <string>

namespace mlir::repro::cpu {

/// The number of elements of K that are packed at a time for each row. The size
/// of a K-block is a multiple of this number.
constexpr int64_t kPackedTogether = 8;

/// The tiling of a contraction. No field affects the bits of the results.
struct TileConfig {
  bool swapsFactors = false; ///< whether rows and columns are exchanged
  int64_t lanes = 0;         ///< of a vector
  int64_t tileRows = 0;      ///< MR
  int64_t tileVectors = 0;   ///< vectors of NR
  bool rowsPacked = false, columnsPacked = false;
  bool rowsInPlace = false;   ///< not packed, and worth prefetching
  bool rowsAlongRows = false; ///< the rows are read along M
  bool transposed = false;    ///< the columns are read along K
  bool masked = false;        ///< some vectors have lanes that are not results
  int64_t rowVectors = 0;     ///< vectors along the innermost loop of N
  int64_t vectorCount = 0;    ///< for all of N
  int64_t span = 0;           ///< elements of a chunk
  int64_t kBlockSize = 0;     ///< KC, elements of K in a K-block
  /// Whether the loop over K-blocks is outside that over panels. Columns that
  /// one tile reads in place then come from memory as a few long streams.
  bool kBlocksOutside = false;
  int64_t blockRows = 0; ///< MC
  int64_t blockTiles = 0, rowBlocks = 0, panels = 0;
  int64_t groupPanels = 0; ///< panels that are packed together
  int64_t groups = 0;      ///< of panels, for all of N
  int64_t stripGroups = 0; ///< maximum in a strip
  int64_t stripBlocks = 0; ///< maximum blocks of rows in a strip
  int64_t stripTiles = 0, stripRows = 0;
  /// Distances in elements: between packed rows of a K-block (between tiles if
  /// `rowsAlongRows`), between K-blocks of packed rows, and between packed
  /// panels.
  int64_t rowStride = 0, rowKBlockStride = 0, panelStride = 0;
  int64_t items = 0, grain = 0; ///< see setWork

  bool hasKBlocks() const { return kBlockSize < span; }
  /// Returns a description of the configuration in one line.
  std::string describe() const;
};

/// Chooses the tiling of a contraction for a CPU level. Returns std::nullopt if
/// neither factor has a dimension along which vectors could lie. `isShared`:
/// several threads run the kernel, each with a part of the work items.
std::optional<TileConfig>
chooseTileConfig(const kernels::ContractionShape &shape, const Level &level,
                 bool isShared);

/// Whether, in every access, the innermost of the `loops` over K visits one
/// element only, or adjacent elements in ascending or (as in a flipped kernel)
/// descending order.
bool isInRuns(ArrayRef<kernels::CollapsedDim> loops);

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_TILECONFIG_H
