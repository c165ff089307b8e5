//===- ContractionKernel.h - fma folds in register tiles --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How tiles, panels, K-blocks, blocks, groups and strips make a contraction is
// told in TileConfig.h; this is the emission of one that was chosen.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
#define REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H

#include "Codegen/CPU/Kernels/HostBuilder.h"
#include "Codegen/CPU/Kernels/TileConfig.h"
#include "Codegen/Common/Contraction.h"

namespace mlir::repro::cpu {

/// A vector of results along N, or its place beyond the end.
struct PanelVector {
  SmallVector<Value> leafOffsets;
  SmallVector<Value> inputOffsets; ///< of the epilogue's inputs
  Value outputOffset;
  Value count;  ///< lanes that are results; null: all
  Value packed; ///< where its first element is in the packed columns
};

/// Elements [start, end) of K.
struct Chunk {
  Value start, end;
};

/// The K-block of the columns that is packed next.
struct NextKBlock {
  Value start; ///< null: unknown
  SmallVector<PanelVector> vectors;
};

/// Elements [start, end) of K, of one chunk.
struct KBlock {
  Chunk chunk;
  Value start, end;
  NextKBlock next = {};
};

/// Results in registers: rows from `row` on times the vectors of a panel.
struct Tile {
  Value row;
  int64_t rowCount;
  Value panel;
  ArrayRef<PanelVector> vectors;
  const KBlock &kBlock;
  Value number = {};     ///< in a strip's rows
  Value packedRows = {}; ///< where those begin, if the rows are packed
  SmallVector<Value> rowOffsets = {}; ///< else where each begins
  SmallVector<LaneMask> masks = {};   ///< of columns that are not packed
};

/// Where the results of a row begin, and what the epilogue reads for them.
struct ResultRow {
  SmallVector<Value> inputs;
  Value output;
};

class ContractionKernel : public Contraction {
public:
  /// `contraction` has its factors settled as `config` says.
  ContractionKernel(HostBuilder &b, Contraction contraction,
                    const TileConfig &config)
      : Contraction(std::move(contraction)), b(b), config(config),
        lanes(config.lanes) {}
  virtual ~ContractionKernel() = default;
  void expand();

protected:
  /// Through this thread's items.
  void emitStrips();
  void emitStrip(Value rowBlock, Value endRowBlock, Value firstGroup,
                 Value endGroup);
  void emitChunk(const Chunk &chunk);
  void emitPanelByKBlocks(Value panel, const Chunk &chunk);
  void emitKBlock(Value panel, ArrayRef<PanelVector> vectors,
                  const KBlock &kBlock);
  SmallVector<PanelVector> getPanelVectors(Value panel);
  PanelVector getPanelVector(Value vectorIndex);
  /// Whether stretches of K of half a vector and more lie next to each other.
  bool hasLongRuns(const Factor &factor) const;
  /// Whether offsets along K are looked up; `packsRuns`: packing does without.
  bool needsTable(const Factor &factor, bool isPacked, bool packsRuns) const;
  /// The offset of each element of K.
  Value fillTable(const Factor &factor);
  /// The offset of each row of the strip, in one of its accesses.
  void fillPositions(Value table, unsigned access);
  /// `table`: null where it takes a multiplication.
  Value getRowOffset(Value row, Value table, unsigned access);
  /// Where element `k` of a factor that is not packed lies.
  Value getReductionOffset(const Factor &factor, Value table, Value k);

  // ContractionTile.cpp
  virtual void emitTile(Value row, int64_t rowCount, Value panel,
                        ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  /// Where the tile's rows, and sums that wait for the next K-block, are.
  Tile locateTile(Value row, int64_t rowCount, Value panel,
                  ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  Value getSumsOffset(const Tile &tile);
  /// The accumulators after the K-block.
  SmallVector<Value> emitSums(const Tile &tile, ValueRange starts);
  /// The accumulators after element `k`.
  SmallVector<Value> multiplyAdd(const Tile &tile, Value k, ValueRange sums);
  /// Row `x` of the tile; `offset` is that of `k` in rows that are not packed.
  Value loadRow(const Tile &tile, int64_t x, Value k, Value offset);
  SmallVector<Value> loadColumns(const Tile &tile, Value k);
  /// Of the next tile, one line of elements from `k` on.
  void prefetchRows(const Tile &tile, Value k);
  /// Of the next tile's accumulators, the share of a line of elements.
  void prefetchSums(const Tile &tile, Value k);
  /// Of the columns, one of so many shares.
  void prefetchColumns(Value share, int64_t shares, const NextKBlock &next);
  /// From tile to tile of packed rows, or of rows in place.
  int64_t getTileStride() const;

  // ContractionPacking.cpp
  /// Where the rows of the K-block that holds element `k` are packed.
  Value getPackedRows(Value k, const Chunk &chunk);
  /// What the K-block needs of rows [first, end), row after row.
  virtual void packRowsAlongReduction(Value first, Value end,
                                      const KBlock &kBlock);
  /// All rows, tile after tile, in each one element of all rows after the
  /// other.
  virtual void packRowsAlongRows(const Chunk &chunk);
  void packElementsAlongRows(Value first, int64_t count, const Chunk &chunk);
  /// Of the group of panels that begins with `first`.
  virtual void packColumns(Value first, const KBlock &kBlock);
  void packVectors(ArrayRef<PanelVector> vectors, const KBlock &kBlock);
  /// Of columns whose elements lie along K.
  void packVectorTransposed(const PanelVector &vector, const KBlock &kBlock);
  Value loadLeaf(const Factor &factor, unsigned leaf, Value offset,
                 int64_t stride, int64_t lanes, LaneMask mask);

  // ContractionResults.cpp
  /// What finishTile will touch.
  void prefetchResults(const Tile &tile);
  /// (F3) adds the chunk to the totals, or after the last one init to the
  /// total.
  void finishTile(const Tile &tile, ArrayRef<Value> sums);
  void writeResults(const Tile &tile, ArrayRef<Value> totals);
  /// How far the results of neighbouring rows lie apart where they lie next to
  /// each other or are every second there, those of neighbouring columns far
  /// apart; else 0.
  int64_t getStepAlongRows(const Tile &tile) const;
  /// How the results of one column lie: those of rows [0, neighbours) and
  /// [neighbours, end) `step` apart.
  struct RowPlaces {
    int64_t step = 0;      ///< 0: nothing is known
    Value neighbours = {}; ///< null: all rows
    Value condition = {};  ///< whether they do; null: always, or where those of
                           ///< the place before do not
  };
  /// One, or two by the condition of the first.
  SmallVector<RowPlaces> getRowPlaces(const Tile &tile,
                                      ArrayRef<ResultRow> resultRows);
  /// The totals of one vector, or what the epilogue made of them, row by row or
  /// along the rows; without places with less code.
  void writeVector(ArrayRef<Value> values, ArrayRef<ResultRow> resultRows,
                   const PanelVector &vector, ArrayRef<RowPlaces> places);
  void writeAlongRows(ArrayRef<Value> values, ArrayRef<ResultRow> resultRows,
                      const PanelVector &vector, ArrayRef<RowPlaces> places);
  /// One lane of the results, which begin at `first` and end with `last`.
  void writeRowsOfLane(Value rows, int64_t rowCount, Value first, Value last,
                       const RowPlaces &place);
  /// What the fold stores at `offset` and the lanes after it, not yet rounded
  /// to the output's type.
  virtual Value getResult(Value total, Value offset, LaneMask mask);
  /// What it folds into.
  Value loadInit(Value offset, LaneMask mask);
  /// What the epilogue stores instead.
  Value applyEpilogue(Value total, const ResultRow &row,
                      const PanelVector &vector, LaneMask mask);
  /// The same of a vector of each row, at an edge of the results with less
  /// code.
  SmallVector<Value> applyEpilogue(ArrayRef<Value> totals,
                                   ArrayRef<ResultRow> resultRows,
                                   const PanelVector &vector, bool isEdge);
  /// Where the totals of the tile are.
  Value getTotalsOffset(const Tile &tile);
  ResultRow getResultRow(Value row);
  /// Among the accesses of a factor's loops: of the epilogue's inputs, then the
  /// output's.
  static unsigned getResultAccess(const Factor &factor) {
    return factor.inputs.size();
  }
  /// How far apart the lanes of an epilogue's input are.
  int64_t getInputStep(unsigned input) const {
    return columns.loops.back().coefficients[getResultAccess(columns) + input];
  }

  HostBuilder &b;
  const TileConfig config;
  const int64_t lanes; ///< of the configuration

  Value rowTable, columnTable; ///< null: not needed
  Value block, panelBuffer, kBlockSums, totals;
  // Of the current strip.
  SmallVector<Value> rowBase, columnBase;
  SmallVector<Value> inputBase; ///< of the epilogue's inputs
  Value outputBase, firstRow, endRow, firstPanel, endPanel;
  Value firstPacked; ///< of the group of panels that is packed
  // Of its rows; null: not needed.
  Value rowPositions, outputPositions;
  SmallVector<Value> inputPositions;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
