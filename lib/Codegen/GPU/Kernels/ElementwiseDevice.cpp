//===- ElementwiseDevice.cpp - Device kernels of parallel operations ------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/BodyVectorizer.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ParallelLoops.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

/// Emits an elementwise kernel. A work item is one element. If `body` is null,
/// the kernel copies its only input to its only output.
static void expandElements(DeviceBuilder &b, Block *body,
                           ArrayRef<int64_t> sizes,
                           MutableArrayRef<Access> inputs,
                           MutableArrayRef<Access> outputs) {
  if (getProduct(sizes) == 0) {
    b.setWork(0, 1);
    return;
  }
  // Dimensions are ordered so that adjacent threads write adjacent elements. A
  // body that only has checks (E1) has no output.
  SmallVector<unsigned> dims =
      llvm::to_vector(llvm::seq<unsigned>(sizes.size()));
  if (!outputs.empty() && outputs.front().linear)
    llvm::stable_sort(dims, [&](unsigned x, unsigned y) {
      return std::abs(outputs.front().coefficients[x]) >
             std::abs(outputs.front().coefficients[y]);
    });
  SmallVector<const Access *> accesses;
  for (const Access &access : inputs)
    accesses.push_back(&access);
  for (const Access &access : outputs)
    accesses.push_back(&access);
  llvm::SmallBitVector fixed(sizes.size());
  if (body)
    fixed = getIndexedDims(*body, sizes.size());
  SmallVector<CollapsedDim> loops = collapseDims(dims, sizes, accesses, fixed);
  SmallVector<int64_t> extents = getSizes(loops);
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, extents);
    SmallVector<Value> coordinates(sizes.size(), b.index(0));
    for (auto [loop, value] : llvm::zip_equal(loops, at))
      if (loop.dims.size() == 1)
        coordinates[loop.dims[0]] = value;
    auto getOffset = [&](unsigned i) {
      const Access &access = *accesses[i];
      if (!access.linear)
        return b.getOffset(access, coordinates);
      return b.add(getLoopOffset(b, loops, at, i), access.constant);
    };
    auto load = [&](unsigned i) {
      const Access &access = *accesses[i];
      return access.isMemory()
                 ? b.load(access.buffer, access.element, getOffset(i))
                 : access.scalar;
    };
    SmallVector<Value> results;
    if (!body) {
      results.push_back(load(0));
    } else {
      BodyVectorizer inliner(b, /*lanes=*/0);
      inliner.index = [&](int64_t dim) { return LaneValue{coordinates[dim]}; };
      for (unsigned i = 0; i < accesses.size(); ++i)
        if (!body->getArgument(i).use_empty())
          inliner.map(body->getArgument(i), load(i));
      results = inliner.inlineBody(*body);
    }
    for (auto [i, result] : llvm::enumerate(results)) {
      const Access &access = outputs[i];
      Value value = b.canonicalizeNaN(result);
      if (isa<FloatType>(access.element))
        value = b.convertFloat(value, access.element);
      b.store(value, access.buffer, getOffset(inputs.size() + i));
    }
  });
  b.setWork(getProduct(extents), 1);
}

void device::expandElementwise(DeviceBuilder &b, linalg::GenericOp op) {
  SmallVector<Access> inputs, outputs;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [operand, map] : llvm::zip_equal(op->getOperands(), maps))
    (inputs.size() < op.getInputs().size() ? inputs : outputs)
        .push_back(b.getAccess(operand, map));
  expandElements(b, op.getBody(), op.getStaticLoopRanges(), inputs, outputs);
}

void device::expandCopy(DeviceBuilder &b, memref::CopyOp op) {
  auto type = cast<MemRefType>(op.getSource().getType());
  AffineMap map =
      AffineMap::getMultiDimIdentityMap(type.getRank(), b.getContext());
  SmallVector<Access> inputs{b.getAccess(op.getSource(), map)};
  SmallVector<Access> outputs{b.getAccess(op.getTarget(), map)};
  expandElements(b, nullptr, type.getShape(), inputs, outputs);
}
