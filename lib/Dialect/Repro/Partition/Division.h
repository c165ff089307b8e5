//===- Division.h - Division of operations among ranks ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_PARTITION_DIVISION_H
#define REPRO_DIALECT_REPRO_PARTITION_DIVISION_H

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::repro {

/// Checks the function @main, which is to be divided among `ranks` ranks, and
/// returns it. Returns null after an error that names the rule `label`.
func::FuncOp findDivided(ModuleOp module, StringRef label, int64_t ranks,
                         int64_t rank);

/// Returns the number of state arguments and results of `main`.
int64_t getNumState(func::FuncOp main);

/// Erases `operations`, which the rank's operations have replaced. Then erases
/// the operations of `block` that have become unused, except those with a
/// check.
void eraseDivided(Block &block, ArrayRef<Operation *> operations);

/// Returns all values that an operation and its regions read.
SetVector<Value> getRead(Operation *op);

/// Defines which elements of a tensor each rank has. The dimension `dim`
/// consists of `blocks` blocks of equal extent. Rank r has the elements from
/// offsets[r] to offsets[r + 1] of each block, concatenated.
struct Cut {
  int64_t dim = 0;
  int64_t blocks = 1;
  SmallVector<int64_t> offsets;

  bool operator==(const Cut &other) const {
    return dim == other.dim && blocks == other.blocks &&
           offsets == other.offsets;
  }
  unsigned getNumRanks() const { return offsets.size() - 1; }
  /// Returns the extent of a block.
  int64_t getBlock() const { return offsets.back(); }
  /// Returns the number of elements of a block that a rank has.
  int64_t getSize(unsigned rank) const {
    return offsets[rank + 1] - offsets[rank];
  }
  /// Returns the extent of the dimension in a rank's part.
  int64_t getExtent(unsigned rank) const { return blocks * getSize(rank); }
  /// Returns the same cut of the dimension `other`.
  Cut along(int64_t other) const { return {other, blocks, offsets}; }
};

/// Returns a cut of a dimension into blocks, each divided among the ranks as
/// evenly as multiples of `unit` permit.
Cut getEvenCut(int64_t dim, int64_t extent, int64_t blocks, int64_t unit,
               unsigned ranks);

/// Returns the type of a rank's part of a tensor.
RankedTensorType getPartType(Type type, const Cut &cut, unsigned rank);

/// The cut of each operand and each result of an operation; std::nullopt for a
/// whole tensor.
struct Division {
  SmallVector<std::optional<Cut>> operands, results;
};

/// A dimension along which an operation can be divided: its position in each
/// operand and result, or -1 where an operand or result does not have it.
struct Axis {
  SmallVector<int64_t> operands, results;
};

/// Returns the axes of an operation along a dimension, such as a scan, or of a
/// contraction of blocks, on tensors or buffers. No other operation has any.
SmallVector<Axis> getDimensionAxes(Operation *op);

/// Returns the division along the axis along which `operand` is cut;
/// std::nullopt if it is cut along none of `axes`.
std::optional<Division> divideAlong(ArrayRef<Axis> axes, unsigned operand,
                                    const Cut &cut);

/// Clones `op` with `operands`. Results that `division` cuts get the type of
/// the part of `rank`. `whole` maps the values that the regions of `op` read.
Operation *clonePart(Operation *op, OpBuilder &builder,
                     const Division &division, unsigned rank,
                     ValueRange operands, const IRMapping &whole);

/// (E1) Whether an operation has a check. Such an operation stays even if its
/// results are unused.
bool hasCheck(Operation *op);

/// Slices the part of `rank` out of a whole tensor.
Value slicePart(OpBuilder &builder, Location loc, Value tensor, const Cut &cut,
                unsigned rank);

} // namespace mlir::repro

#include "lib/Dialect/Repro/Partition/PartitionOpInterface.h.inc"

#endif // REPRO_DIALECT_REPRO_PARTITION_DIVISION_H
