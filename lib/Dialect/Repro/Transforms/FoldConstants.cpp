//===- FoldConstants.cpp - Exact folding and canonicalization -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-fold-constants (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: applies exact folding and canonicalization
// patterns greedily, without the driver's own folding, so that no result
// changes a bit (V3).
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "Dialect/Repro/Transforms/ExactFolding.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFOLDCONSTANTS
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Structured operations
//===----------------------------------------------------------------------===//

/// Returns the constant that every element of `value` equals; null if no such
/// constant is known.
static TypedAttr getFilledConstant(Value value) {
  Attribute constant;
  if (auto generic = value.getDefiningOp<linalg::GenericOp>()) {
    Value yielded = generic.getBody()->getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber());
    if (generic.getNumReductionLoops() ||
        !matchPattern(yielded, m_Constant(&constant)))
      return {};
    return dyn_cast<TypedAttr>(constant);
  }
  if (!matchPattern(value, m_Constant(&constant)))
    return {};
  if (auto splat = dyn_cast<SplatElementsAttr>(constant))
    return splat.getSplatValue<TypedAttr>();
  return isa<ShapedType>(value.getType()) ? TypedAttr()
                                          : dyn_cast<TypedAttr>(constant);
}

/// Returns a tensor of a static type in which each element is `constant`.
static Value createFill(OpBuilder &builder, Location loc, RankedTensorType type,
                        TypedAttr constant) {
  Value scalar = arith::ConstantOp::create(builder, loc, constant);
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  auto fill = linalg::GenericOp::create(
      builder, loc, TypeRange{type}, ValueRange{}, ValueRange{empty},
      ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(type.getRank())},
      parallel, [&](OpBuilder &body, Location bodyLoc, ValueRange) {
        linalg::YieldOp::create(body, bodyLoc, scalar);
      });
  return fill.getResult(0);
}

namespace {
/// If all elements of an input equal one constant, replaces the input by that
/// constant in the body.
struct InlineConstantInput : public OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op,
                                PatternRewriter &rewriter) const override {
    for (OpOperand *input : op.getDpsInputOperands()) {
      BlockArgument argument = op.getMatchingBlockArgument(input);
      if (argument.use_empty())
        continue;
      TypedAttr constant = getFilledConstant(input->get());
      if (!constant)
        continue;
      rewriter.setInsertionPoint(op);
      Value scalar = arith::ConstantOp::create(rewriter, op.getLoc(), constant);
      rewriter.replaceAllUsesWith(argument, scalar);
      return success();
    }
    return failure();
  }
};

/// Replaces the reshape of a fill by a fill of the new shape.
template <typename ReshapeOp>
struct ReshapeFill : public OpRewritePattern<ReshapeOp> {
  using OpRewritePattern<ReshapeOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto fill = op.getSrc().template getDefiningOp<linalg::GenericOp>();
    TypedAttr constant = fill ? getFilledConstant(op.getSrc()) : TypedAttr();
    RankedTensorType type = op.getResultType();
    if (!constant || !type.hasStaticShape())
      return failure();
    rewriter.replaceOp(op, createFill(rewriter, fill.getLoc(), type, constant));
    return success();
  }
};

/// If the operation does not read the elements of a destination, replaces the
/// destination by an empty tensor.
struct DropUnreadInit
    : public OpInterfaceRewritePattern<DestinationStyleOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(DestinationStyleOpInterface op,
                                PatternRewriter &rewriter) const override {
    bool changed = false;
    for (OpOperand &init : op.getDpsInitsMutable()) {
      auto type = dyn_cast<RankedTensorType>(init.get().getType());
      if (!type || !type.hasStaticShape() || readsElements(init) ||
          init.get().getDefiningOp<tensor::EmptyOp>())
        continue;
      rewriter.setInsertionPoint(op);
      Value empty = tensor::EmptyOp::create(
          rewriter, op.getLoc(), type.getShape(), type.getElementType());
      rewriter.modifyOpInPlace(op, [&] { init.set(empty); });
      changed = true;
    }
    return success(changed);
  }
};

/// If an empty slice starts after the last element, replaces the slice by an
/// empty fill.
struct DropSliceAtEnd : public OpRewritePattern<tensor::ExtractSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExtractSliceOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getType();
    if (!type.hasStaticShape() ||
        !isEmptyAtEnd(op.getSourceType().getShape(), op.getMixedOffsets(),
                      op.getMixedSizes()))
      return failure();
    TypedAttr zero = rewriter.getZeroAttr(type.getElementType());
    rewriter.replaceOp(op, createFill(rewriter, op.getLoc(), type, zero));
    return success();
  }
};

/// If amounts of padding are constant values, replaces them by attributes.
struct StaticPadding : public OpRewritePattern<tensor::PadOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::PadOp op,
                                PatternRewriter &rewriter) const override {
    // These accessors return attributes for values that are constants.
    SmallVector<OpFoldResult> low = op.getMixedLowPad(),
                              high = op.getMixedHighPad();
    if (llvm::count_if(low, llvm::IsaPred<Value>) ==
            int64_t(op.getLow().size()) &&
        llvm::count_if(high, llvm::IsaPred<Value>) ==
            int64_t(op.getHigh().size()))
      return failure();
    auto padded =
        tensor::PadOp::create(rewriter, op.getLoc(), op.getType(),
                              op.getSource(), low, high, op.getNofold());
    rewriter.inlineRegionBefore(op.getRegion(), padded.getRegion(),
                                padded.getRegion().begin());
    rewriter.replaceOp(op, padded);
    return success();
  }
};

/// Makes tensor.concat read the source of a cast to a less static shape.
struct ConcatOfCasts : public OpRewritePattern<tensor::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ConcatOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> sources;
    bool changed = false;
    for (Value input : op.getInputs()) {
      auto cast = input.getDefiningOp<tensor::CastOp>();
      bool drop = cast && tensor::canFoldIntoConsumerOp(cast);
      sources.push_back(drop ? cast.getSource() : input);
      changed |= drop;
    }
    if (!changed)
      return failure();
    auto concat =
        tensor::ConcatOp::create(rewriter, op.getLoc(), op.getDim(), sources);
    if (concat.getType() == op.getType())
      rewriter.replaceOp(op, concat);
    else
      rewriter.replaceOpWithNewOp<tensor::CastOp>(op, op.getType(), concat);
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
    populateExactFolding(patterns);
    patterns.add<ConcatOfCasts, DropSliceAtEnd, DropUnreadInit,
                 InlineConstantInput, ReshapeFill<tensor::CollapseShapeOp>,
                 ReshapeFill<tensor::ExpandShapeOp>, StaticPadding>(context);
    for (RegisteredOperationName name : context->getRegisteredOperations())
      if (isa<tensor::TensorDialect>(name.getDialect()) ||
          name.getTypeID() == TypeID::get<linalg::GenericOp>() ||
          name.getTypeID() == TypeID::get<cf::AssertOp>() ||
          name.getTypeID() == TypeID::get<scf::ForOp>() ||
          name.getTypeID() == TypeID::get<scf::IfOp>() ||
          name.getTypeID() == TypeID::get<FoldOp>())
        name.getCanonicalizationPatterns(patterns, context);
    linalg::populateEraseUnusedOperandsAndResultsPatterns(patterns);
    GreedyRewriteConfig config;
    config.enableFolding(false);
    // If an operation becomes a fill, its users can be simplified only in the
    // next round, so permit a round per operation.
    int64_t rounds = 10;
    getOperation().walk([&](linalg::GenericOp) { ++rounds; });
    config.setMaxIterations(rounds);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns),
                                     config))) {
      getOperation().emitError("canonicalization did not end");
      signalPassFailure();
    }
  }
};
} // namespace
