//===- Canonicalize.cpp - Canonicalization that keeps every bit -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-canonicalize (Passes.td), run by
// lib/Pipelines/{Schedule,CPU,GPU}.cpp: applies canonicalization patterns
// greedily, without the driver's own folding, and never changes a bit of a
// result (V3).
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/IR/AffineBounds.h"
#include "Dialect/Repro/Transforms/ExactFolding.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROCANONICALIZE
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
/// Casts an index to a narrow integer by way of i64. Upstream's folder replaces
/// a cast to a narrow integer and back by the index itself, without the
/// truncation.
template <typename CastOp>
struct NarrowByInteger : public OpRewritePattern<CastOp> {
  using OpRewritePattern<CastOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    Type wide = rewriter.getI64Type();
    if (!op.getIn().getType().isIndex() || !op.getType().isInteger() ||
        op.getType() == wide)
      return failure();
    Value whole = CastOp::create(rewriter, op.getLoc(), wide, op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, op.getType(), whole);
    return success();
  }
};

/// (E1) Folds the check of an index that interval arithmetic (A2) proves to be
/// in range.
struct FoldKnownCheck : public OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::CmpIOp op,
                                PatternRewriter &rewriter) const override {
    IntegerAttr limit;
    Operation *parent = op->getParentOp();
    if (op.getPredicate() != arith::CmpIPredicate::ult ||
        !op.getLhs().getType().isIndex() ||
        !matchPattern(op.getRhs(), m_Constant(&limit)) || limit.getInt() < 0 ||
        !isa<linalg::GenericOp, FoldOp>(parent) ||
        !isWithin(op.getLhs(), parent, limit.getInt()))
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op,
                                                   rewriter.getBoolAttr(true));
    return success();
  }
};

/// Sets the stride of a slice to 1 in dimensions with at most one element. With
/// other strides, upstream may choose any of several dimensions with equal
/// strides as the one that the slice drops.
template <typename SliceOp>
struct DropUnitStride : public OpRewritePattern<SliceOp> {
  using OpRewritePattern<SliceOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<int64_t> strides(op.getStaticStrides());
    for (auto [size, stride] : llvm::zip_equal(op.getStaticSizes(), strides))
      if (size <= 1 && !ShapedType::isDynamic(size) &&
          !ShapedType::isDynamic(stride))
        stride = 1;
    if (ArrayRef(strides) == op.getStaticStrides())
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.setStaticStrides(strides); });
    return success();
  }
};

struct Canonicalize : public repro::impl::ReproCanonicalizeBase<Canonicalize> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet all(context);
    for (StringRef name : getTrustedDialects())
      if (Dialect *dialect = context->getLoadedDialect(name))
        dialect->getCanonicalizationPatterns(all);
    for (RegisteredOperationName name : context->getRegisteredOperations())
      if (llvm::is_contained(getTrustedDialects(), name.getDialectNamespace()))
        name.getCanonicalizationPatterns(all, context);
    populateExactFolding(all);
    all.add<NarrowByInteger<arith::IndexCastOp>,
            NarrowByInteger<arith::IndexCastUIOp>, FoldKnownCheck,
            DropUnitStride<tensor::ExtractSliceOp>,
            DropUnitStride<tensor::InsertSliceOp>>(context);
    patterns = std::move(all);
    return success();
  }

  void runOnOperation() override {
    GreedyRewriteConfig config;
    config.enableFolding(false);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Normal);
    // If the patterns do not converge, the program is correct but less simple.
    (void)applyPatternsGreedily(getOperation(), patterns, config);
  }

private:
  FrozenRewritePatternSet patterns;
};
} // namespace
