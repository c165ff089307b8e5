//===- WidenStorage.cpp - Computes on storage types in f32 ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-widen-storage (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the operations on storage types and
// makes each compute in f32 with one rounding per result (V1).
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "Dialect/Repro/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROWIDENSTORAGE
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// (V1) Extends the operands, which is exact, and rounds each result once.
static void widen(Operation *op) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  for (OpOperand &operand : op->getOpOperands())
    if (isStorage(operand.get().getType()))
      operand.set(arith::ExtFOp::create(builder, loc, builder.getF32Type(),
                                        operand.get()));
  builder.setInsertionPointAfter(op);
  for (OpResult result : op->getResults()) {
    Type type = result.getType();
    if (!isStorage(type))
      continue;
    result.setType(builder.getF32Type());
    auto rounding = arith::TruncFOp::create(builder, loc, type, result);
    result.replaceAllUsesExcept(rounding, rounding);
  }
}

namespace {
struct WidenStorage : public repro::impl::ReproWidenStorageBase<WidenStorage> {
  void runOnOperation() override {
    SmallVector<Operation *> work;
    getOperation()->walk([&](Operation *op) {
      if (computesOnStorage(op))
        work.push_back(op);
    });
    llvm::for_each(work, widen);
  }
};
} // namespace
