//===- FoldConstants.cpp - Exact folding and canonicalization -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "Dialect/Repro/Transforms/ScalarEvaluator.h"
#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/Transforms/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
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
  if (isa_and_nonnull<tensor::TensorDialect>(op->getDialect()))
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
// Scalars
//===----------------------------------------------------------------------===//

namespace {
/// Replaces a scalar operation of constants by its value.
struct EvaluateScalar : public RewritePattern {
  EvaluateScalar(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
            op->getDialect()) ||
        isa<arith::ConstantOp>(op))
      return failure();
    SmallVector<Attribute> operands(op->getNumOperands());
    for (auto [value, attr] : llvm::zip_equal(op->getOperands(), operands))
      if (!matchPattern(value, m_Constant(&attr)))
        return failure();
    TypedAttr result = evaluateScalar(op, operands);
    if (!result || result.getType() != op->getResult(0).getType())
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, result);
    return success();
  }
};

/// (V3) the identities that keep every bit: x + (-0), x - (+0), x * 1, x / 1,
/// -(-x), a rounding of what was just extended, an integer to index and back.
struct FoldExactIdentity : public RewritePattern {
  FoldExactIdentity(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    Value result = getSame(op);
    if (!result || result.getType() != op->getResult(0).getType())
      return failure();
    rewriter.replaceOp(op, result);
    return success();
  }

private:
  static bool isFloat(Value value, function_ref<bool(const APFloat &)> test) {
    FloatAttr constant;
    return matchPattern(value, m_Constant(&constant)) &&
           test(constant.getValue());
  }

  static Value getSame(Operation *op) {
    auto isOne = [](const APFloat &x) { return x.isExactlyValue(1.0); };
    auto isNegativeZero = [](const APFloat &x) { return x.isNegZero(); };
    auto isPositiveZero = [](const APFloat &x) { return x.isPosZero(); };
    if (isa<arith::AddFOp, arith::MulFOp>(op)) {
      bool isSum = isa<arith::AddFOp>(op);
      for (unsigned neutral : {0, 1}) {
        Value value = op->getOperand(neutral);
        if (isSum ? isFloat(value, isNegativeZero) : isFloat(value, isOne))
          return op->getOperand(1 - neutral);
      }
      return {};
    }
    if (isa<arith::SubFOp>(op))
      return isFloat(op->getOperand(1), isPositiveZero) ? op->getOperand(0)
                                                        : Value();
    if (isa<arith::DivFOp>(op))
      return isFloat(op->getOperand(1), isOne) ? op->getOperand(0) : Value();
    if (auto negation = dyn_cast<arith::NegFOp>(op)) {
      auto inner = negation.getOperand().getDefiningOp<arith::NegFOp>();
      return inner ? inner.getOperand() : Value();
    }
    if (auto rounding = dyn_cast<arith::TruncFOp>(op)) {
      auto inner = rounding.getIn().getDefiningOp<arith::ExtFOp>();
      return inner ? inner.getIn() : Value();
    }
    if (auto cast = dyn_cast<arith::IndexCastOp>(op)) { // index is i64 (V1)
      auto inner = cast.getIn().getDefiningOp<arith::IndexCastOp>();
      return inner ? inner.getIn() : Value();
    }
    return {};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Structured operations
//===----------------------------------------------------------------------===//

/// The one scalar that every element of `value` is, null where there is none.
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

namespace {
/// An input whose elements are all one constant becomes a constant of the body.
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

/// A reshaped fill is a fill of the other shape.
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
    Location loc = fill.getLoc();
    Value scalar = arith::ConstantOp::create(rewriter, loc, constant);
    Value empty = tensor::EmptyOp::create(rewriter, loc, type.getShape(),
                                          type.getElementType());
    SmallVector<utils::IteratorType> parallel(type.getRank(),
                                              utils::IteratorType::parallel);
    rewriter.replaceOpWithNewOp<linalg::GenericOp>(
        op, TypeRange{type}, ValueRange{}, ValueRange{empty},
        ArrayRef<AffineMap>{rewriter.getMultiDimIdentityMap(type.getRank())},
        parallel, [&](OpBuilder &builder, Location bodyLoc, ValueRange) {
          linalg::YieldOp::create(builder, bodyLoc, scalar);
        });
    return success();
  }
};

/// A destination that nobody reads depends on no computation.
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

/// tensor.concat of casts to a less static shape sees the shapes themselves.
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
    patterns.add<ConcatOfCasts, DropUnreadInit, EvaluateScalar,
                 FoldBySafeFolder, FoldExactIdentity, InlineConstantInput,
                 ReshapeFill<tensor::CollapseShapeOp>,
                 ReshapeFill<tensor::ExpandShapeOp>>(context);
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
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns),
                                     config))) {
      getOperation().emitError("canonicalization did not come to an end");
      signalPassFailure();
    }
  }
};
} // namespace
