//===- FoldConstants.cpp - Exact folding and canonicalization -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/Transforms/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFOLDCONSTANTS
#include "dialects/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Upstream folders that keep every bit
//===----------------------------------------------------------------------===//

/// Whether upstream's `fold` of `op` moves data or computes integers only.
/// Divisions and shifts are not among them: their folders take the freedom of
/// undefined cases to which (I1) gives a value.
static bool hasSafeFolder(Operation *op) {
  if (isa<tensor::TensorDialect>(op->getDialect()))
    return true;
  if (isa<arith::SelectOp>(op))
    return true;
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::AndIOp,
             arith::OrIOp, arith::XOrIOp, arith::CmpIOp, arith::ExtSIOp,
             arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp,
             arith::IndexCastUIOp, arith::MaxSIOp, arith::MinSIOp,
             arith::MaxUIOp, arith::MinUIOp>(op);
}

namespace {
struct FoldBySafeFolder : public RewritePattern {
  FoldBySafeFolder(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() == 0 || !hasSafeFolder(op))
      return failure();
    SmallVector<OpFoldResult> folded;
    rewriter.startOpModification(op);
    if (failed(op->fold(folded))) {
      rewriter.cancelOpModification(op);
      return failure();
    }
    if (folded.empty()) {
      rewriter.finalizeOpModification(op);
      return success();
    }
    rewriter.cancelOpModification(op);
    SmallVector<Value> values;
    for (auto [result, type] : llvm::zip_equal(folded, op->getResultTypes())) {
      auto value = dyn_cast<Value>(result);
      if (!value) {
        Operation *constant = arith::ConstantOp::materialize(
            rewriter, cast<Attribute>(result), type, op->getLoc());
        if (!constant)
          return failure();
        value = constant->getResult(0);
      }
      if (value.getType() != type)
        return failure();
      values.push_back(value);
    }
    rewriter.replaceOp(op, values);
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct FoldConstants
    : public repro::impl::ReproFoldConstantsBase<FoldConstants> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<FoldBySafeFolder>(context);
    for (RegisteredOperationName name : context->getRegisteredOperations())
      if (isa<tensor::TensorDialect>(name.getDialect()) ||
          name.getTypeID() == TypeID::get<linalg::GenericOp>() ||
          name.getTypeID() == TypeID::get<cf::AssertOp>() ||
          name.getTypeID() == TypeID::get<FoldOp>())
        name.getCanonicalizationPatterns(patterns, context);
    GreedyRewriteConfig config;
    config.enableFolding(false);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns),
                                     config))) {
      getOperation().emitError("canonicalization did not come to an end");
      signalPassFailure();
    }
  }
};
} // namespace
