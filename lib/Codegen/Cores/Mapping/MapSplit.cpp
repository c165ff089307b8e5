//===- MapSplit.cpp - Cut folds at chunks ---------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-split (Passes.td): cuts folds at whole chunks (T4), where the
// predicted time of the launches becomes shorter. The pass works on launches
// and not on tensors, because the costs of launches are known, and a view of a
// buffer splits a dimension without a copy.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Dialect/Repro/Partition/FoldChunks.h"
#include "DramLayout.h"
#include "Mapping.h"
#include "PartitionCandidates.h"
#include "dialects/Launch/IR/KernelSignature.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPSPLIT
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static constexpr int64_t kArenaAlignment = 64;

/// The temporaries of successive folds alternate between two places, so that
/// the chunks of a fold do not have to wait for the totals of the former one.
static constexpr int64_t kMostPlaces = 2;

/// Launches that were cut must take at most this part of the predicted time,
/// because a plan with more launches is longer.
static constexpr double kMostTime = 0.9;

/// The numbers of parts into which a fold in any order may be cut.
static constexpr int64_t kFirstParts = 4, kPartsFactor = 4;

namespace {
struct MapSplit : public repro::impl::ReproMapSplitBase<MapSplit> {
  using ReproMapSplitBase::ReproMapSplitBase;
  void runOnOperation() override;
};

/// A kernel, and where each of its buffers lies: in a buffer of the former
/// kernel or, if the number is not one of its arguments, in the temporaries.
struct Part {
  OwningOpRef<func::FuncOp> kernel;
  struct Buffer {
    int argument;   ///< of the former kernel; -1 for a temporary
    int64_t offset; ///< in bytes
  };
  SmallVector<Buffer> buffers;
};

/// The kernels that replace a kernel with a fold.
struct Split {
  SmallVector<Part> parts; ///< in the order of their launches
  int64_t bytes = 0;       ///< of the temporaries
};

/// Makes the kernels of a fold that is cut.
class Splitter {
public:
  Splitter(func::FuncOp kernel, FoldOp fold, const FoldChunks &chunks)
      : kernel(kernel), fold(fold), chunks(chunks), b(kernel.getContext()) {}

  /// Returns std::nullopt if the dimensions of a buffer cannot be split.
  std::optional<Split> split();

private:
  struct Operand {
    MemRefType type;
    Part::Buffer place;
    launch::Access access;
  };
  int64_t getBytes(ArrayRef<int64_t> shape) const;
  std::optional<Operand> getInput(unsigned input,
                                  const FoldChunks::Group &group) const;
  Operand getTemporary(ArrayRef<int64_t> shape, int64_t offset,
                       launch::Access access) const;
  /// Adds a kernel whose last operand is written. `build` gets the values of
  /// the inputs of the fold, if `inputs` has operands for them, or of all
  /// operands but the last one, and the last one.
  void add(StringRef name, ArrayRef<std::optional<Operand>> inputs,
           Operand output, function_ref<void(ValueRange, Value)> build);

  mutable func::FuncOp kernel;
  mutable FoldOp fold;
  const FoldChunks &chunks;
  OpBuilder b;
  Split result;
};
} // namespace

//===----------------------------------------------------------------------===//
// The kernels
//===----------------------------------------------------------------------===//

int64_t Splitter::getBytes(ArrayRef<int64_t> shape) const {
  int64_t bytes = launch::getElementBytes(chunks.getResultType());
  for (int64_t extent : shape)
    bytes *= extent;
  return bytes;
}

std::optional<Splitter::Operand>
Splitter::getInput(unsigned input, const FoldChunks::Group &group) const {
  auto argument = cast<BlockArgument>(fold.getInputs()[input]);
  auto type = cast<MemRefType>(argument.getType());
  Operand operand = {
      type, {int(argument.getArgNumber()), 0}, launch::Access::Read};
  std::optional<FoldChunks::Dimensions> found = chunks.getDimensions(input);
  if (!found)
    return operand;
  int64_t unused;
  FailureOr<SmallVector<int64_t>> strides = getStaticStrides(type, unused);
  unsigned last = found->first + found->count - 1;
  for (unsigned dim = found->first; dim < last; ++dim)
    if ((*strides)[dim] != (*strides)[dim + 1] * type.getDimSize(dim + 1))
      return std::nullopt;
  int64_t stride = (*strides)[last];
  SmallVector<int64_t> newShape(type.getShape().take_front(found->first));
  SmallVector<int64_t> newStrides(strides->begin(),
                                  strides->begin() + found->first);
  newShape.append({group.count, group.size});
  newStrides.append({group.size * stride, stride});
  llvm::append_range(newShape, type.getShape().drop_front(last + 1));
  newStrides.append(strides->begin() + last + 1, strides->end());
  operand.type = getStridedType(newShape, newStrides, type.getElementType());
  operand.place.offset =
      group.begin * stride * launch::getElementBytes(type.getElementType());
  return operand;
}

Splitter::Operand Splitter::getTemporary(ArrayRef<int64_t> shape,
                                         int64_t offset,
                                         launch::Access access) const {
  return {MemRefType::get(shape, chunks.getResultType()), {-1, offset}, access};
}

void Splitter::add(StringRef name, ArrayRef<std::optional<Operand>> inputs,
                   Operand output,
                   function_ref<void(ValueRange, Value)> build) {
  MLIRContext *context = b.getContext();
  SmallVector<Operand> operands;
  for (const std::optional<Operand> &input : inputs)
    if (input)
      operands.push_back(*input);
  operands.push_back(output);
  Part part;
  SmallVector<Type> types;
  for (const Operand &operand : operands) {
    types.push_back(operand.type);
    part.buffers.push_back(operand.place);
  }
  llvm::append_range(types, launch::KernelSignature::getOtherTypes(context));
  func::FuncOp function = func::FuncOp::create(
      kernel.getLoc(), name, FunctionType::get(context, types, {}));
  function.setPrivate();
  Block *block = function.addEntryBlock();
  for (auto [i, operand] : llvm::enumerate(operands))
    function.setArgAttr(i,
                        launch::LaunchDialect::AccessAttrHelper::getNameStr(),
                        launch::AccessAttr::get(context, operand.access));
  for (unsigned i = 0; i < operands.size() + 2; ++i)
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                        UnitAttr::get(context));
  b.setInsertionPointToEnd(block);
  IRMapping mapping;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (&op != fold)
      b.clone(op, mapping);
  SmallVector<Value> values;
  unsigned next = 0;
  for (auto [i, input] : llvm::enumerate(inputs))
    values.push_back(input ? Value(block->getArgument(next++))
                           : mapping.lookup(fold.getInputs()[i]));
  build(values, block->getArgument(next));
  // The regions of operations use the constants of the new kernel.
  function.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(mapping.lookupOrDefault(operand.get()));
  });
  for (Operation &op : llvm::make_early_inc_range(*block))
    if (isOpTriviallyDead(&op))
      op.erase();
  func::ReturnOp::create(b, kernel.getLoc());
  part.kernel = function;
  result.parts.push_back(std::move(part));
}

std::optional<Split> Splitter::split() {
  auto output = cast<BlockArgument>(fold.getOutputs()[0]);
  auto type = cast<MemRefType>(output.getType());
  ReproDialect::InitAttrHelper inits(kernel.getContext());
  ArrayAttr identity = b.getArrayAttr({chunks.getIdentity()});
  // The chunk results come first.
  int64_t offset = 0;
  StringRef name = "chunks";
  for (const FoldChunks::Group &group : chunks.getGroups()) {
    SmallVector<std::optional<Operand>> inputs;
    for (auto [i, value] : llvm::enumerate(fold.getInputs())) {
      std::optional<Operand> input;
      if (isa<BlockArgument>(value)) {
        input = getInput(i, group);
        if (!input)
          return std::nullopt;
      }
      inputs.push_back(input);
    }
    SmallVector<int64_t> shape = chunks.getResultShape(group);
    add(name, inputs, getTemporary(shape, offset, launch::Access::Write),
        [&](ValueRange inputs, Value results) {
          inits.setAttr(chunks.computeChunks(b, inputs, results), identity);
        });
    offset += getBytes(shape);
    name = "last_chunk";
  }
  Operand results =
      getTemporary(chunks.getResultShape(), 0, launch::Access::Read);
  Operand last = {type,
                  {int(output.getArgNumber()), 0},
                  launch::Access::Read | launch::Access::Write};
  result.bytes = llvm::alignTo(offset, kArenaAlignment);
  if (!chunks.combinesInitLater()) {
    ArrayAttr constants = fold.getConstantInits();
    if (constants)
      last.access = launch::Access::Write;
    add("totals", {results}, last, [&](ValueRange inputs, Value output) {
      FoldOp totals = chunks.combine(b, inputs[0], output);
      if (constants)
        inits.setAttr(totals, constants);
    });
    return std::move(result);
  }
  Operand totals =
      getTemporary(type.getShape(), result.bytes, launch::Access::Write);
  result.bytes =
      llvm::alignTo(result.bytes + getBytes(type.getShape()), kArenaAlignment);
  add("totals", {results}, totals, [&](ValueRange inputs, Value output) {
    inits.setAttr(chunks.combine(b, inputs[0], output), identity);
  });
  totals.access = launch::Access::Read;
  add("init", {totals}, last, [&](ValueRange inputs, Value output) {
    chunks.combineInit(b, inputs[0], output);
  });
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// Returns the fold of a kernel if new kernels can contain its body: the body
/// loads from no buffer.
static FoldOp getSplittable(const MappedLaunch &launch) {
  auto fold = dyn_cast<FoldOp>(launch.tiles.getBody());
  if (!fold || !isa<BlockArgument>(fold.getOutputs()[0]))
    return {};
  bool loads = false;
  fold.getRegion().walk([&](memref::LoadOp) { loads = true; });
  return loads ? FoldOp() : fold;
}

/// Returns the predicted seconds of the launches of a split.
static FailureOr<double> predictSeconds(Split &split, const ManyCore &machine) {
  double seconds = 0;
  for (Part &part : split.parts) {
    (*part.kernel).walk([&](FoldOp fold) { chooseMatrix(fold, machine); });
    FailureOr<KernelTiles> tiles = KernelTiles::get(*part.kernel);
    if (failed(tiles))
      return failure();
    MappedLaunch launch{{}, *tiles, {}};
    for (unsigned i = 0; i < tiles->getAccesses().size(); ++i)
      launch.places.push_back({Value(), 0, tiles->getType(i)});
    seconds += getFastest(launch, machine).seconds;
  }
  return seconds;
}

/// Returns the fastest split of a launch, or none if the launch is faster
/// without one.
static FailureOr<std::optional<Split>> chooseSplit(const MappedLaunch &launch,
                                                   const ManyCore &machine,
                                                   int64_t room,
                                                   StringRef cuts) {
  FoldOp fold = getSplittable(launch);
  std::optional<Split> best;
  if (!fold)
    return best;
  // Infinite if no tile of the launch fits into a core.
  double seconds = getFastest(launch, machine).seconds;
  if (cuts == "fit" && std::isfinite(seconds))
    return best;
  double most = std::numeric_limits<double>::infinity();
  auto consider = [&](int64_t parts) -> LogicalResult {
    // Joined loops give chunks of any number of elements.
    for (bool joined : {true, false}) {
      std::optional<FoldChunks> chunks = FoldChunks::get(fold, joined, parts);
      std::optional<Split> split;
      if (chunks)
        split = Splitter(launch.tiles.getKernel(), fold, *chunks).split();
      if (!split || split->bytes > room)
        continue;
      FailureOr<double> found = predictSeconds(*split, machine);
      if (failed(found))
        return failure();
      if (!best || *found < most) {
        best = std::move(split);
        most = *found;
      }
      break;
    }
    return success();
  };
  if (isa_and_nonnull<AnyOrderAttr>(fold.getOrderAttr())) {
    for (int64_t parts = kFirstParts; parts <= machine.getCores();
         parts *= kPartsFactor)
      if (failed(consider(parts)))
        return failure();
  } else if (failed(consider(0))) {
    return failure();
  }
  bool isFaster =
      std::isfinite(most) && (cuts != "gain" || most <= kMostTime * seconds);
  if (best && cuts != "all" && !isFaster)
    best.reset();
  return best;
}

void MapSplit::runOnOperation() {
  ModuleOp module = getOperation();
  if (cuts != "gain" && cuts != "all" && cuts != "fit") {
    module.emitError("expected cuts=gain, cuts=all or cuts=fit, got cuts=")
        << cuts;
    return signalPassFailure();
  }
  FailureOr<MappingInput> input = readMappingInput(module, machine);
  if (failed(input))
    return signalPassFailure();
  auto &[description, plan, launches] = *input;
  int64_t room =
      (getFreeDram(plan, description) - kArenaAlignment) / kMostPlaces;
  using Key = std::pair<Operation *, size_t>;
  llvm::MapVector<Key, std::optional<Split>> splits;
  int64_t bytes = 0, numPlaces = 0;
  for (const MappedLaunch &launch : launches) {
    auto [found, isNew] = splits.try_emplace(
        {launch.tiles.getKernel(), launch.tiles.getAxes().size()});
    if (isNew) {
      FailureOr<std::optional<Split>> split =
          chooseSplit(launch, description, room, cuts);
      if (failed(split))
        return signalPassFailure();
      found->second = std::move(*split);
    }
    if (found->second) {
      bytes = std::max(bytes, found->second->bytes);
      numPlaces = std::min(numPlaces + 1, kMostPlaces);
    }
  }
  if (numPlaces == 0)
    return;

  SymbolTable symbols(module);
  BlockArgument arena = plan.getArena();
  int64_t begin = llvm::alignTo(cast<MemRefType>(arena.getType()).getDimSize(0),
                                kArenaAlignment);
  arena.setType(MemRefType::get({begin + numPlaces * bytes},
                                IntegerType::get(&getContext(), 8)));
  plan.setLiveBytes(plan.getLiveBytes() + bytes);
  SmallVector<SmallVector<func::FuncOp>> kernels(splits.size());
  int64_t numSplits = 0;
  for (const MappedLaunch &launch : launches) {
    auto *found =
        splits.find({launch.tiles.getKernel(), launch.tiles.getAxes().size()});
    std::optional<Split> &split = found->second;
    if (!split)
      continue;
    SmallVector<func::FuncOp> &functions = kernels[found - splits.begin()];
    if (functions.empty())
      for (Part &part : split->parts) {
        functions.push_back(part.kernel.release());
        functions.back().setName(("split_" + Twine(found - splits.begin()) +
                                  "_" + functions.back().getName())
                                     .str());
        symbols.insert(functions.back(), Block::iterator(plan));
      }
    OpBuilder b(launch.dispatch);
    Location loc = launch.dispatch.getLoc();
    for (auto [part, function] : llvm::zip_equal(split->parts, functions)) {
      SmallVector<Value> buffers;
      for (auto [i, buffer] : llvm::enumerate(part.buffers)) {
        Place place{arena, begin + (numSplits % numPlaces) * bytes, {}};
        if (buffer.argument >= 0)
          place = Place::get(launch.dispatch.getBuffers()[buffer.argument]);
        buffers.push_back(
            launch::ViewOp::create(b, loc, function.getArgument(i).getType(),
                                   place.root, place.offset + buffer.offset));
      }
      // (E1) The last launch writes the output.
      bool isLast = function == functions.back();
      launch::DispatchOp::create(
          b, loc, SymbolRefAttr::get(function), buffers, DenseI64ArrayAttr(),
          DenseI64ArrayAttr(), IntegerAttr(),
          isLast ? launch.dispatch.getCheckedAttr() : UnitAttr());
    }
    launch.dispatch.erase();
    ++numSplits;
  }
  for (auto &[key, split] : splits)
    if (SymbolTable::symbolKnownUseEmpty(key.first, module))
      key.first->erase();
}
