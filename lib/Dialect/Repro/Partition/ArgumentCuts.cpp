//===- ArgumentCuts.cpp - Choice of the arguments that are cut ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArgumentCuts.h"

#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::repro;

bool repro::isWorthDividing(Operation *op, int64_t least) {
  auto fold = dyn_cast<FoldOp>(op);
  if (!fold || !getContraction(fold))
    return false;
  // (A4) The product cannot overflow: it is at most 2^60.
  return llvm::product_of(fold.getExtents()) >= least;
}

namespace {
/// The consequences of cutting an argument if nothing else is cut.
struct Trace {
  /// Whether an operation that the cut does not divide needs the argument, or a
  /// value computed from it without a contraction that is worth dividing.
  bool isNeededWhole = false;
  /// Whether the cut divides a contraction that is worth dividing.
  bool isWorthIt = false;
  /// A hint: the number of blocks and the unit (`getEvenCut`) with which a cut
  /// could continue through an operation that this cut does not divide.
  int64_t blocks = 1, unit = 1;
};
} // namespace

/// Records in `trace` the number of blocks, or the unit, with which a cut could
/// continue through a reshape or a slice.
static void findHint(OpOperand &use, const Cut &cut, const Cut &start,
                     Trace &trace) {
  Operation *op = use.getOwner();
  int64_t extent =
      cast<RankedTensorType>(use.get().getType()).getDimSize(cut.dim);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    ArrayRef<int64_t> shape = expand.getResultType().getShape();
    ReassociationIndices group = expand.getReassociationIndices()[cut.dim];
    int64_t inner = extent;
    for (int64_t dim : group) {
      if (shape[dim] == 0)
        return;
      inner /= shape[dim];
      if (shape[dim] != 1)
        break;
    }
    trace.unit = std::max(trace.unit, inner);
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    int64_t size = slice.getStaticSize(cut.dim);
    if (start.blocks == 1 && size > 0 && extent % size == 0 &&
        slice.getStaticOffset(cut.dim) % size == 0)
      trace.blocks = std::max(trace.blocks, extent / size);
  }
}

static Trace traceCut(Value argument, const Cut &start, int64_t least) {
  Trace trace;
  struct Entry {
    Value value;
    Cut cut;
    bool isOfArgument;
  };
  SmallVector<Entry> worklist{{argument, start, true}};
  DenseSet<Value> seen{argument};
  while (!worklist.empty()) {
    Entry entry = worklist.pop_back_val();
    for (OpOperand &use : entry.value.getUses()) {
      Operation *op = use.getOwner();
      if (isa<func::ReturnOp>(op))
        continue;
      auto divisible = dyn_cast<PartitionOpInterface>(op);
      std::optional<Division> division;
      if (divisible &&
          op->getParentOp() == argument.getParentRegion()->getParentOp())
        division = divisible.divide(use.getOperandNumber(), entry.cut);
      bool isContraction = isWorthDividing(op, least);
      trace.isWorthIt |= division && isContraction;
      if (!division) {
        trace.isNeededWhole |= entry.isOfArgument;
        // Give a hint only if a block of this cut has the extent of a block of
        // the argument: otherwise the offsets of the two cuts count different
        // elements.
        if (entry.cut.getBlock() == start.getBlock())
          findHint(use, entry.cut, start, trace);
        continue;
      }
      for (auto [result, cut] :
           llvm::zip_equal(op->getResults(), division->results))
        if (cut && seen.insert(result).second)
          worklist.push_back(
              {result, *cut, entry.isOfArgument && !isContraction});
    }
  }
  return trace;
}

/// Returns an even cut of an argument, and the trace of that cut through the
/// users of the argument. A trace may ask for more blocks or a larger unit;
/// then the cut is made and traced again with these, until nothing changes.
static std::pair<Cut, Trace> findCut(Value argument, int64_t dim,
                                     unsigned ranks, int64_t least) {
  int64_t extent = cast<RankedTensorType>(argument.getType()).getDimSize(dim);
  int64_t blocks = 1, unit = 1;
  while (true) {
    Cut cut = getEvenCut(dim, extent, blocks, unit, ranks);
    Trace trace = traceCut(argument, cut, least);
    // With fewer parts than ranks, some ranks would be idle.
    auto isUsable = [&](int64_t blocks, int64_t unit) {
      return extent % (blocks * unit) == 0 &&
             extent / (blocks * unit) >= int64_t(ranks);
    };
    if (trace.blocks > blocks && isUsable(trace.blocks, unit))
      blocks = trace.blocks;
    else if (trace.unit > unit && isUsable(blocks, trace.unit))
      unit = trace.unit;
    else
      return {cut, trace};
  }
}

Cut repro::getCutAlong(Value argument, int64_t dim, unsigned ranks) {
  return findCut(argument, dim, ranks, /*least=*/0).first;
}

std::optional<Cut> repro::chooseCut(Value argument, unsigned ranks,
                                    int64_t least) {
  auto type = cast<RankedTensorType>(argument.getType());
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (type.getDimSize(dim) < int64_t(ranks))
      continue;
    auto [cut, trace] = findCut(argument, dim, ranks, least);
    if (trace.isWorthIt && !trace.isNeededWhole)
      return cut;
  }
  return std::nullopt;
}
