//===- CanonicalChecks.cpp - Every check reaches a result -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalChecks.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// The values on which results of the program and assertions depend.
class Dependencies {
public:
  explicit Dependencies(func::FuncOp main) {
    main.walk([&](Operation *op) {
      if (isa<func::ReturnOp, cf::AssertOp>(op))
        add(op->getOperands());
    });
    while (!worklist.empty())
      follow(worklist.pop_back_val());
  }

  bool contains(Value value) const { return values.contains(value); }

private:
  void add(ValueRange added) {
    for (Value value : added)
      if (values.insert(value).second)
        worklist.push_back(value);
  }
  void follow(Value value);

  DenseSet<Value> values;
  SmallVector<Value> worklist;
};
} // namespace

void Dependencies::follow(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    // Arguments of a generic or a fold are its operands, in order; the
    // accumulator of a fold is also what its body yielded before.
    Block *block = argument.getOwner();
    Operation *owner = block->getParentOp();
    unsigned number = argument.getArgNumber();
    if (isa<linalg::GenericOp, FoldOp>(owner))
      add(owner->getOperand(number));
    if (auto fold = dyn_cast<FoldOp>(owner);
        fold && number >= fold.getInputs().size())
      add(block->getTerminator()->getOperand(number - fold.getInputs().size()));
    return;
  }
  Operation *op = value.getDefiningOp();
  unsigned number = cast<OpResult>(value).getResultNumber();
  if (!isa<linalg::GenericOp, FoldOp>(op)) {
    add(op->getOperands());
    for (Region &region : op->getRegions())
      add(region.front().getTerminator()->getOperands());
    return;
  }
  add(op->getRegion(0).front().getTerminator()->getOperand(number));
  if (auto fold = dyn_cast<FoldOp>(op))
    add(fold.getOutputs()[number]);
}

/// (E1), (R1): whether the operation can leave the step without a result.
static bool canFail(Operation *op) {
  auto isComputed = [](Value value) {
    return !matchPattern(value, m_Constant());
  };
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return llvm::any_of(extract.getIndices(), isComputed);
  if (auto random = dyn_cast<RandomOp>(op))
    return isComputed(random.getInputs()[1]);
  return isa<ScatterOp>(op);
}

LogicalResult repro::verifyChecks(func::FuncOp main) {
  Dependencies dependencies(main);
  WalkResult result = main.walk([&](Operation *op) -> WalkResult {
    if (canFail(op) && llvm::none_of(op->getResults(), [&](Value value) {
          return dependencies.contains(value);
        }))
      return op->emitOpError("(E1) can fail, and no result of the program "
                             "depends on it");
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
