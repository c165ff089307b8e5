//===- ContractionKernel.h - fma folds in register tiles --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits a contraction as register tiles. A TileConfig describes the tiling;
// TileConfig.h defines tiles, panels, K-blocks, blocks, groups and strips.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
#define REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H

#include "Codegen/CPU/Kernels/HostBuilder.h"
#include "Codegen/CPU/Kernels/TileConfig.h"
#include "Codegen/Common/Contraction.h"

namespace mlir::repro::cpu {

/// A vector along N, whose last lanes may lie beyond the results.
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

/// The K-block of columns that will be packed after the current K-block.
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

/// The offset of the first result of a row, and the offset of the first element
/// of each epilogue input in this row.
struct ResultRow {
  SmallVector<Value> inputs;
  Value output;
};

/// The kernel of an fma fold, computed in register tiles (K1).
class ContractionKernel : public Contraction {
public:
  /// `config` must have been chosen for the factors of `contraction`.
  ContractionKernel(HostBuilder &b, Contraction contraction,
                    const TileConfig &config)
      : Contraction(std::move(contraction)), b(b), config(config),
        lanes(config.lanes) {}
  virtual ~ContractionKernel() = default;
  void expand();

protected:
  /// Emits the loops over this thread's work items, strip by strip.
  void emitStrips();
  void emitStrip(Value rowBlock, Value endRowBlock, Value firstGroup,
                 Value endGroup);
  void emitChunk(const Chunk &chunk);
  void emitPanelByKBlocks(Value panel, const Chunk &chunk);
  void emitKBlock(Value panel, ArrayRef<PanelVector> vectors,
                  const KBlock &kBlock);
  SmallVector<PanelVector> getPanelVectors(Value panel);
  PanelVector getPanelVector(Value vectorIndex);
  /// Whether the factor's elements along K form contiguous runs of at least
  /// half a vector.
  bool hasLongRuns(const Factor &factor) const;
  /// Whether the offsets of the factor along K are looked up in a table.
  /// `packsRuns`: the factor is packed run by run, which needs no table.
  bool needsTable(const Factor &factor, bool isPacked, bool packsRuns) const;
  /// Returns a table in scratch memory with the offset of each element of K.
  Value fillTable(const Factor &factor);
  /// Fills `table` with the offset of each row of the strip for one access.
  void fillPositions(Value table, unsigned access);
  /// Returns the offset of a row: read from `table`, or computed by one
  /// multiplication if `table` is null.
  Value getRowOffset(Value row, Value table, unsigned access);
  /// Returns the offset of element `k` in a factor that is not packed.
  Value getReductionOffset(const Factor &factor, Value table, Value k);

  // Defined in ContractionTile.cpp:
  virtual void emitTile(Value row, int64_t rowCount, Value panel,
                        ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  /// Returns the tile, with its number, the offsets of its rows and the masks
  /// of its columns.
  Tile locateTile(Value row, int64_t rowCount, Value panel,
                  ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  Value getSumsOffset(const Tile &tile);
  /// Returns the accumulators of the tile after the K-block; `starts` are the
  /// accumulators before the K-block.
  SmallVector<Value> emitSums(const Tile &tile, ValueRange starts);
  /// Returns the accumulators `sums` of the tile after adding the products of
  /// element `k` of K.
  SmallVector<Value> multiplyAdd(const Tile &tile, Value k, ValueRange sums);
  /// Loads element `k` of row `x` of the tile. `offset` is the offset of `k` if
  /// the rows are not packed.
  Value loadRow(const Tile &tile, int64_t x, Value k, Value offset);
  SmallVector<Value> loadColumns(const Tile &tile, Value k);
  /// Prefetches one cache line of each row of the next tile, starting at `k`.
  void prefetchRows(const Tile &tile, Value k);
  /// Prefetches a share of the next tile's accumulators. The function is called
  /// once for each cache line of row elements.
  void prefetchSums(const Tile &tile, Value k);
  /// Divides the columns of `next` into `shares` equal parts and prefetches
  /// part number `share`.
  void prefetchColumns(Value share, int64_t shares, const NextKBlock &next);
  /// Returns the distance between the rows of adjacent tiles, in elements of
  /// the packed rows or, without packing, of the factor.
  int64_t getTileStride() const;

  // Defined in ContractionPacking.cpp:
  /// Returns the offset of the packed rows of the K-block that contains `k`.
  Value getPackedRows(Value k, const Chunk &chunk);
  /// Packs the elements of rows [first, end) that belong to the K-block, one
  /// row after another.
  virtual void packRowsAlongReduction(Value first, Value end,
                                      const KBlock &kBlock);
  /// Packs all rows of the strip over a chunk, tile after tile. In a tile, the
  /// elements of all rows for one k are adjacent.
  virtual void packRowsAlongRows(const Chunk &chunk);
  void packElementsAlongRows(Value first, int64_t count, const Chunk &chunk);
  /// Packs the K-block of the group of panels that begins with panel `first`.
  virtual void packColumns(Value first, const KBlock &kBlock);
  void packVectors(ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  /// Packs columns whose elements are contiguous along K, by transposing them.
  void packVectorTransposed(const PanelVector &vector, const KBlock &kBlock);
  Value loadLeaf(const Factor &factor, unsigned leaf, Value offset,
                 int64_t stride, int64_t lanes, LaneMask mask);

  // Defined in ContractionResults.cpp:
  /// Prefetches the results that finishTile accesses.
  void prefetchResults(const Tile &tile);
  /// Adds the sums of a chunk to the totals (F3), or writes the results if it
  /// is the last chunk.
  void finishTile(const Tile &tile, ArrayRef<Value> sums);
  void writeResults(const Tile &tile, ArrayRef<Value> totals);
  /// Returns the distance (1 or 2) between the results of neighbouring rows if
  /// the tile should be written in vectors along the rows; otherwise 0.
  int64_t getStepAlongRows(const Tile &tile) const;
  /// The locations of the results of one column: those of rows [0, neighbours)
  /// are `step` elements apart, and so are those of rows [neighbours, end).
  struct RowPlaces {
    int64_t step = 0;      ///< 0: unknown
    Value neighbours = {}; ///< null: all rows
    Value condition = {};  ///< whether `step` applies; null: always, or if the
                           ///< condition of the previous entry fails
  };
  /// Returns one entry, or two entries: the first for the case that its
  /// condition holds, and the second for all other cases.
  SmallVector<RowPlaces> getRowPlaces(const Tile &tile,
                                      ArrayRef<ResultRow> resultRows);
  /// Writes one vector of each row: the totals, or the results of the epilogue.
  /// If `places` is empty, emits short code that writes row by row.
  void writeVector(ArrayRef<Value> values, ArrayRef<ResultRow> resultRows,
                   const PanelVector &vector, ArrayRef<RowPlaces> places);
  void writeAlongRows(ArrayRef<Value> values, ArrayRef<ResultRow> resultRows,
                      const PanelVector &vector, ArrayRef<RowPlaces> places);
  /// Writes the results of one column. `first` and `last` are the offsets of
  /// the results of the first and the last row.
  void writeRowsOfLane(Value rows, int64_t rowCount, Value first, Value last,
                       const RowPlaces &place);
  /// Returns the fold's results for the vector `total`, before they are rounded
  /// to the element type of the output. `offset` is the position of the first
  /// result in the output.
  virtual Value getResult(Value total, Value offset, LaneMask mask);
  /// Returns the initial values of the fold for one vector of results.
  Value loadInit(Value offset, LaneMask mask);
  /// Returns the results of the epilogue for the totals of one vector. These
  /// results are stored instead of the totals.
  Value applyEpilogue(Value total, const ResultRow &row,
                      const PanelVector &vector, LaneMask mask);
  /// Applies the epilogue to the totals of each row. `isEdge`: the tile is at
  /// an edge of the results; the emitted code is shorter, but slower.
  SmallVector<Value> applyEpilogue(ArrayRef<Value> totals,
                                   ArrayRef<ResultRow> resultRows,
                                   const PanelVector &vector, bool isEdge);
  /// Returns the offset of the tile's totals in `totals`.
  Value getTotalsOffset(const Tile &tile);
  ResultRow getResultRow(Value row);
  /// Returns the index of the first epilogue input (or of the output, if there
  /// is none) among the accesses of a factor's loops.
  static unsigned getResultAccess(const Factor &factor) {
    return factor.inputs.size();
  }
  /// Returns the distance between the elements of an epilogue input for
  /// adjacent lanes.
  int64_t getInputStep(unsigned input) const {
    return columns.loops.back().coefficients[getResultAccess(columns) + input];
  }

  HostBuilder &b;
  const TileConfig config;
  const int64_t lanes; ///< of the configuration

  Value rowTable, columnTable; ///< null: not needed
  Value block, panelBuffer, kBlockSums, totals;
  // The current strip: base offsets, and ranges of rows and panels.
  SmallVector<Value> rowBase, columnBase;
  SmallVector<Value> inputBase; ///< of the epilogue's inputs
  Value outputBase, firstRow, endRow, firstPanel, endPanel;
  Value firstPacked; ///< of the group of panels that is packed
  // Tables with the offset of each row of the strip; null if not needed.
  Value rowPositions, outputPositions;
  SmallVector<Value> inputPositions;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
