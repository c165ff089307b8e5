//===- ContractionRoles.cpp - Roles of contractions in a step -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/ContractionRoles.h"

#include "Dialect/Repro/Transforms/Movement.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseSet.h"

#include <unordered_map>

using namespace mlir;
using namespace mlir::repro;

SmallVector<FoldOp> repro::getContractions(func::FuncOp function) {
  SmallVector<FoldOp> folds;
  for (FoldOp fold : function.getOps<FoldOp>()) {
    std::optional<ContractionBody> contraction = getContraction(fold);
    if (contraction && contraction->isPlain())
      folds.push_back(fold);
  }
  return folds;
}

/// Returns the tensor of which `value` is a copy that was rounded, either by
/// quantization to blocks or by operations on the bits of each f32; null if
/// `value` is not such a copy.
static Value getRoundedTensor(Value value) {
  if (auto dequantized = value.getDefiningOp<DequantizeOp>()) {
    auto quantized = dequantized.getCodes().getDefiningOp<QuantizeOp>();
    return quantized ? quantized.getInput() : Value();
  }
  auto generic = value.getDefiningOp<linalg::GenericOp>();
  if (!generic || generic.getNumDpsInputs() != 1 ||
      generic.getNumResults() != 1 ||
      !getElementTypeOrSelf(generic.getInputs()[0].getType()).isF32())
    return nullptr;
  Value yielded = generic.getBody()->getTerminator()->getOperand(0);
  return yielded.getDefiningOp<arith::BitcastOp>() ? generic.getInputs()[0]
                                                   : Value();
}

/// Returns the value that an operand copies, directly or through moves,
/// conversions and roundings.
static Value findRoot(Value value) {
  for (Value next = value; next; next = getRoundedTensor(value))
    value = getMovedFrom(next);
  return value;
}

static int64_t getNumElements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getNumElements() : 1;
}

namespace {
/// A contraction with its two operands, and the root of each operand
/// (`findRoot`).
struct Candidate {
  FoldOp fold;
  std::array<Value, 2> operands, roots;
  /// Whether each factor has a parallel dimension that the other factor lacks.
  bool ofMatrices = false;
  bool isForward = false;
  /// The forward contraction that this one recomputes; -1 if it recomputes
  /// none.
  int64_t again = -1;

  int64_t getState(unsigned side, int64_t numState) const {
    auto argument = dyn_cast<BlockArgument>(roots[side]);
    return argument && int64_t(argument.getArgNumber()) < numState
               ? int64_t(argument.getArgNumber())
               : -1;
  }
};

/// Computes the roles of all contractions of a function.
class Analysis {
public:
  Analysis(func::FuncOp function, const StepShape &shape)
      : function(function), shape(shape),
        results(function.getBody().front().getTerminator()->getOperands()) {}

  FailureOr<SmallVector<ContractionRole>> run();

private:
  FailureOr<int64_t> findLoss();
  void findForward(int64_t loss);
  void findComputedAgain();
  void findFprop();
  void findComputedWeights();
  void findWgrad();
  void findDgrad();
  LogicalResult verifyLoss(int64_t loss);

  void findRepresentatives();
  Value getRepresentative(Value value) const {
    auto found = representatives.find(value);
    return found == representatives.end() ? value : found->second;
  }
  bool isSame(Operation *first, Operation *second);
  bool reachesUpdate(const Candidate &candidate, int64_t weight);
  void findBehindUpdates();
  bool isBehindUpdates(Value value) {
    return behindUpdates.contains(value.getDefiningOp());
  }
  void set(unsigned number, Role role, unsigned side, Factor here, Factor there,
           int64_t forward);

  func::FuncOp function;
  const StepShape &shape;
  OperandRange results;
  SmallVector<Candidate> candidates;
  SmallVector<ContractionRole> roles;
  llvm::DenseMap<Value, Value> representatives;
  DenseSet<Operation *> forward, updates;
  /// The operations that depend on a weight gradient, such as those of the
  /// optimizer.
  DenseSet<Operation *> behindUpdates;
};
} // namespace

/// Calls `visit` for each value that an operation and its regions read.
static void forEachRead(Operation *op, function_ref<void(Value)> visit) {
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      visit(operand);
  });
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

FailureOr<int64_t> Analysis::findLoss() {
  if (shape.loss >= 0)
    return shape.loss;
  int64_t first = shape.hasNewState ? shape.numState : 0;
  SmallVector<int64_t> scalars;
  for (int64_t i = first, e = results.size(); i < e; ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, "repro.name");
    if (name && name.getValue() == shape.lossName)
      return i;
    auto type = cast<RankedTensorType>(results[i].getType());
    if (type.getRank() == 0 && isa<FloatType>(type.getElementType()))
      scalars.push_back(i);
  }
  if (shape.lossName != "loss")
    return function.emitError("expected a result with the name \"")
           << shape.lossName << "\", the loss";
  return scalars.size() == 1 ? scalars.front() : -1;
}

void Analysis::findForward(int64_t loss) {
  SmallVector<Value> open;
  if (loss >= 0)
    open.push_back(results[loss]);
  else
    llvm::append_range(open, results);
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && forward.insert(op).second)
      forEachRead(op, [&](Value value) { open.push_back(value); });
  }
}

/// Maps each value to the first of all values that are computed in the same
/// way. Barriers (V5) are transparent.
void Analysis::findRepresentatives() {
  std::unordered_map<size_t, SmallVector<Operation *, 1>> known;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto barrier = dyn_cast<BarrierOp>(op)) {
      representatives[barrier->getResult(0)] =
          getRepresentative(barrier->getOperand(0));
      continue;
    }
    auto hashOperand = [&](Value value) {
      return llvm::hash_value(getRepresentative(value).getAsOpaquePointer());
    };
    SmallVector<Operation *, 1> &alike =
        known[OperationEquivalence::computeHash(
            &op, hashOperand, OperationEquivalence::ignoreHashValue,
            OperationEquivalence::IgnoreLocations)];
    auto *first = llvm::find_if(
        alike, [&](Operation *other) { return isSame(other, &op); });
    if (first == alike.end()) {
      alike.push_back(&op);
      continue;
    }
    for (auto [result, other] :
         llvm::zip_equal(op.getResults(), (*first)->getResults()))
      representatives[result] = other;
  }
}

bool Analysis::isSame(Operation *first, Operation *second) {
  // Maps the values in the bodies of `first` to those in `second`.
  llvm::DenseMap<Value, Value> within;
  return OperationEquivalence::isEquivalentTo(
      first, second,
      [&](Value left, Value right) {
        auto inner = within.find(left);
        return success(inner == within.end()
                           ? getRepresentative(left) == getRepresentative(right)
                           : inner->second == right);
      },
      [&](Value left, Value right) { within[left] = right; },
      OperationEquivalence::IgnoreLocations);
}

void Analysis::findComputedAgain() {
  if (function.getOps<BarrierOp>().empty())
    return;
  findRepresentatives();
  llvm::DenseMap<Value, int64_t> firsts;
  for (auto [number, candidate] : llvm::enumerate(candidates))
    if (candidate.isForward)
      firsts.try_emplace(getRepresentative(candidate.fold.getResult(0)),
                         number);
  for (Candidate &candidate : candidates) {
    auto first = firsts.find(getRepresentative(candidate.fold.getResult(0)));
    if (!candidate.isForward && first != firsts.end())
      candidate.again = first->second;
  }
}

void Analysis::set(unsigned number, Role role, unsigned side, Factor here,
                   Factor there, int64_t forward) {
  ContractionRole &found = roles[number];
  found.role = role;
  found.factors[side] = here;
  found.factors[1 - side] = there;
  found.forward = forward;
  if (forward >= 0)
    found.weight = roles[forward].weight;
}

void Analysis::findFprop() {
  for (auto [number, candidate] : llvm::enumerate(candidates)) {
    if (!candidate.isForward || !candidate.ofMatrices)
      continue;
    roles[number].role = Role::product;
    for (unsigned side : {0, 1}) {
      int64_t weight = candidate.getState(side, shape.numState);
      if (weight < 0 || candidate.getState(1 - side, shape.numState) >= 0)
        continue;
      set(number, Role::fprop, side, Factor::weight, Factor::activation, -1);
      roles[number].weight = weight;
      roles[number].forward = number;
    }
  }
  for (auto [number, candidate] : llvm::enumerate(candidates))
    if (candidate.again >= 0)
      roles[number] = roles[candidate.again];
}

/// Recognizes computed weights: a factor of a product is one if it depends on
/// state only and the other factor depends on an input.
void Analysis::findComputedWeights() {
  DenseSet<Value> fromState, fromInput;
  for (BlockArgument argument : function.getArguments())
    (int64_t(argument.getArgNumber()) < shape.numState ? fromState : fromInput)
        .insert(argument);
  for (Operation &op : function.getBody().front())
    forEachRead(&op, [&](Value value) {
      for (DenseSet<Value> *found : {&fromState, &fromInput})
        if (found->contains(value))
          found->insert(op.result_begin(), op.result_end());
    });
  for (auto [candidate, role] : llvm::zip_equal(candidates, roles))
    for (unsigned side : {0, 1})
      if (role.role == Role::product &&
          fromState.contains(candidate.roots[side]) &&
          !fromInput.contains(candidate.roots[side]) &&
          fromInput.contains(candidate.roots[1 - side]))
        role.factors[side] = Factor::weight;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Whether the result reaches the new value of the weight through values that
/// have at least as many elements as the weight. If the new state is not among
/// the results, it is enough to reach any result.
bool Analysis::reachesUpdate(const Candidate &candidate, int64_t weight) {
  FoldOp fold = candidate.fold;
  Value result = fold.getResult(0);
  int64_t size = getNumElements(function.getArgument(weight));
  if (getNumElements(result) != size)
    return false;
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Value> open = {result};
  DenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (getNumElements(value) < size || !seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      if (use.getOwner() == terminator &&
          (!shape.hasNewState || use.getOperandNumber() == weight))
        return true;
      Operation *user =
          function.getBody().front().findAncestorOpInBlock(*use.getOwner());
      llvm::append_range(open, user->getResults());
    }
  }
  return false;
}

void Analysis::findBehindUpdates() {
  for (Operation &op : function.getBody().front()) {
    bool isBehind = updates.contains(&op);
    forEachRead(&op, [&](Value value) { isBehind |= isBehindUpdates(value); });
    if (isBehind)
      behindUpdates.insert(&op);
  }
}

void Analysis::findDgrad() {
  llvm::DenseMap<int64_t, int64_t> layers;
  llvm::DenseMap<Value, SmallVector<int64_t>> activations;
  for (auto [number, role] : llvm::enumerate(roles))
    if (role.role == Role::fprop && role.forward == int64_t(number)) {
      layers.try_emplace(role.weight, number);
      unsigned side = role.factors[0] == Factor::activation ? 0 : 1;
      activations[candidates[number].roots[side]].push_back(number);
    }
  auto isOpen = [&](unsigned number) {
    return roles[number].role == Role::other && candidates[number].ofMatrices &&
           !candidates[number].isForward;
  };
  for (auto [number, candidate] : llvm::enumerate(candidates))
    if (isOpen(number))
      for (unsigned side : {0, 1})
        if (candidate.getState(1 - side, shape.numState) < 0)
          for (int64_t layer : activations.lookup(candidate.roots[side]))
            if (reachesUpdate(candidate, roles[layer].weight))
              updates.insert(candidate.fold);
  findBehindUpdates();
  for (auto [number, candidate] : llvm::enumerate(candidates)) {
    if (!isOpen(number))
      continue;
    for (unsigned side : {0, 1}) {
      int64_t weight = candidate.getState(side, shape.numState);
      auto layer = layers.find(weight);
      if (weight >= 0 && layer != layers.end() &&
          candidate.getState(1 - side, shape.numState) < 0 &&
          !isBehindUpdates(candidate.roots[1 - side]))
        set(number, Role::dgrad, side, Factor::weight, Factor::gradient,
            layer->second);
    }
  }
}

void Analysis::findWgrad() {
  llvm::DenseMap<Value, SmallVector<int64_t>> activations, gradients;
  for (auto [number, role] : llvm::enumerate(roles)) {
    unsigned side = role.factors[0] == Factor::weight ? 1 : 0;
    Value root = candidates[number].roots[side];
    if (role.role == Role::fprop)
      activations[root].push_back(number);
    if (role.role == Role::dgrad)
      gradients[root].push_back(role.forward);
  }
  auto isOf = [&](Value root, int64_t weight) {
    return llvm::any_of(gradients.lookup(root), [&](int64_t layer) {
      return roles[layer].weight == weight;
    });
  };
  // The forward contractions for which a wgrad with two matching factors was
  // found. If a weight is used more than once, there is no such wgrad for the
  // contraction that reads the step's input.
  llvm::DenseSet<int64_t> complete;
  // Try better matches first: a wgrad whose two factors match, then one with a
  // matching factor whose result reaches the weight's new value.
  for (unsigned match : {0, 1, 2})
    for (auto [number, candidate] : llvm::enumerate(candidates))
      for (unsigned side : {0, 1}) {
        if (roles[number].role != Role::other || !candidate.ofMatrices ||
            candidate.isForward)
          continue;
        Value here = candidate.roots[side], there = candidate.roots[1 - side];
        SmallVector<int64_t> layers =
            match == 2 ? gradients.lookup(there) : activations.lookup(here);
        for (int64_t layer : layers) {
          int64_t weight = roles[layer].weight;
          bool fits =
              match == 0
                  ? isOf(there, weight)
                  : (match == 2 || !complete.contains(roles[layer].forward)) &&
                        !isBehindUpdates(here) && !isBehindUpdates(there) &&
                        reachesUpdate(candidate, weight);
          if (!fits)
            continue;
          set(number, Role::wgrad, side, Factor::activation, Factor::gradient,
              layer);
          if (match == 0)
            complete.insert(roles[layer].forward);
          break;
        }
      }
}

/// Fails if weights change but there is no loss: all contractions would count
/// as forward, which is wrong in a training step.
LogicalResult Analysis::verifyLoss(int64_t loss) {
  if (loss >= 0 || !shape.hasNewState)
    return success();
  for (const ContractionRole &role : roles)
    if (role.role == Role::fprop &&
        results[role.weight] != function.getArgument(role.weight))
      return function.emitError("the program changes a weight, state #")
             << role.weight << ", and no result is the loss: expected its name";
  return success();
}

FailureOr<SmallVector<ContractionRole>> Analysis::run() {
  auto inBlocks = function.getOps<BlockContractionOp>();
  if (!inBlocks.empty())
    return (*inBlocks.begin())
        .emitError("expected no contraction in blocks (Q4), which hides what "
                   "the others are for");
  FailureOr<int64_t> loss = findLoss();
  if (failed(loss))
    return failure();
  findForward(*loss);
  for (FoldOp fold : getContractions(function)) {
    ContractionBody body = *getContraction(fold);
    Candidate candidate;
    candidate.fold = fold;
    candidate.isForward = forward.contains(fold);
    std::array<bool, 2> isAlone = {false, false};
    std::array<const ContractionBody::Factor *, 2> factors = {&body.x, &body.y};
    for (auto [side, factor] : llvm::enumerate(factors)) {
      candidate.operands[side] = fold.getInputs()[factor->inputs.front()];
      candidate.roots[side] = findRoot(candidate.operands[side]);
      for (auto [dim, type] : llvm::enumerate(fold.getIteratorTypesArray()))
        isAlone[side] |= type == utils::IteratorType::parallel &&
                         factor->dims[dim] && body.isOfOneFactor(dim);
    }
    candidate.ofMatrices = isAlone[0] && isAlone[1] &&
                           body.x.inputs.front() != body.y.inputs.front();
    candidates.push_back(candidate);
  }
  roles.resize(candidates.size());
  findComputedAgain();
  findFprop();
  if (failed(verifyLoss(*loss)))
    return failure();
  findDgrad();
  findWgrad();
  findComputedWeights();
  return roles;
}

FailureOr<SmallVector<ContractionRole>>
repro::getRoles(func::FuncOp function, const StepShape &shape) {
  return Analysis(function, shape).run();
}
