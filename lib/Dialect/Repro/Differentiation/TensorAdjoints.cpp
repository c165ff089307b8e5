//===- TensorAdjoints.cpp - Adjoints of operations that move elements -----===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Dialect/Repro/Differentiation/Passes.h"

using namespace mlir;
using namespace mlir::repro;

/// Inserts `gradient` into zeros of `type` at the elements that the slice
/// operation reads or writes.
template <typename SliceOp>
static Value insertIntoZeros(ImplicitLocOpBuilder &b, SliceOp op,
                             Value gradient, Type type) {
  return tensor::InsertSliceOp::create(b, gradient, makeZero(b, type),
                                       op.getMixedOffsets(), op.getMixedSizes(),
                                       op.getMixedStrides());
}

static LogicalResult addMoved(tensor::ExtractSliceOp op,
                              ImplicitLocOpBuilder &b, Value g,
                              Adjoints &adjoints) {
  adjoints.add(op.getSource(), insertIntoZeros(b, op, g, op.getSourceType()));
  return success();
}

static LogicalResult addMoved(tensor::InsertSliceOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  if (adjoints.isActive(op.getSource()))
    adjoints.add(op.getSource(),
                 tensor::ExtractSliceOp::create(
                     b, op.getSourceType(), g, op.getMixedOffsets(),
                     op.getMixedSizes(), op.getMixedStrides()));
  if (adjoints.isActive(op.getDest()))
    adjoints.add(op.getDest(), tensor::InsertSliceOp::create(
                                   b, makeZero(b, op.getSourceType()), g,
                                   op.getMixedOffsets(), op.getMixedSizes(),
                                   op.getMixedStrides()));
  return success();
}

static LogicalResult addMoved(tensor::PadOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  Value padding = op.getConstantPaddingValue();
  if (!padding || adjoints.isActive(padding) || !op.getLow().empty() ||
      !op.getHigh().empty())
    return op.emitOpError("(J1) has no derivative: expected a constant as "
                          "padding, of static extents");
  RankedTensorType type = op.getSourceType();
  SmallVector<OpFoldResult> strides(type.getRank(), b.getIndexAttr(1));
  adjoints.add(op.getSource(),
               tensor::ExtractSliceOp::create(
                   b, g, op.getMixedLowPad(),
                   getAsIndexOpFoldResult(b.getContext(), type.getShape()),
                   strides));
  return success();
}

static LogicalResult addMoved(tensor::ConcatOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  int64_t offset = 0, dim = op.getDim();
  for (Value input : op.getInputs()) {
    int64_t size = cast<RankedTensorType>(input.getType()).getDimSize(dim);
    if (adjoints.isActive(input))
      adjoints.add(input, slice(b, g, dim, offset, size));
    offset += size;
  }
  return success();
}

template <typename ReshapeOp>
static LogicalResult addOfReshape(ReshapeOp op, ImplicitLocOpBuilder &b,
                                  Value g, Adjoints &adjoints) {
  adjoints.add(op.getSrc(), reshape(b, g, op.getSrcType().getShape()));
  return success();
}

static LogicalResult addMoved(tensor::CollapseShapeOp op,
                              ImplicitLocOpBuilder &b, Value g,
                              Adjoints &adjoints) {
  return addOfReshape(op, b, g, adjoints);
}

static LogicalResult addMoved(tensor::ExpandShapeOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  return addOfReshape(op, b, g, adjoints);
}

static LogicalResult addMoved(tensor::CastOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  adjoints.add(op.getSource(),
               tensor::CastOp::create(b, op.getSource().getType(), g));
  return success();
}

static LogicalResult addMoved(BarrierOp op, ImplicitLocOpBuilder &, Value g,
                              Adjoints &adjoints) {
  adjoints.add(op.getOperand(), g);
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars and tensors
//===----------------------------------------------------------------------===//

static LogicalResult addMoved(tensor::ExtractOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  RankedTensorType type = op.getTensor().getType();
  if (type.getRank() == 0) {
    adjoints.add(op.getTensor(), tensor::FromElementsOp::create(b, type, g));
    return success();
  }
  adjoints.add(
      op.getTensor(),
      mapElements(
          b, type.getShape(), type.getElementType(), {}, {},
          [&](ImplicitLocOpBuilder &b, ValueRange) {
            Value isHere;
            for (auto [dim, index] : llvm::enumerate(op.getIndices())) {
              Value here = linalg::IndexOp::create(b, dim);
              Value isEqual = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                                    here, index);
              isHere =
                  isHere ? arith::AndIOp::create(b, isHere, isEqual).getResult()
                         : isEqual;
            }
            Scalar zero(b, makeZero(b, g.getType()));
            return select(Scalar(b, isHere), Scalar(b, g), zero).get();
          }));
  return success();
}

static LogicalResult addMoved(tensor::FromElementsOp op,
                              ImplicitLocOpBuilder &b, Value g,
                              Adjoints &adjoints) {
  ArrayRef<int64_t> shape = op.getType().getShape();
  for (auto [number, element] : llvm::enumerate(op.getElements())) {
    if (!adjoints.isActive(element))
      continue;
    SmallVector<Value> position(shape.size());
    int64_t rest = number;
    for (int64_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      position[dim] = arith::ConstantIndexOp::create(b, rest % shape[dim]);
    adjoints.add(element, tensor::ExtractOp::create(b, g, position));
  }
  return success();
}

/// Adds the contributions of an operation on scalars outside of loop bodies, or
/// of a select between whole tensors.
template <typename Op>
static LogicalResult addOfScalars(Op op, ImplicitLocOpBuilder &b, Value g,
                                  Adjoints &adjoints) {
  Type type = getDerivativeType(g.getType());
  SmallVector<Scalar> found = deriveOperands(
      cast<DerivativeOpInterface>(op.getOperation()),
      Scalar(b, g).convert(type), [](Value value) { return value; });
  for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), found))
    if (gradient && adjoints.isActive(operand))
      adjoints.add(operand, gradient.convert(operand.getType()).get());
  return success();
}

static LogicalResult addMoved(arith::SelectOp op, ImplicitLocOpBuilder &b,
                              Value g, Adjoints &adjoints) {
  if (!isa<RankedTensorType>(op.getType()))
    return addOfScalars(op, b, g, adjoints);
  Value zero = makeZero(b, op.getType());
  adjoints.add(op.getTrueValue(),
               arith::SelectOp::create(b, op.getCondition(), g, zero));
  adjoints.add(op.getFalseValue(),
               arith::SelectOp::create(b, op.getCondition(), zero, g));
  return success();
}

namespace {
template <typename Op>
struct TensorModel : AdjointOpInterface::ExternalModel<TensorModel<Op>, Op> {
  LogicalResult addAdjoints(Operation *op, Adjoints &adjoints) const {
    ImplicitLocOpBuilder b = adjoints.builderAt(op->getLoc());
    return addMoved(cast<Op>(op), b, adjoints.get(op->getResult(0)), adjoints);
  }
};

template <typename Op>
struct ScalarModel : AdjointOpInterface::ExternalModel<ScalarModel<Op>, Op> {
  LogicalResult addAdjoints(Operation *op, Adjoints &adjoints) const {
    if (!isa<FloatType>(op->getResult(0).getType()))
      return op->emitOpError("(J1) expected a scalar outside of bodies");
    ImplicitLocOpBuilder b = adjoints.builderAt(op->getLoc());
    return addOfScalars(cast<Op>(op), b, adjoints.get(op->getResult(0)),
                        adjoints);
  }
};
} // namespace

template <typename... Ops>
static void attachTensorModels(MLIRContext *context) {
  (Ops::template attachInterface<TensorModel<Ops>>(*context), ...);
}

template <typename... Ops>
static void attachScalars(MLIRContext *context) {
  (Ops::template attachInterface<ScalarModel<Ops>>(*context), ...);
}

void repro::registerTensorAdjoints(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attachTensorModels<tensor::ExtractSliceOp, tensor::InsertSliceOp,
                       tensor::PadOp, tensor::ConcatOp, tensor::CollapseShapeOp,
                       tensor::ExpandShapeOp, tensor::CastOp, tensor::ExtractOp,
                       tensor::FromElementsOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachTensorModels<arith::SelectOp>(context);
    attachScalars<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
                  arith::RemFOp, arith::NegFOp, arith::MaximumFOp,
                  arith::MinimumFOp, arith::ExtFOp, arith::TruncFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachScalars<math::SqrtOp, math::FmaOp, math::AbsFOp, math::CopySignOp,
                  math::FloorOp, math::CeilOp, math::TruncOp, math::RoundOp,
                  math::RoundEvenOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, ReproDialect *) {
    attachTensorModels<BarrierOp>(context);
    attachScalars<AcosOp, AcoshOp, AsinOp, AsinhOp, AtanOp, AtanhOp, CbrtOp,
                  CosOp, CoshOp, ErfOp, ErfcOp, ExpOp, Exp10Op, Exp2Op, Expm1Op,
                  LogOp, Log10Op, Log1pOp, Log2Op, RsqrtOp, SinOp, SinhOp,
                  TanOp, TanhOp, Atan2Op, HypotOp, PowOp, PowiOp>(context);
  });
}
