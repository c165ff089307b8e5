//===- BarrierOp.cpp - repro.barrier --------------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/Repro.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::bufferization;

bool BarrierOp::bufferizesToMemoryRead(OpOperand &, const AnalysisState &) {
  return false;
}

bool BarrierOp::bufferizesToMemoryWrite(OpOperand &, const AnalysisState &) {
  return false;
}

AliasingValueList BarrierOp::getAliasingValues(OpOperand &,
                                               const AnalysisState &) {
  return {{getResult(), BufferRelation::Equivalent}};
}

// (V5) After bufferization no pass merges operations across the barrier, so the
// result can be the operand's buffer.
LogicalResult BarrierOp::bufferize(RewriterBase &rewriter,
                                   const BufferizationOptions &options,
                                   BufferizationState &state) {
  FailureOr<Value> buffer = getBuffer(rewriter, getOperand(), options, state);
  if (failed(buffer))
    return failure();
  replaceOpWithBufferizedValues(rewriter, *this, *buffer);
  return success();
}
