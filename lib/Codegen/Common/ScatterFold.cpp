//===- ScatterFold.cpp - The fold of one destination of a scatter ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/ScatterFold.h"

#include "Codegen/Common/FoldSupport.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

static constexpr int64_t kChunk = 512; // (D1)

ScatterFold::ScatterFold(KernelBuilder &b, ScatterOp op)
    : b(b), op(op), combine(op.getCombine()) {
  auto type = cast<MemRefType>(op.getOutputs()[0].getType());
  auto indexType = cast<MemRefType>(op.getIndices().getType());
  updates = indexType.getDimSize(0);
  depth = indexType.getDimSize(1);
  rowSizes.assign(type.getShape().begin(), type.getShape().begin() + depth);
  rows = getProduct(rowSizes);
  int64_t rank = type.getRank(), sliceRank = rank - depth;
  MLIRContext *context = b.getContext();
  // The dimensions of the access maps are those of `original`, followed by the
  // position of the update.
  SmallVector<AffineExpr> updateExprs{getAffineDimExpr(rank, context)};
  SmallVector<AffineExpr> originalExprs;
  for (int64_t dim = 0; dim < rank; ++dim)
    originalExprs.push_back(getAffineDimExpr(dim, context));
  for (int64_t dim = 0; dim < sliceRank; ++dim)
    updateExprs.push_back(getAffineDimExpr(depth + dim, context));
  original = b.getAccess(op.getOutputs()[0],
                         AffineMap::get(rank + 1, 0, originalExprs, context));
  update = b.getAccess(op.getUpdates(),
                       AffineMap::get(rank + 1, 0, updateExprs, context));
  indices = b.getAccess(op.getIndices(),
                        AffineMap::getMultiDimIdentityMap(2, context));
  accumulator = getCombineType(original.element);
  SmallVector<unsigned> dims =
      llvm::to_vector(llvm::seq<unsigned>(depth, rank));
  SmallVector<int64_t> sizes(type.getShape());
  sizes.push_back(updates);
  slice = collapseDims(dims, sizes, {&original, &update},
                       llvm::SmallBitVector(rank + 1));
}

Value ScatterFold::getRow(Value p, Value &isValid) {
  Value row = b.index(0);
  isValid = b.constant(b.getIntegerAttr(b.getI1Type(), 1));
  for (int64_t j = 0; j < depth; ++j) {
    Value at = b.load(indices.buffer, indices.element,
                      b.getOffset(indices, {p, b.index(j)}));
    if (!at.getType().isIndex())
      at = arith::IndexCastOp::create(b, b.getIndexType(), at);
    Value inRange = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, at,
                                          b.index(rowSizes[j]));
    isValid = arith::AndIOp::create(b, isValid, inRange);
    row = b.add(b.mul(row, rowSizes[j]), at);
  }
  return row;
}

Value ScatterFold::getBase(Value row) {
  SmallVector<Value> at = b.delinearize(row, rowSizes);
  Value base = b.index(original.constant);
  for (int64_t j = 0; j < depth; ++j)
    base = b.add(base, b.mul(at[j], original.coefficients[j]));
  return base;
}

void ScatterFold::foldColumns(Value first, Value originalBase, Value updateBase,
                              Value column, int64_t vectors, int64_t lanes,
                              LaneMask mask) {
  int64_t updateStride = 1, originalStride = 1;
  if (!slice.empty()) {
    originalStride = slice.back().coefficients[0];
    updateStride = slice.back().coefficients[1];
  }
  bool isFloat = isa<FloatType>(accumulator);
  auto load = [&](const Access &access, Value base, int64_t stride,
                  int64_t v) -> Value {
    Value offset = b.add(base, b.mul(b.add(column, v * lanes), stride));
    Value value = lanes ? b.loadVector(access.buffer, access.element, offset,
                                       stride, lanes, mask)
                        : b.load(access.buffer, access.element, offset);
    return isFloat ? b.convertFloat(value, accumulator) : value;
  };
  auto loadUpdate = [&](Value p, int64_t v) {
    Value base = b.add(updateBase, b.mul(p, update.coefficients.back()));
    return load(update, base, updateStride, v);
  };
  auto storeResult = [&](Value value, int64_t v) {
    if (isFloat)
      value = b.convertFloat(value, original.element);
    value = b.canonicalizeNaN(value);
    Value offset =
        b.add(originalBase, b.mul(b.add(column, v * lanes), originalStride));
    if (lanes)
      b.storeVector(value, original.buffer, offset, originalStride, mask);
    else
      b.store(value, original.buffer, offset);
  };
  if (combine == Combine::replace) {
    for (int64_t v = 0; v < vectors; ++v)
      storeResult(loadUpdate(first, v), v);
    return;
  }
  TypedAttr startAttr = getCombineStart(combine, accumulator);
  if (lanes)
    startAttr = DenseElementsAttr::get(VectorType::get({lanes}, accumulator),
                                       Attribute(startAttr));
  Value start = b.constant(startAttr);
  Value isFalse = b.constant(b.getIntegerAttr(b.getI1Type(), 0));
  Value isTrue = b.constant(b.getIntegerAttr(b.getI1Type(), 1));
  auto chunkEnd = [&](Value p) {
    return b.mul(b.add(b.div(p, kChunk), 1), kChunk);
  };
  // The state of the loop is: the next update, the end of the current chunk,
  // whether there are totals, the accumulators of the chunk, and the totals.
  SmallVector<Value> state{b.load(next, b.getIndexType(), first),
                           chunkEnd(first), isFalse};
  for (int64_t v = 0; v < vectors; ++v)
    state.push_back(createCombine(b, combine, start, loadUpdate(first, v)));
  for (int64_t v = 0; v < vectors; ++v)
    state.push_back(start);
  auto addChunk = [&](Value hasTotal, Value total, Value chunk) {
    return b.select(hasTotal, createCombine(b, combine, total, chunk), chunk);
  };
  SmallVector<Type> types;
  for (Value value : state)
    types.push_back(value.getType());
  auto loop = scf::WhileOp::create(
      b, types, state,
      [&](OpBuilder &, Location, ValueRange args) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(args[0].getParentBlock());
        Value more = arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                           args[0], b.index(0));
        scf::ConditionOp::create(b, more, args);
      },
      [&](OpBuilder &, Location, ValueRange args) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(args[0].getParentBlock());
        Value p = args[0], limit = args[1], hasTotal = args[2];
        Value isNew =
            arith::CmpIOp::create(b, arith::CmpIPredicate::sge, p, limit);
        SmallVector<Value> chunks, totals;
        for (int64_t v = 0; v < vectors; ++v) {
          Value chunk = args[3 + v], total = args[3 + vectors + v];
          totals.push_back(
              b.select(isNew, addChunk(hasTotal, total, chunk), total));
          chunks.push_back(createCombine(
              b, combine, b.select(isNew, start, chunk), loadUpdate(p, v)));
        }
        SmallVector<Value> results{b.load(next, b.getIndexType(), p),
                                   b.select(isNew, chunkEnd(p), limit),
                                   b.select(isNew, isTrue, hasTotal)};
        llvm::append_range(results, chunks);
        llvm::append_range(results, totals);
        scf::YieldOp::create(b, results);
      });
  for (int64_t v = 0; v < vectors; ++v) {
    Value total = addChunk(loop.getResult(2), loop.getResult(3 + vectors + v),
                           loop.getResult(3 + v));
    Value init = load(original, originalBase, originalStride, v);
    storeResult(createCombine(b, combine, init, total), v);
  }
}
