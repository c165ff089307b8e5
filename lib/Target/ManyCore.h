//===- ManyCore.h - Machines of many cores ----------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Machines whose cores have memories of their own. The numbers determine how a
// step is cut into pieces, where the pieces lie, and the predicted time, but
// never a bit of a result. docs/contributors/machines.md explains the files.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_MANYCORE_H
#define REPRO_TARGET_MANYCORE_H

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <string>
#include <vector>

namespace mlir::repro {

/// A machine of equal chips, which are grids of equal cores. All cycles are
/// cycles of a core. The coordinates of a core count over all chips: the core
/// (x, y) lies on the chip (x / columns, y / rows).
struct ManyCore {
  /// Column and row, from the upper left.
  using Point = std::array<int64_t, 2>;

  /// A memory controller of each chip.
  struct Channel {
    Point at; ///< the core of the chip whose router the channel is attached to
    double bytesPerSecond = 0;
    double latencySeconds = 0;
  };

  std::string name; ///< the name, or the path of the file
  std::string text; ///< the complete description as JSON

  // The grid of a chip.
  int64_t columns = 0, rows = 0;
  std::vector<Point> absent; ///< the points of the grid that have no core

  // A core. Code and data have memories of their own.
  double clockHz = 0;
  int64_t codeBytes = 0, dataBytes = 0;
  int64_t banks = 0; ///< of the data memory
  /// The extents of the groups of cores that can address each other's memory,
  /// and the bytes that a group has in addition; 1, 1 and 0 if there are none.
  int64_t groupColumns = 0, groupRows = 0, groupBytes = 0;

  // Cycles for one element; less than 1 if a unit has several lanes.
  double fmaCycles = 0; ///< f32
  double addCycles = 0; ///< f32 addition, subtraction or multiplication
  double divideCycles = 0, squareRootCycles = 0; ///< f32
  double compareCycles = 0; ///< f32 comparison, minimum, maximum or selection
  double loadCycles = 0, storeCycles = 0; ///< 32 bits
  double integerCycles = 0;               ///< i32, also addresses
  double longIntegerCycles = 0;           ///< i64
  double doubleCycles = 0;                ///< f64; in software on most cores
  double convertCycles = 0; ///< between two types of at most 32 bits
  double loopCycles = 0;    ///< the control of one iteration of a loop

  // The array of multipliers for matrices. In a cycle, it adds matrixDepth
  // products to each of matrixRows x matrixColumns accumulators, divided by
  // matrixPasses. All numbers are 0 if a core has no such array.
  int64_t matrixRows = 0, matrixColumns = 0, matrixDepth = 0, matrixPasses = 0;
  int64_t matrixOperandBits = 0, matrixAccumulatorBits = 0;
  bool hasFloatMatrices = false; ///< whether operands are floats

  // The network of a chip: a mesh of routers, X before Y.
  int64_t routerColumns = 0, routerRows = 0; ///< the cores that share a router
  int64_t payloadBytes = 0;                  ///< of a flit
  double hopCycles = 0;                      ///< from router to router
  double linkBytesPerCycle = 0;              ///< of a link, in each direction
  bool hasMulticast = false; ///< whether routers copy a transfer to many cores

  // The memory outside of the cores. No channels if there is none.
  int64_t dramBytes = 0; ///< of a chip
  /// The address after which the next channel follows, in turn.
  int64_t interleaveBytes = 0;
  std::vector<Channel> channels;

  // The engines that move data.
  int64_t dmaEngines = 0; ///< of a core
  int64_t dmaAlignment =
      0; ///< of addresses and sizes, in bytes; a power of two
  double dmaSetupCycles = 0;

  // The control of a core.
  double runCycles = 0;     ///< a call of a tile's kernel
  double releaseCycles = 0; ///< an addition to a counter of another core
  double acquireCycles = 0; ///< a read of a counter of the core itself

  // The grid of chips. With hexagonal links, each chip also has links to the
  // chips at (x + 1, y + 1) and (x - 1, y - 1).
  int64_t chipColumns = 0, chipRows = 0;
  bool hasHexagonalLinks = false;
  double chipBytesPerSecond = 0; ///< of a link, in each direction
  double chipLatencySeconds = 0;

  // Calibrations, each from one published measurement of this machine.
  double callSeconds = 0;      ///< the fixed cost of a call of a program
  double matrixEfficiency = 1; ///< reached part of the array's peak
  double dramEfficiency = 1;   ///< reached part of the channels' peak

  int64_t getColumns() const { return columns * chipColumns; }
  int64_t getRows() const { return rows * chipRows; }
  int64_t getChips() const { return chipColumns * chipRows; }
  /// Returns the number of cores of all chips.
  int64_t getCores() const;
  /// Whether there is a core at the point, which may lie outside of the grid.
  bool hasCore(Point point) const;
  /// Returns the points of all cores, row by row.
  std::vector<Point> listCores() const;
  /// Returns the chip of a core.
  Point getChip(Point core) const {
    return {core[0] / columns, core[1] / rows};
  }
  /// Returns the router of a core, which is counted over all chips.
  Point getRouter(Point core) const;
  /// Returns the number of routers between two cores of one chip that a
  /// transfer enters after the first one.
  int64_t countHops(Point from, Point to) const;
  /// Returns the number of links between the chips of two cores.
  int64_t countChipHops(Point from, Point to) const;
  /// Returns the products that the array of a core adds in a cycle.
  double getMatrixProducts() const {
    return matrixPasses == 0 ? 0
                             : double(matrixRows) * matrixColumns *
                                   matrixDepth / matrixPasses;
  }
  /// Returns the cycles that the array takes to add `depth` products to each of
  /// its accumulators, from the first operand to the last result.
  double getMatrixCycles(int64_t depth) const;
  /// Returns the bits of a sum of integers that leaves the array. The core
  /// reads each sum as a word.
  int64_t getMatrixSumBits() const {
    return std::min<int64_t>(matrixAccumulatorBits, 32);
  }
  /// Returns how many products of operands that are integers each accumulator
  /// can add without an overflow, whatever the operands are.
  int64_t getMostMatrixProducts() const;
  /// Returns the alignment of the tensors in the DRAM.
  int64_t getDramAlignment() const {
    return std::max<int64_t>(64, dmaAlignment);
  }
};

/// Reads a complete description. On failure, sets `error` to one reason.
FailureOr<ManyCore> readManyCore(StringRef text, std::string &error);

/// Returns the built-in machines.
ArrayRef<ManyCore> getManyCores();

/// Returns the machine with that name, or the one described by the file if the
/// description is a path that ends in ".json". A description can also be a name
/// for messages, a line end and ManyCore::text, for which no file is read. On
/// failure, sets `error` to one reason.
FailureOr<ManyCore> getManyCore(StringRef description, std::string &error);

/// Returns the names of the built-in machines, separated by ", ".
std::string listManyCores();

} // namespace mlir::repro

#endif // REPRO_TARGET_MANYCORE_H
