//===- Division.cpp - Division of operations among ranks ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Division.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::repro;

#include "lib/Dialect/Repro/Partition/PartitionOpInterface.cpp.inc"

static constexpr int64_t kMostRanks = 1 << 16;

func::FuncOp repro::findDivided(ModuleOp module, StringRef label, int64_t ranks,
                                int64_t rank) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || !main.getBody().hasOneBlock() ||
      !isa<func::ReturnOp>(main.front().getTerminator())) {
    module.emitError() << label
                       << " expected a function @main of one block, which "
                          "returns";
    return {};
  }
  auto fail = [&]() { return main.emitError() << label << " expected "; };
  auto count = main->getAttrOfType<IntegerAttr>("repro.num_state");
  if (!count || count.getInt() < 0 ||
      count.getInt() > std::min(main.getNumArguments(), main.getNumResults())) {
    fail() << "the attribute 'repro.num_state'";
    return {};
  }
  if (ranks < 1 || ranks > kMostRanks) {
    fail() << "1 to " << kMostRanks << " ranks, got " << ranks;
    return {};
  }
  if (rank < 0 || rank >= ranks) {
    fail() << "a rank from 0 to " << ranks - 1 << ", got " << rank;
    return {};
  }
  for (Type type : main.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        !tensor || !tensor.hasStaticShape()) {
      fail() << "tensors of static shape, got " << type;
      return {};
    }
  return main;
}

int64_t repro::getNumState(func::FuncOp main) {
  return main->getAttrOfType<IntegerAttr>("repro.num_state").getInt();
}

void repro::eraseDivided(Block &block, ArrayRef<Operation *> operations) {
  for (Operation *op : llvm::reverse(operations))
    op->erase();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op) && !hasCheck(&op))
      op.erase();
}

SetVector<Value> repro::getRead(Operation *op) {
  SetVector<Value> read;
  getUsedValuesDefinedAbove(op->getRegions(), read);
  read.insert_range(op->getOperands());
  return read;
}

Cut repro::getEvenCut(int64_t dim, int64_t extent, int64_t blocks, int64_t unit,
                      unsigned ranks) {
  Cut cut{dim, blocks, {}};
  int64_t units = extent / blocks / unit;
  for (unsigned rank = 0; rank <= ranks; ++rank)
    cut.offsets.push_back(units * rank / ranks * unit);
  return cut;
}

RankedTensorType repro::getPartType(Type type, const Cut &cut, unsigned rank) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[cut.dim] = cut.getExtent(rank);
  return tensor.clone(shape);
}

std::optional<Division> repro::divideAlong(ArrayRef<Axis> axes,
                                           unsigned operand, const Cut &cut) {
  for (const Axis &axis : axes) {
    if (axis.operands[operand] != cut.dim)
      continue;
    auto alongAll = [&](ArrayRef<int64_t> dims) {
      SmallVector<std::optional<Cut>> cuts;
      for (int64_t dim : dims)
        cuts.push_back(dim < 0 ? std::nullopt : std::optional(cut.along(dim)));
      return cuts;
    };
    return Division{alongAll(axis.operands), alongAll(axis.results)};
  }
  return std::nullopt;
}

Operation *repro::clonePart(Operation *op, OpBuilder &builder,
                            const Division &division, unsigned rank,
                            ValueRange operands, const IRMapping &whole) {
  IRMapping mapping = whole;
  Operation *part = builder.clone(*op, mapping);
  part->setOperands(operands);
  for (auto [result, cut] :
       llvm::zip_equal(part->getResults(), division.results))
    if (cut)
      result.setType(getPartType(result.getType(), *cut, rank));
  return part;
}

bool repro::hasCheck(Operation *op) {
  WalkResult result = op->walk([](Operation *inner) {
    return isa<cf::AssertOp, tensor::ExtractOp, RandomOp, ScatterOp>(inner)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return result.wasInterrupted();
}

Value repro::slicePart(OpBuilder &builder, Location loc, Value tensor,
                       const Cut &cut, unsigned rank) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape(type.getShape());
  // If there are several blocks, view them as a separate dimension, so that the
  // part is one slice.
  SmallVector<ReassociationIndices> groups;
  bool hasBlocks = cut.blocks != 1;
  for (int64_t i = 0, end = type.getRank(); i < end; ++i) {
    int64_t at = i + (hasBlocks && i > cut.dim);
    groups.push_back({at});
    if (hasBlocks && i == cut.dim)
      groups.back().push_back(at + 1);
  }
  int64_t dim = cut.dim;
  if (hasBlocks) {
    shape[dim] = cut.getBlock();
    shape.insert(shape.begin() + dim, cut.blocks);
    tensor = tensor::ExpandShapeOp::create(builder, loc, type.clone(shape),
                                           tensor, groups);
    ++dim;
  }
  SmallVector<OpFoldResult> offsets(shape.size(), builder.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(shape.size(), builder.getIndexAttr(1));
  offsets[dim] = builder.getIndexAttr(cut.offsets[rank]);
  shape[dim] = cut.getSize(rank);
  SmallVector<OpFoldResult> sizes =
      getAsIndexOpFoldResult(builder.getContext(), shape);
  Value slice = tensor::ExtractSliceOp::create(builder, loc, type.clone(shape),
                                               tensor, offsets, sizes, strides);
  if (!hasBlocks)
    return slice;
  return tensor::CollapseShapeOp::create(
      builder, loc, getPartType(type, cut, rank), slice, groups);
}
