//===- UnrollLoops.cpp - Unroll loops, branches and calls -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-unroll-loops (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: interprets the loops, branches and calls
// of each root function and emits the function again, so that it becomes one
// block without control flow.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/IR/AffineBounds.h"
#include "Dialect/Repro/Transforms/ElementEvaluator.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROUNROLLLOOPS
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The limit on operations. Larger programs would not compile in reasonable
/// time.
static constexpr int64_t mostOperations = 1'000'000;

/// The maximum nesting of loops, branches and calls: a thread's stack must
/// suffice for the recursion.
static constexpr size_t mostNesting = 256;

/// StableHLO is not registered, so its loops and branches are in generic form.
static constexpr StringLiteral whileName = "stablehlo.while",
                               ifName = "stablehlo.if",
                               caseName = "stablehlo.case";

static bool isControl(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return isa<func::CallOp, scf::ForOp, scf::WhileOp, scf::IfOp,
             scf::IndexSwitchOp>(op) ||
         name == whileName || name == ifName || name == caseName;
}

/// Returns the minimum and maximum of an integer, as far as constants determine
/// them.
static std::pair<int64_t, int64_t> getBounds(Value value) {
  unsigned width =
      value.getType().isIndex() ? 64 : value.getType().getIntOrFloatBitWidth();
  std::pair<int64_t, int64_t> all(llvm::minIntN(std::min(width, 64u)),
                                  llvm::maxIntN(std::min(width, 64u)));
  APInt constant;
  if (width > 64)
    return all;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return {constant.getSExtValue(), constant.getSExtValue()};
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<arith::MaxSIOp, arith::MinSIOp, arith::IndexCastOp,
                       arith::ExtSIOp>(op))
    return all;
  std::pair<int64_t, int64_t> lhs = getBounds(op->getOperand(0));
  if (op->getNumOperands() == 1) // A cast to a narrower type may wrap.
    return lhs.first >= all.first && lhs.second <= all.second ? lhs : all;
  std::pair<int64_t, int64_t> rhs = getBounds(op->getOperand(1));
  if (isa<arith::MaxSIOp>(op))
    return {std::max(lhs.first, rhs.first), std::max(lhs.second, rhs.second)};
  return {std::min(lhs.first, rhs.first), std::min(lhs.second, rhs.second)};
}

/// Whether an extraction is known to be in range.
static bool isInRange(tensor::ExtractOp op) {
  Operation *loops = op->getParentOp();
  bool isBody = isa<linalg::GenericOp, FoldOp>(loops);
  return llvm::all_of(
      llvm::zip_equal(op.getIndices(), op.getTensor().getType().getShape()),
      [&](auto place) {
        auto [index, extent] = place;
        auto [least, most] = getBounds(index);
        return !ShapedType::isDynamic(extent) &&
               ((least >= 0 && most < extent) ||
                (isBody && isWithin(index, loops, extent)));
      });
}

/// Whether `op` may fail (E1). Such an operation may run only if the original
/// program runs it.
static bool mayFail(Operation *op) {
  WalkResult result = op->walk([](Operation *inner) {
    auto extract = dyn_cast<tensor::ExtractOp>(inner);
    bool fails = (extract && !isInRange(extract)) ||
                 isa<cf::AssertOp, ScatterOp, RandomOp>(inner) ||
                 !inner->isRegistered();
    return fails ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted() || !isMemoryEffectFree(op);
}

namespace {
/// Clones the operations of a function, those of a loop's body once per
/// iteration. The original function does not change meanwhile, so that the
/// facts that the evaluator knows about its values stay true.
class Unroller {
public:
  Unroller(ModuleOp module, OpBuilder &builder)
      : symbols(module), builder(builder) {}

  /// Emits into `target` the operations of the only block of `function`.
  LogicalResult unroll(func::FuncOp function, Block *target);

private:
  LogicalResult emit(Operation *op);
  LogicalResult emitPlain(Operation *op);
  LogicalResult emitCall(func::CallOp op);
  LogicalResult emitFor(scf::ForOp op);
  LogicalResult emitWhile(Operation *op, Block &before, Block &after,
                          bool isForeign);
  LogicalResult emitBranches(Operation *op, Value selector,
                             ArrayRef<Block *> branches,
                             ArrayRef<std::optional<int64_t>> cases);
  LogicalResult emitForeign(Operation *op);

  /// Emits a block with the given arguments. Returns the operands of its
  /// terminator.
  FailureOr<SmallVector<Value>> emitBlock(Block &block, ValueRange arguments);

  /// Returns a value that is `yes` if the condition is true, else `no`.
  FailureOr<Value> select(Operation *op, Value condition, Value yes, Value no);

  LogicalResult spend(Operation *op, int64_t count);
  void define(Operation *op, ArrayRef<Value> values) {
    mapping.map(op->getResults(), values);
  }
  SmallVector<Value> lookup(ValueRange values) const {
    return llvm::map_to_vector(
        values, [&](Value value) { return mapping.lookupOrDefault(value); });
  }
  void remember(Operation *op) {
    SmallVector<Elements> elements = evaluator.compute(op);
    for (auto [result, value] : llvm::zip(op->getResults(), elements))
      evaluator.set(result, std::move(value));
  }
  template <typename Op, typename... Args>
  Op create(Args &&...args) {
    auto op = Op::create(builder, std::forward<Args>(args)...);
    remember(op);
    return op;
  }

  SymbolTable symbols;
  OpBuilder &builder;
  IRMapping mapping;
  ElementEvaluator evaluator;
  /// The loops, branches and calls that are being emitted, outermost first.
  SmallVector<Operation *> active;
  /// The number of branches in `active` that the program might skip.
  unsigned numMaybe = 0;
  int64_t numOperations = 0;
};
} // namespace

LogicalResult Unroller::spend(Operation *op, int64_t count) {
  Operation *at = active.empty() ? op : active.front();
  numOperations += count;
  if (numOperations > mostOperations)
    return at->emitOpError("makes more than ")
           << mostOperations << " operations of the program";
  if (evaluator.isExhausted())
    return at->emitOpError(
        "needs too much work to find the number of iterations");
  return success();
}

FailureOr<SmallVector<Value>> Unroller::emitBlock(Block &block,
                                                  ValueRange arguments) {
  mapping.map(block.getArguments(), arguments);
  // Exclude the last operation, since MLIR does not recognize a terminator that
  // is unregistered.
  for (Operation &op : llvm::make_range(block.begin(), --block.end()))
    if (failed(emit(&op)))
      return failure();
  return lookup(block.back().getOperands());
}

LogicalResult Unroller::emitPlain(Operation *op) {
  int64_t count = 0;
  // Use a new mapping for each clone: in a mapping that is reused, the values
  // of a cloned body would still refer to the earlier clone.
  IRMapping operands;
  op->walk([&](Operation *inner) {
    ++count;
    for (Value operand : inner->getOperands())
      if (Value value = mapping.lookupOrNull(operand))
        operands.map(operand, value);
  });
  if (failed(spend(op, count)))
    return failure();
  Operation *clone = builder.clone(*op, operands);
  mapping.map(op->getResults(), clone->getResults());
  if (numMaybe && mayFail(clone))
    return op->emitOpError(
        "is in a branch whose condition depends on values: both sides are "
        "computed, so neither may have a check");
  SmallVector<Elements> elements = evaluator.compute(clone);
  if (elements.empty())
    return success();
  // Fold integers to constants so that slices at a loop counter get static
  // offsets.
  if (isa<arith::ConstantOp>(op) ||
      !llvm::all_of(clone->getResultTypes(), [](Type type) {
        return getElementTypeOrSelf(type).isIntOrIndex();
      })) {
    for (auto [result, value] : llvm::zip_equal(clone->getResults(), elements))
      evaluator.set(result, std::move(value));
    return success();
  }
  SmallVector<Value> constants;
  for (auto [type, value] :
       llvm::zip_equal(clone->getResultTypes(), elements)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto attr = tensor ? TypedAttr(DenseElementsAttr::get(tensor, value))
                       : cast<TypedAttr>(value.front());
    Value constant =
        arith::ConstantOp::create(builder, op->getLoc(), type, attr);
    evaluator.set(constant, std::move(value));
    constants.push_back(constant);
  }
  define(op, constants);
  clone->erase();
  return success();
}

LogicalResult Unroller::emit(Operation *op) {
  if (!isControl(op))
    return emitPlain(op);
  if (active.size() >= mostNesting)
    return op->emitOpError("is within ")
           << mostNesting << " loops, branches and calls, expected fewer";
  active.push_back(op);
  LogicalResult result = spend(op, 1);
  if (succeeded(result))
    result =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case([&](func::CallOp call) { return emitCall(call); })
            .Case([&](scf::ForOp loop) { return emitFor(loop); })
            .Case([&](scf::WhileOp loop) {
              return emitWhile(op, *loop.getBeforeBody(), *loop.getAfterBody(),
                               /*isForeign=*/false);
            })
            .Case([&](scf::IfOp branch) {
              return emitBranches(op, branch.getCondition(),
                                  {branch.thenBlock(), branch.elseBlock()},
                                  {1, std::nullopt});
            })
            .Case([&](scf::IndexSwitchOp branch) {
              SmallVector<Block *> blocks;
              SmallVector<std::optional<int64_t>> cases;
              for (auto [number, value] : llvm::enumerate(branch.getCases())) {
                blocks.push_back(&branch.getCaseBlock(number));
                cases.push_back(value);
              }
              blocks.push_back(&branch.getDefaultBlock());
              cases.push_back(std::nullopt);
              return emitBranches(op, branch.getArg(), blocks, cases);
            })
            .Default([&](Operation *) { return emitForeign(op); });
  active.pop_back();
  return result;
}

//===----------------------------------------------------------------------===//
// Calls and loops
//===----------------------------------------------------------------------===//

LogicalResult Unroller::emitCall(func::CallOp op) {
  auto callee = symbols.lookup<func::FuncOp>(op.getCallee());
  if (!callee || !callee.getBody().hasOneBlock())
    return op.emitOpError("expected a function of one block");
  // Reject recursion, which might never end.
  for (Operation *outer : ArrayRef(active).drop_back())
    if (auto call = dyn_cast<func::CallOp>(outer);
        call && call.getCallee() == op.getCallee())
      return op.emitOpError("is recursive");
  FailureOr<SmallVector<Value>> results =
      emitBlock(callee.getBody().front(), lookup(op.getOperands()));
  if (failed(results))
    return failure();
  define(op, *results);
  return success();
}

LogicalResult Unroller::emitFor(scf::ForOp op) {
  std::optional<APInt> begin =
      evaluator.findInteger(mapping.lookupOrDefault(op.getLowerBound()));
  std::optional<APInt> end =
      evaluator.findInteger(mapping.lookupOrDefault(op.getUpperBound()));
  std::optional<APInt> step =
      evaluator.findInteger(mapping.lookupOrDefault(op.getStep()));
  if (!begin || !end || !step)
    return op.emitOpError("the number of iterations depends on values");
  bool isUnsigned = op.getUnsignedCmp();
  if (isUnsigned ? step->isZero() : !step->isStrictlyPositive())
    return op.emitOpError("expected a positive step");
  SmallVector<Value> carried = lookup(op.getInitArgs());
  unsigned width = begin->getBitWidth() + 1;
  auto widen = [&](const APInt &x) {
    return isUnsigned ? x.zext(width) : x.sext(width);
  };
  Type type = op.getInductionVar().getType();
  // Count with one more bit than the counter has, so that adding the step after
  // the last iteration does not wrap.
  for (APInt at = widen(*begin), last = widen(*end);
       isUnsigned ? at.ult(last) : at.slt(last); at += step->zext(width)) {
    if (failed(spend(op, 1)))
      return failure();
    auto counter = create<arith::ConstantOp>(
        op.getLoc(), type, IntegerAttr::get(type, at.trunc(width - 1)));
    SmallVector<Value> arguments = {counter};
    llvm::append_range(arguments, carried);
    FailureOr<SmallVector<Value>> results = emitBlock(*op.getBody(), arguments);
    if (failed(results))
      return failure();
    carried = *results;
  }
  define(op, carried);
  return success();
}

LogicalResult Unroller::emitWhile(Operation *op, Block &before, Block &after,
                                  bool isForeign) {
  SmallVector<Value> carried = lookup(op->getOperands());
  while (true) {
    if (failed(spend(op, 1)))
      return failure();
    FailureOr<SmallVector<Value>> results = emitBlock(before, carried);
    if (failed(results))
      return failure();
    std::optional<APInt> holds = evaluator.findInteger(results->front());
    if (!holds)
      return op->emitOpError("the number of iterations depends on values");
    // StableHLO's condition region does not forward values.
    if (!isForeign)
      carried.assign(results->begin() + 1, results->end());
    if (holds->isZero())
      break;
    results = emitBlock(after, carried);
    if (failed(results))
      return failure();
    carried = *results;
  }
  define(op, carried);
  return success();
}

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

FailureOr<Value> Unroller::select(Operation *op, Value condition, Value yes,
                                  Value no) {
  if (yes == no)
    return yes;
  Location loc = op->getLoc();
  if (yes.getType().isIntOrIndexOrFloat())
    return Value(create<arith::SelectOp>(loc, condition, yes, no));
  auto type = dyn_cast<RankedTensorType>(yes.getType());
  if (!type || !type.hasStaticShape() || no.getType() != type)
    return op->emitOpError("selects between ")
           << yes.getType() << " and " << no.getType()
           << ", expected scalars or tensors of one static shape";
  auto conditions = create<tensor::FromElementsOp>(
      loc, RankedTensorType::get({}, condition.getType()), condition);
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  int64_t rank = type.getRank();
  AffineMap identity = builder.getMultiDimIdentityMap(rank);
  AffineMap scalar = AffineMap::get(rank, 0, builder.getContext());
  SmallVector<utils::IteratorType> parallel(rank,
                                            utils::IteratorType::parallel);
  auto generic = create<linalg::GenericOp>(
      loc, TypeRange{type}, ValueRange{conditions, yes, no}, ValueRange{empty},
      ArrayRef<AffineMap>{scalar, identity, identity, identity}, parallel,
      [](OpBuilder &body, Location at, ValueRange args) {
        Value chosen =
            arith::SelectOp::create(body, at, args[0], args[1], args[2]);
        linalg::YieldOp::create(body, at, chosen);
      });
  return generic.getResult(0);
}

/// Emits the branch that `selector` selects, or the last one if no case
/// matches. If the selector is not known, emits all branches and selects among
/// their results.
LogicalResult Unroller::emitBranches(Operation *op, Value selector,
                                     ArrayRef<Block *> branches,
                                     ArrayRef<std::optional<int64_t>> cases) {
  // An `if` without results may lack the else region.
  auto emitBranch = [&](Block *branch) -> FailureOr<SmallVector<Value>> {
    return branch ? emitBlock(*branch, {}) : SmallVector<Value>();
  };
  selector = mapping.lookupOrDefault(selector);
  if (isa<RankedTensorType>(selector.getType()))
    selector = create<tensor::ExtractOp>(op->getLoc(), selector, ValueRange());
  if (std::optional<APInt> known = evaluator.findInteger(selector)) {
    int64_t value = known->getBitWidth() == 1 ? known->getZExtValue()
                                              : known->getSExtValue();
    size_t taken = 0;
    while (cases[taken] && *cases[taken] != value)
      ++taken;
    FailureOr<SmallVector<Value>> results = emitBranch(branches[taken]);
    if (failed(results))
      return failure();
    define(op, *results);
    return success();
  }
  ++numMaybe;
  SmallVector<SmallVector<Value>> results;
  for (Block *branch : branches) {
    FailureOr<SmallVector<Value>> emitted = emitBranch(branch);
    if (failed(emitted))
      return failure();
    results.push_back(std::move(*emitted));
  }
  --numMaybe;
  SmallVector<Value> chosen = results.back();
  for (size_t i = branches.size() - 1; i-- > 0;) {
    Value isTaken = selector;
    if (!selector.getType().isInteger(1)) {
      auto value = create<arith::ConstantOp>(
          op->getLoc(), builder.getIntegerAttr(selector.getType(), *cases[i]));
      isTaken = create<arith::CmpIOp>(op->getLoc(), arith::CmpIPredicate::eq,
                                      selector, value);
    }
    for (auto [value, yes] : llvm::zip_equal(chosen, results[i])) {
      FailureOr<Value> selected = select(op, isTaken, yes, value);
      if (failed(selected))
        return failure();
      value = *selected;
    }
  }
  define(op, chosen);
  return success();
}

//===----------------------------------------------------------------------===//
// StableHLO
//===----------------------------------------------------------------------===//

/// Whether an unverified region is one block that accepts `arguments` and
/// returns `results`.
static bool isRegionOf(Region &region, TypeRange arguments, TypeRange results) {
  if (!region.hasOneBlock() || region.front().empty())
    return false;
  Operation &last = region.front().back();
  return last.getName().getStringRef() == "stablehlo.return" &&
         TypeRange(last.getOperandTypes()) == results &&
         TypeRange(region.front().getArgumentTypes()) == arguments;
}

LogicalResult Unroller::emitForeign(Operation *op) {
  Type condition = RankedTensorType::get({}, builder.getI1Type());
  Type number = RankedTensorType::get({}, builder.getI32Type());
  MutableArrayRef<Region> regions = op->getRegions();
  TypeRange results = op->getResultTypes();
  bool isWhile = op->getName().getStringRef() == whileName;
  bool isIf = op->getName().getStringRef() == ifName;
  bool isSound =
      isWhile
          ? regions.size() == 2 && op->getOperandTypes() == results &&
                isRegionOf(regions[0], results, condition) &&
                isRegionOf(regions[1], results, results)
          : op->getNumOperands() == 1 &&
                op->getOperand(0).getType() == (isIf ? condition : number) &&
                (isIf ? regions.size() == 2 : !regions.empty()) &&
                llvm::all_of(regions, [&](Region &region) {
                  return isRegionOf(region, {}, results);
                });
  if (!isSound)
    return op->emitOpError("expected the operands, regions and results of "
                           "StableHLO");
  if (isWhile)
    return emitWhile(op, regions[0].front(), regions[1].front(),
                     /*isForeign=*/true);
  SmallVector<Block *> branches;
  SmallVector<std::optional<int64_t>> cases;
  for (auto [i, region] : llvm::enumerate(regions)) {
    branches.push_back(&region.front());
    cases.push_back(isIf ? 1 : i);
  }
  cases.back() = std::nullopt;
  return emitBranches(op, op->getOperand(0), branches, cases);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult Unroller::unroll(func::FuncOp function, Block *target) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(target);
  Block &source = function.getBody().front();
  FailureOr<SmallVector<Value>> results =
      emitBlock(source, target->getArguments());
  if (failed(results))
    return failure();
  builder.clone(*source.getTerminator(), mapping);
  return success();
}

/// Replaces the block of `function` by a block without loops, branches and
/// calls.
static LogicalResult unrollFunction(func::FuncOp function, Unroller &unroller) {
  Region &body = function.getBody();
  Block *source = &body.front(), *target = new Block();
  for (BlockArgument argument : source->getArguments())
    target->addArgument(argument.getType(), argument.getLoc());
  // The region belongs to the function only after it is complete, so that an
  // error leaves the function unchanged.
  Region region(function);
  region.push_back(target);
  if (failed(unroller.unroll(function, target)))
    return failure();
  body.takeBody(region);
  return success();
}

/// Erases private functions without uses.
static void eraseUnused(ModuleOp module) {
  llvm::DenseSet<Attribute> used;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic())
      function.walk([&](Operation *op) {
        op->getAttrDictionary().walk([&](SymbolRefAttr symbol) {
          used.insert(symbol.getRootReference());
        });
      });
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function.isPrivate() && !used.contains(function.getSymNameAttr()))
      function.erase();
}

namespace {
struct UnrollLoops : public repro::impl::ReproUnrollLoopsBase<UnrollLoops> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(&getContext());
    llvm::DenseSet<StringRef> called;
    module.walk([&](func::CallOp op) { called.insert(op.getCallee()); });
    Unroller unroller(module, builder);
    for (auto function : module.getOps<func::FuncOp>()) {
      bool isRoot = function.isPublic() || !called.contains(function.getName());
      if (!isRoot || !function.getBody().hasOneBlock() ||
          llvm::none_of(function.getBody().front().without_terminator(),
                        [](Operation &op) { return isControl(&op); }))
        continue;
      if (failed(unrollFunction(function, unroller)))
        return signalPassFailure();
    }
    eraseUnused(module);
  }
};
} // namespace
