//===- ByteFormats.cpp - Small float formats as bytes ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/ByteFormats.h"

#include "Codegen/Schedule/Tensors/BlockScales.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"

using namespace mlir;
using namespace mlir::repro;

ByteFormatConverter::ByteFormatConverter() {
  addConversion([](Type type) -> Type {
    if (isByteFormat(type))
      return IntegerType::get(type.getContext(), 8);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && isByteFormat(tensor.getElementType()))
      return tensor.clone(IntegerType::get(type.getContext(), 8));
    return type;
  });
}

bool ByteFormatConverter::isWithoutByteFormats(Operation *op) const {
  if (auto function = dyn_cast<func::FuncOp>(op))
    return isSignatureLegal(function.getFunctionType());
  return isLegal(op) && llvm::all_of(op->getRegions(), [&](Region &region) {
           return isLegal(&region);
         });
}

namespace {
/// Converts the types of any operation that moves values without computing.
struct ConvertOperation : ConversionPattern {
  ConvertOperation(const TypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/0,
                          context) {}

  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<Value> operands,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Type> results;
    if (failed(getTypeConverter()->convertTypes(op->getResultTypes(), results)))
      return failure();
    OperationState state(op->getLoc(), op->getName(), operands, results,
                         op->getAttrs(), op->getSuccessors());
    for (unsigned i = 0; i < op->getNumRegions(); ++i)
      state.addRegion();
    Operation *converted = rewriter.create(state);
    for (auto [from, to] :
         llvm::zip_equal(op->getRegions(), converted->getRegions())) {
      rewriter.inlineRegionBefore(from, to, to.end());
      if (failed(rewriter.convertRegionTypes(&to, *getTypeConverter())))
        return failure();
    }
    rewriter.replaceOp(op, converted->getResults());
    return success();
  }
};

struct ConvertConstant : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type type = getTypeConverter()->convertType(op.getType());
    auto toByte = [](const APFloat &value) {
      return value.bitcastToAPInt().zext(8);
    };
    TypedAttr value;
    if (auto scalar = dyn_cast<FloatAttr>(op.getValue()))
      value = rewriter.getIntegerAttr(type, toByte(scalar.getValue()));
    else if (auto elements = dyn_cast<DenseElementsAttr>(op.getValue()))
      value = elements.mapValues(rewriter.getI8Type(), toByte);
    else
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, value);
    return success();
  }
};

/// Removes a bitcast between i8 and a byte format, whose codes are i8 already.
struct ConvertBitcast : OpConversionPattern<arith::BitcastOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::BitcastOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (getTypeConverter()->convertType(op.getType()) !=
        adaptor.getIn().getType())
      return failure();
    rewriter.replaceOp(op, adaptor.getIn());
    return success();
  }
};
} // namespace

/// (S3) Returns the code of `number` in `format`: the code that (Q3) yields
/// without saturation.
static Value convertNumber(const FloatWords &w, Scalar number, Type format) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  auto rounding =
      RoundingAttr::get(b.getContext(), RoundingDirection::rne, 0,
                        RandomLayout::site, false, NanCode::largest, true);
  return roundElement(w, number, ElementFormat(format), rounding);
}

namespace {
struct ConvertExtension : OpConversionPattern<arith::ExtFOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::ExtFOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!isByteFormat(op.getIn().getType()))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatWords w(b);
    Scalar value =
        decodeElement(w, adaptor.getIn(), ElementFormat(op.getIn().getType()));
    rewriter.replaceOp(op, isByteFormat(op.getType())
                               ? convertNumber(w, value, op.getType())
                               : value.convert(op.getType()).get());
    return success();
  }
};

struct ConvertTruncation : OpConversionPattern<arith::TruncFOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::TruncFOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type format = op.getType();
    if (!isByteFormat(format) || isa<Float8E8M0FNUType>(format))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatWords w(b);
    Scalar number(b, adaptor.getIn());
    if (isByteFormat(op.getIn().getType()))
      number =
          decodeElement(w, number.get(), ElementFormat(op.getIn().getType()));
    else
      number = number.getType().isF64() ? Scalar(b, roundToOdd(b, number.get()))
                                        : number.convert(b.getF32Type());
    rewriter.replaceOp(op, convertNumber(w, number, format));
    return success();
  }
};

/// Converts an integer to a byte format. Integers of more than 12 bits exceed
/// the range of every such format.
template <typename Op>
struct ConvertInteger : OpConversionPattern<Op> {
  using OpConversionPattern<Op>::OpConversionPattern;
  static constexpr bool isSigned = std::is_same_v<Op, arith::SIToFPOp>;

  LogicalResult
  matchAndRewrite(Op op, typename Op::Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type format = op.getType();
    if (!isByteFormat(format) || isa<Float8E8M0FNUType>(format))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatWords w(b);
    Value integer = adaptor.getIn();
    auto type = cast<IntegerType>(integer.getType());
    constexpr int64_t kBeyond = 1 << 12;
    auto limit = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
    };
    if (type.getWidth() > 12) {
      if (isSigned) {
        integer = arith::MinSIOp::create(b, integer, limit(kBeyond));
        integer = arith::MaxSIOp::create(b, integer, limit(-kBeyond));
      } else {
        integer = arith::MinUIOp::create(b, integer, limit(kBeyond));
      }
    }
    Scalar number(b, Op::create(b, b.getF32Type(), integer));
    rewriter.replaceOp(op, convertNumber(w, number, format));
    return success();
  }
};
} // namespace

void repro::populateByteFormatPatterns(const ByteFormatConverter &converter,
                                       RewritePatternSet &patterns) {
  patterns
      .add<ConvertOperation, ConvertConstant, ConvertBitcast, ConvertExtension,
           ConvertTruncation, ConvertInteger<arith::SIToFPOp>,
           ConvertInteger<arith::UIToFPOp>>(converter, patterns.getContext());
  populateFunctionOpInterfaceTypeConversionPattern<func::FuncOp>(patterns,
                                                                 converter);
}
