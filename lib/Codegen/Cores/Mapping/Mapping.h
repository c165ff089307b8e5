//===- Mapping.h - Launches as pieces and tiles -----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts that the passes repro-map-* share. A launch is cut into pieces, one
// for each of its cores, and each piece into tiles, which fit into a core's
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_MAPPING_H
#define REPRO_CODEGEN_CORES_MAPPING_MAPPING_H

#include "ByteRanges.h"
#include "KernelCost.h"
#include "dialects/Cores/IR/Cores.h"

namespace mlir::repro::cores {

/// The pieces of a launch, as far as they compete for the DRAM.
struct PieceGrid {
  int64_t numPieces = 1;
  /// By access: the number of pieces that read the same boxes, so that one of
  /// them can send these to the others; 1 if the routers cannot multicast.
  SmallVector<int64_t> sharers;
};

/// A launch of the plan, its kernel's tiles and the places of its buffers.
struct MappedLaunch {
  mutable launch::DispatchOp dispatch;
  KernelTiles tiles;
  SmallVector<Place> places; ///< of each access

  /// Whether an axis is empty, so that the launch does nothing.
  bool isEmpty() const;
  /// Returns the pieces, each as a range of all loops, row-major in the axes.
  /// Each axis is cut into ranges of equal sizes, apart from the last one.
  SmallVector<SmallVector<Interval>>
  listPieces(ArrayRef<int64_t> partition) const;
  /// Returns the number of these pieces.
  int64_t countPieces(ArrayRef<int64_t> partition) const;
  /// Returns the tiles of a piece in the order of their runs. `sizes` has the
  /// extent of a tile along each axis.
  SmallVector<SmallVector<Interval>> listTiles(ArrayRef<Interval> piece,
                                               ArrayRef<int64_t> sizes) const;
  /// Returns a tile for each combination of extents that tiles of pieces have,
  /// the largest one first. Tiles at the ends of a piece are smaller.
  SmallVector<SmallVector<Interval>>
  listTileShapes(ArrayRef<int64_t> partition, ArrayRef<int64_t> sizes) const;
  PieceGrid getGrid(ArrayRef<int64_t> partition, const ManyCore &machine) const;
  /// Returns the largest piece.
  SmallVector<Interval> getLargestPiece(ArrayRef<int64_t> partition) const;
};

/// Returns the launches of a plan in their order. Emits an error if a launch
/// has no kernel that can run on a core. A launch that reads elements which
/// other iterations write has no axes.
FailureOr<std::vector<MappedLaunch>> listLaunches(launch::PlanOp plan);

/// (K4) Sets `cores.matrix` of a fold that the matrix arrays of the cores can
/// compute.
void chooseMatrix(FoldOp fold, const ManyCore &machine);

/// The machine and the launch plan of a pass repro-map-*.
struct MappingInput {
  ManyCore machine;
  launch::PlanOp plan;
  std::vector<MappedLaunch> launches;
};

/// Finds the machine and the only launch plan of a module. Emits an error if
/// there is none, or if the machine has no DRAM.
FailureOr<MappingInput> readMappingInput(ModuleOp module, StringRef machine);

/// The part of a core's memory that the kernels' error word and its line take,
/// at the end.
inline constexpr int64_t kErrorBytes = 64;

/// Returns the alignment of buffers in the core's memory.
int64_t getLocalAlignment(const ManyCore &machine);

/// Returns the bytes of a core's memory that buffers and scratch memory may
/// take.
int64_t getUsableBytes(const ManyCore &machine);

/// How a piece is cut into tiles.
struct Tiling {
  SmallVector<int64_t> sizes; ///< along each axis
  int64_t bytes = 0;          ///< of the buffers in the core's memory
  double seconds = 0;         ///< predicted for the largest piece
  /// The accesses whose boxes are sent to all sharers.
  SmallVector<int64_t> multicasts;
};

/// Chooses tiles of a piece whose buffers take at most `budget` bytes, so that
/// the predicted time is short. Returns the smallest tile if none fits.
Tiling chooseTiling(const MappedLaunch &launch, ArrayRef<Interval> piece,
                    const PieceGrid &grid, int64_t budget,
                    const ManyCore &machine);

/// Returns the bytes and the predicted time of a piece that is cut into tiles
/// of the given sizes, with those multicasts that make the time shorter.
Tiling getTiling(const MappedLaunch &launch, const KernelCost &cost,
                 ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
                 const PieceGrid &grid, int64_t budget,
                 const ManyCore &machine);

/// Returns the bytes of the buffers of a tiled piece in the core's memory: two
/// of each buffer that changes from tile to tile if `isDouble`.
int64_t getBufferBytes(const MappedLaunch &launch, ArrayRef<Interval> piece,
                       ArrayRef<int64_t> sizes, bool isDouble,
                       const ManyCore &machine);

/// Returns the bytes that a transfer of the box of an access occupies: each row
/// without gaps takes whole units of the DMA engine, and all rows together take
/// whole flits.
double getTransferBytes(const MappedLaunch &launch, unsigned access,
                        ArrayRef<Interval> tile, const ManyCore &machine);

/// Returns the bytes that all tiles of a piece transfer for an access, each
/// time that the box changes.
double getPieceBytes(const MappedLaunch &launch, unsigned access,
                     ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
                     const ManyCore &machine);

/// Returns the bytes per second of all channels of the DRAM.
double getDramBytesPerSecond(const ManyCore &machine);

/// Returns the scratch memory, in bytes, that the code of each tile function
/// needs in a core. Emits errors of the expansion.
FailureOr<SmallVector<int64_t>>
getScratchBytes(ArrayRef<func::FuncOp> functions, MLIRContext *context);

/// Returns the accesses of a launch in the attribute `cores.multicast`, or
/// emits an error if one of them does not only read.
FailureOr<ArrayRef<int64_t>> getMulticasts(const MappedLaunch &launch);

/// Returns an attribute with `size` numbers, or emits an error that names the
/// pass that sets it.
FailureOr<ArrayRef<int64_t>> getNumbers(launch::DispatchOp dispatch,
                                        StringRef name, size_t size,
                                        StringRef pass);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_MAPPING_H
