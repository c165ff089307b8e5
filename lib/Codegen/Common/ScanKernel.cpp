//===- ScanKernel.cpp - Expansion of repro.scan ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Combine.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

void repro::kernels::expandScan(KernelBuilder &b, ScanOp op) {
  auto type = cast<MemRefType>(op.getInputs()[0].getType());
  int64_t rank = type.getRank(), dimension = op.getDimension();
  AffineMap identity = AffineMap::getMultiDimIdentityMap(rank, b.getContext());
  Access input = b.getAccess(op.getInputs()[0], identity);
  Access output = b.getAccess(op.getOutputs()[0], identity);
  SmallVector<int64_t> sizes(type.getShape());
  int64_t n = sizes[dimension];
  sizes[dimension] = 1;
  int64_t items = n ? getProduct(sizes) : 0;
  if (items == 0) {
    b.setWork(0, 1);
    return;
  }
  Combine combine = op.getCombine();
  Type carryType = getCombineType(input.element); // (F7)
  constexpr int64_t chunk = 512;                  // (D3)

  // The lanes of a vector are adjacent elements of the last dimension.
  int64_t lanes = b.getLanes(), last = rank - 1;
  while (last >= 0 && sizes[last] == 1)
    --last;
  if (last < 0 || sizes[last] < lanes)
    lanes = 0;
  int64_t innerSize = lanes ? sizes[last] : 1;
  SmallVector<int64_t> outer = sizes;
  if (lanes)
    outer[last] = llvm::divideCeil(innerSize, lanes);

  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, outer);
    LaneMask mask;
    if (lanes) {
      at[last] = b.mul(at[last], lanes);
      if (innerSize % lanes)
        mask = b.getMask(
            b.min(b.sub(b.index(innerSize), at[last]), b.index(lanes)), lanes);
    }
    Value inBase = b.getOffset(input, at), outBase = b.getOffset(output, at);
    auto load = [&](Value i) {
      Value offset = b.add(inBase, b.mul(i, input.coefficients[dimension]));
      Value value = lanes ? b.loadVector(input.buffer, input.element, offset,
                                         input.coefficients[last], lanes, mask)
                          : b.load(input.buffer, input.element, offset);
      return isa<FloatType>(carryType) ? b.convertFloat(value, carryType)
                                       : value;
    };
    auto store = [&](Value value, Value i) {
      if (isa<FloatType>(carryType))
        value = b.convertFloat(value, output.element);
      value = b.canonicalizeNaN(value);
      Value offset = b.add(outBase, b.mul(i, output.coefficients[dimension]));
      if (lanes)
        b.storeVector(value, output.buffer, offset, output.coefficients[last],
                      mask);
      else
        b.store(value, output.buffer, offset);
    };
    // (D3) In the first chunk, the partial results are already the results.
    Value local = load(b.index(0));
    store(local, b.index(0));
    Value carry = b.loop(b.index(1), b.index(std::min(chunk, n)), 1, {local},
                         [&](Value i, ValueRange acc) {
                           Value next =
                               createCombine(b, combine, acc[0], load(i));
                           store(next, i);
                           return SmallVector<Value>{next};
                         })[0];
    if (n <= chunk)
      return;
    b.loop(b.index(chunk), b.index(n), chunk, {carry},
           [&](Value start, ValueRange carries) {
             Value first = load(start);
             store(createCombine(b, combine, carries[0], first), start);
             Value end = b.min(b.add(start, chunk), b.index(n));
             Value total =
                 b.loop(b.add(start, 1), end, 1, {first},
                        [&](Value i, ValueRange acc) {
                          Value next =
                              createCombine(b, combine, acc[0], load(i));
                          store(createCombine(b, combine, carries[0], next), i);
                          return SmallVector<Value>{next};
                        })[0];
             return SmallVector<Value>{
                 createCombine(b, combine, carries[0], total)};
           });
  });
  b.setWork(getProduct(outer), kFoldGrainElements / n);
}
