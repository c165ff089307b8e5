//===- ExactFolding.cpp - Folding that keeps every bit --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/ExactFolding.h"

#include "Dialect/Repro/Transforms/ScalarEvaluator.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Upstream folders that keep every bit
//===----------------------------------------------------------------------===//

/// Whether `op` is the step of a fold. Without its step, the fold would need a
/// different order (F6), so steps are not folded to other values.
static bool isStep(Operation *op) {
  auto fold = dyn_cast_or_null<FoldOp>(op->getParentOp());
  return fold && fold.getStep() == op;
}

ArrayRef<StringRef> repro::getTrustedDialects() {
  static constexpr StringRef names[] = {
      "affine", "bufferization", "builtin", "cf",     "func",
      "gpu",    "index",         "launch",  "linalg", "memref",
      "repro",  "scf",           "tensor",  "ub",     "vector"};
  return names;
}

static bool isArithmetic(Dialect *dialect) {
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(dialect);
}

/// Whether upstream's folder of `op` only moves data or computes integers.
/// Excludes divisions and shifts, whose undefined cases (I1) defines, and casts
/// of indices, since a cast to i8 and back is folded to the index.
static bool hasSafeFolder(Operation *op) {
  if (!isArithmetic(op->getDialect()))
    return llvm::is_contained(getTrustedDialects(),
                              op->getName().getDialectNamespace());
  return isa<arith::SelectOp, arith::AddIOp, arith::SubIOp, arith::MulIOp,
             arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::CmpIOp,
             arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::MaxSIOp,
             arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp>(op);
}

namespace {
/// Applies upstream folders for which `hasSafeFolder` is true.
struct FoldBySafeFolder : public RewritePattern {
  FoldBySafeFolder(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() == 0 || !hasSafeFolder(op) || isStep(op))
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
/// Replaces a scalar operation on constants by its value.
struct EvaluateScalar : public RewritePattern {
  EvaluateScalar(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isArithmetic(op->getDialect()) || isa<arith::ConstantOp>(op))
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

/// (V3) Applies the identities that keep every bit: x + (-0), x - (+0), x * 1,
/// x / 1, -(-x), a rounding of an extension, and a cast of an integer to index
/// and back.
struct FoldExactIdentity : public RewritePattern {
  FoldExactIdentity(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (isStep(op))
      return failure();
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
    // An index is an i64 (V1). A cast to a narrower integer in between may have
    // dropped bits.
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op) &&
        op->getOperand(0).getType().isIndex()) {
      Operation *inner = op->getOperand(0).getDefiningOp();
      return isa_and_nonnull<arith::IndexCastOp, arith::IndexCastUIOp>(inner)
                 ? inner->getOperand(0)
                 : Value();
    }
    return {};
  }
};
} // namespace

void repro::populateExactFolding(RewritePatternSet &patterns) {
  patterns.add<EvaluateScalar, FoldBySafeFolder, FoldExactIdentity>(
      patterns.getContext());
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

bool repro::isEmptyAtEnd(ArrayRef<int64_t> shape,
                         ArrayRef<OpFoldResult> offsets,
                         ArrayRef<OpFoldResult> sizes) {
  for (auto [extent, offset, size] : llvm::zip(shape, offsets, sizes)) {
    std::optional<int64_t> begin = getConstantIntValue(offset);
    if (isZeroInteger(size) && begin && *begin == extent)
      return true;
  }
  return false;
}
