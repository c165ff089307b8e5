//===- ElementEvaluator.cpp - Evaluation of small constant tensors --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/ElementEvaluator.h"

#include "Dialect/Repro/Transforms/ScalarEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;

/// Returns the number of elements of a value of this type; std::nullopt if
/// there are more than `most`, or if the type is neither a scalar nor a tensor
/// of static shape.
static std::optional<int64_t> countElements(Type type, int64_t most) {
  if (type.isIntOrIndexOrFloat())
    return 1;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !tensor.getElementType().isIntOrIndexOrFloat())
    return std::nullopt;
  int64_t count = 1;
  for (int64_t extent : tensor.getShape())
    if (extent == 0)
      return 0;
  for (int64_t extent : tensor.getShape()) {
    if (extent > most / count)
      return std::nullopt;
    count *= extent;
  }
  return count;
}

/// (V1) Whether the operation computes in its own types: false for arithmetic
/// on storage types, which is widened to f32 later, but true for conversions
/// and selects.
static bool hasWidth(Operation *op) {
  auto isNarrow = [](Type type) {
    return isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32;
  };
  return isa<arith::ExtFOp, arith::TruncFOp, arith::SelectOp>(op) ||
         (llvm::none_of(op->getOperandTypes(), isNarrow) &&
          llvm::none_of(op->getResultTypes(), isNarrow));
}

static bool isScalarArithmetic(Operation *op) {
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         op->getNumResults() == 1 &&
         llvm::all_of(op->getOperandTypes(),
                      [](Type type) { return type.isIntOrIndexOrFloat(); }) &&
         hasWidth(op);
}

/// Returns the row-major position of an element; std::nullopt if it is outside
/// of the tensor.
static std::optional<int64_t> getPosition(ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> indices) {
  int64_t position = 0;
  for (auto [extent, index] : llvm::zip_equal(shape, indices)) {
    if (index < 0 || index >= extent)
      return std::nullopt;
    position = position * extent + index;
  }
  return position;
}

std::optional<APInt> ElementEvaluator::findInteger(Value value) const {
  const Elements *elements = find(value);
  if (!elements || elements->size() != 1)
    return std::nullopt;
  auto integer = dyn_cast<IntegerAttr>(elements->front());
  return integer ? std::optional(integer.getValue()) : std::nullopt;
}

std::optional<int64_t>
ElementEvaluator::findPosition(ArrayRef<int64_t> shape,
                               ValueRange indices) const {
  SmallVector<int64_t> constants;
  for (Value index : indices) {
    std::optional<APInt> constant = findInteger(index);
    if (!constant)
      return std::nullopt;
    constants.push_back(constant->getSExtValue());
  }
  return getPosition(shape, constants);
}

/// Returns the result of an operation that has one result and no body;
/// std::nullopt if it is not known.
std::optional<Elements> ElementEvaluator::computeOne(Operation *op) {
  Type type = op->getResult(0).getType();
  std::optional<int64_t> count = countElements(type, mostElements);
  if (!count)
    return std::nullopt;
  using Result = std::optional<Elements>;
  auto copyOf = [&](Value value) -> Result {
    const Elements *elements = find(value);
    return elements ? Result(*elements) : std::nullopt;
  };
  auto fillOf = [&](Value value) -> Result {
    const Elements *elements = find(value);
    return elements ? Result(Elements(*count, elements->front()))
                    : std::nullopt;
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::ConstantOp constant) -> Result {
        if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()))
          return llvm::to_vector(dense.getValues<Attribute>());
        if (isa<IntegerAttr, FloatAttr>(constant.getValue()))
          return Elements{constant.getValue()};
        return std::nullopt;
      })
      .Case([&](tensor::ExtractOp extract) -> Result {
        const Elements *elements = find(extract.getTensor());
        if (!elements)
          return std::nullopt;
        std::optional<int64_t> position = findPosition(
            extract.getTensor().getType().getShape(), extract.getIndices());
        return position ? Result(Elements{(*elements)[*position]})
                        : std::nullopt;
      })
      .Case([&](tensor::FromElementsOp from) -> Result {
        Elements result;
        for (Value element : from.getElements()) {
          const Elements *elements = find(element);
          if (!elements)
            return std::nullopt;
          result.push_back(elements->front());
        }
        return result;
      })
      .Case([&](tensor::SplatOp splat) { return fillOf(splat.getInput()); })
      .Case([&](linalg::FillOp fill) { return fillOf(fill.value()); })
      // (F6) The elements of an empty tensor are zero if they are read.
      .Case([&](tensor::EmptyOp empty) -> Result {
        return Elements(
            *count,
            Builder(op->getContext()).getZeroAttr(getElementTypeOrSelf(type)));
      })
      .Case<tensor::CastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(
          [&](Operation *same) -> Result {
            return copyOf(same->getOperand(0));
          })
      .Case([&](tensor::DimOp dim) -> Result {
        auto source = dyn_cast<RankedTensorType>(dim.getSource().getType());
        std::optional<APInt> number = findInteger(dim.getIndex());
        if (!source || !number || number->uge(source.getRank()) ||
            source.isDynamicDim(number->getZExtValue()))
          return std::nullopt;
        int64_t extent = source.getDimSize(number->getZExtValue());
        return Elements{Builder(op->getContext()).getIndexAttr(extent)};
      })
      .Default([&](Operation *) -> Result {
        if (!isScalarArithmetic(op))
          return std::nullopt;
        SmallVector<Attribute> operands;
        for (Value operand : op->getOperands()) {
          const Elements *elements = find(operand);
          if (!elements)
            return std::nullopt;
          operands.push_back(elements->front());
        }
        TypedAttr result = evaluateScalar(op, operands);
        return result && result.getType() == type ? Result(Elements{result})
                                                  : std::nullopt;
      });
}

/// Runs the iterations of a linalg.generic in order and returns its results;
/// returns an empty list if the results are not known.
SmallVector<Elements> ElementEvaluator::computeGeneric(linalg::GenericOp op) {
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  int64_t points = 1;
  for (int64_t range : ranges) {
    if (ShapedType::isDynamic(range) || range > mostElements / points)
      return {};
    points *= range;
    if (points == 0)
      return {};
  }
  // The order does not matter for a sum of integers. It matters for a sum of
  // floats, and is chosen later.
  for (Value result : op->getResults())
    if (!isa<RankedTensorType>(result.getType()) ||
        (op.getNumReductionLoops() &&
         isa<FloatType>(getElementTypeOrSelf(result.getType()))))
      return {};
  SmallVector<Elements> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    const Elements *elements = find(operand.get());
    std::optional<int64_t> count =
        countElements(operand.get().getType(), mostElements);
    if (!count)
      return {};
    if (elements)
      operands.push_back(*elements);
    else if (!op.payloadUsesValueFromOperand(&operand))
      operands.emplace_back(*count);
    else
      return {};
  }
  Block *body = op.getBody();
  // The operation may be erased later, so forget the values of its body.
  llvm::scope_exit forget([&] {
    for (Value argument : body->getArguments())
      known.erase(argument);
    for (Operation &inner : *body)
      for (Value result : inner.getResults())
        known.erase(result);
  });
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  int64_t numInputs = op.getNumDpsInputs();
  SmallVector<int64_t> point(ranges.size(), 0), positions(maps.size());
  for (int64_t i = 0; i < points; ++i) {
    for (int64_t dim = ranges.size() - 1, rest = i; dim >= 0; --dim) {
      point[dim] = rest % ranges[dim];
      rest /= ranges[dim];
    }
    for (auto [number, map] : llvm::enumerate(maps)) {
      auto type = dyn_cast<RankedTensorType>(op->getOperand(number).getType());
      std::optional<int64_t> position =
          type ? getPosition(type.getShape(), map.compose(point))
               : std::optional<int64_t>(0);
      if (!position)
        return {};
      positions[number] = *position;
      Attribute element = operands[number][*position];
      if (element)
        set(body->getArgument(number), {element});
    }
    for (Operation &inner : body->without_terminator()) {
      SmallVector<Elements> results;
      if (auto index = dyn_cast<linalg::IndexOp>(inner))
        results.push_back(
            {Builder(op.getContext()).getIndexAttr(point[index.getDim()])});
      else
        results = compute(&inner);
      if (results.empty() || isExhausted())
        return {};
      for (auto [result, elements] :
           llvm::zip_equal(inner.getResults(), results))
        set(result, std::move(elements));
    }
    for (auto [number, value] :
         llvm::enumerate(body->getTerminator()->getOperands())) {
      const Elements *elements = find(value);
      if (!elements)
        return {};
      operands[numInputs + number][positions[numInputs + number]] =
          elements->front();
    }
  }
  SmallVector<Elements> results(operands.begin() + numInputs, operands.end());
  // No iteration wrote this element, and its initial value is not known.
  for (const Elements &elements : results)
    if (llvm::is_contained(elements, Attribute()))
      return {};
  return results;
}

SmallVector<Elements> ElementEvaluator::compute(Operation *op) {
  if (isExhausted() || op->getNumResults() == 0)
    return {};
  ++work;
  SmallVector<Elements> results;
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    results = computeGeneric(generic);
  else if (op->getNumResults() == 1)
    if (std::optional<Elements> elements = computeOne(op))
      results.push_back(std::move(*elements));
  for (const Elements &elements : results)
    work += elements.size();
  return isExhausted() ? SmallVector<Elements>() : results;
}
