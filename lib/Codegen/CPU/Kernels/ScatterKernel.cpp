//===- ScatterKernel.cpp - Expansion of repro.scatter ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A work item is a slice of the destination. A thread first builds, for each of
// its slices, a linked list of the updates in ascending position; the fold of a
// slice (D1) then runs in registers. If the last update wins, a thread instead
// writes all updates of its slices in ascending position.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ScatterFold.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

namespace {
/// The number of vectors of a slice that are folded together.
constexpr int64_t kVectors = 4;
/// The minimum number of updated elements for which another thread is
/// worthwhile.
constexpr int64_t kShareElements = 1 << 14;

/// Builds the kernel of `repro.scatter`.
class ScatterKernel : public ScatterFold {
public:
  ScatterKernel(HostBuilder &b, ScatterOp op) : ScatterFold(b, op), b(b) {}
  void expand();

private:
  /// Calls `body` for each update of this thread's slices, with the update's
  /// position and the slice, in ascending or descending order of positions.
  void forEachUpdate(bool isAscending,
                     function_ref<void(Value p, Value row)> body);
  void chainUpdates();
  void foldRow(Value row);
  void emitSlice(unsigned depth, Value first, Value originalBase,
                 Value updateBase);

  HostBuilder &b;
  Value head;
};
} // namespace

void ScatterKernel::forEachUpdate(bool isAscending,
                                  function_ref<void(Value p, Value row)> body) {
  Value begin = b.getBegin(), end = b.getEnd();
  b.loop(b.index(0), b.index(updates), 1, [&](Value i) {
    Value p = isAscending ? i : b.sub(b.index(updates - 1), i);
    Value isValid;
    Value row = getRow(p, isValid);
    Value isOurs = arith::AndIOp::create(
        b, isValid,
        arith::AndIOp::create(
            b, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, row, begin),
            b.less(row, end)));
    b.when(isOurs, [&] { body(p, row); });
  });
}

void ScatterKernel::chainUpdates() {
  Value none = b.index(-1);
  b.loop(b.getBegin(), b.getEnd(), 1,
         [&](Value row) { b.store(none, head, row); });
  forEachUpdate(/*isAscending=*/false, [&](Value p, Value row) {
    b.store(b.load(head, b.getIndexType(), row), next, p);
    b.store(p, head, row);
  });
}

void ScatterKernel::emitSlice(unsigned level, Value first, Value originalBase,
                              Value updateBase) {
  if (slice.empty()) {
    foldColumns(first, originalBase, updateBase, b.index(0), 1, 0, {});
    return;
  }
  const CollapsedDim &dim = slice[level];
  if (level + 1 < slice.size()) {
    b.loop(b.index(0), b.index(dim.size), 1, [&](Value i) {
      emitSlice(level + 1, first,
                b.add(originalBase, b.mul(i, dim.coefficients[0])),
                b.add(updateBase, b.mul(i, dim.coefficients[1])));
    });
    return;
  }
  int64_t lanes = b.getLanes(), block = kVectors * lanes;
  int64_t blocks = dim.size / block * block;
  int64_t vectors = dim.size / lanes * lanes;
  auto fold = [&](Value column, int64_t count, LaneMask mask) {
    foldColumns(first, originalBase, updateBase, column, count, lanes, mask);
  };
  if (blocks)
    b.loop(b.index(0), b.index(blocks), block,
           [&](Value column) { fold(column, kVectors, {}); });
  if (vectors > blocks)
    b.loop(b.index(blocks), b.index(vectors), lanes,
           [&](Value column) { fold(column, 1, {}); });
  if (dim.size > vectors)
    fold(b.index(vectors), 1, b.getMask(b.index(dim.size - vectors), lanes));
}

void ScatterKernel::foldRow(Value row) {
  Value base = getBase(row);
  Value first = b.load(head, b.getIndexType(), row);
  Value isMet =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sge, first, b.index(0));
  b.when(isMet, [&] { emitSlice(0, first, base, b.index(update.constant)); });
}

void ScatterKernel::expand() {
  if (updates == 0) {
    b.setWork(0, 1);
    return;
  }
  if (combine == Combine::replace) {
    forEachUpdate(/*isAscending=*/true, [&](Value p, Value row) {
      emitSlice(0, p, getBase(row), b.index(update.constant));
    });
    int64_t elements = updates * getProduct(getSizes(slice));
    int64_t shares = std::clamp<int64_t>(elements / kShareElements, 1,
                                         std::max<int64_t>(rows, 1));
    b.setWork(std::max<int64_t>(rows, 1), llvm::divideCeil(rows, shares));
    return;
  }
  head = b.getScratch(b.getIndexType(), rows);
  next = b.getScratch(b.getIndexType(), updates);
  chainUpdates();
  b.forEachItem([&](Value row) { foldRow(row); });
  // At most eight threads share the work, because each thread reads all
  // indices.
  b.setWork(std::max<int64_t>(rows, 1), llvm::divideCeil(rows, 8));
}

void repro::cpu::expandScatter(HostBuilder &b, ScatterOp op) {
  ScatterKernel(b, op).expand();
}
