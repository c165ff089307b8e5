//===- Partition.cpp - The program of one of several ranks ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-partition (Passes.td), run from Python, outside of the pipelines:
// visits @main in program order and keeps one rank's share of it. An operation
// is computed whole or on the rank's part; values that it needs whole are
// gathered (T1). The results have the bits of the whole program.
//
//===----------------------------------------------------------------------===//

#include "ArgumentCuts.h"
#include "Dialect/Repro/Partition/Passes.h"
#include "dialects/Repro/IR/PartitionedOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROPARTITION
#include "lib/Dialect/Repro/Partition/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Values of a rank
//===----------------------------------------------------------------------===//

namespace {
/// The part of a value on a rank, and the cut that defines the part.
struct Part {
  Cut cut;
  Value value;
};

/// The values of the whole program on this rank. A value is available as a
/// whole, in parts, or both.
class RankValues {
public:
  RankValues(Block &block, unsigned ranks, unsigned rank, int64_t least)
      : ranks(ranks), rank(rank), least(least), b(block.getTerminator()) {}

  void addPart(Value value, const Cut &cut, Value part) {
    parts[value].push_back({cut, part});
  }
  void addWhole(Value value) { whole.map(value, value); }
  /// Creates the operations with which this rank computes its part of `op`, or
  /// all of `op`. `op` is an operation of the whole program.
  void add(Operation *op);
  /// (T2) Returns the value on every rank, gathered if only parts are
  /// available.
  Value getWhole(Value value);

private:
  Value findPart(Value value, const Cut &cut) const;
  Value getPart(Value value, const Cut &cut);
  Value makeFilled(Value value, const Cut &cut);
  int64_t countMoved(Operation *op, const Division *division) const;
  IRMapping mapRead(Operation *op) const;
  std::optional<Division> choose(Operation *op) const;
  void addDivided(Operation *op, const Division &division);

  unsigned ranks, rank;
  int64_t least;
  OpBuilder b;
  IRMapping whole;
  DenseMap<Value, SmallVector<Part, 1>> parts;
};
} // namespace

static bool isTensor(Value value) {
  return isa<RankedTensorType>(value.getType());
}

/// Returns the tensors that the regions of an operation read.
static SmallVector<Value> getCapturedTensors(Operation *op) {
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  return llvm::filter_to_vector(captured, isTensor);
}

/// Whether the tensor has no elements. Such a tensor is not divided, because a
/// slice of it would be out of bounds.
static bool isWithoutElements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getNumElements() == 0;
}

/// Creates a mapping for one operation. Operations do not share a mapping,
/// because cloning an operation adds the values in its regions to the mapping.
IRMapping RankValues::mapRead(Operation *op) const {
  IRMapping mapping;
  for (Value value : getRead(op))
    mapping.map(value, whole.lookupOrDefault(value));
  return mapping;
}

Value RankValues::findPart(Value value, const Cut &cut) const {
  auto found = parts.find(value);
  if (found != parts.end())
    for (const Part &part : found->second)
      if (part.cut == cut)
        return part.value;
  return {};
}

Value RankValues::getWhole(Value value) {
  if (whole.contains(value))
    return whole.lookup(value);
  const Part &part = parts.find(value)->second.front();
  SmallVector<int64_t> sizes;
  for (unsigned each = 0; each < ranks; ++each)
    sizes.push_back(part.cut.getSize(each));
  Value gathered =
      AllGatherOp::create(b, value.getLoc(), value.getType(), part.value,
                          part.cut.dim, part.cut.blocks, sizes);
  whole.map(value, gathered);
  return gathered;
}

/// Creates this rank's part of an empty or filled tensor without slicing the
/// whole tensor. Returns null for other values.
Value RankValues::makeFilled(Value value, const Cut &cut) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  if (isa<tensor::EmptyOp>(op))
    return tensor::EmptyOp::create(
        b, op->getLoc(), getPartType(value.getType(), cut, rank), ValueRange());
  SplatElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)))
    return arith::ConstantOp::create(
        b, op->getLoc(),
        SplatElementsAttr::get(getPartType(value.getType(), cut, rank),
                               elements.getSplatValue<Attribute>()));
  auto fill = dyn_cast<linalg::GenericOp>(op);
  if (!fill || fill.getNumDpsInputs() != 0 || fill.getNumResults() != 1)
    return {};
  auto divisible = cast<PartitionOpInterface>(op);
  std::optional<Division> division = divisible.divide(0, cut);
  if (!division || !getCapturedTensors(op).empty())
    return {};
  Value init = getPart(fill.getDpsInits()[0], *division->operands[0]);
  return divisible.makePart(b, *division, rank, init, mapRead(op))
      ->getResult(0);
}

Value RankValues::getPart(Value value, const Cut &cut) {
  if (Value part = findPart(value, cut))
    return part;
  Value part = makeFilled(value, cut);
  if (!part)
    part = slicePart(b, value.getLoc(), getWhole(value), cut, rank);
  addPart(value, cut, part);
  return part;
}

/// Returns the number of bytes to gather if the operation is divided as
/// `division` says, or computed whole if `division` is null.
int64_t RankValues::countMoved(Operation *op, const Division *division) const {
  SetVector<Value> gathered;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!isTensor(value) || whole.contains(value))
      continue;
    std::optional<Cut> cut;
    if (division)
      cut = division->operands[operand.getOperandNumber()];
    if (!cut || !findPart(value, *cut))
      gathered.insert(value);
  }
  for (Value value : getCapturedTensors(op))
    if (!whole.contains(value))
      gathered.insert(value);
  int64_t bytes = 0;
  for (Value value : gathered) {
    auto type = cast<RankedTensorType>(value.getType());
    bytes += type.getNumElements() *
             llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  }
  return bytes;
}

/// Returns the division that gathers the fewest bytes; std::nullopt if the
/// operation should be computed whole. Operations that need no gathering are
/// computed whole, except large contractions.
std::optional<Division> RankValues::choose(Operation *op) const {
  auto divisible = dyn_cast<PartitionOpInterface>(op);
  if (!divisible || ranks == 1 ||
      llvm::any_of(op->getOperands(), isWithoutElements) ||
      llvm::any_of(op->getResults(), isWithoutElements))
    return std::nullopt;
  bool isLarge = isWorthDividing(op, least);
  int64_t fewest = countMoved(op, nullptr);
  std::optional<Division> best;
  auto consider = [&](const std::optional<Division> &division) {
    if (!division)
      return;
    int64_t moved = countMoved(op, &*division);
    if (best ? moved < fewest : moved <= fewest) {
      best = division;
      fewest = moved;
    }
  };
  if (isLarge || fewest != 0)
    for (OpOperand &operand : op->getOpOperands())
      for (const Part &part : parts.lookup(operand.get()))
        consider(divisible.divide(operand.getOperandNumber(), part.cut));
  if (!isLarge || best)
    return best;
  unsigned init = op->getNumOperands() - 1;
  auto type = cast<RankedTensorType>(op->getOperand(init).getType());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) >= int64_t(ranks))
      consider(divisible.divide(
          init, getEvenCut(dim, type.getDimSize(dim), 1, 1, ranks)));
  return best;
}

void RankValues::addDivided(Operation *op, const Division &division) {
  SmallVector<Value> operands;
  for (auto [value, cut] :
       llvm::zip_equal(op->getOperands(), division.operands))
    operands.push_back(cut               ? getPart(value, *cut)
                       : isTensor(value) ? getWhole(value)
                                         : whole.lookupOrDefault(value));
  for (Value value : getCapturedTensors(op))
    getWhole(value);
  Operation *part = cast<PartitionOpInterface>(op).makePart(
      b, division, rank, operands, mapRead(op));
  for (auto [value, cut, result] :
       llvm::zip_equal(op->getResults(), division.results, part->getResults()))
    addPart(value, *cut, result);
}

void RankValues::add(Operation *op) {
  if (std::optional<Division> division = choose(op))
    return addDivided(op, *division);
  for (Value value : getCapturedTensors(op))
    getWhole(value);
  for (Value value : op->getOperands())
    if (isTensor(value))
      getWhole(value);
  IRMapping mapping = mapRead(op);
  Operation *same = b.clone(*op, mapping);
  whole.map(op->getResults(), same->getResults());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct Partition : public repro::impl::ReproPartitionBase<Partition> {
  using ReproPartitionBase::ReproPartitionBase;

  void runOnOperation() override {
    func::FuncOp main = findDivided(getOperation(), "(T1)", ranks, rank);
    if (!main)
      return signalPassFailure();
    numState = getNumState(main);
    SmallVector<std::optional<Cut>> cuts(main.getNumArguments());
    if (failed(findNamed(main, cuts)))
      return signalPassFailure();
    // A single rank has all elements, so nothing is cut.
    if (ranks == 1)
      llvm::fill(cuts, std::nullopt);
    else if (chooses)
      for (BlockArgument argument : main.getArguments())
        if (std::optional<Cut> &cut = cuts[argument.getArgNumber()];
            !cut && isKept(main, argument.getArgNumber()))
          cut = chooseCut(argument, ranks, least);
    partition(main, cuts);
  }

  /// Whether the argument is a state that the step does not change.
  bool isKept(func::FuncOp main, int64_t position) {
    return position < numState && main.front().getTerminator()->getOperand(
                                      position) == main.getArgument(position);
  }

  LogicalResult findNamed(func::FuncOp main,
                          MutableArrayRef<std::optional<Cut>> cuts) {
    if (arguments.size() != dimensions.size())
      return main.emitError("(T1) expected a dimension for each argument that "
                            "is cut, got ")
             << dimensions.size() << " for " << arguments.size();
    for (auto [position, dim] : llvm::zip_equal(arguments, dimensions)) {
      if (position < 0 || position >= main.getNumArguments())
        return main.emitError("(T1) there is no argument ") << position;
      auto type = cast<RankedTensorType>(main.getArgumentTypes()[position]);
      if (dim < 0 || dim >= type.getRank())
        return main.emitError("(T1) argument ")
               << position << " is a " << type << ", which has no dimension "
               << dim;
      if (position < numState && !isKept(main, position))
        return main.emitError("(T1) argument ")
               << position
               << " is a state that changes, expected one that does not";
      if (type.getDimSize(dim) < ranks)
        return main.emitError("(T1) dimension ")
               << dim << " of argument " << position << " is "
               << type.getDimSize(dim) << ", expected an element for each of "
               << ranks.getValue() << " ranks";
      if (cuts[position])
        return main.emitError("(T1) argument ")
               << position << " is named more than once";
      cuts[position] = getCutAlong(main.getArgument(position), dim, ranks);
    }
    return success();
  }

  void partition(func::FuncOp main, ArrayRef<std::optional<Cut>> cuts) {
    Block &block = main.front();
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    RankValues values(block, ranks, rank, least);
    // Append an argument for each part. At the end, the whole argument, which
    // has no readers left, takes the type and the uses of the part's argument.
    unsigned count = block.getNumArguments();
    DenseMap<Value, Value> partOf;
    for (unsigned i = 0; i < count; ++i) {
      BlockArgument argument = block.getArgument(i);
      if (!cuts[i]) {
        values.addWhole(argument);
        continue;
      }
      Value part = block.addArgument(
          getPartType(argument.getType(), *cuts[i], rank), argument.getLoc());
      values.addPart(argument, *cuts[i], part);
      partOf[argument] = part;
    }
    for (Operation *op : operations)
      values.add(op);
    auto ends = cast<func::ReturnOp>(block.getTerminator());
    SmallVector<Value> results;
    for (auto [i, value] : llvm::enumerate(ends.getOperands())) {
      bool isKeptPart = isKept(main, i) && partOf.contains(value);
      results.push_back(isKeptPart ? partOf.lookup(value)
                                   : values.getWhole(value));
    }
    ends.getOperandsMutable().assign(results);
    eraseDivided(block, operations);
    for (unsigned i = 0; i < count; ++i) {
      BlockArgument argument = block.getArgument(i);
      Value part = partOf.lookup(argument);
      if (!part)
        continue;
      argument.setType(part.getType());
      part.replaceAllUsesWith(argument);
      SmallVector<int64_t> numbers{cuts[i]->dim, cuts[i]->blocks};
      llvm::append_range(numbers, cuts[i]->offsets);
      main.setArgAttr(i, "repro.cut",
                      DenseI64ArrayAttr::get(&getContext(), numbers));
    }
    block.eraseArguments(count, block.getNumArguments() - count);
    main.setFunctionType(FunctionType::get(
        main.getContext(), block.getArgumentTypes(), ends.getOperandTypes()));
  }

  int64_t numState = 0;
};
} // namespace
