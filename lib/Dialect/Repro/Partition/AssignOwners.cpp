//===- AssignOwners.cpp - Assigns tensors to owner ranks ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-assign-owners (Passes.td), run from Python, outside of the
// pipelines: walks @main in program order and keeps the operations of one rank.
// Only the owner computes an owned value, and broadcasts it if other ranks need
// it (T3). The results have the bits of the whole program.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Partition/Passes.h"
#include "Division.h"
#include "dialects/Repro/IR/PartitionedOps.h"

#include "llvm/ADT/IntEqClasses.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROASSIGNOWNERS
#include "lib/Dialect/Repro/Partition/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

static int64_t countBytes(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// Whether the value may have a single owner. Tensors of one element may not:
/// sending such a tensor costs less than tracking its owner.
static bool isOwnable(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getNumElements() > 1;
}

//===----------------------------------------------------------------------===//
// Owners of arguments
//===----------------------------------------------------------------------===//

/// Returns the owner of each argument in `ownable`. Arguments on which one
/// operation depends form a set with one owner. The largest sets are assigned
/// first, each to the rank to which the fewest bytes have been assigned.
static DenseMap<Value, unsigned>
assignOwners(Block &block, const SetVector<Value> &ownable, unsigned ranks) {
  llvm::IntEqClasses sets(ownable.size());
  DenseMap<Value, unsigned> memberOf;
  for (auto [i, argument] : llvm::enumerate(ownable))
    memberOf[argument] = i;
  for (Operation &op : block.without_terminator()) {
    std::optional<unsigned> member;
    for (Value value : getRead(&op))
      if (auto found = memberOf.find(value); found != memberOf.end())
        member = member ? sets.join(*member, found->second) : found->second;
    if (member)
      for (Value result : op.getResults())
        if (isOwnable(result))
          memberOf[result] = *member;
  }
  sets.compress();
  SmallVector<std::pair<int64_t, unsigned>> sizes(sets.getNumClasses());
  for (auto [i, argument] : llvm::enumerate(ownable))
    sizes[sets[i]].first += countBytes(argument);
  for (auto [i, size] : llvm::enumerate(sizes))
    size.second = i;
  llvm::stable_sort(
      sizes, [](auto left, auto right) { return left.first > right.first; });
  SmallVector<int64_t> bytes(ranks);
  SmallVector<unsigned> ownerOf(sizes.size());
  for (auto [size, set] : sizes) {
    unsigned owner = llvm::min_element(bytes) - bytes.begin();
    bytes[owner] += size;
    ownerOf[set] = owner;
  }
  DenseMap<Value, unsigned> owners;
  for (auto [i, argument] : llvm::enumerate(ownable))
    owners[argument] = ownerOf[sets[i]];
  return owners;
}

//===----------------------------------------------------------------------===//
// Values of a rank
//===----------------------------------------------------------------------===//

namespace {
/// The whole program's values on this rank: in `whole` if every rank has the
/// value, in `owned` if it has an owner, or in both. A value's stage, the
/// number of successive broadcasts that it requires, is equal on all ranks.
class OwnedValues {
public:
  OwnedValues(Block &block, unsigned rank)
      : rank(rank), b(block.getTerminator()) {}

  void addWhole(Value value) { whole[value] = {value, 0}; }
  void addOwned(Value value, unsigned owner) {
    owned[value] = {owner, owner == rank ? value : Value(), 0};
  }
  /// Clones an operation of the whole program, unless another rank owns it, and
  /// records where its results are available.
  void add(Operation *op);
  /// (T2) Returns the value on every rank; broadcasts it if only its owner has
  /// it.
  Value getWhole(Value value) { return makeWhole(value).value; }
  /// Returns the value on the rank `owner`; null on other ranks.
  Value getOwned(Value value, unsigned owner);

private:
  struct Whole {
    Value value;
    int64_t stage;
  };
  struct Owned {
    unsigned owner;
    Value value;
    int64_t stage;
  };
  const Whole &makeWhole(Value value);
  std::optional<unsigned> findOwner(Operation *op) const;

  unsigned rank;
  OpBuilder b;
  DenseMap<Value, Whole> whole;
  DenseMap<Value, Owned> owned;
};
} // namespace

const OwnedValues::Whole &OwnedValues::makeWhole(Value value) {
  auto found = whole.find(value);
  if (found != whole.end())
    return found->second;
  const Owned &own = owned.find(value)->second;
  Value result = BroadcastOp::create(b, value.getLoc(), value.getType(),
                                     own.value, own.owner, own.stage)
                     .getResult();
  return whole[value] = {result, own.stage + 1};
}

Value OwnedValues::getOwned(Value value, unsigned owner) {
  auto found = owned.find(value);
  if (found != owned.end() && found->second.owner == owner)
    return found->second.value;
  Value result = getWhole(value);
  return owner == rank ? result : Value();
}

/// Returns the owner of the tensors that the operation reads and that only
/// their owners have; std::nullopt if there is none or more than one. Tensors
/// of one element are ignored if any of these tensors is larger.
std::optional<unsigned> OwnedValues::findOwner(Operation *op) const {
  if (!llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return std::nullopt;
  std::optional<unsigned> owner;
  bool isTensor = false, isUnique = true;
  for (Value value : getRead(op)) {
    auto found = owned.find(value);
    if (found == owned.end() || whole.contains(value))
      continue;
    bool isLarge = isOwnable(value);
    if (isLarge && !isTensor) {
      isTensor = isUnique = true;
      owner = found->second.owner;
    } else if (isLarge == isTensor) {
      isUnique &= !owner || *owner == found->second.owner;
      owner = found->second.owner;
    }
  }
  return isUnique ? owner : std::nullopt;
}

void OwnedValues::add(Operation *op) {
  std::optional<unsigned> owner = findOwner(op);
  int64_t stage = 0;
  IRMapping mapping;
  for (Value value : getRead(op)) {
    auto found = owned.find(value);
    if (owner && found != owned.end() && found->second.owner == *owner &&
        !whole.contains(value)) {
      stage = std::max(stage, found->second.stage);
      if (owner == rank)
        mapping.map(value, found->second.value);
      continue;
    }
    const Whole &known = makeWhole(value);
    stage = std::max(stage, known.stage);
    mapping.map(value, known.value);
  }
  Operation *same = owner && owner != rank ? nullptr : b.clone(*op, mapping);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Value value = same ? same->getResult(i) : Value();
    if (owner)
      owned[result] = {*owner, value, stage};
    else
      whole[result] = {value, stage};
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct AssignOwners : public repro::impl::ReproAssignOwnersBase<AssignOwners> {
  using ReproAssignOwnersBase::ReproAssignOwnersBase;

  void runOnOperation() override {
    func::FuncOp main = findDivided(getOperation(), "(T3)", ranks, rank);
    SetVector<Value> ownable;
    if (!main || failed(findOwnable(main, ownable)))
      return signalPassFailure();
    // A single rank needs no owners.
    if (ranks == 1)
      ownable.clear();
    assign(main, assignOwners(main.front(), ownable, ranks));
  }

  LogicalResult findOwnable(func::FuncOp main, SetVector<Value> &ownable) {
    int64_t numState = getNumState(main);
    Operation *ends = main.front().getTerminator();
    for (int64_t position : arguments) {
      if (position < 0 || position >= main.getNumArguments())
        return main.emitError("(T3) there is no argument ") << position;
      Value argument = main.getArgument(position);
      if (position < numState && ends->getOperand(position) == argument)
        return main.emitError("(T3) argument ")
               << position << " is a state that does not change";
      if (isOwnable(argument))
        ownable.insert(argument);
    }
    return success();
  }

  void assign(func::FuncOp main, const DenseMap<Value, unsigned> &owners) {
    Block &block = main.front();
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    OwnedValues values(block, rank);
    for (BlockArgument argument : block.getArguments()) {
      auto owner = owners.find(argument);
      if (owner == owners.end()) {
        values.addWhole(argument);
        continue;
      }
      values.addOwned(argument, owner->second);
      main.setArgAttr(
          argument.getArgNumber(), "repro.owner",
          IntegerAttr::get(IntegerType::get(&getContext(), 64), owner->second));
    }
    for (Operation *op : operations)
      values.add(op);
    auto ends = cast<func::ReturnOp>(block.getTerminator());
    int64_t numState = getNumState(main);
    SmallVector<Value> results;
    for (auto [i, value] : llvm::enumerate(ends.getOperands())) {
      auto owner = int64_t(i) < numState ? owners.find(block.getArgument(i))
                                         : owners.end();
      if (owner == owners.end()) {
        results.push_back(values.getWhole(value));
        continue;
      }
      // A rank that does not own the state returns the argument unchanged, and
      // no operation of that rank reads it.
      Value own = values.getOwned(value, owner->second);
      results.push_back(own ? own : Value(block.getArgument(i)));
    }
    ends.getOperandsMutable().assign(results);
    eraseDivided(block, operations);
  }
};
} // namespace
