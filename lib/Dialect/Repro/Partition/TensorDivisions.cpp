//===- TensorDivisions.cpp - Division of operations that move elements ----===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Partition/Passes.h"
#include "Division.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::repro;

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t multiply(ArrayRef<int64_t> extents) {
  return llvm::product_of(extents);
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// Returns the cut of an expanded tensor that corresponds to `cut` of the
/// collapsed one; std::nullopt if there is none. The returned cut divides the
/// first dimension for which each rank has whole indices; the dimensions before
/// it only number blocks.
static std::optional<Cut> expandCut(const Cut &cut, ArrayRef<int64_t> shape,
                                    ArrayRef<ReassociationIndices> groups) {
  ArrayRef<int64_t> dims = groups[cut.dim];
  ArrayRef<int64_t> extents = shape.slice(dims.front(), dims.size());
  for (auto [i, extent] : llvm::enumerate(extents)) {
    int64_t before = multiply(extents.take_front(i));
    int64_t inner = multiply(extents.drop_front(i + 1));
    if (before == 0 || inner == 0 || cut.blocks % before != 0)
      continue;
    // Do not cut a dimension of extent 1 if another one can be cut.
    if (extent == 1 && cut.getBlock() != 1)
      continue;
    bool isWhole = llvm::all_of(
        cut.offsets, [&](int64_t offset) { return offset % inner == 0; });
    if (!isWhole)
      continue;
    Cut found{dims[i], cut.blocks / before, cut.offsets};
    for (int64_t &offset : found.offsets)
      offset /= inner;
    return found;
  }
  return std::nullopt;
}

static std::optional<Cut> collapseCut(const Cut &cut, ArrayRef<int64_t> shape,
                                      ArrayRef<ReassociationIndices> groups) {
  for (auto [dim, group] : llvm::enumerate(groups)) {
    const auto *at = llvm::find(group, cut.dim);
    if (at == group.end())
      continue;
    ArrayRef<int64_t> extents = shape.slice(group.front(), group.size());
    int64_t position = at - group.begin();
    int64_t before = multiply(extents.take_front(position));
    int64_t inner = multiply(extents.drop_front(position + 1));
    // (A3) The blocks of an empty tensor would have no extent.
    if (before == 0 || inner == 0)
      return std::nullopt;
    Cut found{int64_t(dim), cut.blocks * before, cut.offsets};
    for (int64_t &offset : found.offsets)
      offset *= inner;
    return found;
  }
  return std::nullopt;
}

namespace {
struct ExpandModel
    : PartitionOpInterface::ExternalModel<ExpandModel, tensor::ExpandShapeOp> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    auto reshape = cast<tensor::ExpandShapeOp>(op);
    std::optional<Cut> found =
        expandCut(cut, reshape.getResultType().getShape(),
                  reshape.getReassociationIndices());
    if (!found)
      return std::nullopt;
    return Division{{cut}, {found}};
  }
  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &) const {
    auto reshape = cast<tensor::ExpandShapeOp>(op);
    RankedTensorType type =
        getPartType(reshape.getResultType(), *division.results[0], rank);
    return tensor::ExpandShapeOp::create(builder, op->getLoc(), type,
                                         operands[0],
                                         reshape.getReassociationIndices());
  }
};

struct CollapseModel
    : PartitionOpInterface::ExternalModel<CollapseModel,
                                          tensor::CollapseShapeOp> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    auto reshape = cast<tensor::CollapseShapeOp>(op);
    std::optional<Cut> found = collapseCut(cut, reshape.getSrcType().getShape(),
                                           reshape.getReassociationIndices());
    if (!found)
      return std::nullopt;
    return Division{{cut}, {found}};
  }
  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &whole) const {
    return clonePart(op, builder, division, rank, operands, whole);
  }
};

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Divides slices that keep whole dimensions, or whole blocks of the cut
/// dimension.
struct ExtractSliceModel
    : PartitionOpInterface::ExternalModel<ExtractSliceModel,
                                          tensor::ExtractSliceOp> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    int64_t block = cut.getBlock();
    int64_t offset = slice.getStaticOffset(cut.dim);
    int64_t size = slice.getStaticSize(cut.dim);
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    bool isAll =
        offset == 0 && size == getType(slice.getSource()).getDimSize(cut.dim);
    bool ofBlocks =
        block > 0 && offset % block == 0 && size % block == 0 && size > 0;
    if (slice.getStaticStride(cut.dim) != 1 || dropped[cut.dim] ||
        (!isAll && !ofBlocks))
      return std::nullopt;
    Cut found = cut;
    found.blocks = isAll ? cut.blocks : size / block;
    for (int64_t dim = 0; dim < cut.dim; ++dim)
      found.dim -= dropped[dim];
    return Division{{cut}, {found}};
  }
  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    const Cut &cut = *division.operands[0], &found = *division.results[0];
    SmallVector<int64_t> offsets(slice.getStaticOffsets());
    SmallVector<int64_t> sizes(slice.getStaticSizes());
    int64_t block = std::max<int64_t>(cut.getBlock(), 1);
    offsets[cut.dim] = offsets[cut.dim] / block * cut.getSize(rank);
    sizes[cut.dim] = found.getExtent(rank);
    MLIRContext *context = op->getContext();
    return tensor::ExtractSliceOp::create(
        builder, op->getLoc(), getPartType(slice.getType(), found, rank),
        operands[0], getAsIndexOpFoldResult(context, offsets),
        getAsIndexOpFoldResult(context, sizes),
        getAsIndexOpFoldResult(context, slice.getStaticStrides()));
  }
};

struct InsertSliceModel
    : PartitionOpInterface::ExternalModel<InsertSliceModel,
                                          tensor::InsertSliceOp> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    auto slice = cast<tensor::InsertSliceOp>(op);
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<Axis> axes;
    int64_t source = 0;
    for (int64_t dim = 0, end = slice.getDestType().getRank(); dim < end;
         ++dim) {
      if (dropped[dim])
        continue;
      int64_t own = source++;
      if (slice.getStaticOffset(dim) == 0 && slice.getStaticStride(dim) == 1 &&
          slice.getStaticSize(dim) == slice.getDestType().getDimSize(dim))
        axes.push_back({{own, dim}, {dim}});
    }
    return divideAlong(axes, operand, cut);
  }
  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &) const {
    auto slice = cast<tensor::InsertSliceOp>(op);
    const Cut &cut = *division.results[0];
    SmallVector<int64_t> sizes(slice.getStaticSizes());
    sizes[cut.dim] = cut.getExtent(rank);
    MLIRContext *context = op->getContext();
    return tensor::InsertSliceOp::create(
        builder, op->getLoc(), operands[0], operands[1],
        getAsIndexOpFoldResult(context, slice.getStaticOffsets()),
        getAsIndexOpFoldResult(context, sizes),
        getAsIndexOpFoldResult(context, slice.getStaticStrides()));
  }
};

//===----------------------------------------------------------------------===//
// Operations with axes
//===----------------------------------------------------------------------===//

template <typename Op>
struct MovementModel
    : PartitionOpInterface::ExternalModel<MovementModel<Op>, Op> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    if (!isa<RankedTensorType>(op->getOperand(operand).getType()))
      return std::nullopt;
    SmallVector<Axis> axes;
    for (int64_t dim = 0, end = getType(op->getResult(0)).getRank(); dim < end;
         ++dim) {
      if (!isShared(cast<Op>(op), dim))
        continue;
      Axis &axis = axes.emplace_back();
      axis.results.push_back(dim);
      for (Value value : op->getOperands())
        axis.operands.push_back(isa<RankedTensorType>(value.getType()) ? dim
                                                                       : -1);
    }
    return divideAlong(axes, operand, cut);
  }
  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &whole) const {
    return clonePart(op, builder, division, rank, operands, whole);
  }

private:
  static bool isShared(tensor::CastOp, int64_t) { return true; }
  static bool isShared(tensor::ConcatOp op, int64_t dim) {
    return dim != int64_t(op.getDim());
  }
  static bool isShared(tensor::PadOp op, int64_t dim) {
    return op.getStaticLow()[dim] == 0 && op.getStaticHigh()[dim] == 0;
  }
};
} // namespace

void repro::registerTensorDivisions(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::ExpandShapeOp::attachInterface<ExpandModel>(*context);
    tensor::CollapseShapeOp::attachInterface<CollapseModel>(*context);
    tensor::ExtractSliceOp::attachInterface<ExtractSliceModel>(*context);
    tensor::InsertSliceOp::attachInterface<InsertSliceModel>(*context);
    tensor::CastOp::attachInterface<MovementModel<tensor::CastOp>>(*context);
    tensor::ConcatOp::attachInterface<MovementModel<tensor::ConcatOp>>(
        *context);
    tensor::PadOp::attachInterface<MovementModel<tensor::PadOp>>(*context);
  });
}
