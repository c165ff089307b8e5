//===- ArgReduceKernel.cpp - Expansion of repro.arg_reduce ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/Common/TotalOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

namespace {
/// The best element found and its position (i32). Both are scalars, or vectors
/// with one candidate per lane.
struct Candidate {
  Value value, position;
};

class ArgReduceKernel {
public:
  ArgReduceKernel(KernelBuilder &b, ArgReduceOp op);
  void expand();

private:
  Value load(Value offset, int64_t stride, int64_t lanes, LaneMask mask);
  Value getPosition(Value index, int64_t lanes);
  Candidate pick(Value wins, Candidate a, Candidate c);
  /// Reduces with the lanes of vectors along the reduced dimension, and then
  /// picks the best of the lanes' candidates.
  Candidate reduceAlong(Value base);
  /// Reduces with the lanes of vectors along another dimension, so that each
  /// lane computes one result. If `lanes` is 0, computes one scalar result.
  Candidate reduceAcross(Value base, int64_t stride, int64_t lanes,
                         LaneMask mask);
  void store(Candidate result, ValueRange at, int64_t lanes, LaneMask mask);

  KernelBuilder &b;
  KeyOrder order;
  Access input, value, position;
  SmallVector<int64_t> sizes; ///< of the input; 1 for the reduced dimension
  int64_t n, dimension, step;
};
} // namespace

ArgReduceKernel::ArgReduceKernel(KernelBuilder &b, ArgReduceOp op)
    : b(b), order(op.getKind() == ArgKind::max ? KeyOrder::Greatest
                                               : KeyOrder::Least),
      dimension(op.getDimension()) {
  auto type = cast<MemRefType>(op.getInputs()[0].getType());
  AffineMap identity =
      AffineMap::getMultiDimIdentityMap(type.getRank(), b.getContext());
  AffineMap reduced = identity.dropResult(dimension);
  input = b.getAccess(op.getInputs()[0], identity);
  value = b.getAccess(op.getOutputs()[0], reduced);
  position = b.getAccess(op.getOutputs()[1], reduced);
  sizes.assign(type.getShape().begin(), type.getShape().end());
  n = sizes[dimension];
  sizes[dimension] = 1;
  step = input.coefficients[dimension];
}

Value ArgReduceKernel::load(Value offset, int64_t stride, int64_t lanes,
                            LaneMask mask) {
  Value element = lanes ? b.loadVector(input.buffer, input.element, offset,
                                       stride, lanes, mask)
                        : b.load(input.buffer, input.element, offset);
  auto type = dyn_cast<FloatType>(input.element);
  return type && type.getWidth() < 32 ? b.convertFloat(element, b.getF32Type())
                                      : element;
}

Value ArgReduceKernel::getPosition(Value index, int64_t lanes) {
  Value at = arith::IndexCastOp::create(b, b.getI32Type(), index);
  return lanes ? b.broadcast(at, lanes) : at;
}

Candidate ArgReduceKernel::pick(Value wins, Candidate a, Candidate c) {
  return {arith::SelectOp::create(b, wins, a.value, c.value),
          arith::SelectOp::create(b, wins, a.position, c.position)};
}

Candidate ArgReduceKernel::reduceAcross(Value base, int64_t stride,
                                        int64_t lanes, LaneMask mask) {
  Value first = load(base, stride, lanes, mask);
  SmallVector<Value> best = b.loop(
      b.index(1), b.index(n), 1, {first, getPosition(b.index(0), lanes)},
      [&](Value i, ValueRange acc) {
        Candidate next{load(b.add(base, b.mul(i, step)), stride, lanes, mask),
                       getPosition(i, lanes)};
        Value wins = comesBefore(b, order, next.value, acc[0]);
        Candidate picked = pick(wins, next, {acc[0], acc[1]});
        return SmallVector<Value>{picked.value, picked.position};
      });
  return {best[0], best[1]};
}

Candidate ArgReduceKernel::reduceAlong(Value base) {
  int64_t lanes = b.getLanes();
  auto type = VectorType::get({lanes}, b.getI32Type());
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(b.getI32IntegerAttr(lane));
  Value iota = b.constant(DenseElementsAttr::get(type, steps));
  auto getPositions = [&](Value i) -> Value {
    return arith::AddIOp::create(b, getPosition(i, lanes), iota);
  };
  auto advance = [&](Value i, Candidate best, LaneMask mask) {
    Candidate next{load(b.add(base, i), 1, lanes, mask), getPositions(i)};
    Value wins = comesBefore(b, order, next.value, best.value);
    if (mask)
      wins = arith::AndIOp::create(b, wins, mask.mask);
    return pick(wins, next, best);
  };
  Candidate best{load(base, 1, lanes, {}), getPositions(b.index(0))};
  int64_t full = n / lanes * lanes;
  SmallVector<Value> state =
      b.loop(b.index(lanes), b.index(full), lanes, {best.value, best.position},
             [&](Value i, ValueRange acc) {
               Candidate next = advance(i, {acc[0], acc[1]}, {});
               return SmallVector<Value>{next.value, next.position};
             });
  best = {state[0], state[1]};
  if (full < n)
    best = advance(b.index(full), best, b.getMask(b.index(n - full), lanes));
  // Each lane has the first of its best elements as its candidate, but the
  // position of a later lane's candidate may be earlier.
  auto extract = [&](int64_t lane) -> Candidate {
    return {vector::ExtractOp::create(b, best.value, lane),
            vector::ExtractOp::create(b, best.position, lane)};
  };
  Candidate result = extract(0);
  for (int64_t lane = 1; lane < lanes; ++lane) {
    Candidate next = extract(lane);
    Value isBetter = comesBefore(b, order, next.value, result.value);
    Value isWorse = comesBefore(b, order, result.value, next.value);
    Value isEarlier = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                            next.position, result.position);
    // For equal values, the earlier position wins.
    Value wins = arith::SelectOp::create(b, isWorse, isBetter, isEarlier);
    result = pick(arith::OrIOp::create(b, isBetter, wins), next, result);
  }
  return result;
}

void ArgReduceKernel::store(Candidate result, ValueRange at, int64_t lanes,
                            LaneMask mask) {
  Value extreme = b.canonicalizeNaN(result.value);
  if (isa<FloatType>(input.element))
    extreme = b.convertFloat(extreme, input.element);
  Value index = arith::ExtSIOp::create(b, getLaneType(b.getI64Type(), lanes),
                                       result.position);
  Value valueOffset = b.getOffset(value, at);
  Value positionOffset = b.getOffset(position, at);
  if (!lanes) {
    b.store(extreme, value.buffer, valueOffset);
    b.store(index, position.buffer, positionOffset);
    return;
  }
  int64_t last = sizes.size() - 1;
  b.storeVector(extreme, value.buffer, valueOffset, value.coefficients[last],
                mask);
  b.storeVector(index, position.buffer, positionOffset,
                position.coefficients[last], mask);
}

void ArgReduceKernel::expand() {
  int64_t lanes = b.getLanes(), last = sizes.size() - 1;
  bool along = lanes && step == 1 && n >= 2 * lanes && n <= INT32_MAX;
  bool across =
      lanes && !along && dimension != last && sizes[last] >= lanes / 2;
  SmallVector<int64_t> items = sizes;
  if (across)
    items[last] = llvm::divideCeil(sizes[last], lanes);
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, items);
    LaneMask mask;
    if (across) {
      at[last] = b.mul(at[last], lanes);
      if (sizes[last] % lanes)
        mask = b.getMask(
            b.min(b.sub(b.index(sizes[last]), at[last]), b.index(lanes)),
            lanes);
    }
    Value base = b.getOffset(input, at);
    if (along)
      store(reduceAlong(base), at, 0, {});
    else if (across)
      store(reduceAcross(base, input.coefficients[last], lanes, mask), at,
            lanes, mask);
    else
      store(reduceAcross(base, 0, 0, {}), at, 0, {});
  });
  b.setWork(getProduct(items), kFoldGrainElements / n);
}

void repro::kernels::expandArgReduce(KernelBuilder &b, ArgReduceOp op) {
  ArgReduceKernel(b, op).expand();
}
