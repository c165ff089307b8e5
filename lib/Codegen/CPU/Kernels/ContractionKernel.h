//===- ContractionKernel.h - fma folds in register tiles --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits a contraction in the tiling that a TileConfig describes. TileConfig.h
// defines tiles, panels, K-blocks, blocks, groups and strips.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
#define REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H

#include "Codegen/CPU/Kernels/HostBuilder.h"
#include "Codegen/CPU/Kernels/TileConfig.h"
#include "Codegen/Common/Contraction.h"

namespace mlir::repro::cpu {

/// A vector of results along N, possibly beyond the last result.
struct PanelVector {
  SmallVector<Value> leafOffsets;
  SmallVector<Value> inputOffsets; ///< of the epilogue's inputs
  Value outputOffset;
  Value count;  ///< number of lanes that are results; null: all
  Value packed; ///< offset of its first element in the packed columns
};

/// A chunk of K (F1): elements [start, end).
struct Chunk {
  Value start, end;
};

/// The K-block of the columns that is packed next.
struct NextKBlock {
  Value start; ///< null: unknown
  SmallVector<PanelVector> vectors;
};

/// A K-block: elements [start, end) of K, within one chunk.
struct KBlock {
  Chunk chunk;
  Value start, end;
  NextKBlock next = {};
};

/// A tile of results in registers: the rows starting at `row` and the vectors
/// of a panel.
struct Tile {
  Value row;
  int64_t rowCount;
  Value panel;
  ArrayRef<PanelVector> vectors;
  const KBlock &kBlock;
  Value number = {};     ///< index within the tiles of a strip
  Value packedRows = {}; ///< offset of the packed rows; null: not packed
  SmallVector<Value> rowOffsets = {}; ///< of rows that are not packed
  SmallVector<LaneMask> masks = {};   ///< of columns that are not packed
};

/// The offsets of a row's first result and of the epilogue inputs that it uses.
struct ResultRow {
  SmallVector<Value> inputs;
  Value output;
};

/// The kernel of an fma fold in register tiles (K1).
class ContractionKernel : public Contraction {
public:
  /// The factors of `contraction` must already match `config`.
  ContractionKernel(HostBuilder &b, Contraction contraction,
                    const TileConfig &config)
      : Contraction(std::move(contraction)), b(b), config(config),
        lanes(config.lanes) {}
  virtual ~ContractionKernel() = default;
  void expand();

protected:
  /// Emits the loops over this thread's items.
  void emitStrips();
  void emitStrip(Value rowBlock, Value endRowBlock, Value firstGroup,
                 Value endGroup);
  void emitChunk(const Chunk &chunk);
  void emitPanelByKBlocks(Value panel, const Chunk &chunk);
  void emitKBlock(Value panel, ArrayRef<PanelVector> vectors,
                  const KBlock &kBlock);
  SmallVector<PanelVector> getPanelVectors(Value panel);
  PanelVector getPanelVector(Value vectorIndex);
  /// Whether K consists of contiguous runs of at least half a vector.
  bool hasLongRuns(const Factor &factor) const;
  /// Whether offsets along K are looked up in a table; `packsRuns`: packing
  /// works without a table.
  bool needsTable(const Factor &factor, bool isPacked, bool packsRuns) const;
  /// Fills a table with the offset of each element of K.
  Value fillTable(const Factor &factor);
  /// Fills a table with the offset of each row of the strip for one access.
  void fillPositions(Value table, unsigned access);
  /// Returns the offset of a row; `table` is null if a multiplication computes
  /// the offset.
  Value getRowOffset(Value row, Value table, unsigned access);
  /// Returns the offset of element `k` in a factor that is not packed.
  Value getReductionOffset(const Factor &factor, Value table, Value k);

  // ContractionTile.cpp
  virtual void emitTile(Value row, int64_t rowCount, Value panel,
                        ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  /// Returns the tile with the locations of its rows and of the sums that are
  /// kept in memory for the next K-block.
  Tile locateTile(Value row, int64_t rowCount, Value panel,
                  ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  Value getSumsOffset(const Tile &tile);
  /// Returns the accumulators after the K-block.
  SmallVector<Value> emitSums(const Tile &tile, ValueRange starts);
  /// Returns the accumulators after element `k`.
  SmallVector<Value> multiplyAdd(const Tile &tile, Value k, ValueRange sums);
  /// Loads row `x` of the tile; `offset` is the offset of `k` in rows that are
  /// not packed.
  Value loadRow(const Tile &tile, int64_t x, Value k, Value offset);
  SmallVector<Value> loadColumns(const Tile &tile, Value k);
  /// Prefetches one line of row elements of the next tile, starting at `k`.
  void prefetchRows(const Tile &tile, Value k);
  /// Prefetches the next tile's share of accumulators for one line of elements.
  void prefetchSums(const Tile &tile, Value k);
  /// Prefetches one of `shares` equal parts of the next columns, number
  /// `share`.
  void prefetchColumns(Value share, int64_t shares, const NextKBlock &next);
  /// Returns the distance between tiles of rows, packed or in place.
  int64_t getTileStride() const;

  // ContractionPacking.cpp
  /// Returns the location of the packed rows of the K-block that contains `k`.
  Value getPackedRows(Value k, const Chunk &chunk);
  /// Packs the part of rows [first, end) that the K-block reads, row after row.
  virtual void packRowsAlongReduction(Value first, Value end,
                                      const KBlock &kBlock);
  /// Packs all rows, tile after tile; within a tile, the elements of all rows
  /// for one k are contiguous.
  virtual void packRowsAlongRows(const Chunk &chunk);
  void packElementsAlongRows(Value first, int64_t count, const Chunk &chunk);
  /// Packs the group of panels that begins with panel `first`.
  virtual void packColumns(Value first, const KBlock &kBlock);
  void packVectors(ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  /// Packs columns whose elements are contiguous along K.
  void packVectorTransposed(const PanelVector &vector, const KBlock &kBlock);
  Value loadLeaf(const Factor &factor, unsigned leaf, Value offset,
                 int64_t stride, int64_t lanes, LaneMask mask);

  // ContractionResults.cpp
  /// Prefetches the results that finishTile accesses.
  void prefetchResults(const Tile &tile);
  /// (F3) adds the chunk to the totals, or after the last chunk adds init to
  /// the total.
  void finishTile(const Tile &tile, ArrayRef<Value> sums);
  void writeResults(const Tile &tile, ArrayRef<Value> totals);
  /// Returns the distance between results of neighbouring rows if they are
  /// contiguous or every second element and the results of neighbouring columns
  /// are far apart; else 0.
  int64_t getStepAlongRows(const Tile &tile) const;
  /// The layout of the results of one column: the results of rows [0,
  /// neighbours) and of rows [neighbours, end) are `step` apart.
  struct RowPlaces {
    int64_t step = 0;      ///< 0: unknown
    Value neighbours = {}; ///< null: all rows
    Value condition = {};  ///< whether `step` applies; null: always, or if the
                           ///< condition of the previous entry fails
  };
  /// Returns one layout, or two that are selected by the condition of the
  /// first.
  SmallVector<RowPlaces> getRowPlaces(const Tile &tile,
                                      ArrayRef<ResultRow> resultRows);
  /// Writes the totals of one vector, or the results of the epilogue, row by
  /// row or along the rows. An empty `places` needs less code.
  void writeVector(ArrayRef<Value> values, ArrayRef<ResultRow> resultRows,
                   const PanelVector &vector, ArrayRef<RowPlaces> places);
  void writeAlongRows(ArrayRef<Value> values, ArrayRef<ResultRow> resultRows,
                      const PanelVector &vector, ArrayRef<RowPlaces> places);
  /// Writes one lane of the results, from offset `first` to `last`.
  void writeRowsOfLane(Value rows, int64_t rowCount, Value first, Value last,
                       const RowPlaces &place);
  /// Returns the value that the fold stores at `offset` and the following
  /// lanes, before rounding to the element type of the output.
  virtual Value getResult(Value total, Value offset, LaneMask mask);
  /// Returns the initial value of the fold.
  Value loadInit(Value offset, LaneMask mask);
  /// Returns the result of the epilogue for `total`, which is stored instead of
  /// `total`.
  Value applyEpilogue(Value total, const ResultRow &row,
                      const PanelVector &vector, LaneMask mask);
  /// Applies the epilogue to one vector of each row; `isEdge` selects shorter
  /// code, for tiles at an edge of the results.
  SmallVector<Value> applyEpilogue(ArrayRef<Value> totals,
                                   ArrayRef<ResultRow> resultRows,
                                   const PanelVector &vector, bool isEdge);
  /// Returns the offset of the totals of the tile.
  Value getTotalsOffset(const Tile &tile);
  ResultRow getResultRow(Value row);
  /// Returns the index of the output's first access among the accesses of a
  /// factor's loops: the epilogue's inputs precede the output.
  static unsigned getResultAccess(const Factor &factor) {
    return factor.inputs.size();
  }
  /// Returns the distance between lanes of an epilogue input.
  int64_t getInputStep(unsigned input) const {
    return columns.loops.back().coefficients[getResultAccess(columns) + input];
  }

  HostBuilder &b;
  const TileConfig config;
  const int64_t lanes; ///< of the configuration

  Value rowTable, columnTable; ///< null: not needed
  Value block, panelBuffer, kBlockSums, totals;
  // State of the current strip.
  SmallVector<Value> rowBase, columnBase;
  SmallVector<Value> inputBase; ///< of the epilogue's inputs
  Value outputBase, firstRow, endRow, firstPanel, endPanel;
  Value firstPacked; ///< of the group of panels that is packed
  // Tables for the rows of the strip; null: not needed.
  Value rowPositions, outputPositions;
  SmallVector<Value> inputPositions;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
