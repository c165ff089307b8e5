//===- KernelTiles.h - Tiles of kernels -------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel function of the pipeline `schedule` contains one structured
// operation. Its parallel loops are the axes along which it can be cut: a tile
// is a range of each axis, and computes the elements of the outputs in that
// range from boxes of the inputs. No cut changes a bit, because all that an
// element depends on, and the order of its fold, are those of the whole kernel.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_KERNELTILES_H
#define REPRO_CODEGEN_CORES_MAPPING_KERNELTILES_H

#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineMap.h"

namespace mlir::repro::cores {

/// The positions [begin, begin + size) of an axis.
struct Interval {
  int64_t begin = 0, size = 0;
  bool operator==(const Interval &other) const {
    return begin == other.begin && size == other.size;
  }
};

/// A part of a buffer: a range of each of its dimensions.
using Box = SmallVector<Interval, 4>;

/// Returns the number of elements of a box.
int64_t getNumElements(ArrayRef<Interval> box);

/// One way in which a kernel accesses one of its buffers. A kernel that reads a
/// buffer by two maps has two accesses to the buffer.
struct KernelAccess {
  unsigned buffer; ///< the number of the argument
  /// The element that an iteration of the loops accesses. A loop that is
  /// missing from the map does not matter.
  AffineMap map;
  /// For each dimension of the buffer: the sum of coefficients times loops plus
  /// a constant; std::nullopt if the map's result is not linear.
  struct Linear {
    SmallVector<int64_t> coefficients;
    int64_t constant = 0;
  };
  SmallVector<std::optional<Linear>> linear;
  bool reads = false, writes = false;

  bool isLinear() const;
  bool dependsOn(unsigned loop) const { return map.isFunctionOfDim(loop); }
};

class KernelTiles {
public:
  /// Analyzes a kernel function. Emits an error if it is not one.
  static FailureOr<KernelTiles> get(func::FuncOp kernel);

  func::FuncOp getKernel() const { return kernel; }
  Operation *getBody() const { return body; }
  /// The number of loops of the body. Further loops only number the dimensions
  /// of boxes.
  unsigned getNumLoops() const { return numLoops; }
  /// The extents of all loops.
  ArrayRef<int64_t> getExtents() const { return extents; }
  /// The loops that are axes, outermost first.
  ArrayRef<unsigned> getAxes() const { return axes; }
  ArrayRef<KernelAccess> getAccesses() const { return accesses; }
  MemRefType getType(unsigned access) const {
    return cast<MemRefType>(
        kernel.getArgument(accesses[access].buffer).getType());
  }
  /// Removes all axes, so that the kernel has only one tile.
  void forbidCuts() { axes.clear(); }

  /// Returns the tile that is the whole kernel.
  SmallVector<Interval> getWhole() const;
  /// Returns the part of the buffer that a tile (a range of each loop)
  /// accesses. The tile is not empty.
  Box getBox(unsigned access, ArrayRef<Interval> tile) const;

  /// The loops whose index the tile needs: those whose index the kernel reads
  /// and that the tile does not cover.
  SmallVector<unsigned> getShiftedLoops(ArrayRef<Interval> tile) const;
  /// Whether two tiles of equal sizes have the same function.
  bool haveSameFunction(ArrayRef<Interval> a, ArrayRef<Interval> b) const;
  /// Creates the kernel function of a tile, which is not part of a module. Its
  /// buffers are row-major and have the shapes of the boxes of all accesses. If
  /// there are shifted loops, the last buffer holds their begins as i64.
  func::FuncOp createTile(ArrayRef<Interval> tile, StringRef name) const;

private:
  explicit KernelTiles(func::FuncOp kernel) : kernel(kernel) {}
  LogicalResult addLoops();
  void addAxes();
  void addLoads();
  void addAccess(unsigned buffer, AffineMap map, bool reads, bool writes);

  mutable func::FuncOp kernel;
  Operation *body = nullptr;
  unsigned numLoops = 0;
  SmallVector<int64_t> extents;
  SmallVector<unsigned> axes;
  SmallVector<KernelAccess> accesses;
  /// The access of each operand of the body; -1 for operands that are not
  /// buffers.
  SmallVector<int> operandAccesses;
  /// The access of the loads from each buffer in the body.
  DenseMap<Value, unsigned> loadAccesses;
  llvm::SmallBitVector indexed; ///< the loops whose index the body reads
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_KERNELTILES_H
