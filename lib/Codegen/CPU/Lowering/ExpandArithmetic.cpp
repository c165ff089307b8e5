//===- ExpandArithmetic.cpp - What LLVM leaves open or to a library -------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Codegen/CPU/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDARITHMETIC
#include "dialects/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct ExpandArithmetic
    : public repro::impl::ReproExpandArithmeticBase<ExpandArithmetic> {
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

/// The constant that `value` is in every element.
static std::optional<APInt> getConstant(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant;
  return std::nullopt;
}

/// (I1) x/0 = -1, x%0 = x, MIN/-1 = MIN, MIN%-1 = 0.
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

/// (I1) a shift by the width or more gives 0, an arithmetic one the sign.
template <typename Op>
static void expandShift(Op op, bool isArithmetic) {
  Type type = op.getType();
  unsigned width = getWidth(type);
  if (std::optional<APInt> by = getConstant(op.getRhs()); by && by->ult(width))
    return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value most = createConstant(b, type, APInt(width, width - 1));
  Value tooFar = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt,
                                       op.getRhs(), most);
  Value by = arith::SelectOp::create(b, tooFar, most, op.getRhs());
  Value result = Op::create(b, op.getLhs(), by);
  if (!isArithmetic)
    result = arith::SelectOp::create(
        b, tooFar, createConstant(b, type, APInt::getZero(width)), result);
  op.replaceAllUsesWith(result);
  op.erase();
}

/// (S3) toward zero, saturating, NaN to 0: exactly LLVM's saturating intrinsic.
template <typename Op>
static void expandFloatToInt(Op op, StringRef intrinsic) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto call = LLVM::CallIntrinsicOp::create(
      b, op.getType(), b.getStringAttr(intrinsic), ValueRange{op.getIn()});
  op.replaceAllUsesWith(call.getResult(0));
  op.erase();
}

void ExpandArithmetic::runOnOperation() {
  SmallVector<Operation *> work;
  getOperation().walk([&](Operation *op) {
    if (isa<arith::ArithDialect>(op->getDialect()))
      work.push_back(op);
  });
  for (Operation *op : work) {
    TypeSwitch<Operation *>(op)
        .Case([](arith::DivSIOp o) { expandDivision(o, true, false); })
        .Case([](arith::DivUIOp o) { expandDivision(o, false, false); })
        .Case([](arith::RemSIOp o) { expandDivision(o, true, true); })
        .Case([](arith::RemUIOp o) { expandDivision(o, false, true); })
        .Case([](arith::ShLIOp o) { expandShift(o, false); })
        .Case([](arith::ShRUIOp o) { expandShift(o, false); })
        .Case([](arith::ShRSIOp o) { expandShift(o, true); })
        .Case([](arith::FPToSIOp o) {
          expandFloatToInt(o, "llvm.fptosi.sat");
        })
        .Case([](arith::FPToUIOp o) {
          expandFloatToInt(o, "llvm.fptoui.sat");
        });
  }
}
