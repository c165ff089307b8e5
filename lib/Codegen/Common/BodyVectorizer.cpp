//===- BodyVectorizer.cpp - Vectorize scalar bodies -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/BodyVectorizer.h"

#include "Codegen/Schedule/Buffers/Kernel.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

bool BodyVectorizer::canVectorize(Block &body) {
  return llvm::all_of(body.without_terminator(), [](Operation &op) {
    if (isa<arith::ConstantOp, linalg::IndexOp, repro::IndexOp, memref::LoadOp,
            memref::PrefetchOp, cf::AssertOp, affine::AffineApplyOp>(op))
      return true;
    return op.hasTrait<OpTrait::Elementwise>() &&
           op.hasTrait<OpTrait::Vectorizable>() && op.getNumRegions() == 0 &&
           llvm::all_of(op.getResultTypes(),
                        [](Type type) { return type.isIntOrIndexOrFloat(); });
  });
}

Value BodyVectorizer::spread(LaneValue value) {
  if (!lanes || value.kind == LaneValue::Vector)
    return value.value;
  Value vector = b.broadcast(value.value, lanes);
  if (value.kind == LaneValue::Uniform)
    return vector;
  auto type = cast<VectorType>(vector.getType());
  Type element = type.getElementType();
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(b.getIntegerAttr(element, lane));
  return arith::AddIOp::create(b, vector,
                               b.constant(DenseElementsAttr::get(type, steps)));
}

LaneValue BodyVectorizer::get(Value value) {
  if (auto it = values.find(value); it != values.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  // Values from outside the body are the same for all lanes.
  if (!op || !op->getParentOp() ||
      !isa<linalg::GenericOp, FoldOp>(op->getParentOp()))
    return {value};
  if (op->getNumResults() != 1) {
    SmallVector<Value> operands;
    bool uniform = true;
    for (Value operand : op->getOperands())
      uniform &= get(operand).kind == LaneValue::Uniform;
    for (Value operand : op->getOperands())
      operands.push_back(uniform ? get(operand).value : getLanes(operand));
    OperationState state(b.getLoc(), op->getName());
    state.addOperands(operands);
    state.addAttributes(op->getAttrs());
    for (Type type : op->getResultTypes())
      state.addTypes(getLaneType(type, uniform ? 0 : lanes));
    Operation *clone = b.create(state);
    for (auto [from, to] :
         llvm::zip_equal(op->getResults(), clone->getResults()))
      map(from, to);
    return values[value];
  }
  LaneValue result = compute(op);
  return values[value] = result;
}

Value BodyVectorizer::getLanes(Value value, Type element) {
  Value result = getLanes(value);
  return isa<FloatType>(element) ? b.convertFloat(result, element) : result;
}

SmallVector<Value> BodyVectorizer::inlineBody(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isa<cf::AssertOp>(op))
      computeAssert(&op);
    else if (op.getNumResults())
      get(op.getResult(0));
  }
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(getLanes(value));
  return results;
}

/// Whether an integer cast gives a type of at most the same width. Such casts
/// keep the differences between lanes; a widening cast does not, because values
/// may have wrapped.
static bool isNarrowing(Operation *op) {
  auto getWidth = [](Type type) {
    return type.isIndex() ? IndexType::kInternalStorageBitWidth
                          : type.getIntOrFloatBitWidth();
  };
  return isa<arith::IndexCastOp, arith::TruncIOp>(op) &&
         getWidth(op->getResult(0).getType()) <=
             getWidth(op->getOperand(0).getType());
}

LaneValue BodyVectorizer::compute(Operation *op) {
  if (auto index = dyn_cast<linalg::IndexOp>(op))
    return this->index(index.getDim());
  if (auto index = dyn_cast<repro::IndexOp>(op))
    return this->index(index.getDim());
  if (isa<arith::ConstantOp>(op))
    return {b.clone(*op)->getResult(0)};
  if (isa<memref::LoadOp>(op))
    return computeLoad(op);

  SmallVector<LaneValue> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  bool uniform = llvm::all_of(
      operands, [](LaneValue v) { return v.kind == LaneValue::Uniform; });
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
    AffineMap map = apply.getAffineMap();
    SmallVector<Value> scalars;
    for (LaneValue operand : operands)
      scalars.push_back(uniform ? operand.value : spread(operand));
    ArrayRef<Value> all(scalars);
    if (uniform)
      return {affine::expandAffineExpr(b, b.getLoc(), map.getResult(0),
                                       all.take_front(map.getNumDims()),
                                       all.drop_front(map.getNumDims()))};
    // The map is evaluated separately for each lane.
    SmallVector<Value> elements;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      SmallVector<Value> at;
      for (Value vector : all)
        at.push_back(vector::ExtractOp::create(b, vector, lane));
      ArrayRef<Value> atRef(at);
      elements.push_back(affine::expandAffineExpr(
          b, b.getLoc(), map.getResult(0), atRef.take_front(map.getNumDims()),
          atRef.drop_front(map.getNumDims())));
    }
    return {vector::FromElementsOp::create(
                b, VectorType::get({lanes}, b.getIndexType()), elements),
            LaneValue::Vector};
  }
  // If lane l of one operand is x + l and each other operand is equal in all
  // lanes, the results of sums and narrowing casts have the form y + l too, so
  // one scalar is enough.
  if (lanes && !uniform) {
    auto isScalar = [](LaneValue v) { return v.kind != LaneValue::Vector; };
    bool consecutive = llvm::all_of(operands, isScalar) &&
                       llvm::count_if(operands, [](LaneValue v) {
                         return v.kind == LaneValue::Iota;
                       }) == 1;
    bool keeps =
        isa<arith::AddIOp>(op) ||
        (isa<arith::SubIOp>(op) && operands[0].kind == LaneValue::Iota) ||
        isNarrowing(op);
    if (consecutive && keeps) {
      SmallVector<Value> scalars;
      for (LaneValue operand : operands)
        scalars.push_back(operand.value);
      return {computeElementwise(op, scalars, 0), LaneValue::Iota};
    }
  }
  SmallVector<Value> scalars;
  for (LaneValue operand : operands)
    scalars.push_back(uniform ? operand.value : spread(operand));
  return {computeElementwise(op, scalars, uniform ? 0 : lanes),
          uniform ? LaneValue::Uniform : LaneValue::Vector};
}

//===----------------------------------------------------------------------===//
// Loads at computed indices, assertions
//===----------------------------------------------------------------------===//

LaneValue BodyVectorizer::computeLoad(Operation *op) {
  auto load = cast<memref::LoadOp>(op);
  auto type = cast<MemRefType>(load.getMemref().getType());
  int64_t offset;
  SmallVector<int64_t> strides = *getStaticStrides(type, offset);
  Value flat = b.flatten(load.getMemref());
  Value uniformOffset = b.index(0), vectorOffset, consecutive;
  int64_t consecutiveStride = 0;
  for (auto [operand, stride] : llvm::zip_equal(load.getIndices(), strides)) {
    LaneValue index = get(operand);
    if (index.kind == LaneValue::Iota && !consecutive) {
      consecutive = index.value;
      consecutiveStride = stride;
      continue;
    }
    Value at = index.kind == LaneValue::Uniform ? index.value : spread(index);
    bool isVector = isa<VectorType>(at.getType());
    // Indices of inactive lanes may be out of range, so they become 0.
    if (isVector && mask)
      at = arith::SelectOp::create(b, mask.mask, at,
                                   b.broadcast(b.index(0), lanes));
    if (isVector) {
      Value factor = b.broadcast(b.index(stride), lanes);
      Value part =
          stride == 1 ? at : arith::MulIOp::create(b, at, factor).getResult();
      vectorOffset =
          vectorOffset ? arith::AddIOp::create(b, vectorOffset, part) : part;
    } else {
      uniformOffset = b.add(uniformOffset, b.mul(at, stride));
    }
  }
  Type element = type.getElementType();
  if (consecutive)
    uniformOffset = b.add(uniformOffset, b.mul(consecutive, consecutiveStride));
  if (!vectorOffset) {
    if (!consecutive)
      return {b.load(flat, element, uniformOffset)};
    return {b.loadVector(flat, element, uniformOffset, consecutiveStride, lanes,
                         mask),
            LaneValue::Vector};
  }
  SmallVector<Value> offsets;
  Value last = mask ? b.sub(mask.count, b.index(1)) : Value();
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value at = vector::ExtractOp::create(b, vectorOffset, lane);
    if (consecutive) {
      Value step = b.index(lane);
      if (mask)
        step = b.min(step, last);
      at = b.add(at, b.mul(step, consecutiveStride));
    }
    offsets.push_back(b.add(at, uniformOffset));
  }
  return {b.gather(flat, element, offsets), LaneValue::Vector};
}

void BodyVectorizer::computeAssert(Operation *op) {
  LaneValue condition = get(op->getOperand(0));
  Value ok = condition.value;
  if (condition.kind == LaneValue::Vector) {
    if (mask) {
      Value all = b.constant(
          DenseElementsAttr::get(cast<VectorType>(ok.getType()), true));
      ok = arith::SelectOp::create(b, mask.mask, ok, all);
    }
    ok = vector::ReductionOp::create(b, vector::CombiningKind::AND, ok);
  }
  b.check(ok, op);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value BodyVectorizer::splat(TypedAttr value, Type like) {
  if (auto vector = dyn_cast<VectorType>(like))
    return b.constant(DenseElementsAttr::get(vector, Attribute(value)));
  return b.constant(value);
}

static bool isStorageFloat(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() < 32;
}

Value BodyVectorizer::computeElementwise(Operation *op, ValueRange operands,
                                         int64_t width) {
  Type resultType = getLaneType(op->getResult(0).getType(), width);
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return computeConversion(op, operands[0], resultType);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
          arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(op))
    return computeDivision(op, operands[0], operands[1]);
  if (isa<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>(op))
    return computeShift(op, operands[0], operands[1]);

  if (isa<arith::ExtFOp>(op))
    return b.convertFloat(operands[0], getElementTypeOrSelf(resultType));
  SmallVector<Value> converted(operands);
  if (isa<arith::BitcastOp>(op) && isStorageFloat(op->getOperand(0).getType()))
    converted[0] = b.convertFloat(operands[0], op->getOperand(0).getType());
  // Each of these operations returns one of its operands, so operands and
  // result may stay in f32.
  if (isa<arith::MaximumFOp, arith::MinimumFOp, arith::SelectOp>(op) &&
      isStorageFloat(resultType)) {
    for (Value &operand : converted)
      if (isStorageFloat(operand.getType()))
        operand = b.convertFloat(operand, b.getF32Type());
    resultType = getLaneType(b.getF32Type(), width);
  }
  if (isa<arith::MaximumFOp, arith::MinimumFOp>(op)) // (S2)
    return b.createExtremum(isa<arith::MaximumFOp>(op), converted[0],
                            converted[1]);
  OperationState state(b.getLoc(), op->getName());
  state.addOperands(converted);
  state.addTypes(resultType);
  state.addAttributes(op->getAttrs());
  return b.create(state)->getResult(0);
}

/// (S3) Converts a float to an integer: rounds toward zero, saturates, and maps
/// NaN to 0.
Value BodyVectorizer::computeConversion(Operation *op, Value value, Type type) {
  auto floatType = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  Type integer = getElementTypeOrSelf(type);
  unsigned width = integer.getIntOrFloatBitWidth();
  bool isSigned = isa<arith::FPToSIOp>(op);
  // The type's values lie in [lower, upper). Both limits are powers of two, or
  // 0, and hence exact as floats.
  APFloat upper(floatType.getFloatSemantics(), 1);
  upper =
      scalbn(upper, isSigned ? width - 1 : width, APFloat::rmNearestTiesToEven);
  APFloat lower = upper;
  lower.changeSign();
  if (!isSigned)
    lower = APFloat::getZero(floatType.getFloatSemantics());
  Type valueType = value.getType();
  Value hi = splat(b.getFloatAttr(floatType, upper), valueType);
  Value lo = splat(b.getFloatAttr(floatType, lower), valueType);
  Value tooLarge =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, value, hi);
  Value tooSmall =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, value, lo);
  Value belowUpper =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, value, hi);
  Value aboveLower =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, value, lo);
  Value inside = arith::AndIOp::create(b, belowUpper, aboveLower);
  Value safe = arith::SelectOp::create(b, inside, value, b.zero(valueType));
  Value result = isSigned ? arith::FPToSIOp::create(b, type, safe).getResult()
                          : arith::FPToUIOp::create(b, type, safe).getResult();
  APInt maximum =
      isSigned ? APInt::getSignedMaxValue(width) : APInt::getMaxValue(width);
  APInt minimum =
      isSigned ? APInt::getSignedMinValue(width) : APInt::getZero(width);
  result = arith::SelectOp::create(
      b, tooLarge, splat(b.getIntegerAttr(integer, maximum), type), result);
  return arith::SelectOp::create(
      b, tooSmall, splat(b.getIntegerAttr(integer, minimum), type), result);
}

/// (I1) Emits a division or remainder: x/0 = -1, x%0 = x, MIN/-1 = MIN and
/// MIN%-1 = 0, where MIN is the least integer.
Value BodyVectorizer::computeDivision(Operation *op, Value lhs, Value rhs) {
  Type type = lhs.getType();
  Type integer = getElementTypeOrSelf(type);
  unsigned width = integer.isIndex() ? 64 : integer.getIntOrFloatBitWidth();
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp,
                      arith::CeilDivSIOp>(op);
  bool isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  auto divide = [&](Value divisor) -> Value {
    OperationState state(b.getLoc(), op->getName());
    state.addOperands({lhs, divisor});
    state.addTypes(type);
    return b.create(state)->getResult(0);
  };
  IntegerAttr divisor;
  if (matchPattern(op->getOperand(1), m_Constant(&divisor)) &&
      !divisor.getValue().isZero() &&
      !(isSigned && divisor.getValue().isAllOnes()))
    return divide(rhs);
  Value zero = splat(b.getIntegerAttr(integer, 0), type);
  Value one = splat(b.getIntegerAttr(integer, APInt(width, 1)), type);
  Value ones = splat(b.getIntegerAttr(integer, APInt::getAllOnes(width)), type);
  Value byZero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rhs, zero);
  Value unsafe = byZero;
  if (isSigned) {
    Value least =
        splat(b.getIntegerAttr(integer, APInt::getSignedMinValue(width)), type);
    Value isLeast =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lhs, least);
    Value isMinusOne =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rhs, ones);
    // (I1) MIN / -1 is MIN, and MIN % -1 is 0. Divisor 1 gives the same
    // results.
    unsafe = arith::OrIOp::create(
        b, byZero, arith::AndIOp::create(b, isLeast, isMinusOne));
  }
  Value result = divide(arith::SelectOp::create(b, unsafe, one, rhs));
  return arith::SelectOp::create(b, byZero, isRemainder ? lhs : ones, result);
}

/// (I1) Emits a shift. A shift by the width or more yields 0, or copies of the
/// sign bit if it is an arithmetic right shift.
Value BodyVectorizer::computeShift(Operation *op, Value lhs, Value rhs) {
  Type type = lhs.getType();
  Type integer = getElementTypeOrSelf(type);
  unsigned width = integer.isIndex() ? 64 : integer.getIntOrFloatBitWidth();
  auto shift = [&](Value amount) -> Value {
    OperationState state(b.getLoc(), op->getName());
    state.addOperands({lhs, amount});
    state.addTypes(type);
    return b.create(state)->getResult(0);
  };
  IntegerAttr amount;
  if (matchPattern(op->getOperand(1), m_Constant(&amount)) &&
      amount.getValue().ult(width))
    return shift(rhs);
  Value last = splat(b.getIntegerAttr(integer, APInt(width, width - 1)), type);
  Value shifted = shift(arith::MinUIOp::create(b, rhs, last));
  if (isa<arith::ShRSIOp>(op))
    return shifted;
  Value tooFar = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, rhs, last);
  return arith::SelectOp::create(
      b, tooFar, splat(b.getIntegerAttr(integer, 0), type), shifted);
}
