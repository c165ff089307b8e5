//===- TotalOrder.cpp - Comparison of keys (D2) ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/TotalOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro::kernels;

Value repro::kernels::comesBefore(KernelBuilder &builder, KeyOrder order,
                                  Value a, Value b) {
  Type element = getElementTypeOrSelf(a.getType());
  bool less = order == KeyOrder::Least || order == KeyOrder::Ascending;
  if (!isa<FloatType>(element)) {
    arith::CmpIPredicate predicate =
        element.isInteger(1)
            ? (less ? arith::CmpIPredicate::ult : arith::CmpIPredicate::ugt)
            : (less ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sgt);
    return arith::CmpIOp::create(builder, predicate, a, b);
  }
  if (cast<FloatType>(element).getWidth() < 32) {
    a = builder.convertFloat(a, builder.getF32Type());
    b = builder.convertFloat(b, builder.getF32Type());
  }
  Value ordered = arith::CmpFOp::create(
      builder, less ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT, a,
      b);
  bool nanFirst = order != KeyOrder::Ascending;
  Value first = nanFirst ? a : b, second = nanFirst ? b : a;
  Value firstIsNaN =
      arith::CmpFOp::create(builder, arith::CmpFPredicate::UNO, first, first);
  Value secondIsNumber =
      arith::CmpFOp::create(builder, arith::CmpFPredicate::ORD, second, second);
  return arith::OrIOp::create(
      builder, ordered,
      arith::AndIOp::create(builder, firstIsNaN, secondIsNumber));
}
