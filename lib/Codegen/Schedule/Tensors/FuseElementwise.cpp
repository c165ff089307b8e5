//===- FuseElementwise.cpp - Fuse element-wise operations -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-fuse-elementwise (Passes.td), run by lib/Pipelines/Schedule.cpp:
// fuses elementwise operations to save memory traffic. Fusion changes which
// values are stored or recomputed, but not the operations on an element, so no
// bit changes.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Passes.h"
#include "Dialect/Repro/IR/AffineBounds.h"
#include "Dialect/Repro/Transforms/ExactFolding.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFUSEELEMENTWISE
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The limits of a fused operation. Larger operations would run out of
/// registers.
static constexpr unsigned maxOperands = 20;
static constexpr int64_t maxBodyCost = 400;
/// A producer that costs at most this number of additions is recomputed instead
/// of being stored.
static constexpr int64_t cheapCost = 4;

namespace {

struct FuseElementwise
    : public repro::impl::ReproFuseElementwiseBase<FuseElementwise> {
  void runOnOperation() override;

private:
  Operation *fuseOnce(Operation *consumer);
  bool wants(linalg::GenericOp producer, OpOperand &operand);
};

} // namespace

/// Returns the cost of the body for one element, in additions.
static int64_t getBodyCost(Operation *op) {
  int64_t cost = 0;
  op->getRegion(0).walk([&](Operation *nested) {
    StringRef dialect = nested->getName().getDialectNamespace();
    if (nested->hasTrait<OpTrait::ConstantLike>() ||
        nested->hasTrait<OpTrait::IsTerminator>() || dialect == "affine" ||
        isa<cf::AssertOp>(nested))
      return;
    if (isa<arith::DivFOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp,
            arith::RemUIOp, arith::RemFOp, math::SqrtOp>(nested))
      cost += 8;
    else if (isa<tensor::ExtractOp>(nested))
      cost += 2; // and the same for a checked index
    else if (isa<ReproDialect>(nested->getDialect()) &&
             !isa<repro::IndexOp>(nested))
      cost += 20;
    else if (!isa<linalg::IndexOp, repro::IndexOp>(nested))
      cost += 1;
  });
  return cost;
}

/// Whether the body has gathers (tensor.extract) or checks.
static bool hasGatherOrCheck(Operation *op) {
  return op->getRegion(0)
      .walk([](Operation *nested) {
        return isa<tensor::ExtractOp, cf::AssertOp>(nested)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the fold needs its factors as they are stored: (K4) derives digits
/// from the elements, and (M1) exponents from the element types.
static bool needsElements(FoldOp fold) {
  return isa_and_present<ExactAttr, FdpaAttr>(fold.getOrderAttr());
}

/// Whether the operation only moves elements, and all its users can read its
/// input instead of its result.
static bool isReadThrough(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic->getNumResults() == 1 &&
         getBodyCost(generic) == 0 && !hasGatherOrCheck(generic) &&
         isa<BlockArgument>(
             generic.getBody()->getTerminator()->getOperand(0)) &&
         llvm::all_of(generic->getUses(), [](OpOperand &use) {
           Operation *user = use.getOwner();
           auto fold = dyn_cast<FoldOp>(user);
           return (isa<linalg::GenericOp>(user) ||
                   (fold && !needsElements(fold))) &&
                  cast<DestinationStyleOpInterface>(user).isDpsInput(&use);
         });
}

static SmallVector<AffineMap> getMaps(Operation *op) {
  return cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
}

/// Returns the number of inputs that yield a different element in each
/// iteration.
static unsigned countFullInputs(linalg::GenericOp op) {
  unsigned count = 0;
  for (OpOperand *input : op.getDpsInputOperands())
    count += op.getMatchingIndexingMap(input).isPermutation();
  return count;
}

/// Whether recomputing the result is cheaper than storing it.
static bool isCheap(linalg::GenericOp op) {
  return getBodyCost(op) <= cheapCost && countFullInputs(op) <= 1;
}

static void setInputs(Operation *op, ValueRange inputs,
                      ArrayRef<AffineMap> maps) {
  Builder builder(op->getContext());
  SmallVector<Value> operands(inputs);
  SmallVector<Value> outputs =
      llvm::to_vector(cast<DestinationStyleOpInterface>(op).getDpsInits());
  llvm::append_range(operands, outputs);
  op->setOperands(operands);
  auto set = [&](auto concrete) {
    concrete.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
    concrete.getProperties().operandSegmentSizes = {int(inputs.size()),
                                                    int(outputs.size())};
  };
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    set(generic);
  else
    set(cast<FoldOp>(op));
}

/// Drops inputs that are duplicates or that the body does not read, as long as
/// the other operands determine the extents of all loops.
static void dropInputs(Operation *op) {
  auto dps = cast<DestinationStyleOpInterface>(op);
  SmallVector<AffineMap> maps = getMaps(op);
  SmallVector<Value> inputs = dps.getDpsInputs();
  Block &body = op->getRegion(0).front();
  for (unsigned i = 0; i < inputs.size();) {
    BlockArgument argument = body.getArgument(i);
    for (unsigned j = 0; j < i; ++j)
      if (inputs[i] == inputs[j] && maps[i] == maps[j]) {
        argument.replaceAllUsesWith(body.getArgument(j));
        break;
      }
    SmallVector<AffineMap> rest = maps;
    rest.erase(rest.begin() + i);
    if (!argument.use_empty() ||
        !inversePermutation(concatAffineMaps(rest, op->getContext()))) {
      ++i;
      continue;
    }
    inputs.erase(inputs.begin() + i);
    maps = std::move(rest);
    body.eraseArgument(i);
  }
  if (inputs.size() != size_t(dps.getNumDpsInputs()))
    setInputs(op, inputs, maps);
}

/// Drops unused results. An operation with checks keeps at least one result.
static void dropResults(linalg::GenericOp op) {
  SmallVector<unsigned> kept;
  for (OpResult result : op->getResults())
    if (!result.use_empty() ||
        op.payloadUsesValueFromOperand(op.getTiedOpOperand(result)))
      kept.push_back(result.getResultNumber());
  if (kept.size() == op->getNumResults())
    return;
  if (kept.empty()) {
    if (isOpTriviallyDead(op)) {
      op.erase();
      return;
    }
    kept.push_back(0);
    if (op->getNumResults() == 1)
      return;
  }
  OpBuilder builder(op);
  unsigned numInputs = op.getNumDpsInputs();
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<AffineMap> keptMaps(maps.begin(), maps.begin() + numInputs);
  SmallVector<Value> outputs;
  SmallVector<Type> types;
  for (unsigned i : kept) {
    keptMaps.push_back(maps[numInputs + i]);
    outputs.push_back(op.getOutputs()[i]);
    types.push_back(op->getResult(i).getType());
  }
  if (!inversePermutation(concatAffineMaps(keptMaps, op.getContext())))
    return; // a dropped output alone determines the extent of some dimension
  auto fewer =
      linalg::GenericOp::create(builder, op.getLoc(), types, op.getInputs(),
                                outputs, keptMaps, op.getIteratorTypesArray());
  fewer.getRegion().takeBody(op.getRegion());
  Block &body = fewer.getRegion().front();
  Operation *yield = body.getTerminator();
  for (unsigned i = maps.size() - numInputs; i-- > 0;)
    if (!llvm::is_contained(kept, i)) {
      yield->eraseOperand(i);
      body.eraseArgument(numInputs + i);
    }
  for (auto [i, result] : llvm::zip_equal(kept, fewer->getResults()))
    op->getResult(i).replaceAllUsesWith(result);
  op.erase();
}

/// If the body does not read the old contents of a destination, replaces the
/// destination by an empty tensor, to remove the dependency on these contents.
static void dropUnreadInits(linalg::GenericOp op) {
  OpBuilder builder(op);
  for (OpOperand &init : op.getDpsInitsMutable()) {
    if (op.payloadUsesValueFromOperand(&init) ||
        init.get().getDefiningOp<tensor::EmptyOp>())
      continue;
    auto type = cast<RankedTensorType>(init.get().getType());
    init.set(tensor::EmptyOp::create(builder, op.getLoc(), type.getShape(),
                                     type.getElementType()));
  }
}

//===----------------------------------------------------------------------===//
// Elements that bodies extract
//===----------------------------------------------------------------------===//

/// If a body extracts elements of a transposed tensor, makes it extract them
/// from the tensor before the transposition, which then need not be stored.
static void extractBeforeTransposition(linalg::GenericOp op) {
  op.getBody()->walk([](tensor::ExtractOp extract) {
    while (auto source =
               extract.getTensor().getDefiningOp<linalg::GenericOp>()) {
      if (source.getNumDpsInputs() != 1 || source.getNumDpsInits() != 1 ||
          source.getNumParallelLoops() != source.getNumLoops() ||
          source.getBody()->getTerminator()->getOperand(0) !=
              source.getRegionInputArgs()[0])
        return;
      AffineMap read = source.getIndexingMapsArray()[0],
                written = source.getIndexingMapsArray()[1];
      if (!read.isPermutation() || !written.isPermutation())
        return;
      // Computes the index of each loop and, from these indices, the index of
      // each input dimension.
      SmallVector<Value> loops =
          applyPermutationMap<Value>(inversePermutation(written),
                                     SmallVector<Value>(extract.getIndices()));
      extract.getIndicesMutable().assign(
          applyPermutationMap<Value>(read, loops));
      extract.getTensorMutable().assign(source.getDpsInputs()[0]);
    }
  });
}

/// Returns `index` as an expression in the loops if it traverses the whole
/// extent with one loop, in ascending or descending order, or if it is 0 and
/// the extent is 1. Otherwise returns null.
static AffineExpr getWholeLoop(Value index, ArrayRef<int64_t> loops,
                               int64_t extent) {
  MLIRContext *context = index.getContext();
  auto getLoop = [&](Value value) {
    auto loop = value.getDefiningOp<linalg::IndexOp>();
    return loop && loops[loop.getDim()] == extent
               ? getAffineDimExpr(loop.getDim(), context)
               : AffineExpr();
  };
  if (AffineExpr loop = getLoop(index))
    return loop;
  if (extent == 1 && matchPattern(index, m_Zero()))
    return getAffineConstantExpr(0, context);
  auto sub = index.getDefiningOp<arith::SubIOp>();
  APInt last;
  if (!sub || !matchPattern(sub.getLhs(), m_ConstantInt(&last)) ||
      last != extent - 1)
    return {};
  AffineExpr loop = getLoop(sub.getRhs());
  return loop ? extent - 1 - loop : AffineExpr();
}

/// Turns extractions of elements in the order of the loops, or in reverse
/// order, into inputs with indexing maps, so that the producers of these inputs
/// can be fused.
static void readFlips(linalg::GenericOp op) {
  SmallVector<int64_t> loops = op.getStaticLoopRanges();
  for (auto extract :
       llvm::make_early_inc_range(op.getBody()->getOps<tensor::ExtractOp>())) {
    Value tensor = extract.getTensor();
    auto type = cast<RankedTensorType>(tensor.getType());
    SmallVector<AffineExpr> exprs;
    for (auto [index, extent] :
         llvm::zip_equal(extract.getIndices(), type.getShape()))
      if (AffineExpr expr = getWholeLoop(index, loops, extent))
        exprs.push_back(expr);
    if (exprs.size() != size_t(type.getRank()) || exprs.empty())
      continue;
    SmallVector<Value> inputs = op.getDpsInputs();
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    maps.insert(maps.begin() + inputs.size(),
                AffineMap::get(loops.size(), 0, exprs, op.getContext()));
    extract.replaceAllUsesWith(op.getBody()->insertArgument(
        inputs.size(), type.getElementType(), extract.getLoc()));
    extract.erase();
    inputs.push_back(tensor);
    setInputs(op, inputs, maps);
  }
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

/// Returns the dimensions whose extents no operand determines.
static SmallVector<unsigned> getUnboundDims(ArrayRef<AffineMap> maps) {
  llvm::SmallBitVector bound(maps.front().getNumDims());
  for (AffineMap map : maps)
    for (AffineExpr expr : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        bound.set(dim.getPosition());
  bound.flip();
  return llvm::to_vector_of<unsigned>(bound.set_bits());
}

/// Returns the producer's loops as expressions in the consumer's loops. Returns
/// std::nullopt if a composed indexing map would violate (A1) or (A2).
static std::optional<AffineMap> getFusedLoops(OpOperand &operand,
                                              linalg::GenericOp producer) {
  Operation *consumer = operand.getOwner();
  AffineMap produced =
      producer.getIndexingMapMatchingResult(cast<OpResult>(operand.get()));
  if (!produced.isPermutation())
    return std::nullopt;
  AffineMap loops = inversePermutation(produced).compose(
      getMaps(consumer)[operand.getOperandNumber()]);
  auto fold = dyn_cast<FoldOp>(consumer);
  SmallVector<int64_t> extents =
      fold ? fold.getStaticLoopRanges()
           : cast<linalg::GenericOp>(consumer).getStaticLoopRanges();
  for (OpOperand *input : producer.getDpsInputOperands())
    if (!mayAccess(simplifyAffineMap(
                       producer.getMatchingIndexingMap(input).compose(loops)),
                   extents, producer.getShape(input)))
      return std::nullopt;
  return loops;
}

/// Fuses an elementwise producer into the fold's body. `loops` maps the fold's
/// loops to the producer's. Returns false if a fold cannot have the fused body.
static bool fuseIntoFold(FoldOp fold, OpOperand &operand,
                         linalg::GenericOp producer, AffineMap loops) {
  auto result = cast<OpResult>(operand.get());
  unsigned index = operand.getOperandNumber();
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  bool hasIndex = false, expressible = true;
  producer.getRegion().walk([&](linalg::IndexOp op) {
    hasIndex = true;
    expressible &= isa<AffineDimExpr>(loops.getResult(op.getDim()));
  });
  if (!expressible || hasGatherOrCheck(producer))
    return false;
  for (OpOperand &init : producer.getDpsInitsMutable())
    if (producer.payloadUsesValueFromOperand(&init))
      return false;

  SmallVector<Value> inputs(fold.getInputs());
  SmallVector<int64_t> extents = fold.getStaticLoopRanges();
  SmallVector<Value> added;
  SmallVector<AffineMap> addedMaps;
  for (OpOperand *input : producer.getDpsInputOperands()) {
    added.push_back(input->get());
    addedMaps.push_back(simplifyAffineMap(
        producer.getMatchingIndexingMap(input).compose(loops)));
  }
  inputs.erase(inputs.begin() + index);
  maps.erase(maps.begin() + index);
  inputs.insert(inputs.begin() + index, added.begin(), added.end());
  maps.insert(maps.begin() + index, addedMaps.begin(), addedMaps.end());
  Block &body = fold.getRegion().front();
  Block &inner = producer.getRegion().front();
  IRMapping mapping;
  for (unsigned i = 0; i < added.size(); ++i)
    mapping.map(inner.getArgument(i),
                body.insertArgument(index + 1 + i,
                                    inner.getArgument(i).getType(),
                                    producer.getLoc()));
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  for (Operation &op : inner.without_terminator()) {
    if (auto position = dyn_cast<linalg::IndexOp>(op)) {
      auto dim = cast<AffineDimExpr>(loops.getResult(position.getDim()));
      mapping.map(position.getResult(),
                  repro::IndexOp::create(builder, op.getLoc(),
                                         builder.getIndexType(),
                                         dim.getPosition())
                      .getResult());
    } else {
      builder.clone(op, mapping);
    }
  }
  Value yielded = mapping.lookupOrDefault(
      inner.getTerminator()->getOperand(result.getResultNumber()));
  body.getArgument(index).replaceAllUsesWith(yielded);
  body.eraseArgument(index);
  // Adds inputs that the body does not read. They determine the extents of
  // dimensions for which no other operand does.
  builder.setInsertionPoint(fold);
  Type element = getElementTypeOrSelf(result.getType());
  for (unsigned dim : getUnboundDims(maps)) {
    maps.insert(maps.begin() + inputs.size(),
                AffineMap::get(extents.size(), 0,
                               getAffineDimExpr(dim, fold.getContext())));
    body.insertArgument(inputs.size(), element, fold.getLoc());
    inputs.push_back(
        tensor::EmptyOp::create(builder, fold.getLoc(), extents[dim], element));
  }
  setInputs(fold, inputs, maps);
  dropInputs(fold);
  return true;
}

/// Whether to fuse `producer` into the consumer of `operand`.
bool FuseElementwise::wants(linalg::GenericOp producer, OpOperand &operand) {
  Operation *consumer = operand.getOwner();
  int64_t cost = getBodyCost(producer);
  AffineMap map = getMaps(consumer)[operand.getOperandNumber()];
  bool once = map.isPermutation(); // each element is used once
  unsigned fullInputs = countFullInputs(producer);
  bool isMovement = cost == 0 && fullInputs <= 1;
  bool onlyUser = llvm::all_of(
      producer->getUsers(), [&](Operation *user) { return user == consumer; });

  // A producer that reads the tensor that it overwrites must not be computed
  // twice: the second time it would read its own results.
  if (!once &&
      llvm::any_of(producer.getDpsInitsMutable(), [&](OpOperand &init) {
        return producer.payloadUsesValueFromOperand(&init);
      }))
    return false;
  if (hasGatherOrCheck(producer)) {
    // A gather loads one element at a time, and the operations fused with it
    // also run one element at a time, so only few are fused.
    if (!once || !onlyUser || isa<FoldOp>(consumer) ||
        (getBodyCost(consumer) > 2 * cheapCost && !hasGatherOrCheck(consumer)))
      return false;
    return true;
  }
  if (isMovement)
    return true;
  // If the consumer only moves elements, its users can read the producer's
  // result directly. Fusion would store the result again, in another order.
  if (isReadThrough(consumer))
    return false;
  // A value that depends only on scalars is computed once, not for each
  // element.
  if (producer.getNumLoops() == 0 && map.getNumDims() != 0)
    return false;
  if (once && onlyUser)
    return true;
  if (isCheap(producer))
    return true;
  if (!once)
    return false;
  // The fused operation also returns the producer's result for other users,
  // which must come after the fused operation.
  if (!isa<linalg::GenericOp>(consumer))
    return false;
  return llvm::all_of(producer->getUsers(), [&](Operation *user) {
    return user == consumer || (user->getBlock() == consumer->getBlock() &&
                                consumer->isBeforeInBlock(user));
  });
}

/// Fuses one producer into `consumer`. Returns the operation that replaces
/// `consumer`, or null if there is nothing to fuse.
Operation *FuseElementwise::fuseOnce(Operation *consumer) {
  auto dps = cast<DestinationStyleOpInterface>(consumer);
  if (auto fold = dyn_cast<FoldOp>(consumer); fold && needsElements(fold))
    return nullptr;
  for (OpOperand *operand : dps.getDpsInputOperands()) {
    auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
    if (!producer || producer.getNumParallelLoops() != producer.getNumLoops())
      continue;
    if (consumer->getNumOperands() + producer->getNumOperands() > maxOperands ||
        getBodyCost(consumer) + getBodyCost(producer) > maxBodyCost)
      continue;
    if (!wants(producer, *operand))
      continue;
    std::optional<AffineMap> loops = getFusedLoops(*operand, producer);
    if (!loops)
      continue;
    bool producerIsCheap = isCheap(producer);
    if (auto fold = dyn_cast<FoldOp>(consumer)) {
      if (!fuseIntoFold(fold, *operand, producer, *loops))
        continue;
      if (isOpTriviallyDead(producer))
        producer.erase();
      return fold;
    }
    if (!linalg::areElementwiseOpsFusable(operand))
      continue;
    IRRewriter rewriter(consumer->getContext());
    rewriter.setInsertionPoint(consumer);
    // If the producer is cheap and has other uses, or if the consumer uses it
    // twice, a copy of the producer is fused.
    bool isOnlyUse = producer->hasOneUse();
    bool usedTwice = llvm::count_if(consumer->getOperands(), [&](Value value) {
                       return value.getDefiningOp() == producer;
                     }) > 1;
    if ((!isOnlyUse && producerIsCheap) || usedTwice) {
      auto copy = cast<linalg::GenericOp>(rewriter.clone(*producer));
      operand->set(
          copy->getResult(cast<OpResult>(operand->get()).getResultNumber()));
      if (producer.use_empty())
        producer.erase();
      producer = copy;
    }
    FailureOr<linalg::ElementwiseOpFusionResult> fused =
        linalg::fuseElementwiseOps(rewriter, operand);
    if (failed(fused))
      continue;
    Operation *result = fused->fusedOp;
    for (auto [from, to] : fused->replacements)
      rewriter.replaceAllUsesWith(from, to);
    rewriter.eraseOp(consumer);
    // A producer with checks has no other users, and the consumer runs all
    // iterations of the producer (see `wants`), so every check still runs.
    if (producer.use_empty())
      rewriter.eraseOp(producer);
    dropInputs(result);
    return result;
  }
  return nullptr;
}

/// (V5) Moves a barrier from a cheap value to the inputs of the value, which is
/// then recomputed after the barrier instead of being stored. Returns the first
/// new barrier, or null if the value is not cheap.
static Operation *moveBarrier(BarrierOp barrier) {
  auto producer = barrier.getOperand().getDefiningOp<linalg::GenericOp>();
  if (!producer || producer->getNumResults() != 1 ||
      producer.getNumParallelLoops() != producer.getNumLoops() ||
      !isCheap(producer) || hasGatherOrCheck(producer) ||
      producer.getNumDpsInputs() == 0 ||
      !llvm::all_of(producer.getDpsInputs(), [](Value input) {
        return isa<RankedTensorType>(input.getType());
      }))
    return nullptr;
  OpBuilder builder(barrier);
  IRMapping mapping;
  for (Value input : producer.getDpsInputs())
    mapping.map(input, BarrierOp::create(builder, barrier.getLoc(), input));
  Operation *first =
      mapping.lookup(producer.getDpsInputs().front()).getDefiningOp();
  barrier.replaceAllUsesWith(builder.clone(*producer, mapping)->getResult(0));
  barrier.erase();
  return first;
}

/// Moves reshapes out of chains of elementwise operations, so that all
/// operations of a chain have the same loops. This changes no values, only
/// indices.
static void moveReshapes(func::FuncOp function) {
  auto isElementwise = [](Operation *op) {
    auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
    return generic && generic.getNumParallelLoops() == generic.getNumLoops();
  };
  auto control = [&](OpOperand *operand) {
    Operation *producer = operand->get().getDefiningOp();
    Operation *consumer = operand->getOwner();
    if (isa<tensor::ExpandShapeOp>(consumer))
      return isElementwise(producer) && producer->hasOneUse() &&
             llvm::any_of(consumer->getUsers(), isElementwise);
    if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(producer)) {
      Operation *source = collapse.getSrc().getDefiningOp();
      return isElementwise(consumer) && collapse->hasOneUse() &&
             isElementwise(source) && source->hasOneUse();
    }
    return false;
  };
  RewritePatternSet patterns(function.getContext());
  linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, control);
  tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns,
                                                       function.getContext());
  tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns,
                                                     function.getContext());
  populateExactFolding(patterns);
  GreedyRewriteConfig config;
  config.enableFolding(false);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  // If the patterns do not converge, some reshapes remain, which is harmless.
  (void)applyPatternsGreedily(function, std::move(patterns), config);
}

void FuseElementwise::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return;
  Block &body = function.getBody().front();
  for (auto structured : body.getOps<DestinationStyleOpInterface>())
    if (!llvm::all_of(structured->getOperandTypes(), [](Type type) {
          auto tensor = dyn_cast<RankedTensorType>(type);
          return !isa<ShapedType>(type) || (tensor && tensor.hasStaticShape());
        })) {
      structured.emitOpError("expected tensors of static shape");
      return signalPassFailure();
    }
  for (auto generic : body.getOps<linalg::GenericOp>()) {
    dropUnreadInits(generic);
    extractBeforeTransposition(generic);
    readFlips(generic);
    dropInputs(generic);
  }
  moveReshapes(function);
  // Producers come first in the block, so they are fused with their own
  // producers before a consumer is visited.
  for (Operation *op = &body.front(); op;) {
    if (auto barrier = dyn_cast<BarrierOp>(op))
      if (Operation *first = moveBarrier(barrier)) {
        op = first;
        continue;
      }
    if (!isa<linalg::GenericOp, FoldOp>(op)) {
      op = op->getNextNode();
      continue;
    }
    if (auto generic = dyn_cast<linalg::GenericOp>(op);
        generic && generic.getNumParallelLoops() != generic.getNumLoops()) {
      op = op->getNextNode();
      continue;
    }
    while (Operation *fused = fuseOnce(op))
      op = fused;
    op = op->getNextNode();
  }
  // Expands affine expressions of loop indices to arithmetic.
  function.walk([](affine::AffineApplyOp apply) {
    OpBuilder builder(apply);
    std::optional<SmallVector<Value, 8>> values =
        affine::expandAffineMap(builder, apply.getLoc(), apply.getAffineMap(),
                                llvm::to_vector<8>(apply.getOperands()));
    apply.replaceAllUsesWith(values->front());
    apply.erase();
  });
  // Removes operations that fusion has left unused. Consumers are visited
  // first, so that whole chains disappear.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      dropResults(generic);
}
