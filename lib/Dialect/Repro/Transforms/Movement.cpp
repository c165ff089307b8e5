//===- Movement.cpp - Operations that move elements -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Movement.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;

/// Returns the input whose elements a linalg.generic yields unchanged or
/// converted; null if the operation computes its elements.
static OpOperand *getYieldedInput(linalg::GenericOp generic) {
  if (generic.getNumResults() != 1)
    return nullptr;
  Block *body = generic.getBody();
  Value yielded = body->getTerminator()->getOperand(0);
  while (Operation *op = yielded.getDefiningOp()) {
    if (op->getBlock() != body || !isa<arith::ExtFOp, arith::TruncFOp>(op))
      return nullptr;
    yielded = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(yielded);
  if (argument.getOwner() != body ||
      argument.getArgNumber() >= generic.getNumDpsInputs())
    return nullptr;
  return &generic->getOpOperand(argument.getArgNumber());
}

Value repro::getMovedTensor(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return nullptr;
  return TypeSwitch<Operation *, Value>(op)
      .Case<tensor::CastOp, tensor::ExtractSliceOp>(
          [](auto moved) { return moved.getSource(); })
      .Case<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(
          [](auto moved) { return moved.getSrc(); })
      .Case([](tensor::PadOp pad) -> Value {
        return pad.getConstantPaddingValue() ? pad.getSource() : Value();
      })
      .Case([](BarrierOp barrier) { return barrier->getOperand(0); })
      .Case([](linalg::GenericOp generic) {
        OpOperand *input = getYieldedInput(generic);
        return input ? input->get() : Value();
      })
      .Default([](Operation *) { return Value(); });
}

SmallVector<Value> repro::getMovements(Value value) {
  SmallVector<Value> found;
  for (; value; value = getMovedTensor(value))
    found.push_back(value);
  return found;
}

Value repro::getMovedFrom(Value value) { return getMovements(value).back(); }

/// Applies the inverse of `op` to `values`, which have the shape of the result
/// of `op`. Returns null if `op` is not a permutation, a reshape or a barrier.
static Value moveBack(OpBuilder &builder, Operation *op, Value values) {
  if (isa<BarrierOp>(op))
    return values;
  Location loc = op->getLoc();
  Type element = getElementTypeOrSelf(values.getType());
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return tensor::ExpandShapeOp::create(
        builder, loc, collapse.getSrcType().clone(element), values,
        collapse.getReassociationIndices());
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return tensor::CollapseShapeOp::create(
        builder, loc, expand.getSrcType().clone(element), values,
        expand.getReassociationIndices());
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return nullptr;
  OpOperand *input = getYieldedInput(generic);
  AffineMap map = generic.getMatchingIndexingMap(input);
  AffineMap output =
      generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
  if (!map.isPermutation() || !output.isPermutation())
    return nullptr;
  auto type = cast<RankedTensorType>(input->get().getType()).clone(element);
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(), element);
  auto moved = linalg::GenericOp::create(
      builder, loc, TypeRange{type}, ValueRange{values}, ValueRange{empty},
      ArrayRef<AffineMap>{output.compose(inversePermutation(map)),
                          builder.getMultiDimIdentityMap(type.getRank())},
      generic.getIteratorTypesArray(),
      [](OpBuilder &nested, Location loc, ValueRange arguments) {
        linalg::YieldOp::create(nested, loc, arguments.front());
      });
  return moved.getResult(0);
}

/// Applies the movement `op` to `values`, which have the shape of its source
/// `moved`. Returns null if `op` also converts elements.
static Value moveOn(OpBuilder &builder, Operation *op, Value moved,
                    Value values) {
  // A conversion between floats would round `values` again.
  if (isa<linalg::GenericOp>(op) &&
      cast<linalg::GenericOp>(op).getBody()->getOperations().size() != 1)
    return nullptr;
  IRMapping mapping;
  mapping.map(moved, values);
  return builder.clone(*op, mapping)->getResult(0);
}

Value repro::moveAlike(OpBuilder &builder, Value values, Value from, Value to) {
  SmallVector<Value> back = getMovements(from), on = getMovements(to);
  auto *common = llvm::find_if(
      back, [&](Value value) { return llvm::is_contained(on, value); });
  if (common == back.end() ||
      getElementTypeOrSelf(*common) != getElementTypeOrSelf(values))
    return nullptr;
  for (Value value : llvm::make_range(back.begin(), common)) {
    values = moveBack(builder, value.getDefiningOp(), values);
    if (!values)
      return nullptr;
  }
  Value moved = *common;
  for (Value value :
       llvm::reverse(llvm::make_range(on.begin(), llvm::find(on, *common)))) {
    values = moveOn(builder, value.getDefiningOp(), moved, values);
    if (!values)
      return nullptr;
    moved = value;
  }
  return values;
}
