//===- Recomputation.cpp - Recomputation in the gradient pass -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Recomputation.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::repro;

/// Returns the text that is compared with patterns: the name of a location, or
/// its file and line.
static std::string getText(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  if (auto line = dyn_cast<FileLineColLoc>(location))
    return (line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
  return {};
}

FailureOr<SetVector<Operation *>>
repro::findNamed(func::FuncOp main, ArrayRef<std::string> patterns) {
  SetVector<Operation *> named;
  for (StringRef text : patterns) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return main.emitError("(J5) '")
             << text << "': " << llvm::toString(pattern.takeError());
    bool isFound = false;
    for (Operation &op : main.getBody().front().without_terminator())
      op.getLoc()->walk([&](Location part) {
        std::string text = getText(part);
        if (text.empty() || !pattern->match(text))
          return WalkResult::advance();
        named.insert(&op);
        isFound = true;
        return WalkResult::interrupt();
      });
    if (!isFound)
      return main.emitError("(J5) no operation comes from '") << text << "'";
  }
  return named;
}

/// Whether an operation creates a tensor without reading one; recomputing such
/// an operation saves no memory.
static bool isMadeOfNothing(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>() || isa<tensor::EmptyOp>(op))
    return true;
  auto filled = dyn_cast<DestinationStyleOpInterface>(op);
  return filled && filled.getNumDpsInputs() == 0 &&
         llvm::all_of(filled.getDpsInits(), [](Value init) {
           return init.getDefiningOp<tensor::EmptyOp>() != nullptr;
         });
}

/// Returns the values that an operation and its regions read and that are
/// defined outside of the operation.
static SetVector<Value> getReadValues(Operation *op) {
  SetVector<Value> read;
  read.insert(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), read);
  return read;
}

namespace {
/// Clones named operations for the operations of the gradient that read them
/// (J5).
class Recomputation {
public:
  explicit Recomputation(const SetVector<Operation *> &named) : named(named) {}

  /// Recomputes the values that `user` reads, before `user`, and makes `user`
  /// read the recomputed values.
  void update(Operation *user);

private:
  bool isComputedAgain(Value value) const {
    return named.contains(value.getDefiningOp());
  }
  SmallVector<Operation *> findMissing(Operation *user) const;
  void clone(OpBuilder &b, Operation *op);

  const SetVector<Operation *> &named;
  /// Maps each value to its recomputed copy.
  IRMapping again;
};
} // namespace

/// Returns the operations that must be recomputed for `user` and have not been
/// recomputed yet, sorted so that each one follows those that it reads.
SmallVector<Operation *> Recomputation::findMissing(Operation *user) const {
  SetVector<Operation *> missing;
  SmallVector<Operation *> reached{user};
  while (!reached.empty())
    for (Value value : getReadValues(reached.pop_back_val()))
      if (isComputedAgain(value) && !again.contains(value) &&
          missing.insert(value.getDefiningOp()))
        reached.push_back(value.getDefiningOp());
  SmallVector<Operation *> ordered = missing.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

void Recomputation::clone(OpBuilder &b, Operation *op) {
  for (Value value : getReadValues(op)) {
    Operation *source = value.getDefiningOp();
    if (again.contains(value) || !isa<RankedTensorType>(value.getType()) ||
        (source && isMadeOfNothing(source)))
      continue;
    again.map(value, BarrierOp::create(b, op->getLoc(), value));
  }
  Operation *copy = b.clone(*op, again);
  again.map(op->getResults(), copy->getResults());
}

void Recomputation::update(Operation *user) {
  OpBuilder b(user);
  for (Operation *op : findMissing(user))
    clone(b, op);
  user->walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (isComputedAgain(operand.get()))
        operand.set(again.lookup(operand.get()));
  });
}

void repro::computeAgain(const SetVector<Operation *> &named, Operation *last) {
  Recomputation recomputation(named);
  Block *block = last->getBlock();
  for (Operation &op : llvm::make_early_inc_range(
           llvm::make_range(std::next(last->getIterator()),
                            block->getTerminator()->getIterator())))
    recomputation.update(&op);
}
