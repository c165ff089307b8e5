//===- ContractionBody.cpp - Recognition of contractions ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::repro;

BlockArgument repro::getExtendedArgument(Value value, Block *body) {
  while (auto extension = value.getDefiningOp<arith::ExtFOp>())
    value = extension.getIn();
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == body ? argument : BlockArgument();
}

/// (K1) Finds the inputs that a factor depends on.
static void findInputs(ContractionBody::Factor &factor, Block *body) {
  SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> open = {factor.value};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (value.getParentBlock() != body)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (!llvm::is_contained(factor.inputs, argument.getArgNumber()))
        factor.inputs.push_back(argument.getArgNumber());
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!seen.insert(op).second)
      continue;
    factor.readsOthers |=
        isa<repro::IndexOp, tensor::ExtractOp, memref::LoadOp>(op);
    factor.numOperations += !isa<arith::ConstantOp>(op);
    llvm::append_range(open, llvm::reverse(op->getOperands()));
  }
}

static ContractionBody::Factor getFactor(FoldOp fold, Value value) {
  ContractionBody::Factor factor;
  factor.value = value;
  factor.isElement = bool(getExtendedArgument(value, fold.getBody()));
  findInputs(factor, fold.getBody());
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  factor.dims.resize(fold.getIteratorTypes().size());
  for (unsigned input : factor.inputs)
    for (unsigned dim = 0; dim < factor.dims.size(); ++dim)
      if (maps[input].isFunctionOfDim(dim))
        factor.dims.set(dim);
  return factor;
}

std::optional<ContractionBody> repro::getContraction(FoldOp fold) {
  auto step = dyn_cast_or_null<math::FmaOp>(fold.getStep());
  if (!step)
    return std::nullopt;
  ContractionBody body;
  // Only the step reads the accumulator, so both factors come from inputs.
  body.x = getFactor(fold, step.getA());
  body.y = getFactor(fold, step.getB());
  body.type = step.getType();
  body.hasOtherOperations =
      llvm::any_of(fold.getBody()->without_terminator(), [&](Operation &op) {
        return &op != step && !isa<arith::ExtFOp>(op);
      });
  auto order = dyn_cast_if_present<OrderAttr>(fold.getOrderAttr());
  body.isInLanes = order && (order.getLanes() > 1 ||
                             order.getTotals() != Totals::sequential);
  return body;
}

/// Whether the operation only permutes or extends elements.
static bool isExtension(linalg::GenericOp generic) {
  if (generic.getNumDpsInputs() != 1 || generic->getNumResults() != 1)
    return false;
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  if (!maps[0].isPermutation() || !maps[1].isIdentity())
    return false;
  Block &body = *generic.getBody();
  return getExtendedArgument(body.getTerminator()->getOperand(0), &body) ==
             body.getArgument(0) &&
         llvm::all_of(body.without_terminator(), llvm::IsaPred<arith::ExtFOp>);
}

std::optional<ExtendedInput> repro::getExtendedInput(Value input,
                                                     AffineMap map) {
  std::optional<ExtendedInput> found;
  Type type = getElementTypeOrSelf(input.getType());
  while (auto generic = input.getDefiningOp<linalg::GenericOp>()) {
    if (!isExtension(generic))
      break;
    input = generic.getDpsInputs()[0];
    map = generic.getIndexingMapsArray()[0].compose(map);
    if (getElementTypeOrSelf(input.getType()) != type)
      found = {input, map};
    type = getElementTypeOrSelf(input.getType());
  }
  return found;
}

std::optional<std::pair<Type, Type>> repro::getMultipliedTypes(FoldOp fold) {
  std::optional<ContractionBody> body = getContraction(fold);
  if (!body || !body->isPlain())
    return std::nullopt;
  auto getType = [&](const ContractionBody::Factor &factor) {
    unsigned number = factor.inputs[0];
    Value input = fold.getInputs()[number];
    std::optional<ExtendedInput> extended =
        getExtendedInput(input, fold.getIndexingMapsArray()[number]);
    return getElementTypeOrSelf(extended ? extended->tensor.getType()
                                         : input.getType());
  };
  return std::make_pair(getType(body->x), getType(body->y));
}

bool repro::addsProductsInTurn(Operation *op) {
  auto fold = dyn_cast<FoldOp>(op);
  if (!fold)
    return false;
  std::optional<ContractionBody> contraction = getContraction(fold);
  return contraction && !contraction->isInLanes;
}
