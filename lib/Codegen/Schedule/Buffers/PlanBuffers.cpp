//===- PlanBuffers.cpp - Assign a location to every buffer ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-plan-buffers (Passes.td), run by lib/Pipelines/Schedule.cpp:
// assigns memory to every buffer of `main` and turns `main` into a launch plan,
// without changing a result. `main` is a sequence of launches without branches.
// A position is the number of a launch, and a lifetime is the range of
// positions that use a buffer.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "PackArena.h"
#include "dialects/Launch/IR/KernelSignature.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROPLANBUFFERS
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::launch;

static constexpr int64_t bufferAlignment = 64;
/// The maximum size of the arena in bytes. Tensors have at most 2^50 bytes in
/// total (A4). If the arena is at most this large, sums of sizes and offsets do
/// not overflow.
static constexpr int64_t maxArenaBytes = int64_t(1) << 60;

namespace {

struct Use {
  int64_t position;
  OpOperand *operand; // of the launch
  bool reads, writes;
};

struct PlanBuffers : public repro::impl::ReproPlanBuffersBase<PlanBuffers> {
  void runOnOperation() override;

private:
  void collectUses();
  bool hasCheck(DispatchOp dispatch);
  func::FuncOp getKernel(DispatchOp dispatch) {
    return copies->getKernel(dispatch);
  }
  bool mayOverwrite(Value state, Value value);
  bool isSameIndex(DispatchOp dispatch, Value source, Value target);
  /// Verifies that each kernel declares how it accesses each of its buffers.
  LogicalResult verifyAccesses();
  LogicalResult placeResults();
  LogicalResult copyInto(Value source, Value target);
  /// Erases copies of a buffer to itself.
  void dropCopies();
  void replaceBuffer(memref::AllocOp alloc, Value place, int64_t offset = 0);
  void reuseOperands();
  LogicalResult placeArena();
  void markChecks();
  void markAliases();
  LogicalResult makePlan();

  func::FuncOp main;
  int64_t numStates = 0, numInputs = 0, numOutputs = 0;
  int64_t liveBytes = 0;
  std::optional<KernelOutliner> copies;
  SmallVector<DispatchOp> dispatches;
  DenseMap<Value, SmallVector<Use>> uses; // by root buffer
  int64_t lastCheck = -1;
};

} // namespace

bool PlanBuffers::hasCheck(DispatchOp dispatch) {
  return getKernel(dispatch)
      .walk([](Operation *op) {
        LaunchDialect::MessageAttrHelper message(op->getContext());
        return message.isAttrPresent(op) ? WalkResult::interrupt()
                                         : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult PlanBuffers::verifyAccesses() {
  for (DispatchOp dispatch : main.getOps<DispatchOp>()) {
    func::FuncOp kernel = getKernel(dispatch);
    if (!kernel || dispatch.getGrid())
      return dispatch.emitOpError("expected a kernel function of the schedule");
    if (!launch::KernelSignature::matches(kernel))
      return kernel.emitError("expected a kernel function, got ")
             << kernel.getFunctionType();
    for (unsigned i = 0; i < dispatch.getBuffers().size(); ++i)
      if (!getAccess(kernel, i))
        return kernel.emitError("expected launch.access of argument ") << i;
  }
  return success();
}

void PlanBuffers::collectUses() {
  dispatches.clear();
  uses.clear();
  lastCheck = -1;
  for (DispatchOp dispatch : main.getOps<DispatchOp>()) {
    int64_t position = dispatches.size();
    dispatches.push_back(dispatch);
    func::FuncOp kernel = getKernel(dispatch);
    if (hasCheck(dispatch))
      lastCheck = position;
    for (OpOperand &operand : dispatch->getOpOperands()) {
      Access access = *getAccess(kernel, operand.getOperandNumber());
      uses[getRootBuffer(operand.get())].push_back(
          {position, &operand, bitEnumContainsAll(access, Access::Read),
           bitEnumContainsAll(access, Access::Write)});
    }
  }
}

/// Whether a launch copies one whole buffer to another whole buffer.
static bool isPlainCopy(DispatchOp dispatch) {
  Value source = dispatch.getBuffers()[0], target = dispatch.getBuffers()[1];
  auto type = cast<MemRefType>(source.getType());
  return type == target.getType() && type.getLayout().isIdentity() &&
         llvm::all_of(dispatch.getBuffers(), [&](Value buffer) {
           Type root = getRootBuffer(buffer).getType();
           return getBufferBytes(cast<MemRefType>(root)) ==
                  getBufferBytes(type);
         });
}

/// Whether the kernel reads each element of `source` only to compute the
/// element of `target` at the same address, so that both may share a buffer.
bool PlanBuffers::isSameIndex(DispatchOp dispatch, Value source, Value target) {
  auto getActual = [&](Value memref) -> Value {
    auto argument = dyn_cast<BlockArgument>(memref);
    if (!argument)
      return {};
    Value actual = dispatch.getBuffers()[argument.getArgNumber()];
    Value root = getRootBuffer(actual);
    return root == source || root == target ? actual : Value();
  };
  Operation *body = getKernelBody(getKernel(dispatch));
  if (isa<memref::CopyOp>(body))
    return isPlainCopy(dispatch);
  auto generic = dyn_cast<linalg::GenericOp>(body);
  if (auto scope = dyn_cast<memref::AllocaScopeOp>(body)) {
    generic = *scope.getBodyRegion().getOps<linalg::GenericOp>().begin();
    // A contraction may still read its factors after results are written.
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
    std::optional<LinearAccess> access = getLinearAccess(actual, map);
    // The access does not include the offset of the view, which is in bytes.
    if (auto view = actual.getDefiningOp<ViewOp>(); view && access)
      access->offset += int64_t(view.getOffset()) /
                        getElementBytes(getElementTypeOrSelf(actual.getType()));
    if (!first)
      first = access;
    same &= access && access->offset == first->offset;
    // The step of a loop with one iteration does not matter.
    for (auto [loop, size] : llvm::enumerate(generic.getStaticLoopRanges()))
      same &=
          access && (size == 1 || (access->steps[loop] != 0 &&
                                   access->steps[loop] == first->steps[loop]));
  }
  // Loads in the body may read any element at any time.
  generic.walk(
      [&](memref::LoadOp load) { same &= !getActual(load.getMemRef()); });
  return same && first;
}

/// Whether `value` may be stored in the buffer of `state`: from the first write
/// on, no launch reads the old state and no check can fail (E1).
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
        !isSameIndex(dispatches[firstWrite], state, value))
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

  // Copies a result to a buffer of its own if the result is an argument, a
  // constant or a part of a buffer, or if it occurs twice. The copies read old
  // states, so they precede all copies that write states.
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

  // Adds an argument for each output that is not a state.
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
  // From here on `main` has no results; numInputs and numOutputs tell which
  // arguments are inputs and outputs.
  main->removeAttr("repro.num_state");
  numInputs = numArguments - numStates;
  numOutputs = places.size() - numStates;

  SmallVector<std::pair<Value, Value>> late; // source, target
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip_equal(terminator.getOperands(), places))) {
    auto [value, place] = pair;
    if (value == place)
      continue; // the state is unchanged
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

/// Replaces the allocation by the bytes of `place` from `offset` on.
void PlanBuffers::replaceBuffer(memref::AllocOp alloc, Value place,
                                int64_t offset) {
  OpBuilder builder(alloc);
  Value whole;
  for (OpOperand &use : llvm::make_early_inc_range(alloc->getUses())) {
    if (auto view = dyn_cast<ViewOp>(use.getOwner())) {
      view.getSourceMutable().assign(place);
      view.setOffset(view.getOffset() + offset);
      continue;
    }
    if (!whole)
      whole = offset == 0 && place.getType() == alloc.getType()
                  ? place
                  : ViewOp::create(builder, alloc.getLoc(), alloc.getType(),
                                   place, offset);
    use.set(whole);
  }
  alloc.erase();
}

/// Lets the result of an elementwise kernel share the buffer of an operand that
/// no later launch reads, to save memory and memory traffic.
void PlanBuffers::reuseOperands() {
  for (auto [number, dispatch] : llvm::enumerate(dispatches)) {
    int64_t position = number;
    // `dying` are the allocations whose last use is this launch, and `born` are
    // those whose first use is this launch.
    SmallVector<memref::AllocOp> dying, born;
    llvm::SmallDenseSet<Value> seen;
    for (Value operand : dispatch.getBuffers()) {
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
               isSameIndex(dispatch, operand, result);
      });
      if (found == dying.end())
        continue;
      memref::AllocOp operand = *found;
      dying.erase(found);
      // The allocation that both values now share must precede all their uses.
      if (result->isBeforeInBlock(operand))
        operand->moveBefore(result);
      SmallVector<Use> moved = std::move(uses[result]);
      uses.erase(result);
      llvm::append_range(uses[operand], moved);
      replaceBuffer(result, operand);
    }
  }
}

void PlanBuffers::dropCopies() {
  for (DispatchOp dispatch : dispatches) {
    func::FuncOp kernel = getKernel(dispatch);
    if (!isa<memref::CopyOp>(getKernelBody(kernel)) || !isPlainCopy(dispatch) ||
        getRootBuffer(dispatch.getBuffers()[0]) !=
            getRootBuffer(dispatch.getBuffers()[1]))
      continue;
    dispatch.erase();
    if (SymbolTable::symbolKnownUseEmpty(kernel, getOperation()))
      kernel.erase();
  }
  collectUses();
}

LogicalResult PlanBuffers::placeArena() {
  SmallVector<memref::AllocOp> allocs(main.getOps<memref::AllocOp>());
  SmallVector<ArenaItem> items;
  int64_t sum = 0; // an upper bound on the arena
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
  liveBytes = getMaxLiveBytes(items);
  auto arenaType =
      MemRefType::get({bytes}, IntegerType::get(main.getContext(), 8));
  unsigned position = main.getNumArguments();
  if (failed(main.insertArgument(position, arenaType, {}, main.getLoc())))
    return failure();
  Value arena = main.getArgument(position);
  for (auto [alloc, item] : llvm::zip_equal(allocs, items))
    replaceBuffer(alloc, arena, item.offset);
  return success();
}

/// Marks the first launch that writes a state. Before this launch, the executor
/// tests whether a check (E1) has failed.
void PlanBuffers::markChecks() {
  if (lastCheck < 0)
    return;
  for (DispatchOp dispatch : dispatches) {
    func::FuncOp kernel = getKernel(dispatch);
    for (OpOperand &operand : dispatch->getOpOperands()) {
      auto root = dyn_cast<BlockArgument>(getRootBuffer(operand.get()));
      if (root && root.getArgNumber() < numStates &&
          getAccess(kernel, operand.getOperandNumber()) != Access::Read) {
        dispatch.setChecked(true);
        return;
      }
    }
  }
}

/// Marks a kernel argument as `noalias` if in every launch no other argument
/// has the same buffer.
void PlanBuffers::markAliases() {
  DenseMap<Operation *, llvm::SmallBitVector> aliased;
  for (DispatchOp dispatch : dispatches) {
    func::FuncOp kernel = getKernel(dispatch);
    unsigned numBuffers = dispatch.getBuffers().size();
    llvm::SmallBitVector &shares = aliased[kernel];
    shares.resize(numBuffers);
    auto root = [&](unsigned i) {
      return getRootBuffer(dispatch.getBuffers()[i]);
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

/// Turns `main` into a launch plan, and moves the constants that `main` reads
/// into the plan.
LogicalResult PlanBuffers::makePlan() {
  auto module = main->getParentOfType<ModuleOp>();
  SymbolTable symbols(module);
  OpBuilder builder(main);
  SmallVector<Attribute> names;
  for (unsigned i = 0; i + 1 < main.getNumArguments(); ++i) {
    auto name = main.getArgAttrOfType<StringAttr>(i, "repro.name");
    names.push_back(name ? name : builder.getStringAttr(""));
  }
  LaunchDialect::MessagesAttrHelper messagesAttr(module.getContext());
  ArrayAttr messages = messagesAttr.getAttr(module);
  auto plan = PlanOp::create(builder, main.getLoc(), main.getSymNameAttr(),
                             builder.getI64IntegerAttr(numStates),
                             builder.getI64IntegerAttr(numInputs),
                             builder.getI64IntegerAttr(numOutputs),
                             builder.getArrayAttr(names),
                             builder.getI64IntegerAttr(liveBytes),
                             messages ? messages : builder.getArrayAttr({}));
  if (messages)
    messagesAttr.removeAttr(module);
  Block &body = main.getBody().front();
  body.getTerminator()->erase();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  DenseMap<Attribute, Value> constants; // by global name
  for (auto get :
       llvm::make_early_inc_range(body.getOps<memref::GetGlobalOp>())) {
    Value &constant = constants[get.getNameAttr()];
    if (!constant) {
      auto global = symbols.lookup<memref::GlobalOp>(get.getName());
      ElementsAttr value = global.getConstantInitValue();
      if (!value)
        return global.emitError("expected a constant with a value");
      builder.setInsertionPoint(get);
      constant =
          ConstantOp::create(builder, get.getLoc(), get.getType(), value);
    }
    get.replaceAllUsesWith(constant);
    get.erase();
  }
  plan.getBody().takeBody(main.getBody());
  main.erase();
  for (auto global :
       llvm::make_early_inc_range(module.getOps<memref::GlobalOp>()))
    if (SymbolTable::symbolKnownUseEmpty(global, module))
      global.erase();
  return success();
}

/// Whether the type is a buffer of numbers with a static shape whose strides
/// and size in bytes do not overflow, even if an extent is 0.
static bool isPlannable(Type type) {
  auto buffer = dyn_cast<MemRefType>(type);
  if (!buffer || !buffer.hasStaticShape() ||
      !buffer.getElementType().isIntOrIndexOrFloat())
    return false;
  int64_t bytes = getElementBytes(buffer.getElementType());
  return llvm::none_of(buffer.getShape(), [&](int64_t size) {
    return llvm::MulOverflow(bytes, std::max<int64_t>(size, 1), bytes);
  });
}

void PlanBuffers::runOnOperation() {
  ModuleOp module = getOperation();
  main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal() || !main.getBody().hasOneBlock() ||
      !isa<func::ReturnOp>(main.getBody().front().getTerminator())) {
    module.emitError("expected a function 'main' of one block that returns");
    return signalPassFailure();
  }
  for (Type type :
       llvm::concat<const Type>(main.getArgumentTypes(), main.getResultTypes()))
    if (!isPlannable(type)) {
      main.emitError("expected memrefs of numbers and of static shape as "
                     "arguments and results, got ")
          << type;
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
  if (failed(verifyAccesses()))
    return signalPassFailure();
  collectUses();
  if (failed(placeResults()))
    return signalPassFailure();
  reuseOperands();
  dropCopies();
  markChecks();
  // markAliases must run before placeArena: only until the arena exists do
  // different buffers have different roots.
  markAliases();
  if (failed(placeArena()))
    return signalPassFailure();
  if (failed(makePlan()))
    return signalPassFailure();
}
