//===- ConvolutionAdjoint.cpp - Adjoint of repro.convolution --------------===//
//---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Dialect/Repro/Differentiation/Passes.h"
#include "dialects/Repro/IR/ImportedOps.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// The attributes of a convolution that have one value per spatial dimension.
struct Windows {
  SmallVector<int64_t> strides, low, high, inputDilation, kernelDilation;
  SmallVector<bool> reversal;
};
} // namespace

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static Value convolve(ImplicitLocOpBuilder &b, Value input, Value kernel,
                      ArrayRef<int64_t> shape, Type element,
                      const Windows &windows, int64_t featureGroups,
                      int64_t batchGroups) {
  auto type = RankedTensorType::get(shape, element);
  return ConvolutionOp::create(b, type, input, kernel, makeZero(b, type),
                               windows.strides, windows.low, windows.high,
                               windows.inputDilation, windows.kernelDilation,
                               windows.reversal, featureGroups, batchGroups);
}

/// Converts an input [groups * N, C, ...], whose batch consists of `groups`
/// groups, to [N, groups * C, ...]: groups of the batch become feature groups.
/// `splitBatchGroups` is the inverse.
static Value joinBatchGroups(ImplicitLocOpBuilder &b, Value input,
                             int64_t groups) {
  SmallVector<int64_t> shape(getShape(input));
  SmallVector<int64_t> split{groups, shape[0] / groups};
  llvm::append_range(split, ArrayRef(shape).drop_front());
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, split.size()));
  std::swap(order[0], order[1]);
  Value parts = transpose(b, reshape(b, input, split), order);
  shape[0] /= groups;
  shape[1] *= groups;
  return reshape(b, parts, shape);
}

static Value splitBatchGroups(ImplicitLocOpBuilder &b, Value joined,
                              int64_t groups) {
  SmallVector<int64_t> shape(getShape(joined));
  SmallVector<int64_t> split{shape[0], groups, shape[1] / groups};
  llvm::append_range(split, ArrayRef(shape).drop_front(2));
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, split.size()));
  std::swap(order[0], order[1]);
  Value parts = transpose(b, reshape(b, joined, split), order);
  shape[0] *= groups;
  shape[1] /= groups;
  return reshape(b, parts, shape);
}

/// Exchanges the input and output channels of a kernel [O, C / groups, ...]
/// within each group, which gives [C, O / groups, ...].
static Value exchangeChannels(ImplicitLocOpBuilder &b, Value kernel,
                              int64_t groups) {
  SmallVector<int64_t> shape(getShape(kernel));
  SmallVector<int64_t> split{groups, shape[0] / groups, shape[1]};
  llvm::append_range(split, ArrayRef(shape).drop_front(2));
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, split.size()));
  std::swap(order[1], order[2]);
  Value parts = transpose(b, reshape(b, kernel, split), order);
  int64_t outputs = shape[0];
  shape[0] = shape[1] * groups;
  shape[1] = outputs / groups;
  return reshape(b, parts, shape);
}

static Value exchangeFirst(ImplicitLocOpBuilder &b, Value tensor) {
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, getShape(tensor).size()));
  std::swap(order[0], order[1]);
  return transpose(b, tensor, order);
}

/// Returns the extent from the first to the last of `count` elements at
/// distance `step`.
static int64_t spread(int64_t count, int64_t step) {
  return (count - 1) * step + 1;
}

/// At positions `in` of the input and `out` of the result, window position w
/// satisfies out * stride + w * kernel_dilation = low + in * input_dilation.
/// Returns the input's gradient: the convolution with in and out exchanged and
/// w reversed.
static Value getInputGradient(ImplicitLocOpBuilder &b, ConvolutionOp op,
                              Value g, ArrayRef<int64_t> shape, Value kernel,
                              int64_t groups, Type element) {
  Windows windows;
  for (int64_t i = 0; i < op.getNumSpatialDims(); ++i) {
    int64_t taps = getShape(kernel)[2 + i];
    int64_t reach = (taps - 1) * op.getKernelDilation()[i];
    int64_t low = reach - op.getPaddingLow()[i];
    windows.strides.push_back(op.getInputDilation()[i]);
    windows.inputDilation.push_back(op.getStrides()[i]);
    windows.kernelDilation.push_back(op.getKernelDilation()[i]);
    windows.reversal.push_back(!op.getWindowReversal()[i]);
    windows.low.push_back(low);
    int64_t needed = reach + spread(shape[2 + i], op.getInputDilation()[i]);
    windows.high.push_back(needed - low -
                           spread(getShape(g)[2 + i], op.getStrides()[i]));
  }
  return convolve(b, g, exchangeChannels(b, kernel, groups), shape, element,
                  windows, groups, 1);
}

/// Returns the kernel's gradient: the convolution with w and out exchanged, and
/// with channels and batch exchanged.
static Value getKernelGradient(ImplicitLocOpBuilder &b, ConvolutionOp op,
                               Value g, Value input, ArrayRef<int64_t> shape,
                               int64_t groups, Type element) {
  Windows windows;
  for (int64_t i = 0; i < op.getNumSpatialDims(); ++i) {
    int64_t low = op.getPaddingLow()[i];
    windows.strides.push_back(op.getKernelDilation()[i]);
    windows.inputDilation.push_back(op.getInputDilation()[i]);
    windows.kernelDilation.push_back(op.getStrides()[i]);
    windows.reversal.push_back(false);
    windows.low.push_back(low);
    int64_t needed = (getShape(g)[2 + i] - 1) * op.getStrides()[i] +
                     spread(shape[2 + i], op.getKernelDilation()[i]);
    windows.high.push_back(
        needed - low -
        spread(getShape(input)[2 + i], op.getInputDilation()[i]));
  }
  SmallVector<int64_t> exchanged(shape);
  std::swap(exchanged[0], exchanged[1]);
  Value gradient = convolve(b, exchangeFirst(b, input), exchangeFirst(b, g),
                            exchanged, element, windows, 1, groups);
  gradient = exchangeFirst(b, gradient);
  for (auto [i, isReversed] : llvm::enumerate(op.getWindowReversal()))
    if (isReversed)
      gradient = flip(b, gradient, 2 + i);
  return gradient;
}

static LogicalResult addAdjointsOf(ConvolutionOp op, Adjoints &adjoints) {
  ImplicitLocOpBuilder b = adjoints.builderAt(op.getLoc());
  Value input = op.getInput(), kernel = op.getKernel(), init = op.getInit();
  Value g = adjoints.get(op.getResult());
  adjoints.add(init, g);
  auto isEmpty = [](Value value) {
    return llvm::is_contained(getShape(value), 0);
  };
  // If a tensor has no elements, there are no products, and the gradients stay
  // zero.
  if (isEmpty(input) || isEmpty(kernel) || isEmpty(g))
    return success();
  int64_t groups = op.getFeatureGroups(), parts = op.getBatchGroups();
  Value joined = parts > 1 ? joinBatchGroups(b, input, parts) : input;
  if (parts > 1)
    groups = parts;
  Type wide = getElement(g);
  if (adjoints.isActive(input)) {
    Value gradient =
        getInputGradient(b, op, g, getShape(joined), kernel, groups, wide);
    if (parts > 1)
      gradient = splitBatchGroups(b, gradient, parts);
    adjoints.add(input, convertElements(b, gradient, getElement(input)));
  }
  if (adjoints.isActive(kernel)) {
    Value gradient =
        getKernelGradient(b, op, g, joined, getShape(kernel), groups, wide);
    adjoints.add(kernel, convertElements(b, gradient, getElement(kernel)));
  }
  return success();
}

namespace {
struct ConvolutionModel
    : AdjointOpInterface::ExternalModel<ConvolutionModel, ConvolutionOp> {
  LogicalResult addAdjoints(Operation *op, Adjoints &adjoints) const {
    return addAdjointsOf(cast<ConvolutionOp>(op), adjoints);
  }
};
} // namespace

void repro::registerConvolutionAdjoint(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, ReproDialect *) {
    ConvolutionOp::attachInterface<ConvolutionModel>(*context);
  });
}
