//===- ArgReduceKernel.cpp - repro.arg_reduce -----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/FoldSupport.h"
#include "Codegen/CPU/Kernels/StructuredKernels.h"
#include "Codegen/CPU/Kernels/TotalOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

void repro::cpu::expandArgReduce(KernelBuilder &b, ArgReduceOp op) {
  auto type = cast<MemRefType>(op.getInputs()[0].getType());
  int64_t rank = type.getRank(), dimension = op.getDimension();
  AffineMap identity = AffineMap::getMultiDimIdentityMap(rank, b.getContext());
  AffineMap reduced = identity.dropResult(dimension);
  Access input = b.getAccess(op.getInputs()[0], identity);
  Access value = b.getAccess(op.getOutputs()[0], reduced);
  Access position = b.getAccess(op.getOutputs()[1], reduced);
  SmallVector<int64_t> sizes(type.getShape());
  int64_t n = sizes[dimension];
  sizes[dimension] = 1;
  int64_t items = getProduct(sizes), stride = input.coefficients[dimension];
  KeyOrder order = op.getKind() == ArgKind::max ? KeyOrder::Greatest
                                                : KeyOrder::Least;
  b.loop(b.getBegin(), b.getEnd(), 1, [&](Value item) {
    SmallVector<Value> at = b.delinearize(item, sizes);
    Value base = b.getOffset(input, at);
    auto load = [&](Value offset) {
      Value value = b.load(input.buffer, input.element, offset);
      auto type = dyn_cast<FloatType>(input.element);
      return type && type.getWidth() < 32 ? b.convertFloat(value, b.getF32Type())
                                          : value;
    };
    Value first = load(base);
    SmallVector<Value> best =
        b.loop(b.index(1), b.index(n), 1, {first, b.index(0)},
               [&](Value i, ValueRange acc) {
                 Value next = load(b.add(base, b.mul(i, stride)));
                 Value wins = comesBefore(b, order, next, acc[0]);
                 return SmallVector<Value>{b.select(wins, next, acc[0]),
                                           b.select(wins, i, acc[1])};
               });
    Value extreme = b.canonicalizeNaN(best[0]);
    if (isa<FloatType>(input.element))
      extreme = b.convertFloat(extreme, input.element);
    b.store(extreme, value.buffer, b.getOffset(value, at));
    b.store(arith::IndexCastOp::create(b, b.getI64Type(), best[1]),
            position.buffer, b.getOffset(position, at));
  });
  b.setWork(items, 16384 / n);
}
