//===- OperandPrecision.cpp - Operands in lower precision -----------------===//
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

/// Returns a tensor whose elements `body` computes from those of `tensor`.
static Value updateElements(ImplicitLocOpBuilder &b, Value tensor, Type element,
                            Body body) {
  RankedTensorType type = getTensorType(tensor);
  return mapElements(b, type.getShape(), element, tensor,
                     b.getMultiDimIdentityMap(type.getRank()), body);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

/// Rounds f32 to tf32, which has 13 fewer fraction bits, to nearest even. A NaN
/// becomes the canonical one (V4).
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
  /// Returns the position of the result of `map` that is exactly `dim`; -1 if
  /// there is none or if another result depends on `dim`.
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

/// Returns how to view an operand as a matrix for blocks of `tileRows` rows.
/// `square` means that blocks have as many columns as rows.
static MatrixView getMatrixView(RankedTensorType type,
                                const OperandLayout &layout, int64_t tileRows,
                                bool square) {
  auto getSize = [&](ArrayRef<int64_t> dims) {
    int64_t size = 1;
    for (int64_t dim : dims)
      size *= type.getDimSize(dim);
    return size;
  };
  MatrixView view;
  // A matrix and its transpose have the same square blocks, so the operand
  // needs no permutation.
  if (square && layout.batch.empty() && layout.rows.size() == 1 &&
      layout.columns.size() == 1) {
    view.order = {0, 1};
    view.sizes = view.shape = SmallVector<int64_t>(type.getShape());
    return view;
  }
  SmallVector<int64_t> batch = layout.batch, rows = layout.rows;
  if (tileRows <= 1) {
    llvm::append_range(rows, batch);
    llvm::sort(rows);
    batch.clear();
  }
  for (ArrayRef<int64_t> dims :
       {ArrayRef(batch), ArrayRef(rows), ArrayRef<int64_t>(layout.columns)})
    llvm::append_range(view.order, dims);
  for (int64_t dim : view.order)
    view.sizes.push_back(type.getDimSize(dim));
  for (int64_t dim : batch)
    view.shape.push_back(type.getDimSize(dim));
  if (tileRows == 1 && !rows.empty())
    for (int64_t dim : rows)
      view.shape.push_back(type.getDimSize(dim));
  else
    view.shape.push_back(getSize(rows));
  view.shape.push_back(getSize(layout.columns));
  return view;
}

//===----------------------------------------------------------------------===//
// Transforms (Q5)
//===----------------------------------------------------------------------===//

/// (Q5) Applies the Hadamard transform to groups of neighbours in the last
/// dimension.
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

/// Returns the scale of the whole tensor: the scale before the step if it is
/// delayed (Q6), otherwise the amax (Q2), which `nvfp4_quotient` divides by the
/// largest code times the largest scale. Returns null if the format has no such
/// scale.
static Value createTensorScale(ImplicitLocOpBuilder &b, Value tensor,
                               const OperandPrecision &precision) {
  BlockFormatAttr format = precision.getBlockFormat();
  if (!format.takesTensor())
    return nullptr;
  if (precision.delayed && !precision.delayed->history)
    return precision.delayed->scale;
  RankedTensorType type = getTensorType(tensor);
  int64_t kept = precision.hasAmaxOfRows ? type.getRank() - 1 : 0;
  SmallVector<AffineExpr> rows;
  for (int64_t dim = 0; dim < kept; ++dim)
    rows.push_back(b.getAffineDimExpr(dim));
  Value amax =
      createAmax(b, tensor, type.getShape().take_front(kept),
                 AffineMap::get(type.getRank(), 0, rows, b.getContext()));
  if (isa<GivenScaleAttr>(format.getScale())) {
    precision.delayed->amaxes.push_back(amax);
    return precision.delayed->scale;
  }
  if (isa<TwoLevelScaleAttr>(format.getScale()))
    return amax;
  Value greatest = createSingle(b, 6.0 * 448.0);
  return updateElements(b, amax, b.getF32Type(),
                        [&](ImplicitLocOpBuilder &b, ValueRange x) {
                          return arith::DivFOp::create(b, x[0], greatest);
                        });
}

static QuantizedOperand quantizeMatrix(ImplicitLocOpBuilder &b, Value matrix,
                                       const OperandPrecision &precision,
                                       RandomSites &sites) {
  BlockFormatAttr format = precision.getBlockFormat();
  Value tensorScale = createTensorScale(b, matrix, precision);
  ArrayRef<int64_t> shape = getTensorType(matrix).getShape();
  bool isRandom = precision.isStochastic();
  auto quantized = QuantizeOp::create(
      b, RankedTensorType::get(shape, format.getElement()),
      RankedTensorType::get(format.getScaleShape(shape), format.getScaleType()),
      matrix, tensorScale, isRandom ? sites.seed : Value(),
      isRandom ? sites.step : Value(), format,
      isRandom ? b.getI64IntegerAttr(sites.next++) : IntegerAttr());
  return {format,
          quantized.getCodes(),
          quantized.getScales(),
          format.keepsTensor() ? tensorScale : Value(),
          {}};
}

static Value dequantize(ImplicitLocOpBuilder &b, Value codes, Value scales,
                        Value tensorScale, BlockFormatAttr format) {
  auto type =
      RankedTensorType::get(getTensorType(codes).getShape(), b.getF32Type());
  return DequantizeOp::create(b, type, codes, scales, tensorScale, format);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Converts an operand to the matrix that is divided into blocks, and applies
/// the Hadamard transform (Q5) if the precision has one.
static FailureOr<Value> createMatrix(ImplicitLocOpBuilder &b, FoldOp fold,
                                     Value operand,
                                     const OperandPrecision &precision,
                                     const OperandLayout &layout,
                                     MatrixView &view) {
  BlockFormatAttr blocks = precision.getBlockFormat();
  bool isTransformed = !precision.signs.empty();
  if (layout.columns.empty())
    return fold.emitError("expected a reduction dimension that both factors "
                          "index by itself, for blocks along K");
  Value tensor = convertElements(b, operand, b.getF32Type());
  int64_t rows = blocks ? blocks.getRows() : 1;
  view = getMatrixView(getTensorType(tensor), layout, rows,
                       blocks && rows == blocks.getColumns() &&
                           !isTransformed && !precision.hasAmaxOfRows);
  int64_t columns = view.shape.back();
  if (isTransformed && columns % int64_t(precision.signs.size()))
    return fold.emitError("(Q5) expected a multiple of ")
           << precision.signs.size() << " elements along K, got " << columns;
  Value matrix = reshape(b, transpose(b, tensor, view.order), view.shape);
  return isTransformed ? transform(b, matrix, precision) : matrix;
}

/// Converts a matrix back to the shape of the operand.
static Value createOperand(ImplicitLocOpBuilder &b, Value matrix,
                           const MatrixView &view) {
  SmallVector<int64_t> back(view.order.size());
  for (auto [place, dim] : llvm::enumerate(view.order))
    back[dim] = place;
  return transpose(b, reshape(b, matrix, view.sizes), back);
}

FailureOr<QuantizedOperand>
repro::quantizeOperand(ImplicitLocOpBuilder &b, FoldOp fold, Value operand,
                       const OperandPrecision &precision,
                       const OperandLayout &layout, RandomSites &sites) {
  MatrixView view;
  FailureOr<Value> matrix =
      createMatrix(b, fold, operand, precision, layout, view);
  if (failed(matrix))
    return failure();
  QuantizedOperand quantized = quantizeMatrix(b, *matrix, precision, sites);
  quantized.view = std::move(view);
  return quantized;
}

Value repro::dequantizeOperand(ImplicitLocOpBuilder &b,
                               const QuantizedOperand &quantized) {
  Value values = dequantize(b, quantized.codes, quantized.scales,
                            quantized.tensorScale, quantized.format);
  return createOperand(b, values, quantized.view);
}

FailureOr<Value> repro::roundOperand(ImplicitLocOpBuilder &b, FoldOp fold,
                                     Value operand,
                                     const OperandPrecision &precision,
                                     const OperandLayout &layout) {
  Type type = cast<TypeAttr>(precision.format).getValue();
  if (precision.signs.empty())
    return roundTensor(b, operand, type);
  MatrixView view;
  FailureOr<Value> matrix =
      createMatrix(b, fold, operand, precision, layout, view);
  if (failed(matrix))
    return failure();
  return createOperand(b, roundTensor(b, *matrix, type), view);
}

//===----------------------------------------------------------------------===//
// Factors (Q4)
//===----------------------------------------------------------------------===//

/// (Q8) Returns, for each scale, the f32 number by which the block's elements
/// are multiplied. This number is the value that (Q2) gives an element 1.
/// Returns the scales themselves if they already are these numbers.
static Value createFactors(ImplicitLocOpBuilder &b,
                           const QuantizedOperand &quantized) {
  BlockFormatAttr format = quantized.format;
  auto single = dyn_cast<F32ScaleAttr>(format.getScale());
  bool isInverse = single && single.getInverse();
  if (!quantized.tensorScale && !isInverse)
    return quantized.scales;
  Type element = format.getElement();
  auto type = RankedTensorType::get(getTensorType(quantized.scales).getShape(),
                                    element);
  // Code 64 of mxint8 has the value 1, since the unit is 2^-6.
  TypedAttr one = element.isInteger() ? TypedAttr(b.getIntegerAttr(element, 64))
                                      : TypedAttr(b.getFloatAttr(element, 1.0));
  Value ones = mapElements(b, type.getShape(), element, {}, {},
                           [&](ImplicitLocOpBuilder &b, ValueRange) -> Value {
                             return arith::ConstantOp::create(b, one);
                           });
  auto ofOne =
      BlockFormatAttr::get(b.getContext(), element, 1, 1, format.getScale(),
                           format.getRounding(), format.getSymmetric());
  return dequantize(b, ones, quantized.scales, quantized.tensorScale, ofOne);
}

BlockFactor repro::createBlockFactor(ImplicitLocOpBuilder &b,
                                     const QuantizedOperand &quantized,
                                     const OperandLayout &layout,
                                     bool isScaled) {
  const MatrixView &view = quantized.view;
  int64_t rank = view.order.size();
  SmallVector<int64_t> sizes(rank);
  for (auto [dim, size] : llvm::zip_equal(view.order, view.sizes))
    sizes[dim] = size;
  auto getSize = [&](ArrayRef<int64_t> dims) {
    int64_t size = 1;
    for (int64_t dim : dims)
      size *= sizes[dim];
    return size;
  };
  int64_t numColumns = getSize(layout.columns);
  int64_t numRows = getSize(layout.rows);
  SmallVector<int64_t> batch;
  for (int64_t dim : layout.batch)
    batch.push_back(sizes[dim]);
  // Permutes the view's dimensions to [batch.., rows.., columns..].
  SmallVector<int64_t> wanted;
  for (ArrayRef<int64_t> dims :
       {ArrayRef<int64_t>(layout.batch), ArrayRef<int64_t>(layout.rows),
        ArrayRef<int64_t>(layout.columns)})
    for (int64_t dim : dims)
      wanted.push_back(llvm::find(view.order, dim) - view.order.begin());
  auto join = [&](Value tensor, int64_t rows, int64_t columns) {
    SmallVector<int64_t> shape(batch);
    shape.append({rows, columns});
    return reshape(b, tensor, shape);
  };
  BlockFactor factor;
  factor.codes =
      join(transpose(b, reshape(b, quantized.codes, view.sizes), wanted),
           numRows, numColumns);
  BlockFormatAttr format = quantized.format;
  factor.block = format.getColumns() ? format.getColumns()
                                     : std::max<int64_t>(numColumns, 1);
  Value scales = isScaled ? quantized.scales : createFactors(b, quantized);
  int64_t numBlocks = llvm::divideCeil(numColumns, factor.block);
  if (format.getRows() == 1) {
    factor.scaleRows = 1;
    ArrayRef<int64_t> leading =
        ArrayRef(view.sizes).drop_back(layout.columns.size());
    SmallVector<int64_t> shape(leading);
    shape.push_back(numBlocks);
    SmallVector<int64_t> order(wanted);
    order.truncate(leading.size());
    order.push_back(order.size());
    factor.scales = join(transpose(b, reshape(b, scales, shape), order),
                         numRows, numBlocks);
  } else if (format.getRows() > 1) {
    factor.scaleRows = format.getRows();
    // A matrix with square blocks may be viewed without a permutation; its
    // scales then need the permutation here.
    factor.scales = layout.batch.empty() && wanted == ArrayRef<int64_t>({1, 0})
                        ? transpose(b, scales, wanted)
                        : scales;
  } else {
    // The operand has one scale for all rows of all matrices of the batch.
    factor.scaleRows = std::max<int64_t>(numRows, 1);
    SmallVector<int64_t> shape(batch);
    shape.append({numRows ? 1 : 0, numBlocks});
    if (llvm::is_contained(shape, 0)) {
      factor.scales = reshape(b, scales, shape);
      return factor;
    }
    int64_t last = shape.size() - 1;
    AffineMap map = AffineMap::get(
        last + 1, 0, {b.getAffineConstantExpr(0), b.getAffineDimExpr(last)},
        b.getContext());
    factor.scales = mapElements(
        b, shape, getTensorType(scales).getElementType(), {scales}, {map},
        [](ImplicitLocOpBuilder &, ValueRange x) { return x[0]; });
  }
  return factor;
}
