//===- ByteProducts.cpp - Folds that add products of bytes ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ByteProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// Returns the input of the fold that the value extends from i8.
static std::optional<unsigned> getByte(Value value) {
  auto extension = value.getDefiningOp<arith::ExtSIOp>();
  auto argument =
      extension ? dyn_cast<BlockArgument>(extension.getIn()) : BlockArgument();
  if (!argument || !argument.getType().isInteger(8))
    return std::nullopt;
  return argument.getArgNumber();
}

/// Adds the products whose sum is `value` to `terms`. Returns false if `value`
/// is something else.
static bool addTerms(Value value, int64_t shift,
                     SmallVectorImpl<ByteProducts::Term> &terms) {
  Operation *op = value.getDefiningOp();
  if (auto sum = dyn_cast_or_null<arith::AddIOp>(op))
    return addTerms(sum.getLhs(), shift, terms) &&
           addTerms(sum.getRhs(), shift, terms);
  if (auto shifted = dyn_cast_or_null<arith::ShLIOp>(op)) {
    APInt by;
    return matchPattern(shifted.getRhs(), m_ConstantInt(&by)) &&
           by.ult(by.getBitWidth()) &&
           addTerms(shifted.getLhs(), shift + by.getSExtValue(), terms);
  }
  auto product = dyn_cast_or_null<arith::MulIOp>(op);
  if (!product)
    return false;
  std::optional<unsigned> x = getByte(product.getLhs()),
                          y = getByte(product.getRhs());
  if (!x || !y)
    return false;
  terms.push_back({*x, *y, shift});
  return true;
}

std::optional<ByteProducts> ByteProducts::get(FoldOp fold) {
  auto step = dyn_cast_or_null<arith::AddIOp>(fold.getStep());
  if (!step || fold.getOutputs().size() != 1 ||
      !isa_and_present<AnyOrderAttr>(fold.getOrderAttr()))
    return std::nullopt;
  Type type = step.getType();
  if (!type.isInteger(32) && !type.isInteger(64))
    return std::nullopt;
  BlockArgument accumulator = fold.getBody()->getArguments().back();
  ByteProducts products;
  Value sum = step.getLhs() == accumulator ? step.getRhs() : step.getLhs();
  if (!addTerms(sum, 0, products.terms))
    return std::nullopt;

  // All bytes of a factor have one map.
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  AffineMap x = maps[products.terms[0].x], y = maps[products.terms[0].y];
  if (!x.isProjectedPermutation() || !y.isProjectedPermutation())
    return std::nullopt;
  for (Term &term : products.terms) {
    if (maps[term.x] != x)
      std::swap(term.x, term.y);
    if (maps[term.x] != x || maps[term.y] != y)
      return std::nullopt;
  }
  SmallVector<int64_t> extents = fold.getExtents();
  std::optional<unsigned> depth;
  auto choose = [&](std::optional<unsigned> &best, unsigned loop) {
    if (!best || extents[loop] > extents[*best])
      best = loop;
  };
  for (auto [loop, kind] : llvm::enumerate(fold.getIteratorTypesArray())) {
    bool ofX = x.isFunctionOfDim(loop), ofY = y.isFunctionOfDim(loop);
    if (kind == utils::IteratorType::reduction) {
      if (ofX && ofY)
        choose(depth, loop);
    } else if (ofX != ofY) {
      choose(ofX ? products.rowLoop : products.columnLoop, loop);
    }
  }
  if (!depth)
    return std::nullopt;
  products.depthLoop = *depth;
  return products;
}
