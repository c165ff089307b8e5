//===- ExpandArithmetic.cpp - Arithmetic with defined results -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-arithmetic (Passes.td), run by lib/Pipelines/CPU.cpp and
// GPU.cpp: rewrites the `arith` operations whose results LLVM leaves undefined
// for some operands, or computes by a library call. Afterwards their results
// are defined for all operands, by (I1), (S3) and (S4).
//
//===----------------------------------------------------------------------===//

#include "RuntimeCalls.h"

#include "Codegen/CPU/Passes.h"
#include "dialects/Repro/IR/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"

#include <cmath>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDARITHMETIC
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct ExpandArithmetic
    : public repro::impl::ReproExpandArithmeticBase<ExpandArithmetic> {
  using ReproExpandArithmeticBase::ReproExpandArithmeticBase;

  void runOnOperation() override;
};
} // namespace

static unsigned getWidth(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

static Value createConstant(ImplicitLocOpBuilder &b, Type type,
                            const APInt &value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = b.getIntegerAttr(element, value);
  if (auto shaped = dyn_cast<ShapedType>(type))
    attr = DenseElementsAttr::get(shaped, attr);
  return arith::ConstantOp::create(b, attr);
}

/// Returns the value of an integer constant, or of all its elements if it is a
/// splat; otherwise std::nullopt.
static std::optional<APInt> getConstant(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant;
  return std::nullopt;
}

/// (I1) Rewrites a division or remainder: x/0 = -1, x%0 = x, MIN/-1 = MIN and
/// MIN%-1 = 0, where MIN is the least integer.
template <typename Op>
static void expandDivision(Op op, bool isSigned, bool isRemainder) {
  if (std::optional<APInt> divisor = getConstant(op.getRhs()))
    if (!divisor->isZero() && !(isSigned && divisor->isAllOnes()))
      return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type type = op.getType();
  unsigned width = getWidth(type);
  Value x = op.getLhs(), y = op.getRhs();
  auto equal = [&](Value value, const APInt &constant) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value,
                                 createConstant(b, type, constant));
  };
  Value isZero = equal(y, APInt::getZero(width));
  Value unsafe = isZero;
  if (isSigned)
    unsafe = arith::OrIOp::create(
        b, isZero,
        arith::AndIOp::create(b, equal(x, APInt::getSignedMinValue(width)),
                              equal(y, APInt::getAllOnes(width))));
  Value divisor = arith::SelectOp::create(
      b, unsafe, createConstant(b, type, APInt(width, 1)), y);
  Value result = Op::create(b, x, divisor);
  Value atZero =
      isRemainder ? x : createConstant(b, type, APInt::getAllOnes(width));
  op.replaceAllUsesWith(
      arith::SelectOp::create(b, isZero, atZero, result).getResult());
  op.erase();
}

/// (I1) Rewrites a shift. A shift by the width or more yields 0, or copies of
/// the sign bit if it is an arithmetic right shift.
template <typename Op>
static void expandShift(Op op, bool isArithmetic) {
  Type type = op.getType();
  unsigned width = getWidth(type);
  if (std::optional<APInt> by = getConstant(op.getRhs()); by && by->ult(width))
    return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value most = createConstant(b, type, APInt(width, width - 1));
  Value tooFar =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, op.getRhs(), most);
  Value by = arith::SelectOp::create(b, tooFar, most, op.getRhs());
  Value result = Op::create(b, op.getLhs(), by);
  if (!isArithmetic)
    result = arith::SelectOp::create(
        b, tooFar, createConstant(b, type, APInt::getZero(width)), result);
  op.replaceAllUsesWith(result);
  op.erase();
}

/// Rewrites floor(x/y) or ceil(x/y) as the quotient toward zero plus a
/// correction by one. Appends the new divisions to `work`, because they need
/// rewriting too.
template <typename Op, typename Div, typename Rem>
static void expandRoundedDivision(Op op, bool isSigned, bool isFloor,
                                  SmallVectorImpl<Operation *> &work) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type type = op.getType();
  Value x = op.getLhs(), y = op.getRhs();
  Value zero = createConstant(b, type, APInt::getZero(getWidth(type)));
  auto compare = [&](arith::CmpIPredicate predicate, Value u,
                     Value v) -> Value {
    return arith::CmpIOp::create(b, predicate, u, v);
  };
  auto quotient = Div::create(b, x, y);
  auto remainder = Rem::create(b, x, y);
  work.push_back(quotient);
  work.push_back(remainder);
  Value corrects = compare(arith::CmpIPredicate::ne, remainder, zero);
  if (isSigned) {
    Value signs = arith::XOrIOp::create(b, x, y);
    corrects = arith::AndIOp::create(
        b, corrects,
        compare(isFloor ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sge,
                signs, zero));
  }
  // (I1) x/0 is -1: the quotient is not corrected, although the remainder x is
  // nonzero.
  corrects = arith::AndIOp::create(b, corrects,
                                   compare(arith::CmpIPredicate::ne, y, zero));
  Value one = createConstant(b, type, APInt(getWidth(type), 1));
  Value corrected = isFloor
                        ? arith::SubIOp::create(b, quotient, one).getResult()
                        : arith::AddIOp::create(b, quotient, one).getResult();
  op.replaceAllUsesWith(
      arith::SelectOp::create(b, corrects, corrected, quotient).getResult());
  op.erase();
}

//===----------------------------------------------------------------------===//
// Storage types
//===----------------------------------------------------------------------===//

namespace {

/// Converts between f32 and bf16, f16, f8E5M2 or f8E4M3FN with integer
/// operations on their bits, for scalars or vectors.
class StorageConverter {
public:
  StorageConverter(ImplicitLocOpBuilder &b, Type storage)
      : b(b), type(getElementTypeOrSelf(storage)) {
    const llvm::fltSemantics &semantics =
        cast<FloatType>(type).getFloatSemantics();
    width = type.getIntOrFloatBitWidth();
    mantissa = llvm::APFloat::semanticsPrecision(semantics) - 1;
    bias = 1 - llvm::APFloat::semanticsMinExponent(semantics);
    hasInfinity = llvm::APFloat::semanticsHasInf(semantics);
  }

  /// Converts `value` from the storage type to f32, exactly.
  Value extend(Value value);
  /// (S3) Rounds `value` once, from f32 to the storage type.
  Value truncate(Value value);

  Type like(Type shape, Type element) {
    auto vector = dyn_cast<VectorType>(shape);
    return vector ? Type(vector.clone(element)) : element;
  }

private:
  Value i32(Value shape, uint32_t value) {
    return createConstant(b, like(shape.getType(), b.getI32Type()),
                          APInt(32, value));
  }
  Value f32(Value shape, float value) {
    Type type = like(shape.getType(), b.getF32Type());
    TypedAttr attr = b.getF32FloatAttr(value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return arith::ConstantOp::create(b, attr);
  }
  Value bitcast(Value value, Type element) {
    return arith::BitcastOp::create(b, like(value.getType(), element), value);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mask(Value x, uint32_t bits) {
    return arith::AndIOp::create(b, x, i32(x, bits));
  }
  Value merge(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value left(Value x, unsigned by) {
    return by ? arith::ShLIOp::create(b, x, i32(x, by)).getResult() : x;
  }
  Value right(Value x, unsigned by) {
    return by ? arith::ShRUIOp::create(b, x, i32(x, by)).getResult() : x;
  }

  ImplicitLocOpBuilder &b;
  Type type;
  unsigned width, mantissa;
  int bias;
  bool hasInfinity;

  static constexpr unsigned singleMantissa = 23, singleBias = 127;
  static constexpr uint32_t singleInfinity = 0x7f800000, singleNaN = 0x7fc00000;
};

} // namespace

Value StorageConverter::extend(Value value) {
  Value bits = bitcast(value, b.getIntegerType(width));
  bits = arith::ExtUIOp::create(b, like(value.getType(), b.getI32Type()), bits);
  uint32_t magnitudeMask = (1u << (width - 1)) - 1;
  Value sign = left(mask(bits, ~magnitudeMask), 32 - width);
  Value magnitude = mask(bits, magnitudeMask);
  Value shifted = left(magnitude, singleMantissa - mantissa);
  Value result = add(shifted, i32(bits, (singleBias - bias) << singleMantissa));
  if (unsigned(bias) != singleBias) {
    // The magnitude of a subnormal number is its bits, read as an integer,
    // times a power of two.
    Value integer = arith::UIToFPOp::create(
        b, like(value.getType(), b.getF32Type()), magnitude);
    Value scaled = arith::MulFOp::create(
        b, integer, f32(bits, std::ldexp(1.0f, 1 - bias - int(mantissa))));
    result = select(compare(arith::CmpIPredicate::ult, magnitude,
                            i32(bits, 1u << mantissa)),
                    bitcast(scaled, b.getI32Type()), result);
  }
  if (hasInfinity)
    result = select(compare(arith::CmpIPredicate::uge, magnitude,
                            i32(bits, magnitudeMask & ~((1u << mantissa) - 1))),
                    merge(shifted, i32(bits, singleInfinity)), result);
  else
    result = select(
        compare(arith::CmpIPredicate::eq, magnitude, i32(bits, magnitudeMask)),
        i32(bits, singleNaN), result);
  return bitcast(merge(result, sign), b.getF32Type());
}

Value StorageConverter::truncate(Value value) {
  Value bits = bitcast(value, b.getI32Type());
  Value magnitude = mask(bits, 0x7fffffff);
  Value sign = right(mask(bits, 0x80000000), 32 - width);
  unsigned drop = singleMantissa - mantissa;
  // Rounds to nearest even: adding to the dropped bits carries into the kept
  // bits if the result must be rounded up.
  Value isOdd = mask(right(magnitude, drop), 1);
  Value rounded = right(
      add(add(magnitude, i32(bits, (1u << (drop - 1)) - 1)), isOdd), drop);
  Value result = sub(rounded, i32(bits, (singleBias - bias) << mantissa));
  if (unsigned(bias) != singleBias) {
    // For results below the least normal number: adding a power of two rounds
    // at the right bit and leaves the result in the low bits of the sum.
    float magic =
        std::ldexp(1.0f, 1 - bias - int(mantissa) + int(singleMantissa));
    Value sum = arith::AddFOp::create(b, bitcast(magnitude, b.getF32Type()),
                                      f32(bits, magic));
    Value subnormal = sub(bitcast(sum, b.getI32Type()),
                          i32(bits, llvm::bit_cast<uint32_t>(magic)));
    Value isSubnormal =
        compare(arith::CmpIPredicate::ult, magnitude,
                i32(bits, (singleBias - bias + 1) << singleMantissa));
    result = select(isSubnormal, subnormal, result);
  }
  uint32_t greatest = (1u << (width - 1)) - 1;
  // On overflow the result is infinity, or the NaN of f8E4M3FN.
  uint32_t limit = hasInfinity ? greatest & ~((1u << mantissa) - 1) : greatest;
  Value tooLarge = compare(arith::CmpIPredicate::ugt, result, i32(bits, limit));
  result = merge(select(tooLarge, i32(bits, limit), result), sign);
  // (V4) Every NaN becomes the one canonical NaN.
  uint32_t nan = hasInfinity ? limit | 1u << (mantissa - 1) : greatest;
  Value isNaN =
      compare(arith::CmpIPredicate::ugt, magnitude, i32(bits, singleInfinity));
  if (!hasInfinity)
    isNaN = arith::OrIOp::create(b, isNaN,
                                 compare(arith::CmpIPredicate::eq,
                                         mask(result, greatest),
                                         i32(bits, greatest)));
  result = select(isNaN, i32(bits, nan), result);
  result = arith::TruncIOp::create(
      b, like(value.getType(), b.getIntegerType(width)), result);
  return bitcast(result, type);
}

/// Converts an integer of at most 24 bits to f32, and a wider one to f64.
/// Rounding the converted value to fewer bits then gives the same result as
/// rounding the integer: if an i64 needs more than 48 bits, its lowest 16 bits
/// are first merged into one sticky bit.
static Value squeeze(ImplicitLocOpBuilder &b, Value integer, bool isSigned) {
  auto like = [&](Type element) -> Type {
    auto vector = dyn_cast<VectorType>(integer.getType());
    return vector ? Type(vector.clone(element)) : element;
  };
  Type i64 = like(b.getI64Type()), f64 = like(b.getF64Type());
  unsigned width = getWidth(integer.getType());
  if (width < 64) {
    Type exact = width <= 24 ? like(b.getF32Type()) : f64;
    if (isSigned)
      return arith::SIToFPOp::create(b, exact, integer);
    return arith::UIToFPOp::create(b, exact, integer);
  }
  auto constant = [&](uint64_t value) {
    return createConstant(b, i64, APInt(64, value));
  };
  Value zero = constant(0), magnitude = integer, isNegative;
  if (isSigned) {
    isNegative =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, integer, zero);
    magnitude = arith::SelectOp::create(
        b, isNegative, arith::SubIOp::create(b, zero, integer), integer);
  }
  Value low = arith::AndIOp::create(b, magnitude, constant(0xffff));
  Value hasLow = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, low, zero);
  Value sticky = arith::SelectOp::create(b, hasLow, constant(0x10000), zero);
  Value squeezed = arith::OrIOp::create(
      b, arith::AndIOp::create(b, magnitude, constant(~uint64_t(0xffff))),
      sticky);
  Value isLarge = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, magnitude,
                                        constant((uint64_t(1) << 48) - 1));
  magnitude = arith::SelectOp::create(b, isLarge, squeezed, magnitude);
  Value result = arith::UIToFPOp::create(b, f64, magnitude);
  if (isSigned)
    result = arith::SelectOp::create(b, isNegative,
                                     arith::NegFOp::create(b, result), result);
  return result;
}

static bool isStorage(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<FloatType>(element) && !element.isF32() && !element.isF64();
}

namespace {
/// Rewrites conversions to and from storage types (V1). `hasF16`: the target
/// has instructions that convert between f16 and f32.
struct Conversions {
  bool hasF16;

  bool isNative(Type type) const {
    return hasF16 && getElementTypeOrSelf(type).isF16();
  }

  Value toSingle(ImplicitLocOpBuilder &b, Value value) const {
    if (!isStorage(value.getType()))
      return value;
    StorageConverter converter(b, value.getType());
    if (isNative(value.getType()))
      return arith::ExtFOp::create(
          b, converter.like(value.getType(), b.getF32Type()), value);
    return converter.extend(value);
  }

  Value fromFloat(ImplicitLocOpBuilder &b, Value value, Type to) const {
    value = toSingle(b, value);
    if (getElementTypeOrSelf(value.getType()).isF64())
      value = roundToOdd(b, value);
    if (isNative(to))
      return arith::TruncFOp::create(b, to, value);
    return StorageConverter(b, to).truncate(value);
  }

  void expand(arith::ExtFOp op) const {
    if (!isStorage(op.getIn().getType()))
      return;
    bool toDouble = getElementTypeOrSelf(op.getType()).isF64();
    if (isNative(op.getIn().getType()) && !toDouble)
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Value result = toSingle(b, op.getIn());
    if (isStorage(op.getType()))
      result = fromFloat(b, result, op.getType());
    else if (toDouble)
      result = arith::ExtFOp::create(b, op.getType(), result);
    op.replaceAllUsesWith(result);
    op.erase();
  }
  void expand(arith::TruncFOp op) const {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    if (!isStorage(op.getType()) || (isNative(op.getType()) && from.isF32()))
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    op.replaceAllUsesWith(fromFloat(b, op.getIn(), op.getType()));
    op.erase();
  }
  template <typename Op>
  void expandFromInteger(Op op, bool isSigned) const {
    if (!isStorage(op.getType()))
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    op.replaceAllUsesWith(
        fromFloat(b, squeeze(b, op.getIn(), isSigned), op.getType()));
    op.erase();
  }
};
} // namespace

/// (S3) Rewrites a conversion to integers, which rounds toward zero, saturates
/// and maps NaN to 0, as a call to LLVM's saturating intrinsic.
template <typename Op>
static void expandToInteger(Op op, StringRef intrinsic) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto call = LLVM::CallIntrinsicOp::create(
      b, op.getType(), b.getStringAttr(intrinsic), ValueRange{op.getIn()});
  op->getResult(0).replaceAllUsesWith(call.getResult(0));
  op.erase();
}

static constexpr StringRef remainderRoutine = "repro_fmod";

/// (S4) Rewrites a remainder as a call to repro_fmod on f64. Remainders are
/// exact, so f32 operands that are extended to f64 give the same result.
static void expandRemainder(arith::RemFOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type type = op.getType();
  auto vector = dyn_cast<VectorType>(type);
  Type wide = vector ? Type(vector.clone(b.getF64Type())) : b.getF64Type();
  auto extend = [&](Value value) -> Value {
    if (type == wide)
      return value;
    return arith::ExtFOp::create(b, wide, value);
  };
  Value result = callRoutine(b, remainderRoutine,
                             {extend(op.getLhs()), extend(op.getRhs())});
  if (type != wide)
    result = arith::TruncFOp::create(b, type, result);
  op.replaceAllUsesWith(result);
  op.erase();
}

/// (V4) Makes copysign treat the sign of a NaN as plus.
static void expandCopySign(math::CopySignOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value sign = op.getRhs();
  Value isNaN = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, sign, sign);
  Value zero = arith::ConstantOp::create(
      b, cast<TypedAttr>(b.getZeroAttr(sign.getType())));
  op.getRhsMutable().assign(arith::SelectOp::create(b, isNaN, zero, sign));
}

void ExpandArithmetic::runOnOperation() {
  SmallVector<Operation *> work;
  bool hasRemainder = false;
  getOperation().walk([&](Operation *op) {
    if (isa<arith::ArithDialect>(op->getDialect()) || isa<math::CopySignOp>(op))
      work.push_back(op);
    hasRemainder |= isa<arith::RemFOp>(op);
  });
  if (hasRemainder)
    declareRoutine(getOperation(), remainderRoutine, 2);
  Conversions conversions{hasF16};
  // `work` grows during this loop: expansions append operations that must be
  // expanded too.
  for (size_t i = 0; i < work.size(); ++i) {
    TypeSwitch<Operation *>(work[i])
        .Case([&](arith::CeilDivSIOp o) {
          expandRoundedDivision<arith::CeilDivSIOp, arith::DivSIOp,
                                arith::RemSIOp>(o, true, false, work);
        })
        .Case([&](arith::CeilDivUIOp o) {
          expandRoundedDivision<arith::CeilDivUIOp, arith::DivUIOp,
                                arith::RemUIOp>(o, false, false, work);
        })
        .Case([&](arith::FloorDivSIOp o) {
          expandRoundedDivision<arith::FloorDivSIOp, arith::DivSIOp,
                                arith::RemSIOp>(o, true, true, work);
        })
        .Case([](arith::DivSIOp o) { expandDivision(o, true, false); })
        .Case([](arith::DivUIOp o) { expandDivision(o, false, false); })
        .Case([](arith::RemSIOp o) { expandDivision(o, true, true); })
        .Case([](arith::RemUIOp o) { expandDivision(o, false, true); })
        .Case([](arith::ShLIOp o) { expandShift(o, false); })
        .Case([](arith::ShRUIOp o) { expandShift(o, false); })
        .Case([](arith::ShRSIOp o) { expandShift(o, true); })
        .Case([](arith::RemFOp o) { expandRemainder(o); })
        .Case([](math::CopySignOp o) { expandCopySign(o); })
        .Case<arith::ExtFOp, arith::TruncFOp>(
            [&](auto o) { conversions.expand(o); })
        .Case(
            [&](arith::SIToFPOp o) { conversions.expandFromInteger(o, true); })
        .Case(
            [&](arith::UIToFPOp o) { conversions.expandFromInteger(o, false); })
        .Case([](arith::FPToSIOp o) { expandToInteger(o, "llvm.fptosi.sat"); })
        .Case([](arith::FPToUIOp o) { expandToInteger(o, "llvm.fptoui.sat"); });
  }
}
