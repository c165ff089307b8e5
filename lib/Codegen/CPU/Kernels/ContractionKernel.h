//===- ContractionKernel.h - fma folds in register tiles --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile is `tileRows` times `tileVectors` vectors along N (a panel); its
// accumulators stay in registers for a part of a chunk of K and are kept from
// part to part, so that each result sees its elements in the order of (F1). A
// work item is a block of rows times some panels. Either factor is read where
// it lies, or what an item reads of a part is copied, f or g applied, first.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
#define REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H

#include "Codegen/CPU/Kernels/Contraction.h"

namespace mlir::repro::cpu {

/// A vector of results along N, or its place beyond the end.
struct PanelVector {
  SmallVector<Value> leafOffsets;
  Value outputOffset;
  Value count;  ///< lanes that are results; null: all
  Value packed; ///< where its first element is in the packed columns
};

/// Elements [start, end) of the chunk [chunkStart, chunkEnd) of K.
struct Part {
  Value chunkStart, chunkEnd, start, end;
};

class ContractionKernel : public Contraction {
public:
  using Contraction::Contraction;
  LogicalResult match();
  void expand();

private:
  /// Part of the lanes of vectors along `dims` of the factor that are results.
  double getUse(const Factor &factor) const;
  void chooseTiles();
  void choosePacking();
  void chooseItems();

  void emitItem(Value item);
  void emitChunk(Value chunkStart, Value chunkEnd);
  void emitPart(const Part &part);
  void emitPanel(Value panel, const Part &part);
  void emitTile(Value row, int64_t rows, Value panel,
                ArrayRef<PanelVector> vectors, const Part &part);
  /// The accumulators of a tile before a part: (F4), or those after the part
  /// before it.
  SmallVector<Value> startTile(Value row, int64_t rows, Value panel,
                               const Part &part);
  /// Keeps the accumulators for the next part, or finishes the chunk.
  void finishTile(ArrayRef<Value> sums, Value row, int64_t rows, Value panel,
                  ArrayRef<PanelVector> vectors, const Part &part);
  /// (F3) adds the chunk to the totals, or after the last one init to the
  /// total.
  void finishChunk(ArrayRef<Value> sums, Value row, int64_t rows, Value panel,
                   ArrayRef<PanelVector> vectors, const Part &part);
  void writeResults(ArrayRef<Value> totals, Value row, int64_t rows,
                    ArrayRef<PanelVector> vectors);
  /// Where an item keeps the accumulators of a tile.
  Value getSlot(Value row, Value panel);

  SmallVector<PanelVector> getPanelVectors(Value panel);
  PanelVector getPanelVector(Value vectorIndex);
  Value fillTable(const Factor &factor);
  /// Where element `k` of a factor that is not packed lies.
  Value getReductionOffset(const Factor &factor, Value table, Value k);

  // ContractionPacking.cpp
  void packRows(const Part &part);
  /// Row after row.
  void packRowsAlongReduction(const Part &part);
  /// Tile after tile, in each one element of all rows after the other.
  void packRowsAlongRows(const Part &part);
  void packColumns(const Part &part);
  void packVectors(ArrayRef<PanelVector> vectors, const Part &part);
  /// Of columns whose elements lie along K.
  void packVectorTransposed(const PanelVector &vector, const Part &part);
  /// Whether the elements of the factor lie next to each other along K.
  static bool isAlongReduction(const Factor &factor) {
    return factor.reduction.empty() ||
           llvm::all_of(factor.reduction.back().coefficients,
                        [](int64_t c) { return c == 0 || c == 1; });
  }
  Value loadLeaf(const Factor &factor, unsigned leaf, Value offset,
                 int64_t stride, int64_t lanes, LaneMask mask);

  int64_t lanes;
  bool rowsPacked = false, columnsPacked = false;
  int64_t rowVectors;  ///< vectors along the innermost loop of N
  int64_t vectorCount; ///< of all of N
  int64_t tileRows, tileVectors;
  int64_t blockRows, blockPanels, rowBlocks, panelBlocks, panels;
  bool masked;                ///< some vectors have lanes that are no results
  bool transposed;            ///< the columns are read along K
  bool rowsAlongRows = false; ///< the rows are read along M
  int64_t span;               ///< elements of a chunk
  int64_t depth;              ///< elements of a part
  /// Of the packed rows: from row to row, or where `rowsAlongRows` from tile to
  /// tile; of the packed columns: from panel to panel. All have some slack, as
  /// powers of two would fall into few sets of a cache.
  int64_t rowStride, panelStride;

  Value rowTable, columnTable, block, panelBuffer, totals, partSums;
  // Of the current item.
  SmallVector<Value> rowBase, columnBase;
  Value outputBase, firstRow, endRow, firstPanel, endPanel;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_CONTRACTIONKERNEL_H
