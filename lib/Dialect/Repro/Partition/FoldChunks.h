//===- FoldChunks.h - Folds that are cut at whole chunks --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (T4) A fold becomes folds that compute the results of its chunks, where the
// number of the chunk is a parallel loop, and one that combines these results.
// The operands are tensors or buffers. repro.fold is the only operation with
// chunks, so PartitionOpInterface has no method for this.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_PARTITION_FOLDCHUNKS_H
#define REPRO_DIALECT_REPRO_PARTITION_FOLDCHUNKS_H

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlir::repro {

class FoldChunks {
public:
  /// Returns the chunks of a fold; std::nullopt if its order has no chunks that
  /// can be cut, or only one, or if a chunk is not a range of one loop and all
  /// iterations of the loops in it. With `joined`, all reduction loops count as
  /// one loop; then the operands need adjacent dimensions for them. A fold in
  /// any order (F5) is cut into at most `parts` chunks.
  static std::optional<FoldChunks> get(FoldOp fold, bool joined, int64_t parts);

  /// Chunks of equal size: iterations [begin, begin + count * size) of the loop
  /// that is cut.
  struct Group {
    int64_t begin, count, size;
  };
  /// The full chunks and, if the last chunk is shorter, this one.
  ArrayRef<Group> getGroups() const { return groups; }
  /// The number of chunks of a group. All iterations of the reduction loops
  /// around the loop that is cut belong to different chunks.
  int64_t countChunks(const Group &group) const;
  int64_t countChunks() const;

  /// The dimensions [first, first + count) of an operand that the loop that is
  /// cut indexes. For a group, two dimensions replace them: the number of the
  /// chunk in the group, and the iteration in the chunk.
  struct Dimensions {
    unsigned first, count;
  };
  std::optional<Dimensions> getDimensions(unsigned input) const {
    return dimensions[input];
  }
  /// Returns the shape of a group's chunk results.
  SmallVector<int64_t> getResultShape(const Group &group) const;
  /// Returns the shape in which `combine` reads all chunk results.
  SmallVector<int64_t> getResultShape() const;
  /// (F7) The type of chunk results, which is that of the accumulators.
  Type getResultType() const;
  /// Returns the x with op(x, y) = y for each y, with which the chunk results
  /// and, if init is combined later, the totals have to be initialized.
  TypedAttr getIdentity() const;

  /// Creates the fold that computes the chunk results of a group. `inputs` are
  /// in the shape that `getDimensions` describes.
  FoldOp computeChunks(OpBuilder &b, ValueRange inputs, Value results) const;

  /// Whether `combine` cannot combine init too, since a fold by addition begins
  /// with +0: an init of -0 and a total of -0 would give +0.
  bool combinesInitLater() const { return initLater; }
  /// Creates the fold that combines the chunk results, as `totals` (F3) says,
  /// with the init in `output`. If init is combined later, `output` has the
  /// type of the chunk results, and the identity as init.
  FoldOp combine(OpBuilder &b, Value results, Value output) const;
  /// Creates the operation that combines the init in `output` with the totals.
  linalg::GenericOp combineInit(OpBuilder &b, Value totals, Value output) const;

private:
  explicit FoldChunks(FoldOp fold) : fold(fold) {}
  bool setDimensions(bool joined);
  bool setGroups(int64_t n, int64_t inner, int64_t parts);
  AffineMap getResultMap() const { return fold.getIndexingMapsArray().back(); }
  SmallVector<unsigned> getLoops(utils::IteratorType type) const;

  mutable FoldOp fold;
  Operation *step = nullptr;
  SmallVector<int64_t> extents; ///< of all loops
  SmallVector<unsigned> outer;  ///< reduction loops around the loop that is cut
  unsigned loop = 0;            ///< the loop that is cut; the first joined one
  SmallVector<unsigned> inner;  ///< reduction loops in it that are not joined
  bool joined = false;
  SmallVector<Group, 2> groups;
  SmallVector<std::optional<Dimensions>> dimensions;
  bool initLater = false;
};

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_PARTITION_FOLDCHUNKS_H
