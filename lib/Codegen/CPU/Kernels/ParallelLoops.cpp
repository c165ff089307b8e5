//===- ParallelLoops.cpp - Parallel dimensions as few loops ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ParallelLoops.h"

#include "dialects/Repro/IR/Repro.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

SmallVector<CollapsedDim>
repro::cpu::collapseDims(ArrayRef<unsigned> dims, ArrayRef<int64_t> sizes,
                         ArrayRef<const Access *> accesses,
                         const llvm::SmallBitVector &fixed) {
  llvm::SmallBitVector alone = fixed;
  for (const Access *access : accesses)
    if (!access->linear)
      for (unsigned dim : dims)
        if (access->expression.isFunctionOfDim(dim))
          alone.set(dim);
  SmallVector<CollapsedDim> loops;
  for (unsigned dim : dims) {
    if (sizes[dim] == 1)
      continue;
    CollapsedDim next{{dim}, sizes[dim], {}};
    for (const Access *access : accesses)
      next.coefficients.push_back(access->linear ? access->coefficients[dim]
                                                 : 0);
    bool follows = !loops.empty() && !alone[dim] &&
                   llvm::none_of(loops.back().dims,
                                 [&](unsigned d) { return alone[d]; });
    if (follows)
      for (auto [outer, inner] :
           llvm::zip_equal(loops.back().coefficients, next.coefficients))
        follows &= outer == inner * next.size;
    if (!follows) {
      loops.push_back(next);
      continue;
    }
    loops.back().dims.push_back(dim);
    loops.back().size *= next.size;
    loops.back().coefficients = next.coefficients;
  }
  return loops;
}

llvm::SmallBitVector repro::cpu::getIndexedDims(Block &body, unsigned numDims) {
  llvm::SmallBitVector dims(numDims);
  for (Operation &op : body) {
    if (auto index = dyn_cast<linalg::IndexOp>(op))
      dims.set(index.getDim());
    else if (auto index = dyn_cast<repro::IndexOp>(op))
      dims.set(index.getDim());
  }
  return dims;
}
