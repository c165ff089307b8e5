//===- RuntimeCalls.cpp - Calls of exact runtime routines -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RuntimeCalls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;

Value mlir::repro::callRoutine(ImplicitLocOpBuilder &b, StringRef routine,
                               ValueRange operands) {
  Type f64 = b.getF64Type();
  auto call = [&](ValueRange values) -> Value {
    return func::CallOp::create(b, routine, f64, values).getResult(0);
  };
  auto type = dyn_cast<VectorType>(operands[0].getType());
  if (!type)
    return call(operands);
  Value result = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, b.getF64FloatAttr(0)));
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t i = type.getRank() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * type.getDimSize(i);
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    SmallVector<int64_t> position;
    for (auto [stride, extent] : llvm::zip_equal(strides, type.getShape()))
      position.push_back(i / stride % extent);
    SmallVector<Value> values;
    for (Value operand : operands)
      values.push_back(vector::ExtractOp::create(b, operand, position));
    result = vector::InsertOp::create(b, call(values), result, position);
  }
  return result;
}

void mlir::repro::declareRoutine(ModuleOp module, StringRef routine,
                                 unsigned numOperands) {
  if (module.lookupSymbol(routine))
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  Type f64 = builder.getF64Type();
  func::FuncOp::create(
      builder, module.getLoc(), routine,
      builder.getFunctionType(SmallVector<Type>(numOperands, f64), f64))
      .setPrivate();
}
