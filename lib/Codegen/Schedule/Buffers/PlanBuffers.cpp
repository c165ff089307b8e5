//===- PlanBuffers.cpp - Where every buffer lies --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `main` is a straight line of calls: a position is the number of a call, and
// the lifetime of a buffer is the range of positions that use it.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "PackArena.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROPLANBUFFERS
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

static constexpr int64_t bufferAlignment = 64;
/// Tensors have at most 2^50 bytes together (A4); what the schedule adds to
/// them leaves room for every sum of sizes and offsets.
static constexpr int64_t maxArenaBytes = int64_t(1) << 60;

namespace {

struct Use {
  int64_t position;
  OpOperand *operand; // of the call
  bool reads, writes;
};

struct PlanBuffers : public repro::impl::ReproPlanBuffersBase<PlanBuffers> {
  void runOnOperation() override;

private:
  void collectUses();
  bool hasCheck(func::CallOp call);
  func::FuncOp getKernel(func::CallOp call) { return copies->getKernel(call); }
  bool mayOverwrite(Value state, Value value);
  bool isSameIndex(func::CallOp call, Value source, Value target);
  LogicalResult placeResults();
  LogicalResult copyInto(Value source, Value target);
  void replaceBuffer(memref::AllocOp alloc, Value place);
  void reuseOperands();
  LogicalResult placeArena();
  void markChecks();
  void markAliases();

  func::FuncOp main;
  int64_t numStates = 0;
  std::optional<KernelOutliner> copies;
  SmallVector<func::CallOp> calls;
  DenseMap<Value, SmallVector<Use>> uses; // by root buffer
  int64_t lastCheck = -1;
};

} // namespace

bool PlanBuffers::hasCheck(func::CallOp call) {
  return getKernel(call)
      .walk([](Operation *op) {
        return op->hasAttr(messageAttrName) ? WalkResult::interrupt()
                                            : WalkResult::advance();
      })
      .wasInterrupted();
}

void PlanBuffers::collectUses() {
  calls.clear();
  uses.clear();
  lastCheck = -1;
  for (func::CallOp call : main.getOps<func::CallOp>()) {
    int64_t position = calls.size();
    calls.push_back(call);
    func::FuncOp kernel = getKernel(call);
    if (hasCheck(call))
      lastCheck = position;
    for (OpOperand &operand :
         call->getOpOperands().drop_back(numTrailingKernelArgs)) {
      auto access = kernel.getArgAttrOfType<StringAttr>(
          operand.getOperandNumber(), accessAttrName);
      uses[getRootBuffer(operand.get())].push_back(
          {position, &operand, access.getValue() != "write",
           access.getValue() != "read"});
    }
  }
}

/// Whether the kernel reads each element of `source` only to compute the
/// element of `target` at the same address, so that both may be one buffer.
bool PlanBuffers::isSameIndex(func::CallOp call, Value source, Value target) {
  auto getActual = [&](Value memref) -> Value {
    auto argument = dyn_cast<BlockArgument>(memref);
    if (!argument)
      return {};
    Value actual = call->getOperand(argument.getArgNumber());
    Value root = getRootBuffer(actual);
    return root == source || root == target ? actual : Value();
  };
  Operation *body = getKernelBody(getKernel(call));
  auto generic = dyn_cast<linalg::GenericOp>(body);
  if (auto scope = dyn_cast<memref::AllocaScopeOp>(body)) {
    generic = *scope.getBodyRegion().getOps<linalg::GenericOp>().begin();
    // What a product reads of either is read at any time.
    for (FoldOp fold : scope.getBodyRegion().getOps<FoldOp>())
      if (llvm::any_of(fold.getInputs(), getActual))
        return false;
  }
  if (!generic)
    return false;
  std::optional<LinearAccess> first;
  bool same = getElementTypeOrSelf(source.getType()) ==
              getElementTypeOrSelf(target.getType());
  for (auto [operand, map] : llvm::zip_equal(generic->getOperands(),
                                             generic.getIndexingMapsArray())) {
    Value actual = getActual(operand);
    if (!actual)
      continue;
    // What shifts addresses is in the type of the view.
    if (auto shifted = actual.getDefiningOp<UnrealizedConversionCastOp>())
      actual = shifted.getInputs()[0];
    std::optional<LinearAccess> access = getLinearAccess(actual, map);
    if (!first)
      first = access;
    same &= access && access->offset == first->offset;
    // A loop of one iteration may take any step.
    for (auto [loop, size] : llvm::enumerate(generic.getStaticLoopRanges()))
      same &=
          access && (size == 1 || (access->steps[loop] != 0 &&
                                   access->steps[loop] == first->steps[loop]));
  }
  // Loads in the body may read any element.
  generic.walk(
      [&](memref::LoadOp load) { same &= !getActual(load.getMemRef()); });
  return same && first;
}

/// Whether `value` can live where the old `state` lies: nothing reads the old
/// one after the first write, and no check can fail after it (E1).
bool PlanBuffers::mayOverwrite(Value state, Value value) {
  int64_t firstWrite = std::numeric_limits<int64_t>::max();
  for (const Use &use : uses[value])
    firstWrite = std::min(firstWrite, use.position);
  if (firstWrite <= lastCheck)
    return false;
  for (const Use &use : uses[state]) {
    if (use.position > firstWrite)
      return false;
    if (use.position == firstWrite &&
        !isSameIndex(calls[firstWrite], state, value))
      return false;
  }
  return true;
}

LogicalResult PlanBuffers::copyInto(Value source, Value target) {
  OpBuilder builder(main.getBody().front().getTerminator());
  auto copy = memref::CopyOp::create(builder, main.getLoc(), source, target);
  return success(succeeded(copies->outline(copy)));
}

LogicalResult PlanBuffers::placeResults() {
  Block &body = main.getBody().front();
  auto terminator = cast<func::ReturnOp>(body.getTerminator());
  unsigned numArguments = main.getNumArguments();
  OpBuilder builder(terminator);

  // A result that is (part of) an argument or a constant, or that occurs twice,
  // becomes a buffer of its own. These copies read old states, so they come
  // before any copy that writes one.
  llvm::SmallDenseSet<Value> taken;
  for (OpOperand &result : terminator->getOpOperands()) {
    Value value = result.get();
    unsigned index = result.getOperandNumber();
    if (index < numStates && value == main.getArgument(index))
      continue;
    Value root = getRootBuffer(value);
    auto type = cast<MemRefType>(value.getType());
    auto alloc = root.getDefiningOp<memref::AllocOp>();
    if (alloc && type.getLayout().isIdentity() &&
        getBufferBytes(type) == getBufferBytes(alloc.getType()) &&
        taken.insert(root).second)
      continue;
    builder.setInsertionPoint(terminator);
    auto own = memref::AllocOp::create(
        builder, main.getLoc(),
        MemRefType::get(type.getShape(), type.getElementType()));
    if (failed(copyInto(value, own)))
      return failure();
    taken.insert(own);
    result.set(own);
  }
  collectUses();

  // New arguments for the outputs.
  SmallVector<Value> places;
  for (auto [index, result] : llvm::enumerate(terminator.getOperands())) {
    if (int64_t(index) < numStates) {
      places.push_back(main.getArgument(index));
      continue;
    }
    unsigned position = main.getNumArguments();
    NamedAttrList attributes;
    if (Attribute name = main.getResultAttr(index, "repro.name"))
      attributes.set("repro.name", name);
    auto type = cast<MemRefType>(result.getType());
    if (failed(main.insertArgument(
            position, MemRefType::get(type.getShape(), type.getElementType()),
            attributes.getDictionary(main.getContext()), main.getLoc())))
      return failure();
    places.push_back(main.getArgument(position));
  }
  // What the arguments are from now on; results there are none.
  auto count = [&](size_t number) { return builder.getI64IntegerAttr(number); };
  main->removeAttr("repro.num_state");
  main->setAttr(planStatesAttrName, count(numStates));
  main->setAttr(planInputsAttrName, count(numArguments - numStates));
  main->setAttr(planOutputsAttrName, count(places.size() - numStates));

  SmallVector<std::pair<Value, Value>> late; // from, to
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip_equal(terminator.getOperands(), places))) {
    auto [value, place] = pair;
    if (value == place)
      continue; // a state that stays
    Value root = getRootBuffer(value);
    if (int64_t(index) < numStates && !mayOverwrite(place, root)) {
      late.emplace_back(value, place);
      continue;
    }
    replaceBuffer(root.getDefiningOp<memref::AllocOp>(), place);
  }
  for (auto [value, place] : late)
    if (failed(copyInto(value, place)))
      return failure();

  terminator->eraseOperands(0, terminator->getNumOperands());
  main.setFunctionType(
      FunctionType::get(main.getContext(), main.getArgumentTypes(), {}));
  main->removeAttr("res_attrs");
  collectUses();
  return success();
}

/// The allocation becomes `place`, a buffer with as many elements, perhaps in
/// another shape.
void PlanBuffers::replaceBuffer(memref::AllocOp alloc, Value place) {
  OpBuilder builder(alloc);
  MemRefType type = alloc.getType();
  if (type != place.getType())
    place = memref::ReinterpretCastOp::create(
        builder, alloc.getLoc(), type, place, /*offset=*/0, type.getShape(),
        computeSuffixProduct(type.getShape()));
  alloc.replaceAllUsesWith(place);
  alloc.erase();
}

/// An element-wise result takes the place of an operand that nobody reads
/// afterwards: less memory, and less traffic to it.
void PlanBuffers::reuseOperands() {
  for (auto [number, call] : llvm::enumerate(calls)) {
    int64_t position = number;
    // The allocations that this call uses last, and those that it uses first.
    SmallVector<memref::AllocOp> dying, born;
    llvm::SmallDenseSet<Value> seen;
    for (Value operand : call.getOperands().drop_back(numTrailingKernelArgs)) {
      Value root = getRootBuffer(operand);
      auto alloc = root.getDefiningOp<memref::AllocOp>();
      if (!alloc || !seen.insert(root).second)
        continue;
      bool reads = false, writes = false, before = false, after = false;
      for (const Use &use : uses[root]) {
        before |= use.position < position;
        after |= use.position > position;
        reads |= use.position == position && use.reads;
        writes |= use.position == position && use.writes;
      }
      if (reads && !writes && !after)
        dying.push_back(alloc);
      if (writes && !reads && !before)
        born.push_back(alloc);
    }
    for (memref::AllocOp result : born) {
      auto found = llvm::find_if(dying, [&](memref::AllocOp operand) {
        return getBufferBytes(operand.getType()) ==
                   getBufferBytes(result.getType()) &&
               isSameIndex(call, operand, result);
      });
      if (found == dying.end())
        continue;
      memref::AllocOp operand = *found;
      dying.erase(found);
      // The allocation has to stand before both.
      if (result->isBeforeInBlock(operand))
        operand->moveBefore(result);
      SmallVector<Use> moved = std::move(uses[result]);
      uses.erase(result);
      llvm::append_range(uses[operand], moved);
      replaceBuffer(result, operand);
    }
  }
}

LogicalResult PlanBuffers::placeArena() {
  SmallVector<memref::AllocOp> allocs(main.getOps<memref::AllocOp>());
  SmallVector<ArenaItem> items;
  int64_t sum = 0; // no arena is larger
  for (memref::AllocOp alloc : allocs) {
    ArenaItem item{
        llvm::alignTo(getBufferBytes(alloc.getType()), bufferAlignment), {}};
    for (const Use &use : uses[alloc])
      item.life.include(use.position);
    items.push_back(item);
    if (llvm::AddOverflow(sum, item.bytes, sum) || sum > maxArenaBytes)
      return main.emitError("the temporaries of the program have more than "
                            "2^60 bytes");
  }
  int64_t bytes = packArena(items);
  OpBuilder builder(main.getContext());
  main->setAttr(planLiveBytesAttrName,
                builder.getI64IntegerAttr(getMaxLiveBytes(items)));
  auto arenaType = MemRefType::get({bytes}, builder.getI8Type());
  unsigned position = main.getNumArguments();
  if (failed(main.insertArgument(position, arenaType, {}, main.getLoc())))
    return failure();
  Value arena = main.getArgument(position);
  for (auto [alloc, item] : llvm::zip_equal(allocs, items)) {
    builder.setInsertionPoint(alloc);
    Value offset =
        arith::ConstantIndexOp::create(builder, alloc.getLoc(), item.offset);
    Value view = memref::ViewOp::create(
        builder, alloc.getLoc(), alloc.getType(), arena, offset, ValueRange());
    alloc.replaceAllUsesWith(view);
    alloc.erase();
  }
  return success();
}

/// The executor looks at the error before the first write to a state.
void PlanBuffers::markChecks() {
  if (lastCheck < 0)
    return;
  for (func::CallOp call : calls) {
    func::FuncOp kernel = getKernel(call);
    for (OpOperand &operand :
         call->getOpOperands().drop_back(numTrailingKernelArgs)) {
      auto root = dyn_cast<BlockArgument>(getRootBuffer(operand.get()));
      auto access = kernel.getArgAttrOfType<StringAttr>(
          operand.getOperandNumber(), accessAttrName);
      if (root && root.getArgNumber() < numStates &&
          access.getValue() != "read") {
        call->setAttr(checkAttrName, UnitAttr::get(main.getContext()));
        return;
      }
    }
  }
}

/// Arguments of a kernel that share no buffer in any call are `noalias`.
void PlanBuffers::markAliases() {
  DenseMap<Operation *, llvm::SmallBitVector> aliased;
  for (func::CallOp call : calls) {
    func::FuncOp kernel = getKernel(call);
    unsigned numBuffers = kernel.getNumArguments() - numTrailingKernelArgs;
    llvm::SmallBitVector &shares = aliased[kernel];
    shares.resize(numBuffers);
    // Two views of the arena are disjoint while both live, and a view op is its
    // own root here because the arena is not taken as one buffer.
    auto root = [&](unsigned i) {
      Value value = call->getOperand(i);
      while (Value source = getViewSource(value)) {
        if (value.getDefiningOp<memref::ViewOp>())
          break;
        value = source;
      }
      return value;
    };
    for (unsigned i = 0; i < numBuffers; ++i)
      for (unsigned j = 0; j < i; ++j)
        if (root(i) == root(j)) {
          shares.set(i);
          shares.set(j);
        }
  }
  UnitAttr unit = UnitAttr::get(main.getContext());
  StringRef noalias = LLVM::LLVMDialect::getNoAliasAttrName();
  for (auto &[op, shares] : aliased) {
    auto kernel = cast<func::FuncOp>(op);
    for (unsigned i = 0; i < shares.size(); ++i)
      if (!shares.test(i))
        kernel.setArgAttr(i, noalias, unit);
    kernel.setArgAttr(shares.size(), noalias, unit);
    kernel.setArgAttr(shares.size() + 1, noalias, unit);
  }
}

void PlanBuffers::runOnOperation() {
  ModuleOp module = getOperation();
  main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal() || !main.getBody().hasOneBlock()) {
    module.emitError("expected a function 'main' of one block");
    return signalPassFailure();
  }
  for (Type type :
       llvm::concat<const Type>(main.getArgumentTypes(), main.getResultTypes()))
    if (!isa<MemRefType>(type)) {
      main.emitError("expected memrefs as arguments and results, got ") << type;
      return signalPassFailure();
    }
  numStates = 0;
  if (auto attr = main->getAttrOfType<IntegerAttr>("repro.num_state"))
    numStates = attr.getInt();
  if (numStates < 0 || numStates > main.getNumArguments() ||
      numStates > main.getNumResults()) {
    main.emitError("'repro.num_state' is ")
        << numStates << ", but 'main' has " << main.getNumArguments()
        << " arguments and " << main.getNumResults() << " results";
    return signalPassFailure();
  }
  copies.emplace(main, "copy");
  collectUses();
  if (failed(placeResults()))
    return signalPassFailure();
  reuseOperands();
  if (failed(placeArena()))
    return signalPassFailure();
  markChecks();
  markAliases();
}
