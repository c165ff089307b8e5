//===- ScatterDevice.cpp - Device kernels of repro.scatter ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scatter takes three kernels, without atomics. The first finds the row that
// each update writes, or -1 if an index is out of range. The second builds a
// linked list of the updates of each row; one thread per row reads the rows of
// all updates. The third folds each element of a row along the list.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ScatterFold.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

namespace {
/// The byte offsets of the index arrays in the workspace: the row of each
/// update, the next update of its row, and the first update of each row.
struct Chains {
  int64_t rowOf, next, head;
};
} // namespace

static Value atLeastZero(DeviceBuilder &b, Value value) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, value, b.index(0));
}

static void findRows(DeviceBuilder &b, ScatterOp op, const Chains &at) {
  ScatterFold fold(b, op);
  Value rowOf = b.getWorkspace(b.getIndexType(), fold.updates, at.rowOf);
  b.forEachItem([&](Value p) {
    Value isValid;
    Value row = fold.getRow(p, isValid);
    b.store(b.select(isValid, row, b.index(-1)), rowOf, p);
  });
  b.setWork(fold.updates, 1);
}

static void chainRows(DeviceBuilder &b, ScatterOp op, const Chains &at) {
  ScatterFold fold(b, op);
  Type type = b.getIndexType();
  Value rowOf = b.getWorkspace(type, fold.updates, at.rowOf);
  Value next = b.getWorkspace(type, fold.updates, at.next);
  Value head = b.getWorkspace(type, fold.rows, at.head);
  bool lastWins = fold.combine == Combine::replace;
  b.forEachItem([&](Value row) {
    Value first =
        b.loop(b.index(0), b.index(fold.updates), 1, {b.index(-1)},
               [&](Value i, ValueRange carried) {
                 Value p = lastWins ? i : b.sub(b.index(fold.updates - 1), i);
                 Value isOurs = b.equal(b.load(rowOf, type, p), row);
                 if (!lastWins)
                   b.when(isOurs, [&] { b.store(carried[0], next, p); });
                 return SmallVector<Value>{b.select(isOurs, p, carried[0])};
               })[0];
    b.store(first, head, row);
  });
  b.setWork(fold.rows, 1);
}

static void foldElements(DeviceBuilder &b, ScatterOp op, const Chains &at) {
  ScatterFold fold(b, op);
  Type type = b.getIndexType();
  fold.next = b.getWorkspace(type, fold.updates, at.next);
  Value head = b.getWorkspace(type, fold.rows, at.head);
  SmallVector<int64_t> extents{fold.rows};
  llvm::append_range(extents, getSizes(fold.slice));
  b.forEachItem([&](Value item) {
    SmallVector<Value> coordinates = b.delinearize(item, extents);
    Value row = coordinates.front();
    ArrayRef<Value> inner = ArrayRef(coordinates).drop_front();
    Value first = b.load(head, type, row);
    b.when(atLeastZero(b, first), [&] {
      Value original =
          b.add(fold.getBase(row), getLoopOffset(b, fold.slice, inner, 0));
      Value update =
          b.add(getLoopOffset(b, fold.slice, inner, 1), fold.update.constant);
      fold.foldColumns(first, original, update, b.index(0), /*vectors=*/1,
                       /*lanes=*/0, {});
    });
  });
  b.setWork(getProduct(extents), 1);
}

LogicalResult device::expandScatter(DeviceKernelFactory &factory,
                                    ScatterOp op) {
  auto updates = cast<MemRefType>(op.getIndices().getType()).getDimSize(0);
  auto type = cast<MemRefType>(op.getOutputs()[0].getType());
  int64_t depth = cast<MemRefType>(op.getIndices().getType()).getDimSize(1);
  int64_t rows = getProduct(type.getShape().take_front(depth));
  if (updates == 0)
    return success();
  constexpr int64_t bytes = sizeof(int64_t);
  Workspace &workspace = factory.getWorkspace();
  Chains at{workspace.allocate(updates * bytes),
            workspace.allocate(updates * bytes),
            workspace.allocate(rows * bytes)};
  factory.create<ScatterOp>(
      "rows", [&](DeviceBuilder &b, ScatterOp copy) { findRows(b, copy, at); });
  if (type.getNumElements() == 0)
    return success();
  factory.create<ScatterOp>("chain", [&](DeviceBuilder &b, ScatterOp copy) {
    chainRows(b, copy, at);
  });
  factory.create<ScatterOp>(
      "", [&](DeviceBuilder &b, ScatterOp copy) { foldElements(b, copy, at); });
  return success();
}
