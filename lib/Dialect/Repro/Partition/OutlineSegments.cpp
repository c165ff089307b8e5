//===- OutlineSegments.cpp - Functions between exchanges ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-outline-segments (Passes.td), run from Python, outside of the
// pipelines: walks @main in program order and moves the operations between
// exchanges of ranks into functions (T2), so that each segment reads only
// values that are available when it starts.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Partition/Passes.h"
#include "Division.h"
#include "dialects/Repro/IR/PartitionedOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROOUTLINESEGMENTS
#include "lib/Dialect/Repro/Partition/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// Whether every segment that reads the operation's results repeats the
/// operation. True if the operation has results but none is a tensor, or if it
/// is a constant, an empty tensor or a fill.
static bool isRepeated(Operation *op) {
  if (isa<tensor::EmptyOp>(op) || op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (auto fill = dyn_cast<linalg::GenericOp>(op))
    return fill.getNumDpsInputs() == 0 && !hasCheck(fill);
  return op->getNumResults() != 0 &&
         llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
}

namespace {
/// Operations without exchanges between them, the exchanges that follow, and
/// the values that the operations take and return.
struct Segment {
  /// The operations in program order.
  SmallVector<Operation *> operations;
  SmallVector<Operation *> exchanges;
  SetVector<Value> states, inputs, outputs;
};

struct OutlineSegments
    : public repro::impl::ReproOutlineSegmentsBase<OutlineSegments> {
  using ReproOutlineSegmentsBase::ReproOutlineSegmentsBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto count = main ? main->getAttrOfType<IntegerAttr>("repro.num_state")
                      : IntegerAttr();
    if (!count || !main.getBody().hasOneBlock() ||
        !isa<func::ReturnOp>(main.front().getTerminator()) ||
        count.getInt() < 0 ||
        count.getInt() >
            std::min(main.getNumArguments(), main.getNumResults())) {
      getOperation().emitError("(T2) expected a function @main of one block "
                               "with 'repro.num_state', which returns");
      return signalPassFailure();
    }
    numState = count.getInt();
    divide(main);
    for (Segment &segment : segments)
      findOperands(main, segment);
    for (unsigned i = 0; i < segments.size(); ++i)
      findOutputs(main, i);
    rewrite(main);
  }

  /// Assigns each operation to the first segment in which all its operands are
  /// available, or to a later one if a broadcast has a later stage.
  void divide(func::FuncOp main) {
    for (Operation &op : main.front().without_terminator()) {
      unsigned number = 0;
      for (Value value : getRead(&op))
        number = std::max(number, segmentOf.lookup(value));
      bool isExchange = isa<AllGatherOp, BroadcastOp>(op);
      if (auto broadcast = dyn_cast<BroadcastOp>(op))
        number = std::max<unsigned>(number, broadcast.getStage());
      for (Value result : op.getResults())
        segmentOf[result] = number + isExchange;
      segments.resize(std::max<size_t>(segments.size(), number + 1));
      auto &found = segments[number];
      (isExchange ? found.exchanges : found.operations).push_back(&op);
    }
  }

  bool isKept(func::FuncOp main, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &main.front() &&
           argument.getArgNumber() < numState &&
           main.front().getTerminator()->getOperand(argument.getArgNumber()) ==
               value;
  }

  /// Adds to a segment the operations that the segment repeats, and finds its
  /// inputs.
  void findOperands(func::FuncOp main, Segment &segment) {
    SetVector<Operation *> needed;
    for (Operation *op : segment.operations)
      needed.insert(op);
    for (size_t i = 0; i < needed.size(); ++i)
      for (Value value : getRead(needed[i]))
        if (Operation *op = value.getDefiningOp(); op && isRepeated(op))
          needed.insert(op);
    segment.operations = needed.takeVector();
    llvm::sort(segment.operations, [](Operation *left, Operation *right) {
      return left->isBeforeInBlock(right);
    });
    DenseSet<Value> own;
    for (Operation *op : segment.operations) {
      for (Value value : getRead(op))
        if (!own.contains(value))
          (isKept(main, value) ? segment.states : segment.inputs).insert(value);
      own.insert_range(op->getResults());
    }
  }

  /// Finds the tensors of a segment that operations outside of it read.
  void findOutputs(func::FuncOp main, unsigned number) {
    DenseSet<Operation *> own(segments[number].operations.begin(),
                              segments[number].operations.end());
    auto add = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (op && own.contains(op) && segmentOf.lookup(value) == number)
        segments[number].outputs.insert(value);
    };
    auto addExchanged = [&](const Segment &segment) {
      for (Operation *exchange : segment.exchanges)
        for (Value value : exchange->getOperands())
          add(value);
    };
    addExchanged(segments[number]);
    for (Segment &other :
         MutableArrayRef<Segment>(segments).drop_front(number + 1)) {
      for (Value value : other.inputs)
        add(value);
      addExchanged(other);
    }
    for (Value value : main.front().getTerminator()->getOperands())
      add(value);
  }

  func::FuncOp makeFunction(OpBuilder &b, Location loc, unsigned number,
                            const Segment &segment) {
    SmallVector<Value> arguments(segment.states.getArrayRef());
    llvm::append_range(arguments, segment.inputs);
    SmallVector<Value> results(segment.states.getArrayRef());
    llvm::append_range(results, segment.outputs);
    auto type = b.getFunctionType(TypeRange(ValueRange(arguments)),
                                  TypeRange(ValueRange(results)));
    auto function =
        func::FuncOp::create(b, loc, "segment_" + std::to_string(number), type);
    function.setPrivate();
    function->setAttr("repro.num_state",
                      b.getI64IntegerAttr(segment.states.size()));
    OpBuilder body = OpBuilder::atBlockBegin(function.addEntryBlock());
    IRMapping mapping;
    mapping.map(arguments, function.getArguments());
    for (Operation *op : segment.operations)
      body.clone(*op, mapping);
    SmallVector<Value> returned;
    for (Value value : results)
      returned.push_back(mapping.lookup(value));
    func::ReturnOp::create(body, loc, returned);
    return function;
  }

  void rewrite(func::FuncOp main) {
    OpBuilder functions = OpBuilder::atBlockEnd(getOperation().getBody());
    Operation *ends = main.front().getTerminator();
    SmallVector<Operation *> former;
    for (Operation &op : main.front().without_terminator())
      former.push_back(&op);
    OpBuilder b(ends);
    IRMapping mapping;
    for (auto [number, segment] : llvm::enumerate(segments)) {
      bool isCalled = !segment.outputs.empty() ||
                      llvm::any_of(segment.operations, hasCheck);
      if (isCalled) {
        func::FuncOp function =
            makeFunction(functions, main.getLoc(), number, segment);
        SmallVector<Value> operands;
        for (Value value : segment.states)
          operands.push_back(mapping.lookupOrDefault(value));
        for (Value value : segment.inputs)
          operands.push_back(mapping.lookupOrDefault(value));
        auto call = func::CallOp::create(b, main.getLoc(), function, operands);
        mapping.map(segment.outputs.getArrayRef(),
                    call.getResults().drop_front(segment.states.size()));
      }
      for (Operation *exchange : segment.exchanges)
        b.clone(*exchange, mapping);
    }
    for (OpOperand &operand : ends->getOpOperands())
      operand.set(mapping.lookupOrDefault(operand.get()));
    for (Operation *op : llvm::reverse(former))
      op->erase();
  }

  unsigned numState = 0;
  SmallVector<Segment, 0> segments;
  DenseMap<Value, unsigned> segmentOf;
};
} // namespace
