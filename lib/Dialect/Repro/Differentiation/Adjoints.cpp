//===- Adjoints.cpp - Adjoints of a program's values ----------------------===//
//-----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"

using namespace mlir;
using namespace mlir::repro;

#include "lib/Dialect/Repro/Differentiation/AdjointOpInterface.cpp.inc"

static bool hasFloats(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

Adjoints::Adjoints(Block &block, ArrayRef<Value> sources) : block(block) {
  active.insert(sources.begin(), sources.end());
  for (Operation &op : block.without_terminator())
    if (isActive(&op))
      for (Value result : op.getResults())
        if (hasFloats(result))
          active.insert(result);
}

bool Adjoints::isActive(Operation *op) const {
  bool found = false;
  op->walk([&](Operation *inner) {
    found |= llvm::any_of(inner->getOperands(),
                          [&](Value value) { return active.contains(value); });
  });
  return found;
}

ImplicitLocOpBuilder Adjoints::builderAt(Location loc) const {
  return ImplicitLocOpBuilder(loc, block.getTerminator());
}

void Adjoints::add(Value value, Value contribution) {
  if (!contribution || !isActive(value))
    return;
  Value &adjoint = adjoints[value];
  if (!adjoint) {
    adjoint = contribution;
    return;
  }
  ImplicitLocOpBuilder b = builderAt(contribution.getLoc());
  auto sum = [](ImplicitLocOpBuilder &b, ValueRange terms) -> Value {
    return arith::AddFOp::create(b, terms[0], terms[1]);
  };
  auto type = dyn_cast<RankedTensorType>(value.getType());
  adjoint = type ? mapElements(b, type.getShape(), type.getElementType(),
                               {adjoint, contribution}, {}, sum)
                 : sum(b, {adjoint, contribution});
}

Type repro::getDerivativeType(Type type) {
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32)
    return Float32Type::get(type.getContext());
  return type;
}

/// Whether the operation may have an infinite derivative at a finite operand.
/// Examples are exp at an operand for which it overflows, and the logarithm at
/// 0.
static bool isFunction(Operation &op) {
  return isa<ReproDialect>(op.getDialect()) || isa<math::SqrtOp>(op);
}

SmallVector<Scalar>
repro::deriveOperands(DerivativeOpInterface op, Scalar gradient,
                      llvm::function_ref<Value(Value)> lookUp) {
  auto get = [&](Value value) {
    Scalar scalar(gradient.getBuilder(), lookUp(value));
    if (!isa<FloatType>(value.getType()))
      return scalar;
    return scalar.convert(getDerivativeType(value.getType()));
  };
  SmallVector<Scalar> operands = llvm::map_to_vector(op->getOperands(), get);
  SmallVector<Scalar> derived =
      op.buildDerivatives(gradient, operands, get(op->getResult(0)));
  if (!isFunction(*op.getOperation()))
    return derived;
  Scalar zero = gradient.constant(0);
  Scalar isZero = compare(arith::CmpFPredicate::OEQ, gradient, zero);
  for (Scalar &each : derived)
    if (each)
      each = select(isZero, zero, each);
  return derived;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Value repro::makeZero(ImplicitLocOpBuilder &b, Type type) {
  Type element = getElementTypeOrSelf(type);
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(element));
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return zero;
  return mapElements(b, tensor.getShape(), element, {}, {},
                     [&](ImplicitLocOpBuilder &, ValueRange) { return zero; });
}

static Value yieldFirst(ImplicitLocOpBuilder &, ValueRange values) {
  return values[0];
}

Value repro::flip(ImplicitLocOpBuilder &b, Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<AffineExpr> exprs;
  for (int64_t i = 0; i < type.getRank(); ++i)
    exprs.push_back(b.getAffineDimExpr(i));
  exprs[dim] = (type.getDimSize(dim) - 1) - exprs[dim];
  AffineMap map = AffineMap::get(type.getRank(), 0, exprs, b.getContext());
  return mapElements(b, type.getShape(), type.getElementType(), tensor, map,
                     yieldFirst);
}

Value repro::slice(ImplicitLocOpBuilder &b, Value tensor, int64_t dim,
                   int64_t offset, int64_t size) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(type.getRank(), b.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes =
      getAsIndexOpFoldResult(b.getContext(), type.getShape());
  offsets[dim] = b.getIndexAttr(offset);
  sizes[dim] = b.getIndexAttr(size);
  return tensor::ExtractSliceOp::create(b, tensor, offsets, sizes, strides);
}

Value repro::makePositions(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                           int64_t dim) {
  return mapElements(b, shape, b.getI64Type(), {}, {},
                     [&](ImplicitLocOpBuilder &b, ValueRange) -> Value {
                       Value index = linalg::IndexOp::create(b, dim);
                       return arith::IndexCastOp::create(b, b.getI64Type(),
                                                         index);
                     });
}

Value repro::scan(ImplicitLocOpBuilder &b, Value tensor, Combine combine,
                  int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  Value empty =
      tensor::EmptyOp::create(b, type.getShape(), type.getElementType());
  return ScanOp::create(b, TypeRange{type}, ValueRange{tensor},
                        ValueRange{empty}, combine, dim)
      .getResult(0);
}
