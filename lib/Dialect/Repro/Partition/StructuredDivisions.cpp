//===- StructuredDivisions.cpp - Division of structured ops ---------------===//
//===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Partition/Passes.h"
#include "Division.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// linalg.generic and repro.fold
//===----------------------------------------------------------------------===//

static SmallVector<utils::IteratorType> getIterators(Operation *op) {
  if (auto fold = dyn_cast<FoldOp>(op))
    return fold.getIteratorTypesArray();
  return cast<linalg::LinalgOp>(op).getIteratorTypesArray();
}

/// Returns the dimension of an operand that the loop indexes; -1 if there is
/// none, or if other dimensions depend on the loop too.
static int64_t getDimOf(AffineMap map, unsigned loop) {
  int64_t found = -1;
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    if (!expr.isFunctionOfDim(loop))
      continue;
    if (found != -1 || !isa<AffineDimExpr>(expr))
      return -1;
    found = dim;
  }
  return found;
}

/// (A1) Whether an operand, if it is not cut, would determine the extent of the
/// loop.
static bool saysExtent(AffineMap map, unsigned loop) {
  return llvm::any_of(map.getResults(), [&](AffineExpr expr) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    return dim && dim.getPosition() == loop;
  });
}

/// (T1) Returns an axis for each loop: the dimension of each operand that the
/// loop indexes. The axis of a reduction, which is not divided, has -1 for all
/// operands.
static SmallVector<Axis> getLoopAxes(Operation *op) {
  auto maps = cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
  unsigned numInputs = op->getNumOperands() - op->getNumResults();
  SmallVector<Axis> axes;
  for (auto [loop, kind] : llvm::enumerate(getIterators(op))) {
    Axis &axis = axes.emplace_back();
    bool isParallel = kind == utils::IteratorType::parallel;
    for (AffineMap map : maps)
      axis.operands.push_back(isParallel ? getDimOf(map, loop) : -1);
    axis.results.assign(axis.operands.begin() + numInputs, axis.operands.end());
  }
  return axes;
}

static unsigned getDividedLoop(Operation *op, const Division &division) {
  AffineMap map =
      cast<IndexingMapOpInterface>(op).getIndexingMapsArray().back();
  return map.getDimPosition(division.results.back()->dim);
}

static bool readsIndex(Operation *op, unsigned loop) {
  WalkResult result = op->walk([&](Operation *inner) {
    auto generic = dyn_cast<linalg::IndexOp>(inner);
    auto fold = dyn_cast<IndexOp>(inner);
    bool reads = (generic && generic.getDim() == loop) ||
                 (fold && fold.getDim() == loop);
    return reads ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// Adds `offset` to each index of `loop` that the body reads, so that the body
/// reads the index in the whole program.
static void shiftIndices(Operation *part, unsigned loop, int64_t offset) {
  SmallVector<Operation *> positions;
  part->walk([&](Operation *inner) {
    auto generic = dyn_cast<linalg::IndexOp>(inner);
    auto fold = dyn_cast<IndexOp>(inner);
    if ((generic && generic.getDim() == loop) ||
        (fold && fold.getDim() == loop))
      positions.push_back(inner);
  });
  for (Operation *position : positions) {
    OpBuilder b(position->getContext());
    b.setInsertionPointAfter(position);
    Value begin = arith::ConstantIndexOp::create(b, position->getLoc(), offset);
    auto sum = arith::AddIOp::create(b, position->getLoc(),
                                     position->getResult(0), begin);
    position->getResult(0).replaceAllUsesExcept(sum, sum);
  }
}

namespace {
template <typename Op>
struct LoopModel : PartitionOpInterface::ExternalModel<LoopModel<Op>, Op> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    if (op->getNumResults() == 0)
      return std::nullopt;
    auto division = divideAlong(getLoopAxes(op), operand, cut);
    if (!division)
      return std::nullopt;
    unsigned loop = getDividedLoop(op, *division);
    // If the cut has several blocks, an index in the whole program is not the
    // sum of the loop's index and a constant, so operations that need this
    // index are not divided.
    bool hasBlocks = cut.blocks != 1;
    auto maps = cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
    for (auto [map, own] : llvm::zip_equal(maps, division->operands))
      if (!own &&
          (saysExtent(map, loop) || (hasBlocks && map.isFunctionOfDim(loop))))
        return std::nullopt;
    if (!hasBlocks)
      return division;
    if (readsIndex(op, loop))
      return std::nullopt;
    return division;
  }

  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &whole) const {
    Operation *part = clonePart(op, builder, division, rank, operands, whole);
    unsigned loop = getDividedLoop(op, division);
    const Cut &cut = *division.results.back();
    if (cut.blocks != 1)
      return part;
    int64_t offset = cut.offsets[rank];
    shiftIndices(part, loop, offset);
    SmallVector<AffineMap> maps =
        cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
    AffineExpr dim = getAffineDimExpr(loop, op->getContext());
    for (auto [map, own] : llvm::zip_equal(maps, division.operands))
      if (!own)
        map = map.replace(dim, dim + offset, map.getNumDims(), 0);
    cast<Op>(part).setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
    return part;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Operations along a dimension
//===----------------------------------------------------------------------===//

/// Returns the axis that consists of dimension `dim` of every operand and
/// result.
static Axis getSharedAxis(Operation *op, int64_t dim) {
  return {SmallVector<int64_t>(op->getNumOperands(), dim),
          SmallVector<int64_t>(op->getNumResults(), dim)};
}

static int64_t getRank(Value value) {
  return cast<ShapedType>(value.getType()).getRank();
}

static SmallVector<Axis> getAxes(BarrierOp op) {
  SmallVector<Axis> axes;
  for (int64_t dim = 0, end = getRank(op.getResult()); dim < end; ++dim)
    axes.push_back(getSharedAxis(op, dim));
  return axes;
}

static SmallVector<Axis> getAxesBeside(Operation *op, int64_t dimension) {
  SmallVector<Axis> axes;
  for (int64_t dim = 0, end = getRank(op->getOperand(0)); dim < end; ++dim)
    if (dim != dimension)
      axes.push_back(getSharedAxis(op, dim));
  return axes;
}

static SmallVector<Axis> getAxes(ScanOp op) {
  return getAxesBeside(op, op.getDimension());
}

static SmallVector<Axis> getAxes(SortOp op) {
  return getAxesBeside(op, op.getDimension());
}

static SmallVector<Axis> getAxes(ArgReduceOp op) {
  SmallVector<Axis> axes;
  int64_t reduced = op.getDimension();
  for (int64_t dim = 0, end = getRank(op.getInputs()[0]); dim < end; ++dim) {
    if (dim == reduced)
      continue;
    int64_t left = dim - (dim > reduced);
    axes.push_back({{dim, left, left}, {left, left}});
  }
  return axes;
}

/// Returns an axis for each dimension that the scatter's indices do not index.
/// If the scatter is divided along such an axis, each rank has all updates of
/// its elements.
static SmallVector<Axis> getAxes(ScatterOp op) {
  SmallVector<Axis> axes;
  int64_t named = cast<ShapedType>(op.getIndices().getType()).getDimSize(1);
  for (int64_t dim = named, end = getRank(op.getOutputs()[0]); dim < end; ++dim)
    axes.push_back({{dim - named + 1, -1, dim}, {dim}});
  return axes;
}

/// Returns an axis for each leading dimension, and for the rows of both factors
/// where each row has its own scales.
static SmallVector<Axis> getAxes(BlockContractionOp op) {
  SmallVector<Axis> axes;
  int64_t rank = getRank(op.getOutputs()[0]);
  for (int64_t dim = 0; dim < rank - 2; ++dim)
    axes.push_back(getSharedAxis(op, dim));
  int64_t rows = rank - 2, columns = rank - 1;
  if (op.getRows()[0] == 1)
    axes.push_back({{rows, rows, -1, -1, rows}, {rows}});
  if (op.getRows()[1] == 1)
    axes.push_back({{-1, -1, rows, rows, columns}, {columns}});
  return axes;
}

SmallVector<Axis> repro::getDimensionAxes(Operation *op) {
  return TypeSwitch<Operation *, SmallVector<Axis>>(op)
      .Case<ArgReduceOp, BlockContractionOp, ScanOp, ScatterOp, SortOp>(
          [](auto dimensional) { return getAxes(dimensional); })
      .Default([](Operation *) { return SmallVector<Axis>(); });
}

namespace {
template <typename Op>
struct AxisModel : PartitionOpInterface::ExternalModel<AxisModel<Op>, Op> {
  std::optional<Division> divide(Operation *op, unsigned operand,
                                 const Cut &cut) const {
    return divideAlong(getAxes(cast<Op>(op)), operand, cut);
  }
  Operation *makePart(Operation *op, OpBuilder &builder,
                      const Division &division, unsigned rank,
                      ValueRange operands, const IRMapping &whole) const {
    return clonePart(op, builder, division, rank, operands, whole);
  }
};
} // namespace

template <typename... Ops>
static void attachAxisModels(MLIRContext *context) {
  (Ops::template attachInterface<AxisModel<Ops>>(*context), ...);
}

void repro::registerStructuredDivisions(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    linalg::GenericOp::attachInterface<LoopModel<linalg::GenericOp>>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, ReproDialect *) {
    FoldOp::attachInterface<LoopModel<FoldOp>>(*context);
    attachAxisModels<ArgReduceOp, BarrierOp, ScanOp, ScatterOp, SortOp>(
        context);
  });
}
