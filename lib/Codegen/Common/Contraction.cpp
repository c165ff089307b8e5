//===- Contraction.cpp - Fused multiply-add folds over two factors --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Contraction.h"

#include "Codegen/Common/BodyVectorizer.h"
#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

Epilogue::Epilogue(KernelBuilder &b, FoldOp fold, linalg::GenericOp op)
    : op(op) {
  // The loops of `op` are the parallel dimensions of the fold, in the same
  // order.
  SmallVector<AffineExpr> dims;
  SmallVector<utils::IteratorType> types = fold.getIteratorTypesArray();
  for (auto [dim, type] : llvm::enumerate(types))
    if (type == utils::IteratorType::parallel)
      dims.push_back(b.getAffineDimExpr(dim));
  auto getAccess = [&](OpOperand &operand) {
    return b.getAccess(
        operand.get(),
        op.getMatchingIndexingMap(&operand).replaceDimsAndSymbols(
            dims, {}, types.size(), 0));
  };
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(input);
    if (input->get() == fold.getOutputs()[0]) {
      result = argument;
    } else if (!argument.use_empty()) {
      arguments.push_back(argument);
      inputs.push_back(getAccess(*input));
    }
  }
  output = getAccess(*op.getDpsInitOperand(0));
}

void Contraction::collapseFactor(Factor &factor) {
  const Access &output = fold.outputs[0];
  llvm::stable_sort(factor.ownDims, [&](unsigned x, unsigned y) {
    return output.coefficients[x] > output.coefficients[y];
  });
  SmallVector<const Access *> accesses;
  for (unsigned leaf : factor.inputs)
    accesses.push_back(&fold.inputs[leaf]);
  llvm::SmallBitVector none(fold.sizes.size());
  factor.reduction = collapseDims(fold.reduction, fold.sizes, accesses, none);
  for (const Access &input : epilogue.inputs)
    accesses.push_back(&input);
  accesses.push_back(&output);
  factor.loops = collapseDims(factor.ownDims, fold.sizes, accesses, none);
  factor.size = getProduct(getSizes(factor.loops));
}

LogicalResult Contraction::matchFactors() {
  std::optional<ContractionBody> contraction = getContraction(fold.op);
  if (!contraction || contraction->isInLanes || fold.n == 0 ||
      fold.results == 0 || !fold.outputs[0].linear)
    return failure();
  Block &body = *fold.op.getBody();
  if (!BodyVectorizer::canVectorize(body) ||
      llvm::any_of(body, [](Operation &op) { return isa<cf::AssertOp>(op); }))
    return failure();
  type = contraction->type;
  if (!type.isF32() && !type.isF64())
    return failure();
  rows = {std::move(contraction->x)};
  columns = {std::move(contraction->y)};
  for (const Factor *factor : {&rows, &columns})
    if (factor->readsOthers ||
        !llvm::all_of(factor->inputs, [&](unsigned input) {
          return fold.inputs[input].linear;
        }))
      return failure();
  auto reads = [&](const Factor &factor, unsigned dim) {
    return llvm::any_of(factor.inputs, [&](unsigned leaf) {
      return fold.inputs[leaf].coefficients[dim] != 0;
    });
  };
  for (unsigned dim : fold.parallel) {
    if (fold.sizes[dim] == 1)
      continue;
    bool inRows = reads(rows, dim), inColumns = reads(columns, dim);
    if (inRows == inColumns)
      batchDims.push_back(dim);
    else
      (inRows ? rows : columns).ownDims.push_back(dim);
  }
  if (rows.ownDims.empty() && columns.ownDims.empty())
    return failure();
  collapseFactor(rows);
  collapseFactor(columns);
  return success();
}

ContractionShape::Factor Contraction::getShape(const Factor &factor) const {
  bool isPlain = factor.numOperations == 0 && factor.inputs.size() == 1 &&
                 fold.inputs[factor.inputs[0]].isMemory();
  return {factor.loops, factor.reduction,     factor.size,
          isPlain,      factor.numOperations, unsigned(factor.inputs.size())};
}

ContractionShape Contraction::getShape() const {
  int64_t batchSize = 1;
  for (unsigned dim : batchDims)
    batchSize *= fold.sizes[dim];
  return {getShape(rows), getShape(columns), batchSize,
          fold.n,         fold.chunk,        type.getIntOrFloatBitWidth() / 8};
}

void Contraction::settleFactors(bool swap) {
  if (swap)
    std::swap(rows, columns);
  SmallVector<const Access *> accesses;
  for (const Factor *factor : {&rows, &columns})
    for (unsigned leaf : factor->inputs)
      accesses.push_back(&fold.inputs[leaf]);
  for (const Access &input : epilogue.inputs)
    accesses.push_back(&input);
  accesses.push_back(&fold.outputs[0]);
  batch = collapseDims(batchDims, fold.sizes, accesses,
                       llvm::SmallBitVector(fold.sizes.size()));
}

void Contraction::noteTiles(StringRef description) {
  auto kernel = fold.op->getParentOfType<FunctionOpInterface>();
  launch::LaunchDialect::TilesAttrHelper attribute(b.getContext());
  SmallVector<Attribute> tiles;
  if (ArrayAttr known = attribute.getAttr(kernel))
    llvm::append_range(tiles, known);
  tiles.push_back(b.getStringAttr(description));
  attribute.setAttr(kernel, b.getArrayAttr(tiles));
}

Value Contraction::computeFactor(const Factor &factor, int64_t lanes,
                                 function_ref<Value(unsigned leaf)> load) {
  BodyVectorizer body(b, lanes);
  for (auto [i, leaf] : llvm::enumerate(factor.inputs)) {
    const Access &access = fold.inputs[leaf];
    body.map(fold.op.getBody()->getArgument(leaf),
             access.isMemory() ? load(i) : access.scalar);
  }
  return body.getLanes(factor.value, type);
}
