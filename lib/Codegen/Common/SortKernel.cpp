//===- SortKernel.cpp - Expansion of repro.sort ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/Common/TotalOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

namespace {
/// The minimum number of elements to sort for which another CPU thread is
/// worthwhile. The number is lower than that of a fold, because each round of
/// merging moves every element.
constexpr int64_t kGrainElements = 4096;

class SortKernel {
public:
  SortKernel(KernelBuilder &b, SortOp op);
  void expand();

private:
  /// Merges two sorted ranges of positions, [low, middle) and [middle, high),
  /// of the list at offset `source` of `permutation` into the list at `target`.
  void mergeRuns(Value source, Value target, Value low, Value middle,
                 Value high);
  Value loadPosition(Value offset) {
    return b.load(permutation, b.getIndexType(), offset);
  }

  KernelBuilder &b;
  SortOp op;
  KeyOrder order;
  int64_t n;
  SmallVector<int64_t> sizes;
  SmallVector<Access> inputs, outputs;
  /// `keys` are the keys of one row. `permutation` has two lists of positions,
  /// the input and the output of a round of merging.
  Value keys, permutation;
  Type keyType;
};
} // namespace

SortKernel::SortKernel(KernelBuilder &b, SortOp op) : b(b), op(op) {
  order = op.getDirection() == SortDirection::ascending ? KeyOrder::Ascending
                                                        : KeyOrder::Descending;
  auto type = cast<MemRefType>(op.getInputs()[0].getType());
  AffineMap identity =
      AffineMap::getMultiDimIdentityMap(type.getRank(), b.getContext());
  for (Value input : op.getInputs())
    inputs.push_back(b.getAccess(input, identity));
  for (Value output : op.getOutputs())
    outputs.push_back(b.getAccess(output, identity));
  sizes.assign(type.getShape().begin(), type.getShape().end());
  n = sizes[op.getDimension()];
  sizes[op.getDimension()] = 1;
  keyType = type.getElementType();
}

void SortKernel::mergeRuns(Value source, Value target, Value low, Value middle,
                           Value high) {
  Value lastLeft = b.sub(middle, b.index(1));
  Value lastRight = b.sub(high, b.index(1));
  b.loop(low, high, 1, {low, middle}, [&](Value k, ValueRange at) {
    Value left = loadPosition(b.add(source, b.min(at[0], lastLeft)));
    Value right = loadPosition(b.add(source, b.min(at[1], lastRight)));
    Value leftKey = b.load(keys, keyType, left);
    Value rightKey = b.load(keys, keyType, right);
    // If the keys are equal, the left one comes first, so the sort is stable.
    Value rightWins = arith::AndIOp::create(
        b, b.less(at[1], high), comesBefore(b, order, rightKey, leftKey));
    Value leftIsEmpty =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, at[0], middle);
    Value takeRight = arith::OrIOp::create(b, leftIsEmpty, rightWins);
    b.store(b.select(takeRight, right, left), permutation, b.add(target, k));
    return SmallVector<Value>{b.select(takeRight, at[0], b.add(at[0], 1)),
                              b.select(takeRight, b.add(at[1], 1), at[1])};
  });
}

void SortKernel::expand() {
  int64_t items = n ? getProduct(sizes) : 0;
  if (items == 0) {
    b.setWork(0, 1);
    return;
  }
  keys = b.getScratch(keyType, n);
  permutation = b.getScratch(b.getIndexType(), 2 * n);
  int64_t rounds = llvm::Log2_64_Ceil(n);
  int64_t dimension = op.getDimension();
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, sizes);
    auto element = [&](const Access &access, Value i) {
      return b.add(b.getOffset(access, at),
                   b.mul(i, access.coefficients[dimension]));
    };
    b.loop(b.index(0), b.index(n), 1, [&](Value i) {
      b.store(b.load(inputs[0].buffer, keyType, element(inputs[0], i)), keys,
              i);
      b.store(i, permutation, i);
    });
    b.loop(b.index(0), b.index(rounds), 1, [&](Value round) {
      Value width = arith::ShLIOp::create(b, b.index(1), round);
      Value odd = arith::AndIOp::create(b, round, b.index(1));
      Value source = b.mul(odd, n), target = b.sub(b.index(n), source);
      Value pairs = arith::CeilDivUIOp::create(b, b.index(n), b.mul(width, 2));
      b.loop(b.index(0), pairs, 1, [&](Value pair) {
        Value low = b.mul(b.mul(pair, width), 2);
        Value middle = b.min(b.add(low, width), b.index(n));
        Value high = b.min(b.add(middle, width), b.index(n));
        mergeRuns(source, target, low, middle, high);
      });
    });
    Value sorted = b.index(rounds % 2 * n);
    b.loop(b.index(0), b.index(n), 1, [&](Value i) {
      Value from = loadPosition(b.add(sorted, i));
      for (auto [input, output] : llvm::zip_equal(inputs, outputs))
        b.store(b.canonicalizeNaN(
                    b.load(input.buffer, input.element, element(input, from))),
                output.buffer, element(output, i));
    });
  });
  b.setWork(items, kGrainElements / n);
}

void repro::kernels::expandSort(KernelBuilder &b, SortOp op) {
  SortKernel(b, op).expand();
}
