//===- DecomposeBlocks.cpp - Tensors in blocks as f32 and bytes -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-decompose-blocks (Passes.td), run by lib/Pipelines/Schedule.cpp:
// rewrites operations on block formats as f32 arithmetic and tensors of bytes,
// with the bits of (Q1) to (Q4).
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/BlockScales.h"
#include "Codegen/Schedule/Tensors/ByteFormats.h"
#include "Codegen/Schedule/Tensors/Passes.h"
#include "Target/ByteMatrices.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODECOMPOSEBLOCKS
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

namespace {
/// Tiles a tensor [.., m, n]: the dimension of rows (m) and that of columns (n)
/// are each divided into one that counts blocks and one within a block.
/// Incomplete blocks are padded with zeros.
class Tiling {
public:
  Tiling(ImplicitLocOpBuilder &builder, BlockFormatAttr format,
         ArrayRef<int64_t> shape)
      : Tiling(builder, format, shape,
               llvm::to_vector(llvm::seq<int64_t>(shape.size()))) {}

  /// `shape` has the extents of a permuted tensor, whose dimension order[i] is
  /// dimension i of [.., m, n].
  Tiling(ImplicitLocOpBuilder &builder, BlockFormatAttr format,
         ArrayRef<int64_t> shape, ArrayRef<int64_t> order)
      : b(builder), shape(shape), whole(shape), blockShape(shape.size()),
        rowDim(order[order.size() - 2]), columnDim(order.back()) {
    SmallVector<int64_t> ordered;
    for (int64_t dim : order)
      ordered.push_back(shape[dim]);
    for (auto [dim, blocks] :
         llvm::zip_equal(order, format.getScaleShape(ordered)))
      blockShape[dim] = blocks;
    // A block is never larger than the tensor.
    auto bound = [](int64_t size, int64_t extent) {
      return size ? std::min(size, extent) : extent;
    };
    rows = bound(format.getRows(), shape[rowDim]);
    columns = bound(format.getColumns(), shape[columnDim]);
    whole[rowDim] = blockShape[rowDim] * rows;
    whole[columnDim] = blockShape[columnDim] * columns;
  }

  bool isEmpty() const { return ShapedType::getNumElements(shape) == 0; }
  int64_t getNumDims() const { return shape.size() + 2; }
  ArrayRef<int64_t> getBlockShape() const { return blockShape; }
  Value divide(Value tensor) const;
  /// (Q7) Returns the bytes of a tensor of codes, padded so that `mapBytes` can
  /// index them.
  Value fillBytes(Value bytes) const;
  Value join(Value tiles) const;
  SmallVector<int64_t> getTileShape() const;

  /// Returns the map from the dimensions of tiles to the dimensions of a tensor
  /// with one element per block.
  AffineMap mapBlocks() const;
  /// (Q7) Returns the map from the dimensions of tiles to the indices of the
  /// bytes that hold the codes.
  AffineMap mapBytes() const;
  /// Returns, in a body over tiles, a number that is odd if and only if the
  /// index of the column is odd.
  Value createParity(ImplicitLocOpBuilder &inner) const;
  /// Returns a map for `numDims` loops: the first loops index the dimensions of
  /// `tensor`, whose rank may be 0.
  AffineMap mapTensor(Value tensor, int64_t numDims) const {
    SmallVector<AffineExpr> leading;
    for (int64_t i = 0; i < cast<ShapedType>(tensor.getType()).getRank(); ++i)
      leading.push_back(b.getAffineDimExpr(i));
    return AffineMap::get(numDims, 0, leading, b.getContext());
  }

private:
  /// Returns, for each dimension, the dimensions into which it is divided:
  /// first the one that counts blocks, then the one within a block.
  SmallVector<ReassociationIndices> getGroups() const;

  ImplicitLocOpBuilder &b;
  SmallVector<int64_t> shape, whole, blockShape;
  int64_t rowDim, columnDim;
  int64_t rows, columns;
};
} // namespace

SmallVector<ReassociationIndices> Tiling::getGroups() const {
  SmallVector<ReassociationIndices> groups;
  int64_t next = 0;
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    ReassociationIndices &group = groups.emplace_back();
    group.push_back(next++);
    if (dim == rowDim || dim == columnDim)
      group.push_back(next++);
  }
  return groups;
}

AffineMap Tiling::mapBlocks() const {
  SmallVector<AffineExpr> exprs;
  for (const ReassociationIndices &group : getGroups())
    exprs.push_back(b.getAffineDimExpr(group.front()));
  return AffineMap::get(getNumDims(), 0, exprs, b.getContext());
}

Value Tiling::fillBytes(Value bytes) const {
  SmallVector<int64_t> filled = whole;
  filled[columnDim] = llvm::divideCeil(filled[columnDim], 2);
  return padWithZeros(b, bytes, filled);
}

AffineMap Tiling::mapBytes() const {
  SmallVector<AffineExpr> exprs;
  for (auto [dim, group] : llvm::enumerate(getGroups())) {
    AffineExpr at = b.getAffineDimExpr(group.front());
    if (group.size() == 2)
      at = at * (int64_t(dim) == rowDim ? rows : columns) +
           b.getAffineDimExpr(group.back());
    exprs.push_back(int64_t(dim) == columnDim ? at.floorDiv(2) : at);
  }
  return AffineMap::get(getNumDims(), 0, exprs, b.getContext());
}

Value Tiling::createParity(ImplicitLocOpBuilder &inner) const {
  ReassociationIndices group = getGroups()[columnDim];
  Value parity = linalg::IndexOp::create(inner, group.back());
  if (columns % 2 == 0)
    return parity;
  Value block = linalg::IndexOp::create(inner, group.front());
  return arith::AddIOp::create(inner, parity, block);
}

SmallVector<int64_t> Tiling::getTileShape() const {
  SmallVector<int64_t> tiles;
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    tiles.push_back(blockShape[dim]);
    if (dim == rowDim)
      tiles.push_back(rows);
    else if (dim == columnDim)
      tiles.push_back(columns);
  }
  return tiles;
}

Value Tiling::divide(Value tensor) const {
  auto type = cast<RankedTensorType>(tensor.getType());
  tensor = padWithZeros(b, tensor, whole);
  return tensor::ExpandShapeOp::create(b, type.clone(getTileShape()), tensor,
                                       getGroups());
}

Value Tiling::join(Value tiles) const {
  auto type = cast<RankedTensorType>(tiles.getType());
  Value tensor =
      tensor::CollapseShapeOp::create(b, type.clone(whole), tiles, getGroups());
  if (shape == whole)
    return tensor;
  SmallVector<OpFoldResult> offsets(shape.size(), b.getIndexAttr(0)), sizes,
      strides(shape.size(), b.getIndexAttr(1));
  for (int64_t extent : shape)
    sizes.push_back(b.getIndexAttr(extent));
  return tensor::ExtractSliceOp::create(b, type.clone(shape), tensor, offsets,
                                        sizes, strides);
}

namespace {
/// A permutation of `source`: dimension i is dimension order[i] of `source`.
struct Permuted {
  Value source;
  SmallVector<int64_t> order;
};
} // namespace

/// Returns `tensor` as a permutation of another tensor. Looks through all
/// operations that only permute dimensions.
static Permuted getPermuted(Value tensor) {
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  Permuted found{tensor, llvm::to_vector(llvm::seq<int64_t>(rank))};
  while (auto generic = found.source.getDefiningOp<linalg::GenericOp>()) {
    SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
    auto yield = cast<linalg::YieldOp>(generic.getBody()->getTerminator());
    if (maps.size() != 2 || generic.getNumDpsInputs() != 1 ||
        !maps[0].isPermutation() || !maps[1].isPermutation() ||
        yield.getOperand(0) != generic.getBody()->getArgument(0))
      break;
    for (int64_t &dim : found.order)
      dim = *maps[0].getResultPosition(maps[1].getResult(dim));
    found.source = generic.getDpsInputs()[0];
  }
  return found;
}

using BodyFunction = function_ref<SmallVector<Value>(const FloatWords &words,
                                                     ValueRange elements)>;

/// Returns tensors of extents `shape` and element types `types`, whose elements
/// `body` computes.
static SmallVector<Value> computeElements(ImplicitLocOpBuilder &b,
                                          ArrayRef<int64_t> shape,
                                          TypeRange types, ValueRange inputs,
                                          ArrayRef<AffineMap> maps,
                                          BodyFunction body) {
  return mapElementsToMany(
      b, shape, types, inputs, maps,
      [&](ImplicitLocOpBuilder &inner, ValueRange elements) {
        return body(FloatWords(inner), elements);
      });
}

/// (R1), (Q3) Returns a tensor with the random bits of each element, which are
/// the highest bits of an i32.
static Value drawBits(ImplicitLocOpBuilder &b, QuantizeOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  Type i32 = b.getI32Type();
  auto draw = [&](ArrayRef<int64_t> drawn) -> Value {
    Value empty = tensor::EmptyOp::create(b, drawn, i32);
    auto bits = DistributionAttr::get(b.getContext(), Distribution::bits);
    return RandomOp::create(b, TypeRange{empty.getType()},
                            ValueRange{op.getSeed(), op.getStep()},
                            ValueRange{empty}, bits, FloatAttr(), IntegerAttr(),
                            op.getSiteAttr())
        .getResult(0);
  };
  if (op.getFormat().getRounding().getLayout() == RandomLayout::site)
    return draw(shape);
  // In the layout `ptx`, one random word serves four elements.
  int64_t count = ShapedType::getNumElements(shape);
  int64_t groups = llvm::divideCeil(count, 4);
  bool isF4 = isa<Float4E2M1FNType>(op.getFormat().getElement());
  AffineMap map = AffineMap::get(2, 0, b.getAffineDimExpr(0));
  Value words = draw({groups});
  Value chunks =
      computeElements(
          b, {groups, 4}, i32, words, {map},
          [&](const FloatWords &w, ValueRange elements) {
            Value word = elements[0], high = word, low = w.left(word, 16);
            if (isF4) {
              // `high` has bytes 3 and 1 of the word, and `low` has bytes 2 and
              // 0.
              high = w.either(w.both(word, w.constant(0xff000000)),
                              w.left(w.both(word, w.constant(0xff00)), 8));
              low = w.either(w.left(w.both(word, w.constant(0xff0000)), 8),
                             w.left(w.both(word, w.constant(0xff)), 16));
            }
            Value position = arith::IndexCastOp::create(
                w.getBuilder(), w.getBuilder().getI32Type(),
                linalg::IndexOp::create(w.getBuilder(), 1));
            // Elements 4g to 4g + 3 use `low`, `low` with its bits reversed,
            // `high`, and `high` with its bits reversed.
            Value isHigh =
                w.compare(arith::CmpIPredicate::uge, position, w.constant(2));
            Value isReversed =
                w.compare(arith::CmpIPredicate::ne,
                          w.both(position, w.constant(1)), w.constant(0));
            Value chunk =
                w.both(w.select(isHigh, high, low), w.constant(0xffff0000));
            // Reverses the upper 16 bits by swapping neighbouring bits, pairs
            // of bits, nibbles and bytes.
            auto swap = [&](Value x, unsigned by, uint32_t mask) {
              return w.either(w.both(w.right(x, by), w.constant(mask)),
                              w.left(w.both(x, w.constant(mask)), by));
            };
            Value turned = swap(chunk, 1, 0x55550000);
            turned = swap(turned, 2, 0x33330000);
            turned = swap(turned, 4, 0x0f0f0000);
            turned = swap(turned, 8, 0x00ff0000);
            return SmallVector<Value>{w.select(isReversed, turned, chunk)};
          })
          .front();
  Value flat = tensor::CollapseShapeOp::create(
      b, RankedTensorType::get({groups * 4}, i32), chunks,
      ArrayRef<ReassociationIndices>{{0, 1}});
  if (count != groups * 4)
    flat = tensor::ExtractSliceOp::create(
        b, RankedTensorType::get({count}, i32), flat,
        ArrayRef<OpFoldResult>{b.getIndexAttr(0)},
        ArrayRef<OpFoldResult>{b.getIndexAttr(count)},
        ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
  ReassociationIndices all;
  llvm::append_range(all, llvm::seq<int64_t>(shape.size()));
  return tensor::ExpandShapeOp::create(b, RankedTensorType::get(shape, i32),
                                       flat,
                                       ArrayRef<ReassociationIndices>{all});
}

//===----------------------------------------------------------------------===//
// Two codes in a byte (Q7)
//===----------------------------------------------------------------------===//

/// Returns a code of a byte: the low half if the index in the row is even, the
/// high half if it is odd.
static Value unpackCode(ImplicitLocOpBuilder &b, Value byte, Value index) {
  Type i8 = b.getI8Type();
  auto number = [&](Type type, int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
  };
  Value low = arith::AndIOp::create(b, byte, number(i8, 15));
  Value high = arith::ShRUIOp::create(b, byte, number(i8, 4));
  Value position = arith::IndexCastOp::create(b, i8, index);
  Value isHigh = arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne,
      arith::AndIOp::create(b, position, number(i8, 1)), number(i8, 0));
  return arith::SelectOp::create(b, isHigh, high, low);
}

namespace {
struct DecomposePackCodes : OpConversionPattern<PackCodesOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(PackCodesOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ArrayRef<int64_t> shape = op.getBytes().getType().getShape();
    SmallVector<int64_t> whole(shape);
    whole.back() *= 2;
    Value codes = padWithZeros(b, adaptor.getCodes(), whole);
    auto getMap = [&](int64_t position) {
      AffineMap all = b.getMultiDimIdentityMap(shape.size());
      SmallVector<AffineExpr> exprs(all.getResults());
      exprs.back() = exprs.back() * 2 + position;
      return AffineMap::get(shape.size(), 0, exprs, b.getContext());
    };
    rewriter.replaceOp(
        op, mapElements(b, shape, b.getI8Type(), {codes, codes},
                        {getMap(0), getMap(1)},
                        [](ImplicitLocOpBuilder &b, ValueRange pair) -> Value {
                          Value four = arith::ConstantOp::create(
                              b, b.getIntegerAttr(b.getI8Type(), 4));
                          Value high = arith::ShLIOp::create(b, pair[1], four);
                          return arith::OrIOp::create(b, pair[0], high);
                        }));
    return success();
  }
};

struct DecomposeUnpackCodes : OpConversionPattern<UnpackCodesOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(UnpackCodesOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ArrayRef<int64_t> shape = op.getCodes().getType().getShape();
    AffineMap all = b.getMultiDimIdentityMap(shape.size());
    SmallVector<AffineExpr> exprs(all.getResults());
    exprs.back() = exprs.back().floorDiv(2);
    AffineMap map = AffineMap::get(shape.size(), 0, exprs, b.getContext());
    rewriter.replaceOp(
        op, mapElements(b, shape, b.getI8Type(), adaptor.getBytes(), map,
                        [&](ImplicitLocOpBuilder &inner, ValueRange bytes) {
                          return unpackCode(
                              inner, bytes[0],
                              linalg::IndexOp::create(inner, shape.size() - 1));
                        }));
    return success();
  }
};

struct DecomposeQuantize : OpConversionPattern<QuantizeOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(QuantizeOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    BlockFormatAttr format = op.getFormat();
    // Quantizes in memory order and permutes the codes afterwards, so that the
    // input is read contiguously.
    Permuted input = getPermuted(op.getInput());
    bool hasTensorOfRows =
        op.getTensor() &&
        cast<RankedTensorType>(op.getTensor().getType()).getRank() > 0;
    if (hasTensorOfRows || input.order.back() + 1 == input.order.size())
      input = {op.getInput(), llvm::to_vector(llvm::seq<int64_t>(
                                  op.getInput().getType().getRank()))};
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(input.source.getType()).getShape();
    Type f32 = b.getF32Type();
    Type codeType = getTypeConverter()->convertType(format.getElement());
    Type scaleType = getTypeConverter()->convertType(format.getScaleType());
    Tiling tiling(b, format, shape, input.order);
    if (tiling.isEmpty()) {
      // (E1) Even an empty tensor needs the check that the step counter fits in
      // 32 bits; `drawBits` creates this check.
      if (op.getSeed())
        drawBits(b, op);
      rewriter.replaceOp(
          op, {tensor::EmptyOp::create(b, op.getInput().getType().getShape(),
                                       codeType),
               tensor::EmptyOp::create(b, op.getScales().getType().getShape(),
                                       scaleType)});
      return success();
    }

    Value tiles = tiling.divide(input.source);
    ArrayRef<int64_t> blocks = tiling.getBlockShape();
    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    if (!isa<GivenScaleAttr>(format.getScale())) {
      inputs.push_back(createAmax(b, tiles, blocks, tiling.mapBlocks()));
      maps.push_back(b.getMultiDimIdentityMap(blocks.size()));
    }
    if (Value tensor = op.getTensor()) {
      inputs.push_back(tensor);
      maps.push_back(tiling.mapTensor(tensor, blocks.size()));
    }
    SmallVector<Value> scales = computeElements(
        b, blocks, {scaleType, f32}, inputs, maps,
        [&](const FloatWords &w, ValueRange elements) {
          Scalar amax(w.getBuilder(), elements.front()), tensor;
          if (op.getTensor())
            tensor = {w.getBuilder(), elements.back()};
          BlockScale scale = computeScale(w, amax, tensor, format);
          return SmallVector<Value>{scale.code, scale.factor.get()};
        });

    AffineMap all = b.getMultiDimIdentityMap(tiling.getNumDims());
    inputs = {tiles, scales[1]};
    maps = {all, tiling.mapBlocks()};
    if (op.getSeed()) {
      inputs.push_back(tiling.divide(
          transpose(b, drawBits(b, op), invertPermutationVector(input.order))));
      maps.push_back(all);
    }
    ElementFormat element(format.getElement(), format.getSymmetric());
    Value codes =
        computeElements(b, tiling.getTileShape(), codeType, inputs, maps,
                        [&](const FloatWords &w, ValueRange elements) {
                          Scalar x(w.getBuilder(), elements[0]);
                          Scalar factor(w.getBuilder(), elements[1]);
                          x = dividesByFactor(format) ? x / factor : x * factor;
                          Value random = op.getSeed() ? elements[2] : Value();
                          return SmallVector<Value>{roundElement(
                              w, x, element, format.getRounding(), random)};
                        })
            .front();
    rewriter.replaceOp(op, {transpose(b, tiling.join(codes), input.order),
                            transpose(b, scales[0], input.order)});
    return success();
  }
};

struct DecomposeDequantize : OpConversionPattern<DequantizeOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(DequantizeOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    RankedTensorType type = op.getResult().getType();
    Tiling tiling(b, op.getFormat(), type.getShape());
    if (tiling.isEmpty()) {
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(op, type.getShape(),
                                                   b.getF32Type());
      return success();
    }
    int64_t numDims = tiling.getNumDims();
    SmallVector<Value> inputs = {Value(), adaptor.getScales()};
    SmallVector<AffineMap> maps = {AffineMap(), tiling.mapBlocks()};
    // Packed codes are read directly from their bytes.
    auto unpack = op.getCodes().getDefiningOp<UnpackCodesOp>();
    if (unpack) {
      inputs[0] =
          tiling.fillBytes(rewriter.getRemappedValue(unpack.getBytes()));
      maps[0] = tiling.mapBytes();
    } else {
      inputs[0] = tiling.divide(adaptor.getCodes());
      maps[0] = b.getMultiDimIdentityMap(numDims);
    }
    if (Value tensor = op.getTensor()) {
      inputs.push_back(tensor);
      maps.push_back(tiling.mapTensor(tensor, numDims));
    }
    Value values =
        computeElements(
            b, tiling.getTileShape(), b.getF32Type(), inputs, maps,
            [&](const FloatWords &w, ValueRange elements) {
              Scalar tensor;
              if (op.getTensor())
                tensor = {w.getBuilder(), elements[2]};
              Value code = elements[0];
              if (unpack)
                code = unpackCode(w.getBuilder(), code,
                                  tiling.createParity(w.getBuilder()));
              return SmallVector<Value>{
                  computeValue(w, code, elements[1], tensor, op.getFormat())
                      .get()};
            })
            .front();
    rewriter.replaceOp(op, tiling.join(values));
    return success();
  }
};

/// Decodes the codes of a contraction to integers or f8, and its scales to f32.
/// Pads K to whole blocks.
struct DecodeContraction : OpConversionPattern<BlockContractionOp> {
  DecodeContraction(const TypeConverter &converter, MLIRContext *context,
                    bool fillSteps)
      : OpConversionPattern(converter, context), fillSteps(fillSteps) {}

  static bool areIntegers(BlockContractionOp op) {
    auto isInteger = [&](unsigned input) {
      Type type = getElementTypeOrSelf(op.getInputs()[input].getType());
      return type.isInteger() || getUnitType(type);
    };
    return isInteger(0) && isInteger(2);
  }

  /// (M5) Whether a scale keeps its type. The rule uses the significand and the
  /// exponent of a scale, which for a subnormal f8E4M3FN differ from those of
  /// the same value in f32.
  static bool keepsScale(BlockContractionOp op, Type scale) {
    return op.getStep() == BlockStep::scaled && isa<Float8E4M3FNType>(scale);
  }

  /// Returns the extent of K after padding: whole blocks or, if there is a
  /// single block, whole words of four elements. If `fillSteps`, a single block
  /// is padded to whole steps of matrix instructions.
  static int64_t getFilledLength(BlockContractionOp op, bool fillSteps) {
    constexpr int64_t kWord = 4;
    auto x = cast<ShapedType>(op.getInputs()[0].getType());
    auto output = cast<ShapedType>(op.getOutputs()[0].getType());
    int64_t k = x.getShape().back(), block = op.getBlock();
    // (M5) K must not be padded: a product of zeros can make the accumulator
    // truncate other products.
    if (op.getAccumulator())
      return k;
    if (k > block)
      return llvm::alignTo(k, block);
    if (fillSteps && areIntegers(op) &&
        llvm::all_of(output.getShape().take_back(2), [](int64_t extent) {
          return extent >= repro_target::fewestByteMatrixRows;
        }))
      return llvm::alignTo(k, repro_target::byteMatrixDepth);
    return std::min<int64_t>(llvm::alignTo(k, kWord), block);
  }

  static bool isDecoded(BlockContractionOp op, bool fillSteps) {
    auto x = cast<ShapedType>(op.getInputs()[0].getType());
    if (getFilledLength(op, fillSteps) != x.getShape().back())
      return false;
    auto is = [&](unsigned input, auto predicate) {
      return predicate(getElementTypeOrSelf(op.getInputs()[input].getType()));
    };
    auto isCode = [](Type type) {
      return type.isInteger() || isa<Float8E4M3FNType>(type);
    };
    if (op.getAccumulator() && !op.getElements())
      return false;
    auto isScale = [&](Type type) {
      return type.isF32() || keepsScale(op, type);
    };
    return is(0, isCode) && is(1, isScale) && is(2, isCode) && is(3, isScale);
  }

  LogicalResult
  matchAndRewrite(BlockContractionOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> inputs(adaptor.getInputs());
    auto elementOf = [&](unsigned input) {
      return getElementTypeOrSelf(op.getInputs()[input].getType());
    };
    auto map = [&](unsigned input, Type type,
                   function_ref<Value(const FloatWords &, Value)> compute) {
      auto tensor = cast<RankedTensorType>(inputs[input].getType());
      inputs[input] =
          computeElements(b, tensor.getShape(), type, inputs[input],
                          {b.getMultiDimIdentityMap(tensor.getRank())},
                          [&](const FloatWords &w, ValueRange elements) {
                            return SmallVector<Value>{compute(w, elements[0])};
                          })
              .front();
    };
    IntegerAttr fractionBits = op.getFractionBitsAttr();
    DenseI64ArrayAttr magnitudes = op.getMagnitudesAttr();
    ArrayAttr elements;
    if (op.getAccumulator())
      elements = b.getTypeArrayAttr(op.getCodeTypes());
    // f8 values are not multiples of one unit. If one factor is f8, neither
    // factor is decoded to integers.
    if (!fractionBits && !op.getAccumulator() && areIntegers(op)) {
      int count = 0;
      SmallVector<int64_t> most;
      for (unsigned input : {0, 2}) {
        ElementFormat format(elementOf(input));
        count -= getUnitExponent(format);
        most.push_back(std::ldexp(format.largest, -getUnitExponent(format)));
        map(input, getUnitType(format.type),
            [&](const FloatWords &w, Value code) {
              return decodeInteger(w, code, format);
            });
      }
      fractionBits = b.getI64IntegerAttr(count);
      magnitudes = b.getDenseI64ArrayAttr(most);
    } else if (!fractionBits) {
      for (unsigned input : {0, 2}) {
        ElementFormat format(elementOf(input));
        if (isByteFormat(format.type)) // f8E4M3FN represents all values of the
                                       // format.
          map(input, b.getType<Float8E4M3FNType>(),
              [&](const FloatWords &w, Value code) {
                return decodeElement(w, code, format)
                    .convert(b.getType<Float8E4M3FNType>())
                    .get();
              });
      }
    }
    for (unsigned input : {1, 3}) {
      Type type = elementOf(input);
      if (!type.isF32() && !keepsScale(op, type))
        map(input, b.getF32Type(), [&](const FloatWords &w, Value scale) {
          return decodeScale(w, scale, type).get();
        });
    }
    // Pads K with zeros, which change no sum. A single block becomes longer.
    int64_t filled = getFilledLength(op, fillSteps), block = op.getBlock();
    for (unsigned input : {0, 2}) {
      SmallVector<int64_t> shape(
          cast<RankedTensorType>(inputs[input].getType()).getShape());
      if (shape.back() <= op.getBlock() && !op.getAccumulator())
        block = std::max<int64_t>(op.getBlock(), filled);
      shape.back() = filled;
      inputs[input] = padWithZeros(b, inputs[input], shape);
    }
    rewriter.replaceOpWithNewOp<BlockContractionOp>(
        op, op.getResultTypes(), inputs, adaptor.getOutputs(), op.getStepAttr(),
        b.getI64IntegerAttr(block), op.getRowsAttr(), fractionBits, magnitudes,
        op.getAccumulatorAttr(), elements);
    return success();
  }

private:
  bool fillSteps;
};

struct DecomposeBlocks
    : public repro::impl::ReproDecomposeBlocksBase<DecomposeBlocks> {
  using ReproDecomposeBlocksBase::ReproDecomposeBlocksBase;

  void runOnOperation() override;
};
} // namespace

void DecomposeBlocks::runOnOperation() {
  MLIRContext *context = &getContext();
  ByteFormatConverter converter;
  RewritePatternSet patterns(context);
  populateByteFormatPatterns(converter, patterns);
  patterns.add<DecomposeQuantize, DecomposeDequantize, DecomposePackCodes,
               DecomposeUnpackCodes>(converter, context);
  patterns.add<DecodeContraction>(converter, context, fillSteps);
  ConversionTarget target(*context);
  target.addIllegalOp<QuantizeOp, DequantizeOp, PackCodesOp, UnpackCodesOp>();
  target.addDynamicallyLegalOp<BlockContractionOp>([&](BlockContractionOp op) {
    // This pass runs before bufferization, so operations on buffers are already
    // decoded.
    return op.hasPureBufferSemantics() ||
           DecodeContraction::isDecoded(op, fillSteps);
  });
  target.markUnknownOpDynamicallyLegal(
      [&](Operation *op) { return converter.isWithoutByteFormats(op); });
  if (failed(applyFullConversion(getOperation(), target, std::move(patterns))))
    signalPassFailure();
}
