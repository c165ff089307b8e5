//===- Division.h - How operations are divided among ranks -*- C++ -*-===//
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

/// The function @main of a canonical program that is divided among ranks; null
/// after an error that names the rule `label`.
func::FuncOp findDivided(ModuleOp module, StringRef label, int64_t ranks,
                         int64_t rank);

/// How many arguments and results of it are state.
int64_t getNumState(func::FuncOp main);

/// Erases the operations of the whole program, and what nobody reads then; what
/// has a check stays.
void eraseDivided(Block &block, ArrayRef<Operation *> operations);

/// All values that an operation and its regions read.
SetVector<Value> getRead(Operation *op);

/// Which elements of a tensor each rank has. A dimension consists of `blocks`
/// blocks of equal extent, and of each of them rank r has the elements from
/// offsets[r] to offsets[r + 1], those of all blocks one behind the other.
struct Cut {
  int64_t dim = 0;
  int64_t blocks = 1;
  SmallVector<int64_t> offsets;

  bool operator==(const Cut &other) const {
    return dim == other.dim && blocks == other.blocks &&
           offsets == other.offsets;
  }
  unsigned getNumRanks() const { return offsets.size() - 1; }
  /// The extent of a block.
  int64_t getBlock() const { return offsets.back(); }
  /// How many elements of a block a rank has.
  int64_t getSize(unsigned rank) const {
    return offsets[rank + 1] - offsets[rank];
  }
  /// The extent of the dimension on a rank.
  int64_t getExtent(unsigned rank) const { return blocks * getSize(rank); }
  /// The same cut of another dimension.
  Cut along(int64_t other) const { return {other, blocks, offsets}; }
};

/// A cut of a dimension into blocks, each divided as equally as multiples of
/// `unit` can be.
Cut getEvenCut(int64_t dim, int64_t extent, int64_t blocks, int64_t unit,
               unsigned ranks);

/// The type of what a rank has of a tensor.
RankedTensorType getPartType(Type type, const Cut &cut, unsigned rank);

/// How each operand and each result of an operation is cut, or whole.
struct Division {
  SmallVector<std::optional<Cut>> operands, results;
};

/// Dimensions of operands and results that are one and the same, -1 of those
/// that do not have it.
struct Axis {
  SmallVector<int64_t> operands, results;
};

/// The division along that of `axes` which `operand` is cut along.
std::optional<Division> divideAlong(ArrayRef<Axis> axes, unsigned operand,
                                    const Cut &cut);

/// A copy of an operation on other operands, with results that are cut.
Operation *clonePart(Operation *op, OpBuilder &builder,
                     const Division &division, unsigned rank,
                     ValueRange operands, const IRMapping &whole);

/// (E1) Whether an operation has a check, which stays also where nobody reads
/// its results.
bool hasCheck(Operation *op);

/// What a rank has of a whole tensor.
Value slicePart(OpBuilder &builder, Location loc, Value tensor, const Cut &cut,
                unsigned rank);

} // namespace mlir::repro

#include "lib/Dialect/Repro/Partition/PartitionOpInterface.h.inc"

#endif // REPRO_DIALECT_REPRO_PARTITION_DIVISION_H
