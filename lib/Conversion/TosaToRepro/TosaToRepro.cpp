//===- TosaToRepro.cpp - TOSA operations that upstream does not lower -----===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass convert-tosa-to-repro (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the TOSA operations and replaces
// those that upstream does not lower, or lowers incorrectly, before upstream's
// passes run.
//
//===----------------------------------------------------------------------===//

#include "Conversion/Passes.h"
#include "dialects/Repro/IR/ImportedOps.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_CONVERTTOSATOREPRO
#include "lib/Conversion/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------===//

/// Returns the destinations that `indices` [n, w] select, as a tensor [n * w,
/// 2]: each row has the index of a batch element and the index within it.
static Value createPlaces(OpBuilder &builder, Location loc, Value indices) {
  auto type = cast<RankedTensorType>(indices.getType());
  Type element = type.getElementType();
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(2);
  auto placesType = RankedTensorType::get(shape, element);
  Value empty = tensor::EmptyOp::create(builder, loc, shape, element);
  AffineMap identity = builder.getMultiDimIdentityMap(3);
  SmallVector<utils::IteratorType> parallel(3, utils::IteratorType::parallel);
  auto places = linalg::GenericOp::create(
      builder, loc, TypeRange{placesType}, ValueRange{indices},
      ValueRange{empty}, ArrayRef{identity.getMajorSubMap(2), identity},
      parallel, [&](OpBuilder &body, Location at, ValueRange arguments) {
        Value batch = linalg::IndexOp::create(body, at, 0);
        Value which = linalg::IndexOp::create(body, at, 2);
        Value zero = arith::ConstantIndexOp::create(body, at, 0);
        Value isBatch = arith::CmpIOp::create(
            body, at, arith::CmpIPredicate::eq, which, zero);
        Value number = arith::IndexCastOp::create(body, at, element, batch);
        Value place =
            arith::SelectOp::create(body, at, isBatch, number, arguments[0]);
        linalg::YieldOp::create(body, at, place);
      });
  return tensor::CollapseShapeOp::create(
      builder, loc, places.getResult(0),
      SmallVector<ReassociationIndices>{{0, 1}, {2}});
}

/// Scatters the rows [n, w, c] into [n, k, c] at indices [n, w].
static LogicalResult convertScatter(IRRewriter &rewriter, tosa::ScatterOp op) {
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<RankedTensorType>(operand.getType());
        !type || !type.hasStaticShape())
      return op.emitOpError("expected static shapes, got ")
             << operand.getType();
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  Value rows = tensor::CollapseShapeOp::create(
      rewriter, loc, op.getInput(),
      SmallVector<ReassociationIndices>{{0, 1}, {2}});
  Value places = createPlaces(rewriter, loc, op.getIndices());
  rewriter.replaceOpWithNewOp<ScatterOp>(
      op, TypeRange{op.getValuesOut().getType()}, ValueRange{rows, places},
      ValueRange{op.getValuesIn()}, Combine::replace);
  return success();
}

//===----------------------------------------------------------------------===//
// Transposed convolution
//===----------------------------------------------------------------------===//

/// Permutes `value`; dimension i of the result is dimension `permutation[i]`.
static Value permute(OpBuilder &builder, Location loc, Value value,
                     ArrayRef<int64_t> permutation) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(type.getDimSize(dim));
  Value empty =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  return linalg::TransposeOp::create(builder, loc, value, empty, permutation)
      ->getResult(0);
}

/// (K2) Converts a transposed convolution, in which input element i contributes
/// to the results i * stride + out_pad + w for each window position w.
static LogicalResult convertConvolution(IRRewriter &rewriter,
                                        tosa::TransposeConv2DOp op) {
  auto weight = dyn_cast<RankedTensorType>(op.getWeight().getType());
  auto type = dyn_cast<RankedTensorType>(op.getOutput().getType());
  auto bias = dyn_cast<RankedTensorType>(op.getBias().getType());
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  if (!weight || !type || !bias || !input || !weight.hasStaticShape() ||
      !type.hasStaticShape() || !bias.hasStaticShape() ||
      !input.hasStaticShape() || !isa<FloatType>(type.getElementType()))
    return op.emitOpError("expected floats and static shapes");
  for (Value zero : {op.getInputZp(), op.getWeightZp()})
    if (!matchPattern(zero, m_AnyZeroFloat()))
      return op.emitOpError("expected zero points that are constants of 0");
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  SmallVector<int64_t> pads, dilation(op.getStride());
  ArrayRef<int64_t> outPad = op.getOutPad();
  for (int64_t side : {0, 1, 2, 3})
    pads.push_back(outPad[side] + weight.getDimSize(side < 2 ? 1 : 2) - 1);
  auto resultType = type.clone({type.getDimSize(0), type.getDimSize(3),
                                type.getDimSize(1), type.getDimSize(2)});
  Value empty = tensor::EmptyOp::create(rewriter, loc, resultType.getShape(),
                                        type.getElementType());
  AffineMap identity = rewriter.getMultiDimIdentityMap(4);
  AffineExpr channel = bias.getDimSize(0) == 1
                           ? rewriter.getAffineConstantExpr(0)
                           : rewriter.getAffineDimExpr(1);
  SmallVector<utils::IteratorType> parallel(4, utils::IteratorType::parallel);
  auto init = linalg::GenericOp::create(
      rewriter, loc, TypeRange{resultType}, ValueRange{op.getBias()},
      ValueRange{empty}, ArrayRef{AffineMap::get(4, 0, channel), identity},
      parallel, [](OpBuilder &body, Location at, ValueRange arguments) {
        linalg::YieldOp::create(body, at, arguments[0]);
      });
  Value result = ConvolutionOp::create(
      rewriter, loc, resultType,
      permute(rewriter, loc, op.getInput(), {0, 3, 1, 2}),
      permute(rewriter, loc, op.getWeight(), {0, 3, 1, 2}), init.getResult(0),
      /*strides=*/ArrayRef<int64_t>{1, 1},
      /*padding_low=*/ArrayRef<int64_t>{pads[0], pads[2]},
      /*padding_high=*/ArrayRef<int64_t>{pads[1], pads[3]},
      /*input_dilation=*/dilation,
      /*kernel_dilation=*/ArrayRef<int64_t>{1, 1},
      /*window_reversal=*/ArrayRef<bool>{true, true},
      /*feature_groups=*/1, /*batch_groups=*/1);
  rewriter.replaceOp(op, permute(rewriter, loc, result, {0, 2, 3, 1}));
  return success();
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

namespace {
/// The angle by which the Fourier transform rotates an input element for an
/// output element. The methods create operations in the body of the sum over
/// rows and columns.
struct Angle {
  Angle(OpBuilder &builder, Location loc, int64_t height, int64_t width)
      : builder(builder), loc(loc) {
    // Each fraction is exact, and so is their sum, because extents are powers
    // of two.
    Value rows = fraction(1, 3, height), columns = fraction(2, 4, width);
    turns = arith::AddFOp::create(builder, loc, rows, columns);
    angle =
        arith::MulFOp::create(builder, loc, turns, constant(6.283185307179586));
  }

  /// Returns the cosine, which is replaced by an exact 0 at odd quarters of a
  /// turn.
  Value cosine() {
    return zeroAt(math::CosOp::create(builder, loc, angle), 0.25);
  }
  Value sine() { return zeroAt(math::SinOp::create(builder, loc, angle), 0); }

private:
  Value constant(double value) {
    return arith::ConstantOp::create(
        builder, loc, builder.getF32FloatAttr(static_cast<float>(value)));
  }

  /// Returns (i * j mod extent) / extent, where i and j are the indices of
  /// loops `to` and `from`.
  Value fraction(int64_t to, int64_t from, int64_t extent) {
    Value i = linalg::IndexOp::create(builder, loc, to);
    Value j = linalg::IndexOp::create(builder, loc, from);
    Value size = arith::ConstantIndexOp::create(builder, loc, extent);
    Value product = arith::MulIOp::create(builder, loc, i, j);
    Value rest = arith::RemUIOp::create(builder, loc, product, size);
    Value number =
        arith::IndexCastOp::create(builder, loc, builder.getI64Type(), rest);
    Value part =
        arith::SIToFPOp::create(builder, loc, builder.getF32Type(), number);
    return arith::MulFOp::create(builder, loc, part, constant(1.0 / extent));
  }

  /// Returns 0 if turns - first is a multiple of one half, else `value`.
  Value zeroAt(Value value, double first) {
    Value halves = arith::MulFOp::create(
        builder, loc,
        arith::SubFOp::create(builder, loc, turns, constant(first)),
        constant(2));
    Value whole = math::FloorOp::create(builder, loc, halves);
    Value isZero = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::OEQ, halves, whole);
    return arith::SelectOp::create(builder, loc, isZero, constant(0), value);
  }

  OpBuilder &builder;
  Location loc;
  Value turns, angle;
};
} // namespace

/// Returns a tensor of `type` in which each element is the sum of `term` over
/// all input elements of the same image.
static Value
createTransform(OpBuilder &builder, Location loc, ValueRange inputs,
                RankedTensorType type,
                function_ref<Value(OpBuilder &, ValueRange, Angle &)> term) {
  auto source = cast<RankedTensorType>(inputs[0].getType());
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  Value zeros = linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
  AffineMap all = builder.getMultiDimIdentityMap(5);
  SmallVector<AffineMap> maps(inputs.size(), all.getSubMap({0, 3, 4}));
  maps.push_back(all.getMajorSubMap(3));
  SmallVector<utils::IteratorType> iterators(3, utils::IteratorType::parallel);
  iterators.append(2, utils::IteratorType::reduction);
  auto sum = linalg::GenericOp::create(
      builder, loc, TypeRange{type}, inputs, ValueRange{zeros}, maps, iterators,
      [&](OpBuilder &body, Location at, ValueRange arguments) {
        Angle angle(body, at, source.getDimSize(1), source.getDimSize(2));
        Value value = term(body, arguments.drop_back(), angle);
        Value total = arith::AddFOp::create(body, at, arguments.back(), value);
        linalg::YieldOp::create(body, at, total);
      });
  return sum.getResult(0);
}

static LogicalResult checkTransform(Operation *op) {
  for (Type type : op->getOperandTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !tensor.getElementType().isF32() ||
        !llvm::isPowerOf2_64(tensor.getDimSize(1)) ||
        !llvm::isPowerOf2_64(tensor.getDimSize(2)))
      return op->emitOpError("expected f32 and extents that are powers of two, "
                             "got ")
             << type;
  }
  return success();
}

static LogicalResult convertTransform(IRRewriter &rewriter, tosa::FFT2dOp op) {
  if (failed(checkTransform(op)))
    return failure();
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  SmallVector<Value> inputs = {op.getInputReal(), op.getInputImag()};
  // The inverse transform flips the sign of the sines.
  bool isInverse = op.getInverse();
  auto combine = [&](OpBuilder &b, Value x, Value y, bool isSum) -> Value {
    if (isSum)
      return arith::AddFOp::create(b, loc, x, y);
    return arith::SubFOp::create(b, loc, x, y);
  };
  auto multiply = [&](OpBuilder &b, Value x, Value y) -> Value {
    return arith::MulFOp::create(b, loc, x, y);
  };
  auto realType = cast<RankedTensorType>(op.getOutputReal().getType());
  Value real = createTransform(
      rewriter, loc, inputs, realType,
      [&](OpBuilder &b, ValueRange x, Angle &angle) {
        return combine(b, multiply(b, x[0], angle.cosine()),
                       multiply(b, x[1], angle.sine()), !isInverse);
      });
  Value imaginary = createTransform(
      rewriter, loc, inputs, realType,
      [&](OpBuilder &b, ValueRange x, Angle &angle) {
        return combine(b, multiply(b, x[1], angle.cosine()),
                       multiply(b, x[0], angle.sine()), isInverse);
      });
  rewriter.replaceOp(op, {real, imaginary});
  return success();
}

static LogicalResult convertTransform(IRRewriter &rewriter, tosa::RFFT2dOp op) {
  if (failed(checkTransform(op)))
    return failure();
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  auto type = cast<RankedTensorType>(op.getOutputReal().getType());
  Value real = createTransform(
      rewriter, loc, op.getInputReal(), type,
      [&](OpBuilder &b, ValueRange x, Angle &angle) -> Value {
        return arith::MulFOp::create(b, loc, x[0], angle.cosine());
      });
  Value imaginary =
      createTransform(rewriter, loc, op.getInputReal(), type,
                      [&](OpBuilder &b, ValueRange x, Angle &angle) -> Value {
                        Value back =
                            arith::NegFOp::create(b, loc, angle.sine());
                        return arith::MulFOp::create(b, loc, x[0], back);
                      });
  rewriter.replaceOp(op, {real, imaginary});
  return success();
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

/// Reshapes the operand `use`, a condition of one element, to rank 0.
static void dropDims(IRRewriter &rewriter, Operation *user, OpOperand &use) {
  auto type = dyn_cast<RankedTensorType>(use.get().getType());
  if (!type || !type.hasStaticShape() || type.getRank() == 0)
    return;
  rewriter.setInsertionPoint(user);
  Value scalar = tensor::CollapseShapeOp::create(
      rewriter, user->getLoc(), use.get(), ArrayRef<ReassociationIndices>());
  rewriter.modifyOpInPlace(user, [&] { use.set(scalar); });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

static LogicalResult convert(IRRewriter &rewriter, Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tosa::ScatterOp op) { return convertScatter(rewriter, op); })
      .Case([&](tosa::TransposeConv2DOp op) {
        return convertConvolution(rewriter, op);
      })
      .Case<tosa::FFT2dOp, tosa::RFFT2dOp>(
          [&](auto op) { return convertTransform(rewriter, op); })
      .Case([&](tosa::IfOp op) {
        dropDims(rewriter, op, op.getConditionMutable());
        return success();
      })
      .Case([&](tosa::WhileOp op) {
        Operation *yield = op.getCondGraph().front().getTerminator();
        dropDims(rewriter, yield, yield->getOpOperand(0));
        return success();
      })
      .Default([](Operation *) { return success(); });
}

namespace {
struct ConvertTosaToRepro
    : public repro::impl::ConvertTosaToReproBase<ConvertTosaToRepro> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa_and_nonnull<tosa::TosaDialect>(op->getDialect()))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : ops)
      if (failed(convert(rewriter, op)))
        return signalPassFailure();
  }
};
} // namespace
