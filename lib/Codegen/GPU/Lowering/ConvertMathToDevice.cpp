//===- ConvertMathToDevice.cpp - Exact intrinsics for math ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-convert-math-to-device (Passes.td), run by lib/Pipelines/GPU.cpp:
// replaces each math operation by LLVM intrinsics that compile to exact
// instructions. An operation for which there are no such intrinsics is an
// error.
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROCONVERTMATHTODEVICE
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct ConvertMathToDevice
    : public repro::impl::ReproConvertMathToDeviceBase<ConvertMathToDevice> {
  void runOnOperation() override;
};
} // namespace

/// Emits a call to the LLVM intrinsic `name`. MLIR's conversion to NVVM rejects
/// the LLVM dialect's own operations for these intrinsics and expects calls to
/// libdevice instead.
static Value callIntrinsic(ImplicitLocOpBuilder &b, StringRef name,
                           ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, operands[0].getType(),
                                       b.getStringAttr(name), operands)
      .getResult(0);
}

static Value createFloat(ImplicitLocOpBuilder &b, Type type, double value) {
  TypedAttr attr = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}

/// Rounds to the nearest integer, ties away from zero. Every step is exact.
static Value round(ImplicitLocOpBuilder &b, Value x) {
  Type type = x.getType();
  Value whole = callIntrinsic(b, "llvm.trunc", x);
  Value part =
      callIntrinsic(b, "llvm.fabs", {arith::SubFOp::create(b, x, whole)});
  Value one = callIntrinsic(b, "llvm.copysign", {createFloat(b, type, 1), x});
  Value isFar = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, part,
                                      createFloat(b, type, 0.5));
  Value rounded = arith::SelectOp::create(
      b, isFar, arith::AddFOp::create(b, whole, one), whole);
  return callIntrinsic(b, "llvm.copysign", {rounded, x});
}

static Value convert(Operation *op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  ValueRange operands = op->getOperands();
  auto intrinsic = [&](StringRef name) {
    return callIntrinsic(b, name, operands);
  };
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](math::FmaOp fma) -> Value {
        return LLVM::FMAOp::create(b, fma.getA(), fma.getB(), fma.getC());
      })
      .Case([&](math::SqrtOp) { return intrinsic("llvm.sqrt"); })
      .Case([&](math::AbsFOp) { return intrinsic("llvm.fabs"); })
      .Case([&](math::CopySignOp) { return intrinsic("llvm.copysign"); })
      .Case([&](math::FloorOp) { return intrinsic("llvm.floor"); })
      .Case([&](math::CeilOp) { return intrinsic("llvm.ceil"); })
      .Case([&](math::TruncOp) { return intrinsic("llvm.trunc"); })
      .Case([&](math::RoundEvenOp) { return intrinsic("llvm.roundeven"); })
      .Case([&](math::RoundOp) { return round(b, operands[0]); })
      .Case([&](math::AbsIOp) -> Value {
        return LLVM::AbsOp::create(b, operands[0].getType(), operands[0],
                                   /*is_int_min_poison=*/false);
      })
      .Case([&](math::CountLeadingZerosOp) -> Value {
        return LLVM::CountLeadingZerosOp::create(
            b, operands[0].getType(), operands[0], /*is_zero_poison=*/false);
      })
      .Case([&](math::CountTrailingZerosOp) -> Value {
        return LLVM::CountTrailingZerosOp::create(
            b, operands[0].getType(), operands[0], /*is_zero_poison=*/false);
      })
      .Case([&](math::CtPopOp) -> Value {
        return LLVM::CtPopOp::create(b, operands[0].getType(), operands[0]);
      })
      .Default(Value());
}

/// (S3) Replaces a saturating conversion to fewer than 32 bits by one to 32
/// bits, which devices support, followed by a clamp. LLVM's lowering of the
/// narrow conversion is slower.
static void widenConversion(LLVM::CallIntrinsicOp op) {
  bool isSigned = op.getIntrin() == "llvm.fptosi.sat";
  if (!isSigned && op.getIntrin() != "llvm.fptoui.sat")
    return;
  Type type = op.getResult(0).getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  if (width >= 32)
    return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto vector = dyn_cast<VectorType>(type);
  Type wide = vector ? Type(vector.clone(b.getI32Type())) : b.getI32Type();
  auto constant = [&](const APInt &value) -> Value {
    TypedAttr attr = b.getIntegerAttr(b.getI32Type(), value);
    if (vector)
      attr = DenseElementsAttr::get(cast<VectorType>(wide), attr);
    return arith::ConstantOp::create(b, attr);
  };
  Value value =
      LLVM::CallIntrinsicOp::create(b, wide, op.getIntrinAttr(), op.getArgs())
          .getResult(0);
  if (isSigned) {
    value = arith::MinSIOp::create(
        b, value, constant(APInt::getSignedMaxValue(width).sext(32)));
    value = arith::MaxSIOp::create(
        b, value, constant(APInt::getSignedMinValue(width).sext(32)));
  } else {
    value = arith::MinUIOp::create(
        b, value, constant(APInt::getMaxValue(width).zext(32)));
  }
  op.getResult(0).replaceAllUsesWith(arith::TruncIOp::create(b, type, value));
  op.erase();
}

void ConvertMathToDevice::runOnOperation() {
  SmallVector<LLVM::CallIntrinsicOp> conversions;
  getOperation().walk(
      [&](LLVM::CallIntrinsicOp op) { conversions.push_back(op); });
  llvm::for_each(conversions, widenConversion);
  SmallVector<Operation *> work;
  getOperation().walk([&](Operation *op) {
    if (isa<math::MathDialect>(op->getDialect()))
      work.push_back(op);
  });
  for (Operation *op : work) {
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    auto real = dyn_cast<FloatType>(element);
    Value result = real && real.getWidth() < 32 ? Value() : convert(op);
    if (!result) {
      op->emitOpError("(V3) has no exact instruction for ") << element;
      return signalPassFailure();
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}
