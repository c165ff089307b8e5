//===- KernelBuilder.cpp - Builder for kernel bodies ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/KernelBuilder.h"

#include "Codegen/Schedule/Buffers/Kernel.h"

#include "mlir/Dialect/Affine/Analysis/AffineStructures.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

/// The alignment, in bytes, of scratch memory and of each buffer in it. All
/// executors provide this alignment.
static constexpr int64_t kScratchAlignment = 64;

Type repro::kernels::getLaneType(Type type, int64_t lanes) {
  return lanes ? VectorType::get({lanes}, type) : type;
}

Type repro::kernels::getStorageType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  auto type = dyn_cast<FloatType>(element);
  if (type && type.getWidth() < 32)
    return IntegerType::get(element.getContext(), type.getWidth());
  return element;
}

KernelBuilder::KernelBuilder(FunctionOpInterface kernel, Operation *op)
    : ImplicitLocOpBuilder(op->getLoc(), op), kernel(kernel) {
  // `op` marks the end of the prologue; the loops are inserted after `op`.
  // `finish` erases `op`.
  prologueEnd = op;
  setInsertionPointAfter(op);
}

int64_t repro::kernels::getScratchBytes(Type element, int64_t count) {
  return llvm::alignTo(launch::getElementBytes(element) * count,
                       kScratchAlignment);
}

Value KernelBuilder::getScratch(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(prologueEnd);
  element = getStorageType(element);
  count = std::max<int64_t>(count, 1);
  Value view = createScratch(MemRefType::get({count}, element), scratchBytes);
  scratchBytes += kernels::getScratchBytes(element, count);
  return view;
}

void KernelBuilder::check(Value condition, Operation *origin) {
  int64_t message = 0;
  if (IntegerAttr number =
          launch::LaunchDialect::MessageAttrHelper(getContext())
              .getAttr(origin))
    message = number.getInt();
  Value failed = arith::XOrIOp::create(
      *this, condition, constant(getIntegerAttr(getI1Type(), 1)));
  when(failed, [&] { recordFailure(message); });
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(*this, value);
}
Value KernelBuilder::add(Value a, Value b) {
  return createOrFold<arith::AddIOp>(a, b);
}
Value KernelBuilder::sub(Value a, Value b) {
  return createOrFold<arith::SubIOp>(a, b);
}
Value KernelBuilder::mul(Value a, int64_t b) {
  return createOrFold<arith::MulIOp>(a, index(b));
}
Value KernelBuilder::mul(Value a, Value b) {
  return createOrFold<arith::MulIOp>(a, b);
}
Value KernelBuilder::div(Value a, int64_t b) {
  return createOrFold<arith::DivUIOp>(a, index(b));
}
Value KernelBuilder::rem(Value a, int64_t b) {
  if (b == 1)
    return index(0);
  return createOrFold<arith::RemUIOp>(a, index(b));
}
Value KernelBuilder::min(Value a, Value b) {
  return createOrFold<arith::MinSIOp>(a, b);
}
Value KernelBuilder::max(Value a, Value b) {
  return createOrFold<arith::MaxSIOp>(a, b);
}
Value KernelBuilder::less(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}
Value KernelBuilder::equal(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return createOrFold<arith::SelectOp>(condition, a, b);
}

SmallVector<Value> KernelBuilder::delinearize(Value linear,
                                              ArrayRef<int64_t> sizes) {
  SmallVector<Value> coordinates(sizes.size());
  // The coordinate of the outermost dimension with an extent other than 1 is
  // the last quotient, so it needs no remainder.
  size_t outermost = 0;
  while (outermost < sizes.size() && sizes[outermost] == 1)
    coordinates[outermost++] = index(0);
  for (size_t i = sizes.size(); i > outermost; --i) {
    if (i - 1 == outermost) {
      coordinates[outermost] = linear;
      break;
    }
    if (sizes[i - 1] <= 1) {
      coordinates[i - 1] = index(0);
      continue;
    }
    coordinates[i - 1] = rem(linear, sizes[i - 1]);
    linear = div(linear, sizes[i - 1]);
  }
  return coordinates;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void KernelBuilder::loop(Value lower, Value upper, int64_t step,
                         function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(*this, lower, upper, index(step));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

SmallVector<Value>
KernelBuilder::loop(Value lower, Value upper, int64_t step, ValueRange inits,
                    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (inits.empty()) {
    loop(lower, upper, step, [&](Value i) { body(i, {}); });
    return {};
  }
  auto loop = scf::ForOp::create(*this, lower, upper, index(step), inits);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(*this, next);
  return SmallVector<Value>(loop.getResults());
}

void KernelBuilder::when(Value condition, function_ref<void()> then,
                         function_ref<void()> otherwise) {
  auto branch =
      scf::IfOp::create(*this, condition, static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(branch.thenBlock());
  then();
  if (otherwise) {
    setInsertionPointToStart(branch.elseBlock());
    otherwise();
  }
}

SmallVector<Value>
KernelBuilder::choose(Value condition, function_ref<SmallVector<Value>()> then,
                      function_ref<SmallVector<Value>()> otherwise) {
  auto branch = scf::IfOp::create(
      *this, condition,
      [&](OpBuilder &builder, Location) {
        OpBuilder::InsertionGuard guard(*this);
        setInsertionPoint(builder.getInsertionBlock(),
                          builder.getInsertionPoint());
        scf::YieldOp::create(*this, then());
      },
      [&](OpBuilder &builder, Location) {
        OpBuilder::InsertionGuard guard(*this);
        setInsertionPoint(builder.getInsertionBlock(),
                          builder.getInsertionPoint());
        scf::YieldOp::create(*this, otherwise());
      });
  return SmallVector<Value>(branch.getResults());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelBuilder::flatten(Value memref) {
  Value &flat = flattened[memref];
  if (flat)
    return flat;
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(prologueEnd);
  auto type = cast<MemRefType>(memref.getType());
  int64_t offset;
  SmallVector<int64_t> strides = *getStaticStrides(type, offset);
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides))
    last += std::max<int64_t>(size - 1, 0) * stride;
  auto flatType = MemRefType::get(
      {last + 1}, type.getElementType(),
      StridedLayoutAttr::get(getContext(), offset, /*strides=*/{1}));
  OpFoldResult start = getIndexAttr(offset);
  if (ShapedType::isDynamic(offset))
    start = memref::ExtractStridedMetadataOp::create(*this, memref).getOffset();
  Value result = memref::ReinterpretCastOp::create(
      *this, flatType, memref, start,
      ArrayRef<OpFoldResult>{getIndexAttr(last + 1)},
      ArrayRef<OpFoldResult>{getIndexAttr(1)});
  Type storage = getStorageType(type.getElementType());
  if (storage != type.getElementType()) {
    // Both memrefs lower to the same LLVM type, so this cast disappears.
    auto raw = MemRefType::get({last + 1}, storage, flatType.getLayout());
    result = UnrealizedConversionCastOp::create(*this, TypeRange(raw),
                                                ValueRange(result))
                 .getResult(0);
  }
  return flattened[memref] = result;
}

Access KernelBuilder::getAccess(Value operand, AffineMap map) {
  Access access;
  auto type = dyn_cast<MemRefType>(operand.getType());
  if (!type) {
    access.scalar = operand;
    access.element = operand.getType();
    access.coefficients.assign(map.getNumDims(), 0);
    return access;
  }
  access.buffer = flatten(operand);
  access.element = type.getElementType();
  int64_t offset;
  AffineExpr sum = mlir::getAffineConstantExpr(0, getContext());
  for (auto [expr, stride] :
       llvm::zip_equal(map.getResults(), *getStaticStrides(type, offset)))
    sum = sum + expr * stride;
  access.expression = simplifyAffineExpr(sum, map.getNumDims(), 0);
  SmallVector<int64_t> flat;
  access.linear = succeeded(getFlattenedAffineExpr(
                      access.expression, map.getNumDims(), 0, &flat)) &&
                  flat.size() == map.getNumDims() + 1;
  if (access.linear) {
    access.coefficients.assign(flat.begin(), flat.end() - 1);
    access.constant = flat.back();
  }
  return access;
}

Value KernelBuilder::getOffset(const Access &access, ValueRange coordinates) {
  if (!access.linear)
    return affine::expandAffineExpr(*this, getLoc(), access.expression,
                                    coordinates, ValueRange());
  Value offset = index(access.constant);
  for (auto [coefficient, coordinate] :
       llvm::zip_equal(access.coefficients, coordinates))
    if (coefficient)
      offset = add(offset, mul(coordinate, coefficient));
  return offset;
}

Value KernelBuilder::toStorage(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  Type storage = getStorageType(element);
  if (storage == element)
    return value;
  Type type = storage;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(storage);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(*this, type, value);
  return arith::BitcastOp::create(*this, type, value);
}

Value KernelBuilder::fromStorage(Value value, Type element) {
  if (getStorageType(element) == element)
    return value;
  if (element.isInteger(1))
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::ne, value,
                                 zero(value.getType()));
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);
  return arith::BitcastOp::create(*this, type, value);
}

Value KernelBuilder::load(Value flat, Type element, Value offset) {
  return fromStorage(memref::LoadOp::create(*this, flat, offset), element);
}

void KernelBuilder::store(Value value, Value flat, Value offset) {
  memref::StoreOp::create(*this, toStorage(value), flat, offset);
}

Value KernelBuilder::loadVector(Value flat, Type element, Value offset,
                                int64_t stride, int64_t lanes, LaneMask mask) {
  if (stride == 0)
    return broadcast(load(flat, element, offset), lanes);
  auto type = VectorType::get({lanes}, getStorageType(element));
  if (stride == 1) {
    Value loaded;
    if (mask)
      loaded = vector::MaskedLoadOp::create(*this, type, flat, offset,
                                            mask.mask, zero(type));
    else
      loaded = vector::LoadOp::create(*this, type, flat, offset);
    return fromStorage(loaded, element);
  }
  if (stride == -1)
    return fromStorage(loadDescending(flat, type, offset, mask), element);
  if (stride == 2 && lanes >= 4)
    return fromStorage(loadEverySecond(flat, type, offset, mask), element);
  // Inactive lanes load the element of the last active lane again.
  SmallVector<Value> offsets;
  Value last = mask ? sub(mask.count, index(1)) : Value();
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value at = mask && lane ? mul(min(index(lane), last), stride)
                            : index(lane * stride);
    offsets.push_back(add(offset, at));
  }
  return gather(flat, element, offsets);
}

Value KernelBuilder::gather(Value flat, Type element, ValueRange offsets) {
  SmallVector<Value> elements;
  for (Value offset : offsets)
    elements.push_back(memref::LoadOp::create(*this, flat, offset));
  auto type =
      VectorType::get({int64_t(elements.size())}, getStorageType(element));
  return fromStorage(vector::FromElementsOp::create(*this, type, elements),
                     element);
}

void KernelBuilder::storeVector(Value vector, Value flat, Value offset,
                                int64_t stride, LaneMask mask) {
  vector = toStorage(vector);
  int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0);
  if (stride == 1) {
    if (mask)
      vector::MaskedStoreOp::create(*this, flat, offset, mask.mask, vector);
    else
      vector::StoreOp::create(*this, vector, flat, offset);
    return;
  }
  if (stride == 2 && lanes >= 4) {
    storeLanes(vector, flat, offset, stride, index(0),
               mask ? mask.count : index(lanes));
    return;
  }
  if (mask) {
    // Copies the vector to memory and stores its lanes in a loop: a branch for
    // each lane would be far more code.
    Value slot = getLaneSlot(cast<VectorType>(vector.getType()));
    vector::StoreOp::create(*this, vector, slot, index(0));
    loop(index(0), mask.count, 1, [&](Value lane) {
      Value element = memref::LoadOp::create(*this, slot, lane);
      memref::StoreOp::create(*this, element, flat,
                              add(offset, mul(lane, stride)));
    });
    return;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value element = vector::ExtractOp::create(*this, vector, lane);
    memref::StoreOp::create(*this, element, flat, add(offset, lane * stride));
  }
}

Value KernelBuilder::getLaneSlot(VectorType type) {
  Value &slot = laneSlots[type];
  if (!slot)
    slot = getScratch(type.getElementType(), type.getDimSize(0));
  return slot;
}

Value KernelBuilder::loadDescending(Value flat, VectorType type, Value offset,
                                    LaneMask mask) {
  int64_t lanes = type.getDimSize(0);
  Value first = sub(offset, index(lanes - 1));
  Value loaded;
  if (mask) {
    // The vector is reversed after it is loaded, so the active lanes are the
    // last ones here.
    Value others = getMask(sub(index(lanes), mask.count), lanes).mask;
    Value all = constant(
        DenseElementsAttr::get(cast<ShapedType>(others.getType()), true));
    Value taken = arith::XOrIOp::create(*this, others, all);
    loaded = vector::MaskedLoadOp::create(*this, type, flat, first, taken,
                                          zero(type));
  } else {
    loaded = vector::LoadOp::create(*this, type, flat, first);
  }
  SmallVector<int64_t> positions;
  for (int64_t lane = lanes; lane-- > 0;)
    positions.push_back(lane);
  return vector::ShuffleOp::create(*this, loaded, loaded, positions);
}

Value KernelBuilder::loadEverySecond(Value flat, VectorType type, Value offset,
                                     LaneMask mask) {
  int64_t lanes = type.getDimSize(0);
  // The second vector ends at the last element, because the memory after this
  // element may be out of bounds.
  auto loadHalf = [&](int64_t begin) -> Value {
    Value at = add(offset, begin);
    if (!mask)
      return vector::LoadOp::create(*this, type, flat, at);
    Value count = sub(mul(mask.count, 2), index(1 + begin));
    return vector::MaskedLoadOp::create(*this, type, flat, at,
                                        getMask(count, lanes).mask, zero(type));
  };
  SmallVector<int64_t> positions;
  for (int64_t lane = 0; lane < lanes; ++lane)
    positions.push_back(2 * lane + (2 * lane < lanes ? 0 : 1));
  return vector::ShuffleOp::create(*this, loadHalf(0), loadHalf(lanes - 1),
                                   positions);
}

void KernelBuilder::storeLanes(Value vector, Value flat, Value offset,
                               int64_t stride, Value first, Value end) {
  assert((stride == 1 || stride == 2) && "what lies between is in two vectors");
  vector = toStorage(vector);
  int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0);
  auto type = VectorType::get({lanes}, getI1Type());
  SmallVector<bool> isElement;
  for (int64_t lane = 0; lane < lanes; ++lane)
    isElement.push_back(lane % stride == 0);
  Value elements = constant(DenseElementsAttr::get(type, isElement));
  Value all = constant(DenseElementsAttr::get(type, true));
  for (int64_t begin = 0; begin < stride * lanes; begin += lanes) {
    SmallVector<int64_t> positions;
    for (int64_t lane = 0; lane < lanes; ++lane)
      positions.push_back((begin + lane) / stride);
    Value part = vector::ShuffleOp::create(*this, vector, vector, positions);
    auto getLanesBelow = [&](Value count) {
      return getMask(sub(mul(count, stride), index(begin)), lanes).mask;
    };
    Value others = arith::XOrIOp::create(*this, getLanesBelow(first), all);
    Value stored = arith::AndIOp::create(*this, getLanesBelow(end), others);
    stored = arith::AndIOp::create(*this, stored, elements);
    vector::MaskedStoreOp::create(*this, flat, add(offset, begin), stored,
                                  part);
  }
}

LaneMask KernelBuilder::getMask(Value count, int64_t lanes) {
  auto type = VectorType::get({lanes}, getI1Type());
  return {vector::CreateMaskOp::create(*this, type, count), count};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value KernelBuilder::constant(TypedAttr value) {
  return arith::ConstantOp::create(*this, value);
}

Value KernelBuilder::zero(Type type) { return constant(getZeroAttr(type)); }

Value KernelBuilder::broadcast(Value scalar, int64_t lanes) {
  TypedAttr value;
  if (matchPattern(scalar, m_Constant(&value)))
    return constant(DenseElementsAttr::get(
        VectorType::get({lanes}, scalar.getType()), Attribute(value)));
  return vector::BroadcastOp::create(
      *this, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value KernelBuilder::convertFloat(Value value, Type element) {
  auto from = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (from == element)
    return value;
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);
  if (from.getWidth() < cast<FloatType>(element).getWidth())
    return arith::ExtFOp::create(*this, type, value);
  return arith::TruncFOp::create(*this, type, value);
}

Value KernelBuilder::canonicalizeNaN(Value value) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (!element)
    return value;
  // (S3) The conversion of an integer gives a NaN only if the integer is too
  // large for f8E4M3FN. Such a NaN is made canonical below, because constant
  // folding gives it a sign.
  if ((value.getDefiningOp<arith::SIToFPOp>() ||
       value.getDefiningOp<arith::UIToFPOp>()) &&
      !isa<Float8E4M3FNType>(element))
    return value;
  // Selects in f32, because not all targets select between storage types.
  if (auto rounded = value.getDefiningOp<arith::TruncFOp>();
      rounded && element.getWidth() < 32)
    return convertFloat(canonicalizeNaN(rounded.getIn()), element);
  if (element.getWidth() < 32)
    return convertFloat(canonicalizeNaN(convertFloat(value, getF32Type())),
                        element);
  Value isNaN =
      arith::CmpFOp::create(*this, arith::CmpFPredicate::UNO, value, value);
  APFloat canonical = APFloat::getQNaN(element.getFloatSemantics(), false);
  TypedAttr nan = getFloatAttr(element, canonical);
  // LLVM does not define the sign of a NaN and folds a select that replaces the
  // NaN of a square root, so select between the bits as integers.
  if (value.getDefiningOp<math::SqrtOp>()) {
    Type type = getIntegerType(element.getWidth());
    nan = getIntegerAttr(type, canonical.bitcastToAPInt());
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      type = vector.clone(type);
    if (auto vector = dyn_cast<VectorType>(type))
      nan = DenseElementsAttr::get(vector, Attribute(nan));
    Value bits = arith::BitcastOp::create(*this, type, value);
    TypedAttr most =
        getIntegerAttr(getElementTypeOrSelf(type),
                       APInt::getSignedMaxValue(element.getWidth()));
    TypedAttr infinity = getIntegerAttr(
        getElementTypeOrSelf(type),
        APFloat::getInf(element.getFloatSemantics()).bitcastToAPInt());
    if (auto vector = dyn_cast<VectorType>(type)) {
      most = DenseElementsAttr::get(vector, Attribute(most));
      infinity = DenseElementsAttr::get(vector, Attribute(infinity));
    }
    Value magnitude = arith::AndIOp::create(*this, bits, constant(most));
    isNaN = arith::CmpIOp::create(*this, arith::CmpIPredicate::ugt, magnitude,
                                  constant(infinity));
    bits = arith::SelectOp::create(*this, isNaN, constant(nan), bits);
    return arith::BitcastOp::create(*this, value.getType(), bits);
  }
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    nan = DenseElementsAttr::get(vector, Attribute(nan));
  return arith::SelectOp::create(*this, isNaN, constant(nan), value);
}

Value KernelBuilder::createExtremum(bool maximum, Value a, Value c) {
  if (matchPattern(a, m_Constant()))
    std::swap(a, c);
  auto compare = [&](arith::CmpFPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpFOp::create(*this, predicate, x, y);
  };
  auto pick = [&](Value condition, Value x, Value y) -> Value {
    return arith::SelectOp::create(*this, condition, x, y);
  };
  FloatAttr bound;
  DenseElementsAttr bounds;
  if (matchPattern(c, m_Constant(&bounds)) && bounds.isSplat())
    bound = dyn_cast<FloatAttr>(bounds.getSplatValue<Attribute>());
  else if (!matchPattern(c, m_Constant(&bound)))
    bound = nullptr;
  if (bound && !bound.getValue().isNaN()) {
    // If `a` equals the bound but has the other sign, both are zeros: the
    // predicate decides whether to return `a`.
    bool negative = bound.getValue().isNegative();
    using P = arith::CmpFPredicate;
    P predicate =
        maximum ? (negative ? P::UGE : P::UGT) : (negative ? P::ULT : P::ULE);
    return pick(compare(predicate, a, c), a, c);
  }
  Type type = a.getType();
  Type bits =
      getIntegerType(getElementTypeOrSelf(type).getIntOrFloatBitWidth());
  if (auto vector = dyn_cast<VectorType>(type))
    bits = vector.clone(bits);
  Value aBits = arith::BitcastOp::create(*this, bits, a);
  Value cBits = arith::BitcastOp::create(*this, bits, c);
  // Equal values have equal bits, except zeros of different signs: AND gives
  // +0, OR gives -0.
  Value both = maximum ? arith::AndIOp::create(*this, aBits, cBits).getResult()
                       : arith::OrIOp::create(*this, aBits, cBits).getResult();
  Value equalValue = arith::BitcastOp::create(*this, type, both);
  Value result = pick(
      compare(maximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT,
              a, c),
      a, c);
  result = pick(compare(arith::CmpFPredicate::OEQ, a, c), equalValue, result);
  return pick(compare(arith::CmpFPredicate::UNO, a, a), a, result);
}
