//===- ExpandFunctions.cpp - Expands functions to arithmetic --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-functions (Passes.td), run by lib/Pipelines/CPU.cpp and
// GPU.cpp: replaces each elementary function by the arithmetic of
// buildFunction, whose result is correctly rounded (S5) on every target.
//
//===----------------------------------------------------------------------===//

#include "ElementaryFunctions.h"

#include "Codegen/Functions/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDFUNCTIONS
#include "lib/Codegen/Functions/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {

struct ExpandFunctions
    : public repro::impl::ReproExpandFunctionsBase<ExpandFunctions> {
  void runOnOperation() override {
    SmallVector<Operation *> functions;
    getOperation()->walk([&](Operation *op) {
      if (isa_and_nonnull<ReproDialect>(op->getDialect()) &&
          isElementaryFunction(op->getName().stripDialect()))
        functions.push_back(op);
    });
    for (Operation *op : functions)
      if (failed(expand(op)))
        return signalPassFailure();
  }

private:
  LogicalResult expand(Operation *op) {
    OpBuilder builder(op);
    Value result = buildFunction(
        builder, op->getLoc(), op->getName().stripDialect(), op->getOperands());
    if (!result)
      return op->emitOpError(
                 "expected f32 or f64 scalars or vectors of equal shape, and "
                 "exponents of at most 64 bits, got ")
             << op->getOperandTypes();
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
    return success();
  }
};

} // namespace
