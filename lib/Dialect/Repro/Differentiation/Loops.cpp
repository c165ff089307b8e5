//===- Loops.cpp - Contributions of structured operations -----------------===//
//------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Loops.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mlir::repro;

Loops::Loops(linalg::GenericOp op)
    : op(op), body(op.getBody()), numInputs(op.getNumDpsInputs()),
      extents(op.getStaticLoopRanges()) {
  for (auto [operand, map] :
       llvm::zip_equal(op->getOperands(), op.getIndexingMapsArray()))
    reads.push_back({operand, map});
}

Loops::Loops(FoldOp op)
    : op(op), body(op.getBody()), numInputs(op.getInputs().size()),
      extents(op.getExtents()) {
  for (auto [operand, map] :
       llvm::zip_equal(op->getOperands(), op.getIndexingMapsArray()))
    reads.push_back({operand, map});
}

SmallVector<int64_t> Loops::getDims(AffineMap map) const {
  SmallVector<int64_t> dims;
  for (AffineExpr expr : map.getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      dims.push_back(dim.getPosition());
  return dims;
}

void repro::cloneAtPoint(ImplicitLocOpBuilder &b, Operation &op,
                         IRMapping &point) {
  // The clone of the operation needs no check: the original keeps its own.
  if (isa<cf::AssertOp>(op) || op.hasTrait<OpTrait::IsTerminator>())
    return;
  if (auto index = dyn_cast<repro::IndexOp>(op)) {
    point.map(index.getResult(),
              linalg::IndexOp::create(b, index.getDim()).getResult());
    return;
  }
  b.clone(op, point);
}

/// Erases those operations of a body that no other operation needs.
static void eraseUnused(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Drops inputs that the body of `generic` does not read, if the remaining
/// operands determine the extents of all loops.
static linalg::GenericOp dropUnusedInputs(ImplicitLocOpBuilder &b,
                                          linalg::GenericOp generic) {
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  unsigned numInputs = generic.getNumDpsInputs();
  llvm::SmallBitVector kept(maps.size(), true);
  auto givesExtents = [&] {
    llvm::SmallBitVector known(generic.getNumLoops());
    for (unsigned i : kept.set_bits())
      for (AffineExpr expr : maps[i].getResults())
        if (auto dim = dyn_cast<AffineDimExpr>(expr))
          known.set(dim.getPosition());
    return known.all();
  };
  for (unsigned i = 0; i < numInputs; ++i) {
    if (!generic.getBody()->getArgument(i).use_empty())
      continue;
    kept.reset(i);
    if (!givesExtents())
      kept.set(i);
  }
  if (kept.all())
    return generic;
  SmallVector<Value> inputs;
  SmallVector<AffineMap> keptMaps;
  for (unsigned i : kept.set_bits()) {
    keptMaps.push_back(maps[i]);
    if (i < numInputs)
      inputs.push_back(generic.getInputs()[i]);
  }
  auto smaller = linalg::GenericOp::create(b, generic->getResultTypes(), inputs,
                                           generic.getOutputs(), keptMaps,
                                           generic.getIteratorTypesArray());
  smaller.getRegion().takeBody(generic.getRegion());
  for (unsigned i = numInputs; i-- > 0;)
    if (!kept[i])
      smaller.getBody()->eraseArgument(i);
  generic->replaceAllUsesWith(smaller);
  generic.erase();
  return smaller;
}

Value repro::computeOver(ImplicitLocOpBuilder &b, const Loops &loops,
                         ArrayRef<int64_t> dims, Type element,
                         ArrayRef<Loops::Read> extra, PointFunction compute) {
  unsigned numLoops = loops.extents.size();
  bool sums = dims.size() < numLoops;
  Type accumulator = sums ? getDerivativeType(element) : element;
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> exprs;
  SmallVector<utils::IteratorType> iterators(numLoops,
                                             utils::IteratorType::reduction);
  for (int64_t dim : dims) {
    shape.push_back(loops.extents[dim]);
    exprs.push_back(b.getAffineDimExpr(dim));
    iterators[dim] = utils::IteratorType::parallel;
  }
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const Loops::Read &read :
       llvm::concat<const Loops::Read>(loops.reads, extra)) {
    inputs.push_back(read.value);
    maps.push_back(read.map);
  }
  maps.push_back(AffineMap::get(numLoops, 0, exprs, b.getContext()));
  auto type = RankedTensorType::get(shape, accumulator);
  Value init =
      sums ? makeZero(b, type) : tensor::EmptyOp::create(b, shape, accumulator);
  bool isZero = false;
  auto generic = linalg::GenericOp::create(
      b, TypeRange{type}, inputs, ValueRange{init}, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder inner(loc, nested);
        IRMapping point;
        unsigned numReads = loops.reads.size();
        point.map(loops.body->getArguments(), arguments.take_front(numReads));
        Value number =
            compute(inner, point, arguments.drop_front(numReads).drop_back());
        isZero = !number;
        if (isZero)
          number = arguments.back();
        else {
          number = Scalar(inner, number).convert(accumulator).get();
          if (sums)
            number = arith::AddFOp::create(inner, number, arguments.back());
        }
        linalg::YieldOp::create(inner, number);
      });
  if (isZero) {
    generic.erase();
    return {};
  }
  eraseUnused(*generic.getBody());
  Value result = dropUnusedInputs(b, generic).getResult(0);
  return convertElements(b, result, element);
}
