//===- SplitMicrobatches.cpp - Split a step into microbatches -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-split-microbatches (Passes.td), run from Python, outside of the
// pipelines: splits the function @main of a training step at its reductions
// over microbatches (B1) and keeps only the program that `keep` names: the
// program of one microbatch, the one that adds sums, or the one that finishes
// the step.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/ImportedOps.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROSPLITMICROBATCHES
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// f32 represents all integers up to this limit exactly, and sums are divided
/// by the number of microbatches in f32.
static constexpr int64_t kMostMicrobatches = int64_t(1) << 24;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Whether an operation or one in its regions has one of `values` as an
/// operand.
static bool readsAny(Operation *op, const DenseSet<Value> &values) {
  WalkResult result = op->walk([&](Operation *inner) {
    bool reads = llvm::any_of(inner->getOperands(), [&](Value value) {
      return values.contains(value);
    });
    return reads ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// Returns the sources and all values of `block` that depend on a source.
/// Values that depend on sources only through operations for which `isEnd` is
/// true are not included.
static DenseSet<Value> findDependent(Block &block, ArrayRef<Value> sources,
                                     function_ref<bool(Operation *)> isEnd) {
  DenseSet<Value> dependent(sources.begin(), sources.end());
  for (Operation &op : block.without_terminator())
    if (!isEnd(&op) && readsAny(&op, dependent))
      dependent.insert_range(op.getResults());
  return dependent;
}

static bool isReduction(Operation *op) { return isa<ReduceMicrobatchesOp>(op); }

static bool isNone(Operation *) { return false; }

/// (B2) Returns the type in which tensors of `type` are summed: f32 for
/// narrower floats.
static RankedTensorType getSumType(RankedTensorType type) {
  auto element = dyn_cast<FloatType>(type.getElementType());
  if (!element || element.getWidth() >= 32)
    return type;
  return type.clone(Float32Type::get(type.getContext()));
}

/// (B2) Extends the elements of a tensor to the type of sums.
static Value widenForSum(ImplicitLocOpBuilder &b, Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  RankedTensorType sum = getSumType(type);
  if (sum == type)
    return tensor;
  return mapElements(b, sum.getShape(), sum.getElementType(), tensor, {},
                     [&](ImplicitLocOpBuilder &at, ValueRange values) -> Value {
                       return arith::ExtFOp::create(at, sum.getElementType(),
                                                    values.front());
                     });
}

/// (B3) Divides a sum of floats by `count` and rounds it to `type`.
static Value divideSum(ImplicitLocOpBuilder &b, RankedTensorType type,
                       Value sum, int64_t count) {
  auto wide = cast<FloatType>(getSumType(type).getElementType());
  return mapElements(
      b, type.getShape(), type.getElementType(), sum, {},
      [&](ImplicitLocOpBuilder &at, ValueRange values) -> Value {
        Value divisor = arith::ConstantOp::create(
            at, at.getFloatAttr(wide, static_cast<double>(count)));
        Value mean = arith::DivFOp::create(at, values.front(), divisor);
        if (wide == type.getElementType())
          return mean;
        return arith::TruncFOp::create(at, type.getElementType(), mean);
      });
}

/// (B2) Returns the elementwise sum of two tensors of sums.
static Value addSums(ImplicitLocOpBuilder &b, Value left, Value right) {
  auto type = cast<RankedTensorType>(left.getType());
  return mapElements(b, type.getShape(), type.getElementType(), {left, right},
                     {},
                     [&](ImplicitLocOpBuilder &at, ValueRange values) -> Value {
                       return arith::AddFOp::create(at, values[0], values[1]);
                     });
}

/// (R1) Advances a step counter by `count`.
static Value advanceStep(ImplicitLocOpBuilder &b, Value step, int64_t count) {
  auto type = cast<RankedTensorType>(step.getType());
  return mapElements(b, type.getShape(), type.getElementType(), step, {},
                     [&](ImplicitLocOpBuilder &at, ValueRange values) -> Value {
                       Value added = arith::ConstantOp::create(
                           at, at.getI64IntegerAttr(count));
                       return arith::AddIOp::create(at, values.front(), added);
                     });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct SplitMicrobatches
    : public repro::impl::ReproSplitMicrobatchesBase<SplitMicrobatches> {
  using ReproSplitMicrobatchesBase::ReproSplitMicrobatchesBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || !main.getBody().hasOneBlock() ||
        !isa<func::ReturnOp>(main.front().getTerminator())) {
      getOperation().emitError(
          "(B1) expected a function @main of one block, which returns");
      return signalPassFailure();
    }
    if (failed(check(main)) || failed(split(main)))
      signalPassFailure();
  }

  LogicalResult split(func::FuncOp main) {
    if (keep == "add")
      return makeAdd(main);
    dropShared(main);
    return keep == "part" ? makePart(main) : makeFinish(main);
  }

  LogicalResult check(func::FuncOp main) {
    auto count = main->getAttrOfType<IntegerAttr>("repro.num_state");
    if (!count || count.getInt() < 0 ||
        count.getInt() > std::min(main.getNumArguments(), main.getNumResults()))
      return main.emitError("(B1) expected the attribute 'repro.num_state'");
    numState = count.getInt();
    if (keep != "part" && keep != "add" && keep != "finish")
      return main.emitError("(B1) expected keep as part, add or finish, got '")
             << keep << "'";
    if (microbatches < 1 || microbatches > kMostMicrobatches)
      return main.emitError("(B1) expected 1 to 2^24 microbatches, got ")
             << microbatches.getValue();
    for (int64_t position : cut)
      if (position < numState || position >= main.getNumArguments())
        return main.emitError("(B1) there is no input at position ")
               << position;
    if (step < -1 || step >= numState)
      return main.emitError("(B1) there is no state at position ")
             << step.getValue();
    if (step >= 0) {
      auto type = dyn_cast<RankedTensorType>(main.getArgumentTypes()[step]);
      if (!type || type.getRank() != 0 || !type.getElementType().isInteger(64))
        return main.emitError("(B1) the step is a ")
               << main.getArgumentTypes()[step] << ", expected tensor<i64>";
    }
    for (int64_t position : own)
      if (position < 0 || position >= numState || position == step ||
          !isa<RankedTensorType>(main.getArgumentTypes()[position]))
        return main.emitError("(B5) no state at position ")
               << position << " can belong to a microbatch";
    return success();
  }

  /// (B1), (B5) Returns the arguments that differ between microbatches.
  SmallVector<Value> getPartArguments(func::FuncOp main) {
    SmallVector<Value> arguments;
    for (int64_t position : cut)
      arguments.push_back(main.getArgument(position));
    for (int64_t position : own)
      arguments.push_back(main.getArgument(position));
    return arguments;
  }

  /// If a reduced value does not depend on the microbatch, replaces the
  /// reduction by the value: the mean of equal numbers may differ from the
  /// number because of rounding.
  void dropShared(func::FuncOp main) {
    SmallVector<Value> sources = getPartArguments(main);
    if (step >= 0)
      sources.push_back(main.getArgument(step));
    DenseSet<Value> dependent = findDependent(main.front(), sources, isNone);
    for (auto op : llvm::make_early_inc_range(
             main.front().getOps<ReduceMicrobatchesOp>()))
      if (!dependent.contains(op.getOperand())) {
        op.getResult().replaceAllUsesWith(op.getOperand());
        op.erase();
      }
  }

  /// Returns the values that depend on a microbatch without a reduction in
  /// between.
  DenseSet<Value> findParts(func::FuncOp main) {
    return findDependent(main.front(), getPartArguments(main), isReduction);
  }

  /// Returns the results of `main` that are outputs, and whether each depends
  /// on a microbatch.
  SmallVector<std::pair<unsigned, bool>>
  getOutputs(func::FuncOp main, const DenseSet<Value> &parts) {
    SmallVector<std::pair<unsigned, bool>> outputs;
    auto ends = cast<func::ReturnOp>(main.front().getTerminator());
    for (unsigned i = numState; i < ends.getNumOperands(); ++i)
      outputs.push_back({i, parts.contains(ends.getOperand(i))});
    return outputs;
  }

  /// Sets the results of `main` to `values`, and their attributes to
  /// `attributes`.
  void setResults(func::FuncOp main, ValueRange values,
                  ArrayRef<DictionaryAttr> attributes) {
    auto ends = cast<func::ReturnOp>(main.front().getTerminator());
    ends.getOperandsMutable().assign(values);
    main.setFunctionType(FunctionType::get(
        main.getContext(), main.getArgumentTypes(), ends.getOperandTypes()));
    main.setAllResultAttrs(attributes);
  }

  /// Erases unused operations that have no effect or for which `isDropped` is
  /// true.
  void clean(func::FuncOp main, function_ref<bool(Operation *)> isDropped) {
    SmallVector<Operation *> operations;
    for (Operation &op : main.front().without_terminator())
      operations.push_back(&op);
    for (Operation *op : llvm::reverse(operations))
      if (op->use_empty() && (isOpTriviallyDead(op) || isDropped(op)))
        op->erase();
  }

  LogicalResult makePart(func::FuncOp main) {
    Block &block = main.front();
    auto ends = cast<func::ReturnOp>(block.getTerminator());
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attributes;
    OpBuilder b(main);
    SmallVector<Value> sums;
    for (auto op : block.getOps<ReduceMicrobatchesOp>()) {
      results.push_back(op.getOperand());
      attributes.push_back(b.getDictionaryAttr({}));
      sums.push_back(op.getResult());
    }
    for (auto [position, isPart] : getOutputs(main, findParts(main))) {
      if (!isPart)
        continue;
      results.push_back(ends.getOperand(position));
      attributes.push_back(main.getResultAttrDict(position));
    }
    size_t firstOwn = results.size();
    for (int64_t position : own) {
      results.push_back(ends.getOperand(position));
      attributes.push_back(main.getResultAttrDict(position));
    }
    DenseSet<Value> ending = findDependent(block, sums, isNone);
    for (auto [number, value] : llvm::enumerate(results))
      if (ending.contains(value))
        return main.emitError()
               << (number < sums.size() ? "(B3) what is reduced"
                   : number < firstOwn  ? "(B3) an output of a microbatch"
                                        : "(B5) the new state of a microbatch")
               << " depends on a result of repro.reduce_microbatches";
    ImplicitLocOpBuilder at(ends.getLoc(), ends);
    for (Value &value : MutableArrayRef(results).take_front(sums.size()))
      value = widenForSum(at, value);
    setResults(main, results, attributes);
    main->setAttr("repro.num_state", b.getI64IntegerAttr(0));
    clean(main, [&](Operation *op) { return readsAny(op, ending); });
    return success();
  }

  LogicalResult makeAdd(func::FuncOp main) {
    SmallVector<Type> types;
    for (auto op : main.front().getOps<ReduceMicrobatchesOp>())
      if (isa<FloatType>(op.getType().getElementType()))
        types.push_back(getSumType(op.getType()));
    SmallVector<Type> twice(types);
    llvm::append_range(twice, types);
    OpBuilder b(main);
    auto type = b.getFunctionType(twice, types);
    auto added = func::FuncOp::create(b, main.getLoc(), "main", type);
    added->setAttr("repro.num_state", b.getI64IntegerAttr(types.size()));
    ImplicitLocOpBuilder at(main.getLoc(), b);
    at.setInsertionPointToStart(added.addEntryBlock());
    SmallVector<Value> sums;
    for (unsigned i = 0; i < types.size(); ++i)
      sums.push_back(addSums(at, added.getArgument(i),
                             added.getArgument(types.size() + i)));
    func::ReturnOp::create(at, sums);
    main.erase();
    return success();
  }

  LogicalResult makeFinish(func::FuncOp main) {
    Block &block = main.front();
    auto ends = cast<func::ReturnOp>(block.getTerminator());
    DenseSet<Value> parts = findParts(main);
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attributes;
    // (B5) The state tensors that have a separate slice for each microbatch.
    DenseSet<Value> ownStates;
    for (int64_t position : own) {
      Value state = main.getArgument(position);
      auto type = cast<RankedTensorType>(state.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape.insert(shape.begin(), microbatches);
      state.setType(type.clone(shape));
      ownStates.insert(state);
    }
    main.setFunctionType(FunctionType::get(
        main.getContext(), block.getArgumentTypes(), main.getResultTypes()));
    for (int64_t i = 0; i < numState; ++i) {
      bool isOwn = ownStates.contains(main.getArgument(i));
      Value value = isOwn ? main.getArgument(i) : ends.getOperand(i);
      if (!isOwn && parts.contains(value))
        return main.emitError("(B3) the new state ")
               << i << " depends on a microbatch, expected "
               << "repro.reduce_microbatches on the way to it";
      if (i == step) {
        ImplicitLocOpBuilder at(ends.getLoc(), ends);
        value = advanceStep(at, main.getArgument(i), microbatches);
      }
      results.push_back(value);
      attributes.push_back(main.getResultAttrDict(i));
    }
    for (auto [position, isPart] : getOutputs(main, parts)) {
      if (isPart)
        continue;
      results.push_back(ends.getOperand(position));
      attributes.push_back(main.getResultAttrDict(position));
    }
    setResults(main, results, attributes);
    DenseSet<Value> sums;
    unsigned number = numState;
    for (auto op :
         llvm::make_early_inc_range(block.getOps<ReduceMicrobatchesOp>())) {
      RankedTensorType type = op.getType();
      if (failed(
              main.insertArgument(number, getSumType(type), {}, op.getLoc())))
        return failure();
      Value sum = main.getArgument(number++);
      if (isa<FloatType>(type.getElementType())) {
        ImplicitLocOpBuilder at(op.getLoc(), op);
        sum = divideSum(at, type, sum, microbatches);
      }
      sums.insert(sum);
      op.getResult().replaceAllUsesWith(sum);
      op.erase();
    }
    for (int64_t position : own) {
      Type type = main.getArgument(position).getType();
      if (failed(main.insertArgument(number, type, {}, ends.getLoc())))
        return failure();
      ends.setOperand(position, main.getArgument(number++));
    }
    // Drop checks of values that belong to one microbatch: the program of the
    // microbatch has these checks.
    DenseSet<Value> ending =
        findDependent(block, llvm::to_vector(sums), isNone);
    clean(main, [&](Operation *op) { return !readsAny(op, ending); });
    for (int64_t position : own)
      if (!main.getArgument(position).use_empty())
        return main.emitError("(B5) the end of the step reads state ")
               << position << " of a microbatch";
    BitVector erased(main.getNumArguments());
    for (int64_t position : cut)
      erased.set(position + (number - numState));
    for (int position : erased.set_bits())
      if (!main.getArgument(position).use_empty())
        return main.emitError("(B3) a check or an output of the step reads "
                              "input ")
               << position - (number - numState) << " of a microbatch";
    return main.eraseArguments(erased);
  }

private:
  int64_t numState = 0;
};
} // namespace
