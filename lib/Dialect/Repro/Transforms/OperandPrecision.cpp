//===- OperandPrecision.cpp - Tensors in lower precision ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/OperandPrecision.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numeric>

using namespace mlir;
using namespace mlir::repro;

using Body = function_ref<Value(ImplicitLocOpBuilder &, ValueRange)>;

static RankedTensorType getTensorType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

static Value createSingle(ImplicitLocOpBuilder &b, double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

/// A tensor of the shape of `tensor`, element by element.
static Value updateElements(ImplicitLocOpBuilder &b, Value tensor, Type element,
                            Body body) {
  RankedTensorType type = getTensorType(tensor);
  return mapElements(b, type.getShape(), element, tensor,
                     b.getMultiDimIdentityMap(type.getRank()), body);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

/// tf32: 13 bits of an f32's fraction become 0, to nearest even. (V4) says how
/// its bits are read.
static Value roundToTF32(ImplicitLocOpBuilder &b, Value tensor) {
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  Value nan = integer(0x7FC00000), place = integer(13), one = integer(1);
  Value half = integer(0xFFF), kept = integer(int32_t(0xFFFFE000));
  return updateElements(
      b, tensor, b.getF32Type(), [&](ImplicitLocOpBuilder &b, ValueRange x) {
        Value isNaN =
            arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x[0], x[0]);
        Value raw = arith::BitcastOp::create(b, b.getI32Type(), x[0]);
        Value bits = arith::SelectOp::create(b, isNaN, nan, raw);
        Value last = arith::AndIOp::create(
            b, arith::ShRUIOp::create(b, bits, place), one);
        Value up = arith::AddIOp::create(
            b, arith::AddIOp::create(b, bits, half), last);
        Value rounded = arith::AndIOp::create(b, up, kept);
        return arith::BitcastOp::create(b, b.getF32Type(), rounded);
      });
}

Value repro::roundTensor(ImplicitLocOpBuilder &b, Value tensor, Type type) {
  if (getTensorType(tensor).getElementType() == type)
    return tensor;
  tensor = convertElements(b, tensor, b.getF32Type());
  if (isa<FloatTF32Type>(type))
    return roundToTF32(b, tensor);
  return convertElements(b, tensor, type);
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

OperandLayout repro::getLayout(FoldOp fold, unsigned side) {
  ContractionBody body = *getContraction(fold);
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  AffineMap map = maps[(side ? body.y : body.x).inputs.front()];
  AffineMap other = maps[(side ? body.x : body.y).inputs.front()];
  /// Where a map has the dimension by itself and nowhere else, else -1.
  auto findAlone = [](AffineMap map, unsigned dim) -> int64_t {
    int64_t found = -1;
    for (auto [place, expr] : llvm::enumerate(map.getResults())) {
      if (!expr.isFunctionOfDim(dim))
        continue;
      if (found >= 0 || !isa<AffineDimExpr>(expr))
        return -1;
      found = place;
    }
    return found;
  };
  OperandLayout layout;
  llvm::SmallBitVector isTaken(map.getNumResults());
  for (auto [dim, type] : llvm::enumerate(fold.getIteratorTypesArray())) {
    int64_t place = findAlone(map, dim);
    if (place < 0 || findAlone(other, dim) < 0)
      continue;
    isTaken.set(place);
    (type == utils::IteratorType::reduction ? layout.columns : layout.batch)
        .push_back(place);
  }
  for (unsigned place = 0; place < map.getNumResults(); ++place)
    if (!isTaken[place])
      layout.rows.push_back(place);
  return layout;
}

namespace {
/// An operand as rows and columns, and the way back.
struct Matrices {
  SmallVector<int64_t> order; ///< of the operand's dimensions
  SmallVector<int64_t> shape; ///< with its dimensions joined
};
} // namespace

/// How blocks with so many rows are of an operand; those with as many columns
/// as rows are `square`.
static Matrices getMatrices(RankedTensorType type, const OperandLayout &layout,
                            int64_t tileRows, bool square) {
  auto getSize = [&](ArrayRef<int64_t> dims) {
    int64_t size = 1;
    for (int64_t dim : dims)
      size *= type.getDimSize(dim);
    return size;
  };
  Matrices matrices;
  // Square blocks of a matrix are those of its transpose.
  if (square && layout.batch.empty() && layout.rows.size() == 1 &&
      layout.columns.size() == 1) {
    matrices.order = {0, 1};
    matrices.shape = SmallVector<int64_t>(type.getShape());
    return matrices;
  }
  SmallVector<int64_t> batch = layout.batch, rows = layout.rows;
  if (tileRows <= 1) {
    llvm::append_range(rows, batch);
    llvm::sort(rows);
    batch.clear();
  }
  for (ArrayRef<int64_t> dims :
       {ArrayRef(batch), ArrayRef(rows), ArrayRef<int64_t>(layout.columns)})
    llvm::append_range(matrices.order, dims);
  for (int64_t dim : batch)
    matrices.shape.push_back(type.getDimSize(dim));
  if (tileRows == 1 && !rows.empty())
    for (int64_t dim : rows)
      matrices.shape.push_back(type.getDimSize(dim));
  else
    matrices.shape.push_back(getSize(rows));
  matrices.shape.push_back(getSize(layout.columns));
  return matrices;
}

//===----------------------------------------------------------------------===//
// Transforms (Q5)
//===----------------------------------------------------------------------===//

/// (Q5) The transform of neighbours in the last dimension.
static Value transform(ImplicitLocOpBuilder &b, Value tensor,
                       const OperandPrecision &precision) {
  Type f32 = b.getF32Type();
  RankedTensorType type = getTensorType(tensor);
  ArrayRef<int64_t> outer = type.getShape().drop_back();
  int64_t size = precision.signs.size();
  int64_t rank = type.getRank();
  auto cut = [&](ArrayRef<int64_t> last) {
    SmallVector<int64_t> shape(outer);
    llvm::append_range(shape, last);
    return reshape(b, tensor, shape);
  };
  int64_t count = type.getShape().back();
  if (llvm::is_contained(precision.signs, -1)) {
    SmallVector<float> signs(precision.signs.begin(), precision.signs.end());
    Value factors = arith::ConstantOp::create(
        b, DenseElementsAttr::get(RankedTensorType::get({size}, f32),
                                  ArrayRef<float>(signs)));
    Value grouped = cut({count / size, size});
    AffineMap last = AffineMap::get(rank + 1, 0, b.getAffineDimExpr(rank));
    tensor = mapElements(b, getTensorType(grouped).getShape(), f32,
                         {grouped, factors},
                         {b.getMultiDimIdentityMap(rank + 1), last},
                         [](ImplicitLocOpBuilder &b, ValueRange x) {
                           return arith::MulFOp::create(b, x[0], x[1]);
                         });
    tensor = reshape(b, tensor, type.getShape());
  }
  for (int64_t width = 1; width < size; width *= 2) {
    Value pairs = cut({count / (2 * width), 2, width});
    auto readAt = [&](int64_t place) {
      SmallVector<AffineExpr> exprs;
      for (int64_t dim = 0; dim < rank + 2; ++dim)
        exprs.push_back(dim == rank ? b.getAffineConstantExpr(place)
                                    : b.getAffineDimExpr(dim));
      return AffineMap::get(rank + 2, 0, exprs, b.getContext());
    };
    tensor = mapElements(
        b, getTensorType(pairs).getShape(), f32, {pairs, pairs},
        {readAt(0), readAt(1)}, [&](ImplicitLocOpBuilder &b, ValueRange x) {
          Value place = linalg::IndexOp::create(b, rank);
          Value zero = arith::ConstantIndexOp::create(b, 0);
          Value isFirst =
              arith::CmpIOp::create(b, arith::CmpIPredicate::eq, place, zero);
          Value sum = arith::AddFOp::create(b, x[0], x[1]);
          Value difference = arith::SubFOp::create(b, x[0], x[1]);
          return arith::SelectOp::create(b, isFirst, sum, difference);
        });
    tensor = reshape(b, tensor, type.getShape());
  }
  // 1 / sqrt(32) rounded to f32.
  Value factor = createSingle(b, size == 16 ? 0.25 : 0x1.6a09e6p-3);
  tensor = updateElements(b, tensor, f32,
                          [&](ImplicitLocOpBuilder &b, ValueRange x) {
                            return arith::MulFOp::create(b, x[0], factor);
                          });
  return precision.toBF16
             ? convertElements(b, roundTensor(b, tensor, b.getBF16Type()),
                               b.getF32Type())
             : tensor;
}

//===----------------------------------------------------------------------===//
// Blocks (Q2)
//===----------------------------------------------------------------------===//

/// What a scale of two levels has for the whole tensor: (Q2) the amax, of
/// `nvfp4_quotient` that divided by the greatest value of both levels.
static Value createTensorScale(ImplicitLocOpBuilder &b, Value tensor,
                               const OperandPrecision &precision) {
  BlockFormatAttr format = precision.getBlockFormat();
  if (!format.takesTensor())
    return nullptr;
  RankedTensorType type = getTensorType(tensor);
  int64_t kept = precision.hasAmaxOfRows ? type.getRank() - 1 : 0;
  SmallVector<AffineExpr> rows;
  for (int64_t dim = 0; dim < kept; ++dim)
    rows.push_back(b.getAffineDimExpr(dim));
  Value amax =
      createAmax(b, tensor, type.getShape().take_front(kept),
                 AffineMap::get(type.getRank(), 0, rows, b.getContext()));
  if (isa<TwoLevelScaleAttr>(format.getScale()))
    return amax;
  Value greatest = createSingle(b, 6.0 * 448.0);
  return updateElements(b, amax, b.getF32Type(),
                        [&](ImplicitLocOpBuilder &b, ValueRange x) {
                          return arith::DivFOp::create(b, x[0], greatest);
                        });
}

static Value quantize(ImplicitLocOpBuilder &b, Value tensor,
                      const OperandPrecision &precision, RandomSites &sites) {
  BlockFormatAttr format = precision.getBlockFormat();
  Value whole = createTensorScale(b, tensor, precision);
  ArrayRef<int64_t> shape = getTensorType(tensor).getShape();
  bool isRandom = precision.isStochastic();
  auto quantized = QuantizeOp::create(
      b, RankedTensorType::get(shape, format.getElement()),
      RankedTensorType::get(format.getScaleShape(shape), format.getScaleType()),
      tensor, whole, isRandom ? sites.seed : Value(),
      isRandom ? sites.step : Value(), format,
      isRandom ? b.getI64IntegerAttr(sites.next++) : IntegerAttr());
  return DequantizeOp::create(b, tensor.getType(), quantized.getCodes(),
                              quantized.getScales(), whole, format);
}

FailureOr<Value> repro::createOperand(ImplicitLocOpBuilder &b, FoldOp fold,
                                      Value operand,
                                      const OperandPrecision &precision,
                                      const OperandLayout &layout,
                                      RandomSites &sites) {
  BlockFormatAttr blocks = precision.getBlockFormat();
  Type type = blocks ? Type() : cast<TypeAttr>(precision.format).getValue();
  bool isTransformed = !precision.signs.empty();
  if (!blocks && !isTransformed)
    return roundTensor(b, operand, type);
  if (layout.columns.empty())
    return fold.emitError("expected a reduction dimension that both factors "
                          "index by itself, for blocks along K");
  Value tensor = convertElements(b, operand, b.getF32Type());
  int64_t rows = blocks ? blocks.getRows() : 1;
  Matrices matrices =
      getMatrices(getTensorType(tensor), layout, rows,
                  blocks && rows == blocks.getColumns() && !isTransformed &&
                      !precision.hasAmaxOfRows);
  int64_t columns = matrices.shape.back();
  if (isTransformed && columns % int64_t(precision.signs.size()))
    return fold.emitError("(Q5) expected a multiple of ")
           << precision.signs.size() << " elements along K, got " << columns;
  Value permuted = transpose(b, tensor, matrices.order);
  Value moved = reshape(b, permuted, matrices.shape);
  if (isTransformed)
    moved = transform(b, moved, precision);
  moved = blocks ? quantize(b, moved, precision, sites)
                 : roundTensor(b, moved, type);
  SmallVector<int64_t> back(matrices.order.size());
  for (auto [place, dim] : llvm::enumerate(matrices.order))
    back[dim] = place;
  return transpose(b, reshape(b, moved, getTensorType(permuted).getShape()),
                   back);
}
