//===- AccumulatorFold.cpp - Contractions with matrix-unit sums -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/AccumulatorChain.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

void kernels::expandAccumulatorFold(KernelBuilder &b, FoldOp op) {
  FoldInfo fold(b, op);
  if (fold.n == 0) { // (F3) the result is init
    b.setWork(0, 1);
    return;
  }
  ContractionBody body = *getContraction(op);
  unsigned x = body.x.inputs[0], y = body.y.inputs[0];
  AccumulatorChain chain(b, cast<FdpaAttr>(op.getOrderAttr()),
                         fold.inputs[x].element, fold.inputs[y].element);
  const Access &output = fold.outputs[0];
  Type f32 = b.getF32Type();
  b.forEachItem([&](Value item) {
    SmallVector<Value> coordinates(fold.sizes.size(), b.index(0));
    for (auto [dim, at] : llvm::zip_equal(
             fold.parallel, b.delinearize(item, fold.parallelSizes)))
      coordinates[dim] = at;
    auto load = [&](unsigned input, Value k) {
      SmallVector<Value> at = coordinates;
      for (auto [dim, place] : llvm::zip_equal(
               fold.reduction, b.delinearize(k, fold.reductionSizes)))
        at[dim] = place;
      const Access &access = fold.inputs[input];
      Value element = access.isMemory() ? b.load(access.buffer, access.element,
                                                 b.getOffset(access, at))
                                        : access.scalar;
      return b.convertFloat(element, f32);
    };
    Value init = fold.getConstantInit(b, 0, /*lanes=*/0);
    if (!init) // (F7)
      init = b.convertFloat(b.load(output.buffer, output.element,
                                   b.getOffset(output, coordinates)),
                            f32);
    Value result = chain.addChunks(
        fold.n, fold.chunk, init, [&](Value k) { return load(x, k); },
        [&](Value k) { return load(y, k); });
    b.store(b.convertFloat(b.canonicalizeNaN(result), output.element),
            output.buffer, b.getOffset(output, coordinates));
  });
  b.setWork(fold.results, kFoldGrainElements / (kChainWork * fold.n));
}
