//===- BlockFormats.cpp - Block formats and quantization ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/Repro.h"

using namespace mlir;
using namespace mlir::repro;

using EmitError = function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult RoundingAttr::verify(EmitError emitError,
                                   RoundingDirection direction, int64_t bits,
                                   RandomLayout layout, bool, NanCode, bool) {
  if (direction != RoundingDirection::sr) {
    if (bits != 0 || layout != RandomLayout::site)
      return emitError() << "(Q3) expected random bits only for a stochastic "
                            "rounding, got "
                         << bits;
    return success();
  }
  if (bits < 1 || bits > 32)
    return emitError() << "(Q3) expected 1 to 32 random bits, got " << bits;
  if (layout == RandomLayout::ptx && bits != 16)
    return emitError() << "(Q3) expected 16 random bits of `ptx`, got " << bits;
  return success();
}

LogicalResult PowerScaleAttr::verify(EmitError emitError, PowerRule,
                                     InfiniteAmax, int64_t nan, int64_t least) {
  if (nan < 0 || nan > 255)
    return emitError() << "(Q2) expected a byte for NaN, got " << nan;
  if (least < -127 || least > 127)
    return emitError() << "(Q2) expected a least exponent from -127 to 127, "
                          "got "
                       << least;
  return success();
}

LogicalResult TwoLevelScaleAttr::verify(EmitError emitError, int64_t largest) {
  if (largest != 448 && largest != 256)
    return emitError() << "(Q2) expected a largest scale of 448 or 256, got "
                       << largest;
  return success();
}

LogicalResult QuotientScaleAttr::verify(EmitError emitError, int64_t levels) {
  if (levels != 1 && levels != 2)
    return emitError() << "(Q2) expected 1 or 2 levels, got " << levels;
  return success();
}

LogicalResult F32ScaleAttr::verify(EmitError emitError, ScaleEncoding encoding,
                                   FloatAttr least, bool inverse, bool power) {
  if (!least || !least.getType().isF64() || !least.getValue().isFinite() ||
      least.getValue().isNegative() || least.getValue().isZero())
    return emitError() << "(Q2) expected a least amax of f64 above 0";
  if (least.getValueAsDouble() < 0x1p-126 || least.getValueAsDouble() > 0x1p127)
    return emitError() << "(Q2) expected a least amax that is normal in f32, "
                          "got "
                       << least;
  bool product = encoding == ScaleEncoding::product;
  if ((inverse && !product) || (power && product && !inverse))
    return emitError() << "(Q2) expected a product for an inverse scale, and "
                          "no product by a power of two";
  return success();
}

LogicalResult BlockFormatAttr::verify(EmitError emitError, Type element,
                                      int64_t rows, int64_t columns,
                                      Attribute scale, RoundingAttr rounding,
                                      bool symmetric) {
  bool isFixed = element.isInteger(8);
  if (!isFixed && !isa<Float8E4M3FNType, Float8E5M2Type, Float6E3M2FNType,
                       Float6E2M3FNType, Float4E2M1FNType>(element))
    return emitError() << "(Q1) expected elements of f8E4M3FN, f8E5M2, "
                          "f6E3M2FN, f6E2M3FN, f4E2M1FN or i8, got "
                       << element;
  if (!symmetric && !isFixed)
    return emitError()
           << "(Q1) expected i8 for a format that is not symmetric, "
              "got "
           << element;
  constexpr int64_t kMost = int64_t(1) << 31;
  if (rows < 0 || columns < 0 || rows > kMost || columns > kMost)
    return emitError() << "(Q2) expected blocks of up to 2^31 rows and "
                          "columns, 0 for all, got "
                       << rows << " and " << columns;
  if (!isa<PowerScaleAttr, TwoLevelScaleAttr, QuotientScaleAttr, F32ScaleAttr,
           GivenScaleAttr>(scale))
    return emitError() << "(Q2) expected a rule of scales, got " << scale;
  if (isa<GivenScaleAttr>(scale) && (rows || columns))
    return emitError() << "(Q2) expected a block of all rows and columns under "
                          "a given scale, got "
                       << rows << " and " << columns;
  if (isa<TwoLevelScaleAttr, QuotientScaleAttr>(scale) &&
      !isa<Float4E2M1FNType>(element))
    return emitError() << "(Q2) expected elements of f4E2M1FN under scales of "
                          "f8E4M3FN, got "
                       << element;
  if (rounding.getLayout() == RandomLayout::ptx && isFixed)
    return emitError() << "(Q3) expected floats for `ptx`, got " << element;
  return success();
}

Type BlockFormatAttr::getScaleType() {
  if (isa<PowerScaleAttr>(getScale()))
    return Float8E8M0FNUType::get(getContext());
  if (isa<F32ScaleAttr, GivenScaleAttr>(getScale()))
    return Float32Type::get(getContext());
  return Float8E4M3FNType::get(getContext());
}

bool BlockFormatAttr::takesTensor() {
  if (auto quotient = dyn_cast<QuotientScaleAttr>(getScale()))
    return quotient.getLevels() == 2;
  return isa<TwoLevelScaleAttr, GivenScaleAttr>(getScale());
}

bool BlockFormatAttr::keepsTensor() {
  return takesTensor() && !isa<GivenScaleAttr>(getScale());
}

SmallVector<int64_t> BlockFormatAttr::getScaleShape(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> blocks(shape);
  auto divide = [](int64_t extent, int64_t size) {
    return llvm::divideCeil(extent, size ? size : std::max<int64_t>(extent, 1));
  };
  int64_t rank = shape.size();
  blocks[rank - 2] = divide(shape[rank - 2], getRows());
  blocks[rank - 1] = divide(shape[rank - 1], getColumns());
  return blocks;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Checks the types of the codes and scales of a quantized tensor. `values` is
/// the type of the tensor without quantization.
static LogicalResult verifyBlocks(Operation *op, BlockFormatAttr format,
                                  RankedTensorType values,
                                  RankedTensorType codes,
                                  RankedTensorType scales, Value tensor,
                                  bool takesTensor) {
  if (values.getRank() < 2)
    return op->emitOpError("(Q2) expected two dimensions or more, got ")
           << values;
  auto expectedCodes =
      RankedTensorType::get(values.getShape(), format.getElement());
  if (codes != expectedCodes)
    return op->emitOpError("(Q1) expected codes of ")
           << expectedCodes << ", got " << codes;
  auto expectedScales = RankedTensorType::get(
      format.getScaleShape(values.getShape()), format.getScaleType());
  if (scales != expectedScales)
    return op->emitOpError("(Q2) expected scales of ")
           << expectedScales << ", got " << scales;
  if (bool(tensor) != takesTensor)
    return op->emitOpError("(Q2) expected ")
           << (tensor ? "no value" : "a value")
           << " of the whole tensor for this scale";
  if (!tensor)
    return success();
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.getRank() == 0)
    return success();
  if (isa<QuotientScaleAttr, GivenScaleAttr>(format.getScale()))
    return op->emitOpError("(Q2) expected one scale of the whole tensor, got ")
           << type;
  if (format.getRows() != 1 || type.getShape() != values.getShape().drop_back())
    return op->emitOpError("(Q2) expected an amax of the whole tensor, or of "
                           "each row where blocks have one, got ")
           << type;
  return success();
}

LogicalResult QuantizeOp::verify() {
  bool isRandom =
      getFormat().getRounding().getDirection() == RoundingDirection::sr;
  if (isRandom != bool(getSeed()) || isRandom != bool(getStep()) ||
      isRandom != getSite().has_value())
    return emitOpError("(Q3) expected a site, seed and step if and only if the "
                       "rounding is stochastic");
  if (getSite() && (*getSite() >> 32))
    return emitOpError("(R1) site is ") << *getSite() << ", expected 32 bits";
  return verifyBlocks(*this, getFormat(), getInput().getType(),
                      getCodes().getType(), getScales().getType(), getTensor(),
                      getFormat().takesTensor());
}

LogicalResult DequantizeOp::verify() {
  return verifyBlocks(*this, getFormat(), getResult().getType(),
                      getCodes().getType(), getScales().getType(), getTensor(),
                      getFormat().keepsTensor());
}

/// (Q7) Checks the type of packed codes.
static LogicalResult verifyPacked(Operation *op, RankedTensorType codes,
                                  RankedTensorType bytes) {
  if (codes.getRank() == 0)
    return op->emitOpError("(Q7) expected codes in rows, got ") << codes;
  SmallVector<int64_t> shape(codes.getShape());
  shape.back() = llvm::divideCeil(shape.back(), 2);
  auto expected = RankedTensorType::get(shape, bytes.getElementType());
  if (bytes != expected)
    return op->emitOpError("(Q7) expected two codes in a byte, ")
           << expected << " of " << codes << ", got " << bytes;
  return success();
}

LogicalResult PackCodesOp::verify() {
  return verifyPacked(*this, getCodes().getType(), getBytes().getType());
}

LogicalResult UnpackCodesOp::verify() {
  return verifyPacked(*this, getCodes().getType(), getBytes().getType());
}
