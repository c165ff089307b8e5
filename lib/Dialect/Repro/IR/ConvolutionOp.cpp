//===- ConvolutionOp.cpp - repro.convolution ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/ImportedOps.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::repro;

/// Strides, dilations and paddings are below this limit in magnitude, so the
/// sum of two of them does not overflow.
static constexpr int64_t kWindowLimit = int64_t(1) << 31;

Type ConvolutionOp::getAccumulatorType() {
  Type type = getInit().getType().getElementType();
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32
             ? Float32Type::get(getContext())
             : type;
}

static LogicalResult verifyElementTypes(ConvolutionOp op) {
  Type accumulator = op.getAccumulatorType();
  for (Value value : op->getOperands()) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getEncoding())
      return op.emitOpError("(V1) expected tensors without encoding, got ")
             << type;
    // f32 and f64 represent all values of narrower floats exactly.
    Type element = type.getElementType();
    bool isExact =
        isa<FloatType>(element) && isa<FloatType>(accumulator) &&
        element.getIntOrFloatBitWidth() < accumulator.getIntOrFloatBitWidth();
    if (value != op.getInit() && element != accumulator && !isExact)
      return op.emitOpError("(K1) expected elements that convert exactly to ")
             << accumulator << ", got " << element;
  }
  return success();
}

/// Checks that there is one number per spatial dimension and that each is at
/// least `least`.
static LogicalResult verifyNumbers(ConvolutionOp op, StringRef name,
                                   ArrayRef<int64_t> numbers, int64_t least) {
  if (int64_t(numbers.size()) != op.getNumSpatialDims())
    return op.emitOpError("(K2) expected one entry of '")
           << name << "' per spatial dimension (" << op.getNumSpatialDims()
           << "), got " << numbers.size();
  for (int64_t number : numbers)
    if (number < least || number >= kWindowLimit)
      return op.emitOpError("(K2) expected entries of '")
             << name << "' from " << least << " to " << kWindowLimit - 1
             << ", got " << number;
  return success();
}

/// Whether `groups` divides the extent; true if the extent is dynamic.
static bool divides(int64_t groups, int64_t extent) {
  return ShapedType::isDynamic(extent) || extent % groups == 0;
}

static int64_t divideExtent(int64_t extent, int64_t groups) {
  return ShapedType::isDynamic(extent) ? extent : extent / groups;
}

/// Returns the extent of the result in a spatial dimension, possibly dynamic;
/// std::nullopt after an overflow.
static std::optional<int64_t> getResultExtent(ConvolutionOp op, unsigned dim) {
  int64_t extent = op.getInput().getType().getDimSize(2 + dim);
  int64_t window = op.getKernel().getType().getDimSize(2 + dim);
  if (ShapedType::isDynamic(extent) || ShapedType::isDynamic(window))
    return ShapedType::kDynamic;
  std::optional<int64_t> last =
      llvm::checkedMulAdd(window - 1, op.getKernelDilation()[dim], int64_t(0));
  std::optional<int64_t> data =
      extent == 0 ? 0
                  : llvm::checkedMulAdd(extent - 1, op.getInputDilation()[dim],
                                        int64_t(1));
  // Each padding is below 2^31 in magnitude, so the sum of two cannot overflow.
  if (data)
    data = llvm::checkedAdd(*data,
                            op.getPaddingLow()[dim] + op.getPaddingHigh()[dim]);
  if (!last || !data)
    return std::nullopt;
  return *data <= *last ? 0 : (*data - 1 - *last) / op.getStrides()[dim] + 1;
}

LogicalResult ConvolutionOp::verify() {
  RankedTensorType input = getInput().getType(), kernel = getKernel().getType(),
                   result = getInit().getType();
  if (failed(verifyElementTypes(*this)))
    return failure();
  if (result.getRank() < 2 || input.getRank() != result.getRank() ||
      kernel.getRank() != result.getRank())
    return emitOpError("(K2) expected input, kernel and init of one rank of at "
                       "least 2, got ranks ")
           << input.getRank() << ", " << kernel.getRank() << " and "
           << result.getRank();
  if (getType() != result)
    return emitOpError("expected a result of the type of init, ")
           << result << ", got " << getType();
  if (failed(verifyNumbers(*this, "strides", getStrides(), 1)) ||
      failed(verifyNumbers(*this, "padding_low", getPaddingLow(),
                           1 - kWindowLimit)) ||
      failed(verifyNumbers(*this, "padding_high", getPaddingHigh(),
                           1 - kWindowLimit)) ||
      failed(verifyNumbers(*this, "input_dilation", getInputDilation(), 1)) ||
      failed(verifyNumbers(*this, "kernel_dilation", getKernelDilation(), 1)))
    return failure();
  if (int64_t(getWindowReversal().size()) != getNumSpatialDims())
    return emitOpError("(K2) expected one entry of 'window_reversal' per "
                       "spatial dimension (")
           << getNumSpatialDims() << "), got " << getWindowReversal().size();

  int64_t features = getFeatureGroups(), batches = getBatchGroups();
  if (features < 1 || batches < 1 || (features > 1 && batches > 1))
    return emitOpError("(K2) expected positive numbers of groups, one of them "
                       "1, got ")
           << features << " feature groups and " << batches << " batch groups";
  if (!divides(features, input.getDimSize(1)) ||
      !divides(features, kernel.getDimSize(0)))
    return emitOpError("(K2) expected ")
           << features << " feature groups to divide " << input.getDimSize(1)
           << " input channels and " << kernel.getDimSize(0)
           << " result channels";
  if (!divides(batches, input.getDimSize(0)) ||
      !divides(batches, kernel.getDimSize(0)))
    return emitOpError("(K2) expected ")
           << batches << " batch groups to divide a batch of "
           << input.getDimSize(0) << " and " << kernel.getDimSize(0)
           << " result channels";
  int64_t channels = divideExtent(input.getDimSize(1), features);
  if (failed(verifyCompatibleShape({kernel.getDimSize(1)}, {channels})))
    return emitOpError("(K2) expected a kernel of ")
           << channels << " channels, those of one of " << features
           << " groups, got " << kernel.getDimSize(1);

  SmallVector<int64_t> shape{divideExtent(input.getDimSize(0), batches),
                             kernel.getDimSize(0)};
  for (int64_t dim = 0; dim < getNumSpatialDims(); ++dim) {
    if (kernel.getDimSize(2 + dim) == 0)
      return emitOpError("(K2) expected a kernel that has elements in spatial "
                         "dimension ")
             << dim;
    std::optional<int64_t> extent = getResultExtent(*this, dim);
    if (!extent)
      return emitOpError("(K2) positions in spatial dimension ")
             << dim << " do not fit into 64 bits";
    shape.push_back(*extent);
  }
  if (failed(verifyCompatibleShape(result.getShape(), shape)))
    return emitOpError("(K2) expected a result of shape ")
           << RankedTensorType::get(shape, result.getElementType()) << ", got "
           << result;
  return success();
}
