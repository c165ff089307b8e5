//===- ScalarEvaluator.cpp - Scalar operations of constants ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/ScalarEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;

static constexpr APFloat::roundingMode nearestEven =
    APFloat::rmNearestTiesToEven;

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

static APFloat convert(APFloat value, const llvm::fltSemantics &semantics) {
  // (V4) APFloat would convert a NaN of f8E8M0FNU to an infinity.
  if (value.isNaN())
    return APFloat::getQNaN(semantics);
  bool losesInfo;
  value.convert(semantics, nearestEven, &losesInfo);
  return value;
}

static TypedAttr makeFloat(const APFloat &value, FloatType type) {
  return FloatAttr::get(type, convert(value, type.getFloatSemantics()));
}

/// Returns the result that (S1), (S2) or (S4) defines for an operation on
/// floats; std::nullopt if the operation is not supported.
static std::optional<APFloat> computeFloat(Operation *op,
                                           MutableArrayRef<APFloat> x) {
  APFloat result = x[0];
  auto round = [&](APFloat::roundingMode mode) {
    result.roundToIntegral(mode);
    return result;
  };
  return llvm::TypeSwitch<Operation *, std::optional<APFloat>>(op)
      .Case([&](arith::AddFOp) {
        result.add(x[1], nearestEven);
        return result;
      })
      .Case([&](arith::SubFOp) {
        result.subtract(x[1], nearestEven);
        return result;
      })
      .Case([&](arith::MulFOp) {
        result.multiply(x[1], nearestEven);
        return result;
      })
      .Case([&](arith::DivFOp) {
        result.divide(x[1], nearestEven);
        return result;
      })
      .Case([&](arith::RemFOp) {
        result.mod(x[1]);
        return result;
      })
      .Case([&](math::FmaOp) {
        result.fusedMultiplyAdd(x[1], x[2], nearestEven);
        return result;
      })
      .Case([&](arith::MaximumFOp) { return llvm::maximum(x[0], x[1]); })
      .Case([&](arith::MinimumFOp) { return llvm::minimum(x[0], x[1]); })
      .Case([&](arith::NegFOp) {
        result.changeSign();
        return result;
      })
      .Case([&](math::AbsFOp) {
        result.clearSign();
        return result;
      })
      .Case([&](math::CopySignOp) { // (V4) A NaN's sign counts as plus.
        result.clearSign();
        if (!x[1].isNaN() && x[1].isNegative())
          result.changeSign();
        return result;
      })
      .Case([&](math::CeilOp) { return round(APFloat::rmTowardPositive); })
      .Case([&](math::FloorOp) { return round(APFloat::rmTowardNegative); })
      .Case([&](math::TruncOp) { return round(APFloat::rmTowardZero); })
      .Case([&](math::RoundOp) { return round(APFloat::rmNearestTiesToAway); })
      .Case([&](math::RoundEvenOp) { return round(nearestEven); })
      .Default([](Operation *) { return std::nullopt; });
}

static bool compareFloats(arith::CmpFPredicate predicate, const APFloat &lhs,
                          const APFloat &rhs) {
  APFloat::cmpResult order = lhs.compare(rhs);
  bool unordered = order == APFloat::cmpUnordered;
  bool equal = order == APFloat::cmpEqual;
  bool less = order == APFloat::cmpLessThan;
  bool greater = order == APFloat::cmpGreaterThan;
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::OEQ:
    return equal;
  case arith::CmpFPredicate::OGT:
    return greater;
  case arith::CmpFPredicate::OGE:
    return greater || equal;
  case arith::CmpFPredicate::OLT:
    return less;
  case arith::CmpFPredicate::OLE:
    return less || equal;
  case arith::CmpFPredicate::ONE:
    return less || greater;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UEQ:
    return unordered || equal;
  case arith::CmpFPredicate::UGT:
    return unordered || greater;
  case arith::CmpFPredicate::UGE:
    return unordered || greater || equal;
  case arith::CmpFPredicate::ULT:
    return unordered || less;
  case arith::CmpFPredicate::ULE:
    return unordered || less || equal;
  case arith::CmpFPredicate::UNE:
    return !equal;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  }
  llvm_unreachable("unknown predicate of arith.cmpf");
}

static TypedAttr evaluateOfFloats(Operation *op,
                                  MutableArrayRef<APFloat> operands,
                                  FloatType from) {
  Type type = op->getResult(0).getType();
  MLIRContext *context = op->getContext();
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return BoolAttr::get(context, compareFloats(compare.getPredicate(),
                                                operands[0], operands[1]));
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return makeFloat(operands[0], cast<FloatType>(type));
  // (S3) A conversion to an integer saturates; a NaN becomes 0.
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    APSInt integer(type.getIntOrFloatBitWidth(),
                   /*isUnsigned=*/isa<arith::FPToUIOp>(op));
    bool isExact;
    operands[0].convertToInteger(integer, APFloat::rmTowardZero, &isExact);
    return IntegerAttr::get(type, integer);
  }
  if (isa<arith::BitcastOp>(op)) { // (V4) A NaN has its canonical bits.
    auto integer = dyn_cast<IntegerType>(type);
    if (!integer)
      return {};
    APFloat value = operands[0].isNaN()
                        ? APFloat::getQNaN(from.getFloatSemantics())
                        : operands[0];
    return IntegerAttr::get(type, value.bitcastToAPInt());
  }
  auto result = dyn_cast<FloatType>(type);
  if (!result || from.getWidth() < 32) // (V1) No arithmetic on storage types.
    return {};
  std::optional<APFloat> value = computeFloat(op, operands);
  return value ? TypedAttr(FloatAttr::get(result, *value)) : TypedAttr();
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static bool compareIntegers(arith::CmpIPredicate predicate, const APInt &lhs,
                            const APInt &rhs) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return lhs == rhs;
  case arith::CmpIPredicate::ne:
    return lhs != rhs;
  case arith::CmpIPredicate::slt:
    return lhs.slt(rhs);
  case arith::CmpIPredicate::sle:
    return lhs.sle(rhs);
  case arith::CmpIPredicate::sgt:
    return lhs.sgt(rhs);
  case arith::CmpIPredicate::sge:
    return lhs.sge(rhs);
  case arith::CmpIPredicate::ult:
    return lhs.ult(rhs);
  case arith::CmpIPredicate::ule:
    return lhs.ule(rhs);
  case arith::CmpIPredicate::ugt:
    return lhs.ugt(rhs);
  case arith::CmpIPredicate::uge:
    return lhs.uge(rhs);
  }
  llvm_unreachable("unknown predicate of arith.cmpi");
}

/// Returns the result that (I1) defines for an operation on integers;
/// std::nullopt if the operation is not supported.
static std::optional<APInt> computeInteger(Operation *op, ArrayRef<APInt> x) {
  unsigned width = x[0].getBitWidth();
  auto isOversized = [&] { return x[1].uge(width); };
  return llvm::TypeSwitch<Operation *, std::optional<APInt>>(op)
      .Case([&](arith::AddIOp) { return x[0] + x[1]; })
      .Case([&](arith::SubIOp) { return x[0] - x[1]; })
      .Case([&](arith::MulIOp) { return x[0] * x[1]; })
      .Case([&](arith::AndIOp) { return x[0] & x[1]; })
      .Case([&](arith::OrIOp) { return x[0] | x[1]; })
      .Case([&](arith::XOrIOp) { return x[0] ^ x[1]; })
      .Case([&](arith::MaxSIOp) { return llvm::APIntOps::smax(x[0], x[1]); })
      .Case([&](arith::MinSIOp) { return llvm::APIntOps::smin(x[0], x[1]); })
      .Case([&](arith::MaxUIOp) { return llvm::APIntOps::umax(x[0], x[1]); })
      .Case([&](arith::MinUIOp) { return llvm::APIntOps::umin(x[0], x[1]); })
      .Case([&](arith::DivSIOp) { // APInt: MIN / -1 wraps to MIN.
        return x[1].isZero() ? APInt::getAllOnes(width) : x[0].sdiv(x[1]);
      })
      .Case([&](arith::DivUIOp) {
        return x[1].isZero() ? APInt::getAllOnes(width) : x[0].udiv(x[1]);
      })
      .Case([&](arith::RemSIOp) {
        if (x[1].isAllOnes())
          return APInt::getZero(width);
        return x[1].isZero() ? x[0] : x[0].srem(x[1]);
      })
      .Case([&](arith::RemUIOp) {
        return x[1].isZero() ? x[0] : x[0].urem(x[1]);
      })
      .Case([&](arith::ShLIOp) {
        return isOversized() ? APInt::getZero(width) : x[0].shl(x[1]);
      })
      .Case([&](arith::ShRUIOp) {
        return isOversized() ? APInt::getZero(width) : x[0].lshr(x[1]);
      })
      .Case([&](arith::ShRSIOp) {
        return isOversized() ? x[0].ashr(width - 1) : x[0].ashr(x[1]);
      })
      .Case([&](math::AbsIOp) { return x[0].abs(); })
      .Case([&](math::CountLeadingZerosOp) {
        return APInt(width, x[0].countl_zero());
      })
      .Case([&](math::CountTrailingZerosOp) {
        return APInt(width, x[0].countr_zero());
      })
      .Case([&](math::CtPopOp) { return APInt(width, x[0].popcount()); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Converts an integer to a float (S3) with one rounding.
static TypedAttr convertInteger(Operation *op, const APInt &value,
                                FloatType type) {
  APFloat result(type.getFloatSemantics());
  result.convertFromAPInt(value, isa<arith::SIToFPOp>(op), nearestEven);
  return FloatAttr::get(type, result);
}

static TypedAttr evaluateOfIntegers(Operation *op, ArrayRef<APInt> operands) {
  Type type = op->getResult(0).getType();
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return BoolAttr::get(
        op->getContext(),
        compareIntegers(compare.getPredicate(), operands[0], operands[1]));
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return convertInteger(op, operands[0], cast<FloatType>(type));
  if (isa<arith::BitcastOp>(op)) {
    auto result = dyn_cast<FloatType>(type);
    if (!result)
      return {};
    return FloatAttr::get(type,
                          APFloat(result.getFloatSemantics(), operands[0]));
  }
  if (!type.isIntOrIndex())
    return {};
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (isa<arith::ExtSIOp, arith::IndexCastOp>(op))
    return IntegerAttr::get(type, operands[0].sextOrTrunc(width));
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp, arith::TruncIOp>(op))
    return IntegerAttr::get(type, operands[0].zextOrTrunc(width));
  std::optional<APInt> result = computeInteger(op, operands);
  return result ? TypedAttr(IntegerAttr::get(type, *result)) : TypedAttr();
}

TypedAttr repro::evaluateScalar(Operation *op, ArrayRef<Attribute> operands) {
  if (op->getNumResults() != 1 || operands.empty() ||
      isa<Float8E4M3FNType, Float6E3M2FNType, Float6E2M3FNType,
          Float4E2M1FNType, Float8E8M0FNUType>(op->getResult(0).getType()) ||
      llvm::is_contained(operands, Attribute()))
    return {};
  if (isa<arith::SelectOp>(op)) {
    auto condition = dyn_cast<BoolAttr>(operands[0]);
    return condition
               ? dyn_cast<TypedAttr>(operands[condition.getValue() ? 1 : 2])
               : TypedAttr();
  }
  if (llvm::all_of(operands, llvm::IsaPred<FloatAttr>)) {
    SmallVector<APFloat> values;
    for (Attribute operand : operands)
      values.push_back(cast<FloatAttr>(operand).getValue());
    return evaluateOfFloats(
        op, values, cast<FloatType>(cast<FloatAttr>(operands[0]).getType()));
  }
  if (llvm::all_of(operands, llvm::IsaPred<IntegerAttr>)) {
    SmallVector<APInt> values;
    for (Attribute operand : operands)
      values.push_back(cast<IntegerAttr>(operand).getValue());
    return evaluateOfIntegers(op, values);
  }
  return {};
}
