//===- FoldOp.cpp - repro.fold --------------------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AffineBounds.h"
#include "StructuredOpImpl.h"

#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Assembly: iterators [parallel, reduction]
//===----------------------------------------------------------------------===//

static ParseResult parseIterators(OpAsmParser &parser, ArrayAttr &iterators) {
  SmallVector<Attribute> values;
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef keyword;
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<utils::IteratorType> type =
        utils::symbolizeIteratorType(keyword);
    if (!type)
      return parser.emitError(loc, "expected 'parallel' or 'reduction', got '")
             << keyword << "'";
    values.push_back(linalg::IteratorTypeAttr::get(parser.getContext(), *type));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))
    return failure();
  iterators = parser.getBuilder().getArrayAttr(values);
  return success();
}

static void printIterators(OpAsmPrinter &printer, Operation *,
                           ArrayAttr iterators) {
  printer << "[";
  llvm::interleaveComma(iterators, printer, [&](Attribute type) {
    printer << utils::stringifyIteratorType(
        cast<linalg::IteratorTypeAttr>(type).getValue());
  });
  printer << "]";
}

#define GET_OP_CLASSES
#include "dialects/Repro/IR/ReproOps.cpp.inc"

//===----------------------------------------------------------------------===//
// FoldOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(FoldOp)

bool FoldOp::bufferizesToMemoryRead(OpOperand &,
                                    const bufferization::AnalysisState &) {
  return true;
}

/// Whether (F4) allows the operation as the step of a fold. Excludes fma, for
/// which only one operand may be the accumulator.
static bool isFoldingOp(Operation *op) {
  return isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
             arith::AddIOp, arith::MulIOp, arith::MaxSIOp, arith::MinSIOp,
             arith::MaxUIOp, arith::MinUIOp, arith::AndIOp, arith::OrIOp,
             arith::XOrIOp>(op);
}

/// Returns the operation op of a body that computes `yielded` as
/// op(accumulator, f(inputs)); null for other bodies. Ignores users of the
/// accumulator or of op for which `counted` is false.
static Operation *findStep(Block *body, BlockArgument accumulator,
                           Value yielded,
                           function_ref<bool(Operation *)> counted) {
  Operation *step = yielded.getDefiningOp();
  if (!step || step->getBlock() != body)
    return nullptr;
  unsigned uses = 0;
  for (OpOperand &use : accumulator.getUses())
    if (counted(use.getOwner())) {
      if (use.getOwner() != step || ++uses > 1)
        return nullptr;
    }
  if (uses == 0)
    return nullptr;
  // Another user of the step would read intermediate results, which depend on
  // the order.
  for (Operation *user : step->getUsers())
    if (user != body->getTerminator() && counted(user))
      return nullptr;
  if (auto fma = dyn_cast<math::FmaOp>(step))
    return fma.getC() == accumulator ? step : nullptr;
  return isFoldingOp(step) ? step : nullptr;
}

SmallVector<int64_t> FoldOp::getExtents() {
  SmallVector<int64_t> sizes, extents;
  for (OpOperand &operand : getOperation()->getOpOperands())
    llvm::append_range(sizes, getShape(&operand));
  // The extent of a loop is the size of a dimension that this loop alone
  // indexes.
  for (AffineExpr result : getShapesToLoopsMap().getResults())
    extents.push_back(sizes[cast<AffineDimExpr>(result).getPosition()]);
  return extents;
}

Operation *FoldOp::getStep() {
  Block *body = getBody();
  if (getOutputs().size() != 1 || body->getTerminator()->getNumOperands() != 1)
    return nullptr;
  return findStep(body, body->getArguments().back(),
                  body->getTerminator()->getOperand(0),
                  [](Operation *) { return true; });
}

ArrayAttr FoldOp::getConstantInits() {
  return ReproDialect::InitAttrHelper(getContext()).getAttr(*this);
}

/// (K4) The sum of 2^18 products of 22-bit integers fits into an i64.
static constexpr int64_t kMaxExactTerms = int64_t(1) << 18;

/// Checks that `order` may replace the order of the fold's sum.
static LogicalResult verifyPlain(FoldOp fold, StringRef order) {
  std::optional<ContractionBody> contraction = getContraction(fold);
  if (contraction && contraction->isPlain())
    return success();
  return fold.emitOpError(order)
         << " is for contractions: expected acc = math.fma(x, y, acc) in f32 "
            "of two inputs or their extensions, and no other operation";
}

static LogicalResult verifyExact(FoldOp fold) {
  if (failed(verifyPlain(fold, "(K4) #repro.exact")))
    return failure();
  int64_t terms = 1;
  for (auto [extent, type] :
       llvm::zip_equal(fold.getExtents(), fold.getIteratorTypesArray())) {
    if (type != utils::IteratorType::reduction)
      continue;
    if (ShapedType::isDynamic(extent))
      return fold.emitOpError("(K4) #repro.exact needs reduction dimensions of "
                              "static extent");
    if (llvm::MulOverflow(terms, extent, terms) || terms > kMaxExactTerms)
      return fold.emitOpError("(K4) expected at most ")
             << kMaxExactTerms << " reduction elements for #repro.exact";
  }
  return success();
}

static LogicalResult verifyFdpa(FoldOp fold, FdpaAttr fdpa) {
  if (failed(verifyPlain(fold, "(M4) #repro.fdpa")))
    return failure();
  if (fdpa.getGroup() != 1)
    return fold.emitOpError(
               "(M4) expected no groups of products without scales "
               "of blocks, got group = ")
           << fdpa.getGroup();
  Type result = getElementTypeOrSelf(fold.getOutputs()[0].getType());
  if (fdpa.getStart() == SumStart::init &&
      fdpa.getRound() == SumRounding::rne_f16 && !result.isF16())
    return fold.emitOpError("(M4) start = init with rne_f16 needs results of "
                            "f16, got ")
           << result;
  return success();
}

bool repro::isOrderIndependent(Operation *step) {
  return isa<arith::MaximumFOp, arith::MinimumFOp>(step) ||
         step->getResult(0).getType().isIntOrIndex();
}

static LogicalResult verifyConstantInits(FoldOp fold) {
  StringRef name = ReproDialect::InitAttrHelper::getNameStr();
  if (!fold->hasAttr(name))
    return success();
  ArrayAttr inits = fold.getConstantInits();
  if (!inits || inits.size() != fold.getOutputs().size())
    return fold.emitOpError("expected '")
           << name << "' to have one constant per output ("
           << fold.getOutputs().size() << "), got " << fold->getAttr(name);
  for (auto [index, init, output] : llvm::enumerate(inits, fold.getOutputs())) {
    Type type = getElementTypeOrSelf(output.getType());
    auto value = dyn_cast<TypedAttr>(init);
    if (!value || value.getType() != type)
      return fold.emitOpError("expected constant #")
             << index << " of '" << name << "' to be of type " << type
             << ", got " << init;
  }
  return success();
}

LogicalResult FoldOp::verify() {
  if (failed(structured::verifyDestinationStyle(*this)))
    return failure();
  if (getOutputs().empty())
    return emitOpError("expected at least one output");
  SmallVector<AffineMap> maps = getIndexingMapsArray();
  SmallVector<utils::IteratorType> iterators = getIteratorTypesArray();
  if (maps.size() != getNumOperands())
    return emitOpError("expected one indexing map per operand (")
           << getNumOperands() << "), got " << maps.size();
  for (auto [index, map, operand] :
       llvm::enumerate(maps, getOperation()->getOpOperands())) {
    if (map.getNumDims() != iterators.size() || map.getNumSymbols())
      return emitOpError("indexing map #")
             << index << " has " << map.getNumDims() << " dimensions and "
             << map.getNumSymbols() << " symbols, expected " << iterators.size()
             << " and 0";
    if (map.getNumResults() != getShape(&operand).size())
      return emitOpError("indexing map #")
             << index << " has " << map.getNumResults()
             << " results, expected the operand's rank "
             << getShape(&operand).size();
  }
  for (auto [index, map] :
       llvm::enumerate(ArrayRef(maps).drop_front(getInputs().size()))) {
    if (!map.isProjectedPermutation())
      return emitOpError("map of output #")
             << index << " must be a projected permutation";
    for (auto [dim, type] : llvm::enumerate(iterators))
      if (map.isFunctionOfDim(dim) != (type == utils::IteratorType::parallel))
        return emitOpError("map of output #")
               << index
               << " must name every parallel dimension and no reduction "
                  "dimension, which fails for dimension "
               << dim;
  }
  if (!getShapesToLoopsMap())
    return emitOpError("operand shapes do not determine the iteration space");
  auto order = dyn_cast_if_present<OrderAttr>(getOrderAttr());
  int64_t reductions = llvm::count(iterators, utils::IteratorType::reduction);
  if (order && order.getRun() > reductions)
    return emitOpError("(F1) run is ")
           << order.getRun() << ", but there are only " << reductions
           << " reduction dimensions";
  if (failed(verifyConstantInits(*this)))
    return failure();
  SmallVector<IndexedShape> accesses;
  for (auto [map, operand] :
       llvm::zip_equal(maps, getOperation()->getOpOperands()))
    accesses.push_back({map, getShape(&operand)});
  return verifyAccesses(*this, accesses);
}

LogicalResult FoldOp::verifyRegions() {
  Block &body = *getBody();
  if (body.getNumArguments() != getNumOperands())
    return emitOpError("expected one block argument per operand (")
           << getNumOperands() << "), got " << body.getNumArguments();
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("expected the body to end with 'repro.yield'");
  if (yield->getNumOperands() != getOutputs().size())
    return emitOpError("expected one yielded value per output (")
           << getOutputs().size() << "), got " << yield->getNumOperands();
  Operation *step = getStep();
  for (auto [index, argument, operand] :
       llvm::enumerate(body.getArguments(), getOperands())) {
    Type expected = getElementTypeOrSelf(operand.getType());
    bool isAccumulator = index >= getInputs().size();
    auto floatType = dyn_cast<FloatType>(expected);
    if (isAccumulator && floatType && floatType.getWidth() < 32 &&
        isa_and_nonnull<arith::AddFOp, arith::MulFOp, math::FmaOp>(step))
      expected = Float32Type::get(getContext()); // (F7)
    if (argument.getType() != expected)
      return emitOpError("block argument #")
             << index << " has type " << argument.getType() << ", expected "
             << expected;
  }
  for (auto [index, value, argument] :
       llvm::enumerate(yield->getOperands(),
                       body.getArguments().drop_front(getInputs().size())))
    if (value.getType() != argument.getType())
      return emitOpError("yielded value #")
             << index << " has type " << value.getType()
             << ", expected that of its accumulator, " << argument.getType();
  Attribute order = getOrderAttr();
  if (!order)
    return success();
  if (!step) {
    if (!isa<SequentialAttr>(order))
      return emitOpError("(F6) a body that is not op(acc, f(inputs)) folds in "
                         "#repro.sequential order, got ")
             << order;
    return success();
  }
  if (isa<ExactAttr>(order))
    return verifyExact(*this);
  if (auto fdpa = dyn_cast<FdpaAttr>(order))
    return verifyFdpa(*this, fdpa);
  bool independent = isOrderIndependent(step);
  if (independent && !isa<AnyOrderAttr>(order))
    return emitOpError("(F5) the result cannot depend on the order: expected "
                       "#repro.any_order, got ")
           << order;
  if (!independent && !isa<OrderAttr>(order))
    return emitOpError("(F1) expected #repro.order for a fold by '")
           << step->getName() << "', got " << order;
  return success();
}

LogicalResult IndexOp::verify() {
  auto fold = cast<FoldOp>((*this)->getParentOp());
  int64_t dims = fold.getIteratorTypes().size();
  if (int64_t(getDim()) >= dims)
    return emitOpError("dimension is ")
           << getDim() << ", expected less than the fold's " << dims
           << " dimensions";
  return success();
}

//===----------------------------------------------------------------------===//
// Canonicalization: every pattern keeps every bit (V3) and the order
//===----------------------------------------------------------------------===//

/// Replaces `fold` by a fold with only the inputs in `keepInputs` and the
/// outputs in `keepOutputs`. The block arguments and results of removed inputs
/// and outputs must be unused.
static void replaceFold(FoldOp fold, const BitVector &keepInputs,
                        const BitVector &keepOutputs, Attribute order,
                        PatternRewriter &rewriter) {
  SmallVector<Value> inputs, outputs, yielded;
  SmallVector<AffineMap> maps;
  SmallVector<Type> resultTypes;
  Block *body = fold.getBody();
  unsigned numInputs = fold.getInputs().size();
  BitVector dropped(body->getNumArguments());
  SmallVector<AffineMap> oldMaps = fold.getIndexingMapsArray();
  for (unsigned i = 0; i < numInputs; ++i) {
    if (!keepInputs[i]) {
      dropped.set(i);
      continue;
    }
    inputs.push_back(fold.getInputs()[i]);
    maps.push_back(oldMaps[i]);
  }
  Operation *yield = body->getTerminator();
  for (unsigned i = 0; i < keepOutputs.size(); ++i) {
    if (!keepOutputs[i]) {
      dropped.set(numInputs + i);
      continue;
    }
    outputs.push_back(fold.getOutputs()[i]);
    maps.push_back(oldMaps[numInputs + i]);
    yielded.push_back(yield->getOperand(i));
    if (fold->getNumResults())
      resultTypes.push_back(fold->getResult(i).getType());
  }
  auto newFold = FoldOp::create(rewriter, fold.getLoc(), resultTypes, inputs,
                                outputs, rewriter.getAffineMapArrayAttr(maps),
                                fold.getIteratorTypes(), order);
  newFold->setDiscardableAttrs(fold->getDiscardableAttrDictionary());
  rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(yielded); });
  // Erase users first, so that the operands of an erased operation become
  // unused too.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (isOpTriviallyDead(&op))
      rewriter.eraseOp(&op);
  body->eraseArguments(dropped);
  rewriter.inlineRegionBefore(fold.getRegion(), newFold.getRegion(),
                              newFold.getRegion().end());
  SmallVector<Value> results(fold->getNumResults());
  unsigned next = 0;
  for (unsigned i = 0; i < results.size(); ++i)
    if (keepOutputs[i])
      results[i] = newFold->getResult(next++);
  rewriter.replaceOp(fold, results);
}

namespace {
/// If an input is a cast from a more static shape, replaces the input by the
/// source of the cast.
struct FoldInputCast : public OpRewritePattern<FoldOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(FoldOp fold,
                                PatternRewriter &rewriter) const override {
    for (OpOperand &operand : fold.getInputsMutable()) {
      auto cast = operand.get().getDefiningOp<tensor::CastOp>();
      if (!cast || !tensor::canFoldIntoConsumerOp(cast))
        continue;
      rewriter.modifyOpInPlace(fold, [&] { operand.set(cast.getSource()); });
      return success();
    }
    return failure();
  }
};

/// Drops an input that the body does not read, or that has the value and the
/// map of an earlier input, if the remaining operands still determine the
/// iteration space.
struct DropFoldInputs : public OpRewritePattern<FoldOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(FoldOp fold,
                                PatternRewriter &rewriter) const override {
    unsigned numInputs = fold.getInputs().size();
    SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
    for (unsigned i = 0; i < numInputs; ++i) {
      BlockArgument argument = fold.getBody()->getArgument(i);
      unsigned same = 0;
      while (same < i && (fold.getInputs()[same] != fold.getInputs()[i] ||
                          maps[same] != maps[i]))
        ++same;
      if (same == i && !argument.use_empty())
        continue;
      SmallVector<AffineMap> rest(maps);
      rest.erase(rest.begin() + i);
      if (!inversePermutation(concatAffineMaps(rest, fold.getContext())))
        continue;
      if (same != i)
        rewriter.replaceAllUsesWith(argument,
                                    fold.getBody()->getArgument(same));
      BitVector keepInputs(numInputs, true);
      keepInputs.reset(i);
      replaceFold(fold, keepInputs, BitVector(fold.getOutputs().size(), true),
                  fold.getOrderAttr(), rewriter);
      return success();
    }
    return failure();
  }
};

/// Drops an unused result of a sequential fold if no other result reads its
/// accumulator. If only one result remains and its step is one of (F4), the
/// step must not depend on the order: (F6) then requires an order of (F1),
/// which adds init last, but a sequential fold starts from init.
struct DropFoldResults : public OpRewritePattern<FoldOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(FoldOp fold,
                                PatternRewriter &rewriter) const override {
    if (!isa_and_present<SequentialAttr>(fold.getOrderAttr()) ||
        fold->getNumResults() != fold.getOutputs().size())
      return failure();
    Block *body = fold.getBody();
    unsigned numInputs = fold.getInputs().size();
    BitVector needed(fold.getOutputs().size());
    llvm::SmallPtrSet<Operation *, 16> visited;
    SmallVector<Value> worklist;
    auto need = [&](unsigned output) {
      if (needed[output])
        return;
      needed.set(output);
      worklist.push_back(body->getTerminator()->getOperand(output));
    };
    auto visit = [&](Operation *op) {
      if (visited.insert(op).second)
        op->walk([&](Operation *nested) {
          llvm::append_range(worklist, nested->getOperands());
        });
    };
    for (OpResult result : fold->getResults())
      if (!result.use_empty())
        need(result.getResultNumber());
    for (Operation &op : body->without_terminator())
      if (!isMemoryEffectFree(&op))
        visit(&op);
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        if (argument.getOwner() == body && argument.getArgNumber() >= numInputs)
          need(argument.getArgNumber() - numInputs);
        continue;
      }
      if (Operation *op = body->findAncestorOpInBlock(*value.getDefiningOp()))
        visit(op);
    }
    if (needed.all() || needed.none())
      return failure();
    Attribute order = fold.getOrderAttr();
    if (needed.count() == 1) {
      unsigned output = needed.find_first();
      auto isNeeded = [&](Operation *user) {
        return visited.contains(body->findAncestorOpInBlock(*user));
      };
      if (Operation *step =
              findStep(body, body->getArgument(numInputs + output),
                       body->getTerminator()->getOperand(output), isNeeded)) {
        if (!isOrderIndependent(step))
          return failure();
        order = AnyOrderAttr::get(fold.getContext());
      }
    }
    // Fail if the remaining operands do not determine the iteration space.
    SmallVector<AffineMap> maps;
    for (auto [index, map] : llvm::enumerate(fold.getIndexingMapsArray()))
      if (index < numInputs || needed[index - numInputs])
        maps.push_back(map);
    if (!inversePermutation(concatAffineMaps(maps, fold.getContext())))
      return failure();
    replaceFold(fold, BitVector(numInputs, true), needed, order, rewriter);
    return success();
  }
};
} // namespace

void FoldOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                         MLIRContext *context) {
  patterns.add<FoldInputCast, DropFoldInputs, DropFoldResults>(context);
}
