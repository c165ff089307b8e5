//===- MathToRepro.cpp - Scalar operations with defined bits --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass convert-math-to-repro (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the arith and math operations and
// replaces each by operations whose bits docs/reference/numerics.md defines;
// fails for operations that have no such replacement.
//
//===----------------------------------------------------------------------===//

#include "Conversion/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_CONVERTMATHTOREPRO
#include "lib/Conversion/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// (S5) elementary functions
//===----------------------------------------------------------------------===//

/// Checks that (S5) defines the function for the element type: f32, a storage
/// type (V1) or, for some functions, f64.
static LogicalResult checkElementType(Operation *op,
                                      RegisteredOperationName function) {
  Type type = op->getResult(0).getType();
  if (isa<Float32Type, BFloat16Type, Float16Type, Float8E4M3FNType,
          Float8E5M2Type>(type))
    return success();
  bool ofDouble = function.hasTrait<OfDouble>();
  if (ofDouble && isa<Float64Type>(type))
    return success();
  return op->emitOpError("(S5) is defined for ")
         << (ofDouble ? "f64, " : "")
         << "f32, bf16, f16, f8E4M3FN and f8E5M2 scalars, got " << type;
}

/// Whether (S1), (S4) or (I1) defines all bits of the result of `op`, so that
/// `op`, an operation of the math dialect, needs no replacement.
static bool isExact(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::CtPopOp, math::FloorOp, math::FmaOp, math::RoundOp,
             math::RoundEvenOp, math::SqrtOp, math::TruncOp>(op);
}

/// Replaces an operation of the math dialect by the corresponding elementary
/// function (S5); fails if there is none.
static LogicalResult replaceFunction(RewriterBase &rewriter, Operation *op) {
  StringRef name = op->getName().stripDialect();
  if (isa<math::PowFOp>(op))
    name = "pow";
  else if (isa<math::FPowIOp>(op))
    name = "powi";
  auto function = RegisteredOperationName::lookup(("repro." + name).str(),
                                                  op->getContext());
  if (!function)
    return op->emitOpError("(S5) is not on the list of elementary functions");
  if (failed(checkElementType(op, *function)))
    return failure();
  OperationState state(op->getLoc(), *function);
  state.addOperands(op->getOperands());
  state.addTypes(op->getResultTypes());
  rewriter.replaceOp(op, rewriter.create(state));
  return success();
}

//===----------------------------------------------------------------------===//
// Predicates and number-preferring extremes
//===----------------------------------------------------------------------===//

static Value isNaN(RewriterBase &rewriter, Location loc, Value x) {
  return arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::UNO, x, x);
}

static Value floatConstant(RewriterBase &rewriter, Location loc,
                           const APFloat &value, Type type) {
  return arith::ConstantOp::create(rewriter, loc,
                                   rewriter.getFloatAttr(type, value));
}

/// Compares |x| with a constant, for math.isinf, math.isfinite and
/// math.isnormal.
static Value compareMagnitude(RewriterBase &rewriter, Location loc, Value x,
                              arith::CmpFPredicate predicate,
                              const APFloat &bound) {
  Value magnitude = math::AbsFOp::create(rewriter, loc, x);
  return arith::CmpFOp::create(
      rewriter, loc, predicate, magnitude,
      floatConstant(rewriter, loc, bound, x.getType()));
}

/// (S2) Replaces a number-preferring maximum or minimum. The result is the
/// other operand if one operand is a NaN, else the NaN-propagating extreme.
template <typename Ordered>
static void replaceNumberPreferring(RewriterBase &rewriter, Operation *op) {
  Location loc = op->getLoc();
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  Value extreme = Ordered::create(rewriter, loc, lhs, rhs);
  Value lhsIsNaN = isNaN(rewriter, loc, lhs);
  Value rhsIsNaN = isNaN(rewriter, loc, rhs);
  Value orLhs = arith::SelectOp::create(rewriter, loc, rhsIsNaN, lhs, extreme);
  rewriter.replaceOpWithNewOp<arith::SelectOp>(op, lhsIsNaN, rhs, orLhs);
}

//===----------------------------------------------------------------------===//
// Integer divisions with other rounding (I1)
//===----------------------------------------------------------------------===//

/// Replaces a division that rounds up or down by a truncating division. The
/// quotient is corrected if there is a remainder and the signs of the operands
/// differ (floor) or agree (ceil).
static void replaceRoundingDivision(RewriterBase &rewriter, Operation *op,
                                    bool isSigned, bool isFloor) {
  Location loc = op->getLoc();
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  Type type = lhs.getType();
  Value quotient = isSigned
                       ? Value(arith::DivSIOp::create(rewriter, loc, lhs, rhs))
                       : Value(arith::DivUIOp::create(rewriter, loc, lhs, rhs));
  Value product = arith::MulIOp::create(rewriter, loc, quotient, rhs);
  Value adjust = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ne,
                                       product, lhs);
  if (isSigned) {
    Value zero =
        arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
    auto isNegative = [&](Value value) -> Value {
      return arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt,
                                   value, zero);
    };
    Value lhsIsNegative = isNegative(lhs);
    Value rhsIsNegative = isNegative(rhs);
    Value signs = arith::CmpIOp::create(rewriter, loc,
                                        isFloor ? arith::CmpIPredicate::ne
                                                : arith::CmpIPredicate::eq,
                                        isNegative(lhs), isNegative(rhs));
    adjust = arith::AndIOp::create(rewriter, loc, adjust, signs);
  }
  Value one =
      arith::ConstantOp::create(rewriter, loc, rewriter.getOneAttr(type));
  Value adjusted =
      isFloor ? Value(arith::SubIOp::create(rewriter, loc, quotient, one))
              : Value(arith::AddIOp::create(rewriter, loc, quotient, one));
  rewriter.replaceOpWithNewOp<arith::SelectOp>(op, adjust, adjusted, quotient);
}

//===----------------------------------------------------------------------===//
// Scales of blocks (Q1)
//===----------------------------------------------------------------------===//

static Value extend(RewriterBase &rewriter, Location loc, Value x) {
  Type f32 = rewriter.getF32Type();
  return x.getType() == f32 ? x : arith::ExtFOp::create(rewriter, loc, f32, x);
}

/// Replaces arith.scaling_extf by a product in f32, and arith.scaling_truncf by
/// a quotient in f32 and a rounding. The scale is a power of two, so a product
/// or quotient that is a normal number is exact.
static LogicalResult replaceScaling(RewriterBase &rewriter, Operation *op) {
  Location loc = op->getLoc();
  Value x = op->getOperand(0), scale = op->getOperand(1);
  bool isExtension = isa<arith::ScalingExtFOp>(op);
  Type result = op->getResult(0).getType();
  if (!isa<Float8E8M0FNUType>(scale.getType()))
    return op->emitOpError("(Q1) expected a scale of f8E8M0FNU, got ")
           << scale.getType();
  Type wide = isExtension ? result : x.getType();
  if (!isa<Float32Type>(wide))
    return op->emitOpError("(Q1) expected ")
           << (isExtension ? "a result" : "an operand") << " of f32, got "
           << wide;
  Value factor = extend(rewriter, loc, scale);
  if (isExtension)
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, extend(rewriter, loc, x),
                                               factor);
  else
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(
        op, result, arith::DivFOp::create(rewriter, loc, x, factor));
  return success();
}

//===----------------------------------------------------------------------===//
// Bitcasts and flags
//===----------------------------------------------------------------------===//

/// (V4) Makes NaNs canonical before a bitcast makes the bits of a float
/// observable. A bitcast to another float type becomes a bitcast to an integer
/// and a bitcast from that integer.
static void canonicalizeBitcast(RewriterBase &rewriter, arith::BitcastOp op) {
  Value x = op.getIn();
  auto from = dyn_cast<FloatType>(x.getType());
  if (!from || (!isa<IntegerType, FloatType>(op.getType())))
    return;
  Location loc = op.getLoc();
  Type integer = rewriter.getIntegerType(from.getWidth());
  Value cast = arith::BitcastOp::create(rewriter, loc, integer, x);
  APInt bits = APFloat::getQNaN(from.getFloatSemantics()).bitcastToAPInt();
  Value canonical = arith::ConstantOp::create(
      rewriter, loc, rewriter.getIntegerAttr(integer, bits));
  Value nan = isNaN(rewriter, loc, x);
  Value result = arith::SelectOp::create(rewriter, loc, nan, canonical, cast);
  if (isa<FloatType>(op.getType()))
    result = arith::BitcastOp::create(rewriter, loc, op.getType(), result);
  rewriter.replaceOp(op, result);
}

/// Removes fast-math flags (V3), and the flags `nsw`, `nuw` and `exact`, with
/// which some operands have no defined result. Fails for roundings other than
/// to nearest even (V2).
static LogicalResult dropFlags(Operation *op) {
  MLIRContext *context = op->getContext();
  if (auto flags = dyn_cast<arith::ArithFastMathInterface>(op))
    op->setAttr(
        flags.getFastMathAttrName(),
        arith::FastMathFlagsAttr::get(context, arith::FastMathFlags::none));
  if (auto flags = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op))
    op->setAttr(flags.getIntegerOverflowAttrName(),
                arith::IntegerOverflowFlagsAttr::get(
                    context, arith::IntegerOverflowFlags::none));
  if (isa<arith::ArithDialect>(op->getDialect()))
    op->removeAttr("isExact");
  if (auto rounding = dyn_cast<arith::ArithRoundingModeInterface>(op)) {
    arith::RoundingModeAttr mode = rounding.getRoundingModeAttr();
    if (mode && mode.getValue() != arith::RoundingMode::to_nearest_even)
      return op->emitOpError("(V2) rounds to nearest even, got ")
             << arith::stringifyRoundingMode(mode.getValue());
    if (mode)
      op->removeAttr(rounding.getRoundingModeAttrName());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// If a constant refers to a resource, replaces the constant by one that
/// contains the elements, because a canonical program contains the elements of
/// all constants.
static LogicalResult inlineResource(arith::ConstantOp op) {
  auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue());
  if (!resource)
    return success();
  AsmResourceBlob *blob = resource.getRawHandle().getBlob();
  bool isSplat = false;
  if (!blob || !DenseElementsAttr::isValidRawBuffer(resource.getType(),
                                                    blob->getData(), isSplat))
    return op.emitOpError("expected the data of the resource '")
           << resource.getRawHandle().getKey() << "' for "
           << resource.getType();
  op.setValueAttr(
      DenseElementsAttr::getFromRawBuffer(resource.getType(), blob->getData()));
  return success();
}

static void replaceSincos(RewriterBase &rewriter, Operation *op) {
  Type type = op->getResult(0).getType();
  Value x = op->getOperand(0);
  Value sin = repro::SinOp::create(rewriter, op->getLoc(), type, x);
  Value cos = repro::CosOp::create(rewriter, op->getLoc(), type, x);
  rewriter.replaceOp(op, ValueRange{sin, cos});
}

static LogicalResult convertMathOp(RewriterBase &rewriter, Operation *op) {
  if (isExact(op))
    return success();
  if (isa<math::SincosOp>(op)) {
    if (failed(checkElementType(op, *RegisteredOperationName::lookup(
                                        "repro.sin", op->getContext()))))
      return failure();
    replaceSincos(rewriter, op);
    return success();
  }
  if (isa<math::IsNaNOp, math::IsInfOp, math::IsFiniteOp>(op)) {
    Location loc = op->getLoc();
    Value x = op->getOperand(0);
    auto type = dyn_cast<FloatType>(x.getType());
    if (!type)
      return op->emitOpError("expected a scalar float, got ") << x.getType();
    APFloat infinity = APFloat::getInf(type.getFloatSemantics());
    Value result = isa<math::IsNaNOp>(op) ? isNaN(rewriter, loc, x)
                   : isa<math::IsInfOp>(op)
                       ? compareMagnitude(rewriter, loc, x,
                                          arith::CmpFPredicate::OEQ, infinity)
                       : compareMagnitude(rewriter, loc, x,
                                          arith::CmpFPredicate::OLT, infinity);
    rewriter.replaceOp(op, result);
    return success();
  }
  return replaceFunction(rewriter, op);
}

/// Replaces `op` by operations with defined bits; fails with an error if there
/// are none.
static LogicalResult convertOp(RewriterBase &rewriter, Operation *op) {
  rewriter.setInsertionPoint(op);
  if (isa<math::MathDialect>(op->getDialect()))
    return convertMathOp(rewriter, op);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return inlineResource(constant);
  if (auto bitcast = dyn_cast<arith::BitcastOp>(op))
    canonicalizeBitcast(rewriter, bitcast);
  else if (isa<arith::ScalingExtFOp, arith::ScalingTruncFOp>(op))
    return replaceScaling(rewriter, op);
  else if (isa<arith::MaxNumFOp>(op))
    replaceNumberPreferring<arith::MaximumFOp>(rewriter, op);
  else if (isa<arith::MinNumFOp>(op))
    replaceNumberPreferring<arith::MinimumFOp>(rewriter, op);
  else if (isa<arith::FloorDivSIOp>(op))
    replaceRoundingDivision(rewriter, op, /*isSigned=*/true, /*isFloor=*/true);
  else if (isa<arith::CeilDivSIOp>(op))
    replaceRoundingDivision(rewriter, op, /*isSigned=*/true, /*isFloor=*/false);
  else if (isa<arith::CeilDivUIOp>(op))
    replaceRoundingDivision(rewriter, op, /*isSigned=*/false,
                            /*isFloor=*/false);
  return success();
}

namespace {
struct ConvertMathToRepro
    : public repro::impl::ConvertMathToReproBase<ConvertMathToRepro> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa_and_nonnull<math::MathDialect, arith::ArithDialect>(
              op->getDialect()))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : ops)
      if (failed(dropFlags(op)) || failed(convertOp(rewriter, op)))
        return signalPassFailure();
  }
};
} // namespace
