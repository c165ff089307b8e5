//===- AttentionOps.cpp - Attention by blocks -----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/ImportedOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

/// The maximum number of blocks. Each block becomes separate operations.
static constexpr int64_t kMaxBlocks = int64_t(1) << 16;

/// Checks that the operand or result `name` has this shape and element type.
static LogicalResult verifyTensor(Operation *op, StringRef name, Value value,
                                  ArrayRef<int64_t> shape, Type element) {
  auto expected = RankedTensorType::get(shape, element);
  if (value.getType() != expected)
    return op->emitOpError("(K5) expected '")
           << name << "' of type " << expected << ", got " << value.getType();
  return success();
}

static LogicalResult verifyDropout(Operation *op, Value seed, Value step,
                                   FloatAttr rate, IntegerAttr site) {
  bool has[] = {bool(seed), bool(step), bool(rate), bool(site)};
  if (!llvm::all_equal(has))
    return op->emitOpError("(K5) expected 'rate', 'site', seed and step of "
                           "dropout together");
  if (!rate)
    return success();
  if (double value = rate.getValueAsDouble(); !(value >= 0.0 && value <= 1.0))
    return op->emitOpError("(K5) expected a rate of dropout from 0 to 1, got ")
           << rate;
  if (uint64_t(site.getInt()) >> 32)
    return op->emitOpError("(R1) site is ")
           << site.getInt() << ", expected 32 bits";
  return success();
}

/// Checks the operands and attributes that attention and its gradient have in
/// common.
template <typename OpTy>
static LogicalResult verifyAttention(OpTy op) {
  RankedTensorType query = op.getQuery().getType(), key = op.getKey().getType(),
                   value = op.getValue().getType();
  for (RankedTensorType type : {query, key, value})
    if (type.getRank() != 3 || llvm::is_contained(type.getShape(), 0))
      return op.emitOpError("(K5) expected query, key and value of three "
                            "dimensions without an extent of 0, got ")
             << type;
  Type f32 = query.getElementType();
  int64_t items = query.getDimSize(0), queries = query.getDimSize(1),
          keys = key.getDimSize(1);
  if (items % key.getDimSize(0) || items % value.getDimSize(0))
    return op.emitOpError("(K5) expected the numbers of keys and values to "
                          "divide ")
           << items << " items, got " << key.getDimSize(0) << " and "
           << value.getDimSize(0);
  int64_t block = op.getBlock();
  if (block < 1)
    return op.emitOpError("(K5) expected a positive block, got ") << block;
  int64_t extent = std::max(queries, keys);
  if (llvm::divideCeilSigned(extent, block) > kMaxBlocks)
    return op.emitOpError("(K5) expected at most ")
           << kMaxBlocks << " blocks, got " << extent
           << " queries or keys in blocks of " << block;
  if (failed(verifyTensor(op, "query", op.getQuery(), query.getShape(), f32)) ||
      failed(verifyTensor(op, "key", op.getKey(),
                          {key.getDimSize(0), keys, query.getDimSize(2)},
                          f32)) ||
      failed(verifyTensor(op, "value", op.getValue(),
                          {value.getDimSize(0), keys, value.getDimSize(2)},
                          f32)))
    return failure();
  if (Value mask = op.getMask()) {
    if (failed(verifyTensor(op, "mask", mask, {items, queries, keys},
                            getElementTypeOrSelf(mask))))
      return failure();
    if (op.getCausal())
      return op.emitOpError("(K5) expected either a mask or 'causal', got "
                            "both");
  }
  if (failed(verifyDropout(op, op.getSeed(), op.getStep(), op.getRateAttr(),
                           op.getSiteAttr())) ||
      failed(verifyTensor(op, "output", op.getOutput(),
                          {items, queries, value.getDimSize(2)}, f32)) ||
      failed(verifyTensor(op, "maxima", op.getMaxima(), {items, queries}, f32)))
    return failure();
  return verifyTensor(op, "logarithms", op.getLogarithms(), {items, queries},
                      f32);
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

LogicalResult AttentionGradientOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  std::tuple<StringRef, Value, Value> gradients[] = {
      {"gradient", getGradient(), getOutput()},
      {"query_gradient", getQueryGradient(), getQuery()},
      {"key_gradient", getKeyGradient(), getKey()},
      {"value_gradient", getValueGradient(), getValue()}};
  for (auto [name, gradient, value] : gradients) {
    auto type = cast<RankedTensorType>(value.getType());
    if (failed(verifyTensor(*this, name, gradient, type.getShape(),
                            type.getElementType())))
      return failure();
  }
  bool hasNumbers = getMask() && !getElementTypeOrSelf(getMask()).isInteger(1);
  if (hasNumbers != bool(getMaskGradient()))
    return emitOpError("(K5) expected 'mask_gradient' if and only if the mask "
                       "is of numbers");
  if (hasNumbers && getMaskGradient().getType() != getMask().getType())
    return emitOpError("(K5) expected 'mask_gradient' of type ")
           << getMask().getType() << ", got " << getMaskGradient().getType();
  return success();
}
