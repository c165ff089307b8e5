//===- FoldKernel.cpp - Expansion of repro.fold ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/StructuredKernels.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

static bool isShortFold(FoldOp fold) {
  int64_t elements = 1;
  SmallVector<int64_t> sizes =
      cast<IndexingMapOpInterface>(fold.getOperation()).getStaticLoopRanges();
  for (auto [size, type] : llvm::zip_equal(sizes, fold.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      elements *= size;
  return elements <= 32;
}

void repro::cpu::expandFold(HostBuilder &b, FoldOp fold) {
  if (isa_and_present<FdpaAttr>(fold.getOrderAttr())) {
    if (failed(expandAccumulator(b, fold)))
      expandAccumulatorFold(b, fold);
    return;
  }
  if (succeeded(expandContraction(b, fold)))
    return;
  // The elements of a short fold do not fill vectors, so each lane computes one
  // result.
  if (isShortFold(fold) && succeeded(expandColumnFold(b, fold)))
    return;
  if (succeeded(expandRowFold(b, fold)) || succeeded(expandColumnFold(b, fold)))
    return;
  expandLiteralFold(b, fold);
}
