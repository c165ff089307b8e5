//===- LinalgToRepro.cpp - Reductions become folds ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass convert-linalg-to-repro (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: generalizes linalg operations and visits
// them in reverse order, so that each reduction becomes a repro.fold or
// repro.arg_reduce and every linalg.generic that remains is parallel (F1).
//
//===----------------------------------------------------------------------===//

#include "Conversion/Passes.h"
#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::repro {
#define GEN_PASS_DEF_CONVERTLINALGTOREPRO
#include "lib/Conversion/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Erases the operations of `body` without uses or effects. Afterwards, the
/// body reads an operand if and only if the operand's block argument has uses.
static void eraseDeadOps(RewriterBase &rewriter, Block &body) {
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      rewriter.eraseOp(op);
}

/// Returns the needed results of `op`: those with uses, and those whose
/// accumulator is read by a needed value or by a check of the body.
static llvm::SmallSetVector<unsigned, 4>
getNeededResults(linalg::GenericOp op) {
  Block *body = op.getBody();
  unsigned numInputs = op.getNumDpsInputs();
  llvm::SmallSetVector<unsigned, 4> needed;
  SmallVector<Value> worklist;
  auto need = [&](unsigned result) {
    if (needed.insert(result))
      worklist.push_back(body->getTerminator()->getOperand(result));
  };
  for (OpResult result : op->getResults())
    if (!result.use_empty())
      need(result.getResultNumber());
  for (Operation &inner : body->without_terminator())
    if (!isMemoryEffectFree(&inner))
      llvm::append_range(worklist, inner.getOperands());
  llvm::SmallDenseSet<Value> visited;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!visited.insert(value).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() == body && argument.getArgNumber() >= numInputs)
        need(argument.getArgNumber() - numInputs);
    } else if (Operation *inner = value.getDefiningOp();
               inner->getBlock() == body) {
      llvm::append_range(worklist, inner->getOperands());
    }
  }
  return needed;
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// Returns the reassociation that removes the dimensions that `map` indexes by
/// a constant; std::nullopt if there are no such dimensions.
static std::optional<SmallVector<ReassociationIndices>>
groupConstantResults(AffineMap map) {
  auto isConstant = [](AffineExpr expr) {
    return isa<AffineConstantExpr>(expr);
  };
  if (llvm::none_of(map.getResults(), isConstant))
    return std::nullopt;
  SmallVector<ReassociationIndices> groups;
  if (llvm::all_of(map.getResults(), isConstant))
    return groups;
  bool hasKept = true;
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    bool keep = !isConstant(expr);
    if (groups.empty() || (keep && hasKept)) {
      groups.emplace_back();
      hasKept = false;
    }
    groups.back().push_back(dim);
    hasKept |= keep;
  }
  return groups;
}

/// Rebuilds `op` without unneeded results (F6) and with projected permutations
/// as output maps: collapses the dimensions of outputs that a constant indexes,
/// which have extent 1, and expands the results. Returns null after an error.
static linalg::GenericOp normalizeOutputs(IRRewriter &rewriter,
                                          linalg::GenericOp op) {
  Location loc = op.getLoc();
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  unsigned numInputs = op.getNumDpsInputs();
  llvm::SmallSetVector<unsigned, 4> needed = getNeededResults(op);
  if (needed.empty())
    needed.insert(0);
  bool changed = needed.size() != op->getNumResults();
  for (AffineMap map : ArrayRef(maps).drop_front(numInputs))
    changed |= groupConstantResults(map).has_value();
  if (!changed)
    return op;

  rewriter.setInsertionPoint(op);
  SmallVector<AffineMap> newMaps(maps.begin(), maps.begin() + numInputs);
  SmallVector<Value> outputs;
  SmallVector<unsigned> kept;
  for (unsigned result = 0; result < op->getNumResults(); ++result) {
    if (!needed.contains(result))
      continue;
    kept.push_back(result);
    Value init = op.getOutputs()[result];
    AffineMap map = maps[numInputs + result];
    if (auto groups = groupConstantResults(map)) {
      auto type = cast<RankedTensorType>(init.getType());
      SmallVector<int64_t> shape;
      SmallVector<AffineExpr> exprs;
      for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
        auto constant = dyn_cast<AffineConstantExpr>(expr);
        if (!constant) {
          shape.push_back(type.getDimSize(dim));
          exprs.push_back(expr);
        } else if (constant.getValue() != 0 || type.getDimSize(dim) != 1) {
          op.emitOpError("output #")
              << result << " is indexed by " << constant.getValue()
              << " in dimension " << dim
              << ", expected 0 in a dimension of extent 1, got extent "
              << type.getDimSize(dim);
          return {};
        }
      }
      map = AffineMap::get(map.getNumDims(), 0, exprs, op.getContext());
      if (init.getDefiningOp<tensor::EmptyOp>())
        init = tensor::EmptyOp::create(rewriter, loc, shape,
                                       type.getElementType());
      else
        init = tensor::CollapseShapeOp::create(
            rewriter, loc, RankedTensorType::get(shape, type.getElementType()),
            init, *groups);
    }
    outputs.push_back(init);
    newMaps.push_back(map);
  }

  Block *body = op.getBody();
  SmallVector<Value> yielded;
  for (unsigned result : kept)
    yielded.push_back(body->getTerminator()->getOperand(result));
  rewriter.modifyOpInPlace(body->getTerminator(), [&] {
    body->getTerminator()->setOperands(yielded);
  });
  eraseDeadOps(rewriter, *body);
  for (unsigned result = op->getNumResults(); result-- > 0;)
    if (!needed.contains(result))
      body->eraseArgument(numInputs + result);

  auto replacement = linalg::GenericOp::create(
      rewriter, loc, TypeRange(ValueRange(outputs)), op.getInputs(), outputs,
      newMaps, op.getIteratorTypesArray());
  rewriter.inlineRegionBefore(op.getRegion(), replacement.getRegion(),
                              replacement.getRegion().begin());
  for (auto [index, result] : llvm::enumerate(kept)) {
    Value value = replacement.getResult(index);
    if (auto groups = groupConstantResults(maps[numInputs + result]))
      value = tensor::ExpandShapeOp::create(
          rewriter, loc, op->getResult(result).getType(), value, *groups);
    rewriter.replaceAllUsesWith(op->getResult(result), value);
  }
  rewriter.eraseOp(op);
  return replacement;
}

//===----------------------------------------------------------------------===//
// (D2) arg-max and arg-min
//===----------------------------------------------------------------------===//

/// Returns the constant that every element of `value` equals; null if no such
/// constant is known.
static TypedAttr getFilledConstant(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    if (auto fill = dyn_cast<linalg::GenericOp>(op);
        fill && fill->getNumResults() == 1) {
      Value yielded = fill.getBody()->getTerminator()->getOperand(0);
      if (auto argument = dyn_cast<BlockArgument>(yielded);
          argument && argument.getOwner() == fill.getBody() &&
          int64_t(argument.getArgNumber()) < fill.getNumDpsInputs())
        yielded = fill.getInputs()[argument.getArgNumber()];
      value = yielded;
      if (isa<BlockArgument>(value) || value.getDefiningOp() == op)
        return {};
      continue;
    }
    Attribute constant;
    if (!matchPattern(value, m_Constant(&constant)))
      return {};
    if (auto splat = dyn_cast<SplatElementsAttr>(constant))
      return splat.getSplatValue<TypedAttr>();
    return dyn_cast<TypedAttr>(constant);
  }
  return {};
}

/// Whether `attr` may be the initial value of an arg-max (arg-min): no element
/// is less (greater) than it, so the result is the first element or one that is
/// equal to it.
static bool isExtremeStart(TypedAttr attr, ArgKind kind, bool isUnsigned) {
  if (auto number = dyn_cast_or_null<FloatAttr>(attr)) {
    const APFloat &value = number.getValue();
    return value.isInfinity() && value.isNegative() == (kind == ArgKind::max);
  }
  auto number = dyn_cast_or_null<IntegerAttr>(attr);
  if (!number)
    return false;
  const APInt &value = number.getValue();
  if (kind == ArgKind::max)
    return isUnsigned ? value.isMinValue() : value.isMinSignedValue();
  return isUnsigned ? value.isMaxValue() : value.isMaxSignedValue();
}

/// The arg-max or arg-min that a body `(maximum(x, acc), select(x > acc, index,
/// accIndex))` computes.
struct ArgBody {
  ArgKind kind;
  bool isUnsigned = false;
};

/// Returns which extreme the comparison `compare` of `x` with `acc` selects;
/// std::nullopt if `compare` is not such a comparison.
static std::optional<ArgBody> getComparison(Operation *compare, Value x,
                                            Value acc) {
  if (!compare || compare->getNumOperands() != 2)
    return std::nullopt;
  bool swapped = compare->getOperand(0) == acc && compare->getOperand(1) == x;
  if (!swapped &&
      (compare->getOperand(0) != x || compare->getOperand(1) != acc))
    return std::nullopt;
  auto make = [&](bool greater, bool isUnsigned) {
    return ArgBody{greater != swapped ? ArgKind::max : ArgKind::min,
                   isUnsigned};
  };
  if (auto cmpf = dyn_cast<arith::CmpFOp>(compare)) {
    switch (cmpf.getPredicate()) {
    case arith::CmpFPredicate::OGT:
    case arith::CmpFPredicate::UGT:
      return make(true, false);
    case arith::CmpFPredicate::OLT:
    case arith::CmpFPredicate::ULT:
      return make(false, false);
    default:
      return std::nullopt;
    }
  }
  if (auto cmpi = dyn_cast<arith::CmpIOp>(compare)) {
    switch (cmpi.getPredicate()) {
    case arith::CmpIPredicate::sgt:
      return make(true, false);
    case arith::CmpIPredicate::slt:
      return make(false, false);
    case arith::CmpIPredicate::ugt:
      return make(true, true);
    case arith::CmpIPredicate::ult:
      return make(false, true);
    default:
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Returns the arg-max or arg-min that the body of `op` computes along the loop
/// `reduction`; std::nullopt if it computes something else.
static std::optional<ArgBody> matchArgBody(linalg::GenericOp op,
                                           unsigned reduction) {
  Block *body = op.getBody();
  Value x = body->getArgument(0), acc = body->getArgument(1),
        accIndex = body->getArgument(2);
  Operation *yield = body->getTerminator();
  Operation *value = yield->getOperand(0).getDefiningOp();
  auto index = yield->getOperand(1).getDefiningOp<arith::SelectOp>();
  if (!value || !index || index.getFalseValue() != accIndex)
    return std::nullopt;
  auto cast = index.getTrueValue().getDefiningOp<arith::IndexCastOp>();
  auto position =
      cast ? cast.getIn().getDefiningOp<linalg::IndexOp>() : linalg::IndexOp();
  if (!position || position.getDim() != reduction)
    return std::nullopt;
  std::optional<ArgBody> result =
      getComparison(index.getCondition().getDefiningOp(), x, acc);
  if (!result)
    return std::nullopt;
  if (auto select = dyn_cast<arith::SelectOp>(value)) {
    if (select.getCondition() == index.getCondition() &&
        select.getTrueValue() == x && select.getFalseValue() == acc)
      return result;
    return std::nullopt;
  }
  bool isExtreme =
      result->kind == ArgKind::max
          ? isa<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>(value)
          : isa<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>(value);
  bool operands = value->getNumOperands() == 2 &&
                  ((value->getOperand(0) == x && value->getOperand(1) == acc) ||
                   (value->getOperand(0) == acc && value->getOperand(1) == x));
  return isExtreme && operands ? result : std::nullopt;
}

/// (D2) Replaces an arg-max or arg-min; returns false for other operations.
static bool convertArgReduce(IRRewriter &rewriter, linalg::GenericOp op) {
  if (op.getNumReductionLoops() != 1 || op.getNumDpsInputs() != 1 ||
      op.getNumDpsInits() != 2)
    return false;
  SmallVector<unsigned> reductions;
  op.getReductionDims(reductions);
  unsigned reduction = reductions.front();
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineMap expected = maps[0].dropResult(reduction);
  auto indexType = dyn_cast<RankedTensorType>(op.getOutputs()[1].getType());
  if (!maps[0].isIdentity() || maps[1] != expected || maps[2] != expected ||
      !indexType || !indexType.getElementType().isSignlessInteger(64))
    return false;
  std::optional<ArgBody> body = matchArgBody(op, reduction);
  TypedAttr start = getFilledConstant(op.getOutputs()[0]);
  auto first =
      dyn_cast_or_null<IntegerAttr>(getFilledConstant(op.getOutputs()[1]));
  if (!body || !isExtremeStart(start, body->kind, body->isUnsigned) || !first ||
      !first.getValue().isZero() || body->isUnsigned)
    return false;
  rewriter.setInsertionPoint(op);
  SmallVector<Value> inits;
  for (Value output : op.getOutputs()) {
    auto type = cast<RankedTensorType>(output.getType());
    inits.push_back(tensor::EmptyOp::create(
        rewriter, op.getLoc(), type.getShape(), type.getElementType()));
  }
  rewriter.replaceOpWithNewOp<ArgReduceOp>(
      op, op->getResultTypes(), op.getInputs(), inits, body->kind, reduction);
  return true;
}

//===----------------------------------------------------------------------===//
// (K1), (F7): the step
//===----------------------------------------------------------------------===//

/// Extends `value` to `type`, which represents all values of its present type.
static Value extend(RewriterBase &rewriter, Location loc, Value value,
                    Type type) {
  if (value.getType() == type)
    return value;
  return arith::ExtFOp::create(rewriter, loc, type, value);
}

/// Rewrites the step as repro.fold requires: (K1) a multiplication and an
/// addition become math.fma, and (F7) an accumulator of a narrow float type is
/// widened.
static void convertStep(RewriterBase &rewriter, linalg::GenericOp op) {
  Block *body = op.getBody();
  if (op.getNumDpsInits() != 1)
    return;
  BlockArgument acc = body->getArguments().back();
  Operation *yield = body->getTerminator();
  Operation *step = yield->getOperand(0).getDefiningOp();
  if (!step || step->getBlock() != body || !acc.hasOneUse() ||
      *acc.user_begin() != step || step->getNumResults() != 1 ||
      !step->getResult(0).hasOneUse())
    return;
  if (isa<arith::MaximumFOp, arith::MinimumFOp, arith::AddIOp, arith::MulIOp,
          arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
          arith::AndIOp, arith::OrIOp, arith::XOrIOp>(step))
    return;
  bool isFma = isa<math::FmaOp>(step);
  if (isFma ? step->getOperand(2) != acc
            : !isa<arith::AddFOp, arith::MulFOp>(step))
    return;

  Location loc = step->getLoc();
  rewriter.setInsertionPoint(step);
  auto type = cast<FloatType>(acc.getType());
  if (type.getWidth() < 32) {
    type = rewriter.getF32Type();
    acc.setType(type);
  }
  auto replaceStep = [&](Operation *replacement) {
    rewriter.replaceOp(step, replacement);
    eraseDeadOps(rewriter, *body);
  };
  auto makeFma = [&](Value x, Value y) {
    BlockArgument first = getExtendedArgument(x, body);
    BlockArgument second = getExtendedArgument(y, body);
    if (first && second) {
      x = first;
      y = second;
    }
    x = extend(rewriter, loc, x, type);
    y = extend(rewriter, loc, y, type);
    replaceStep(math::FmaOp::create(rewriter, loc, x, y, acc));
  };
  if (isFma)
    return makeFma(step->getOperand(0), step->getOperand(1));
  Value element = step->getOperand(step->getOperand(0) == acc ? 1 : 0);
  if (isa<arith::AddFOp>(step))
    if (auto product = element.getDefiningOp<arith::MulFOp>())
      if (getExtendedArgument(product.getLhs(), body) &&
          getExtendedArgument(product.getRhs(), body))
        return makeFma(product.getLhs(), product.getRhs());
  if (element.getType() == type)
    return;
  element = extend(rewriter, loc, element, type);
  if (isa<arith::AddFOp>(step))
    replaceStep(arith::AddFOp::create(rewriter, loc, element, acc));
  else
    replaceStep(arith::MulFOp::create(rewriter, loc, element, acc));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static LogicalResult checkReduction(linalg::GenericOp op) {
  if (!op.hasPureTensorSemantics())
    return op.emitOpError("expected a reduction of tensors");
  for (OpOperand &operand : op->getOpOperands())
    if (auto type = dyn_cast<ShapedType>(operand.get().getType());
        type && !type.hasStaticShape())
      return op.emitOpError("operand #")
             << operand.getOperandNumber() << " has type " << type
             << ", expected a static shape";
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (OpOperand &output : op.getDpsInitsMutable()) {
    AffineMap map = op.getMatchingIndexingMap(&output);
    for (auto [dim, type] : llvm::enumerate(iterators))
      if (map.isFunctionOfDim(dim) != (type == utils::IteratorType::parallel))
        return op.emitOpError("dimension ")
               << dim << " is " << utils::stringifyIteratorType(type)
               << ", but the map of output #"
               << output.getOperandNumber() - op.getNumDpsInputs() << " is "
               << AffineMapAttr::get(map);
    if (!map.isProjectedPermutation())
      return op.emitOpError("the map of output #")
             << output.getOperandNumber() - op.getNumDpsInputs() << " is "
             << AffineMapAttr::get(map) << ", expected a projected permutation";
  }
  return success();
}

static LogicalResult convertReduction(IRRewriter &rewriter,
                                      linalg::GenericOp op) {
  if (failed(checkReduction(op)))
    return failure();
  if (convertArgReduce(rewriter, op))
    return success();
  eraseDeadOps(rewriter, *op.getBody());
  convertStep(rewriter, op);
  rewriter.setInsertionPoint(op);
  auto fold = FoldOp::create(rewriter, op.getLoc(), op->getResultTypes(),
                             op.getInputs(), op.getOutputs(),
                             op.getIndexingMaps(), op.getIteratorTypes(),
                             /*order=*/Attribute());
  rewriter.inlineRegionBefore(op.getRegion(), fold.getRegion(),
                              fold.getRegion().begin());
  Block *body = fold.getBody();
  for (auto index : llvm::to_vector(body->getOps<linalg::IndexOp>())) {
    rewriter.setInsertionPoint(index);
    rewriter.replaceOpWithNewOp<repro::IndexOp>(index, index.getType(),
                                                index.getDim());
  }
  Operation *yield = body->getTerminator();
  rewriter.setInsertionPoint(yield);
  rewriter.replaceOpWithNewOp<repro::YieldOp>(yield, yield->getOperands());
  rewriter.replaceOp(op, fold.getResults());
  return success();
}

//===----------------------------------------------------------------------===//
// Empty tensors
//===----------------------------------------------------------------------===//

/// (F6) Fills `empty` with zeros if an operation reads its elements.
static void fillReadEmpty(IRRewriter &rewriter, tensor::EmptyOp empty) {
  if (llvm::none_of(empty->getUses(), readsElements))
    return;
  Location loc = empty.getLoc();
  RankedTensorType type = empty.getType();
  rewriter.setInsertionPointAfter(empty);
  Value zero = arith::ConstantOp::create(
      rewriter, loc, rewriter.getZeroAttr(type.getElementType()));
  AffineMap scalar = AffineMap::get(type.getRank(), 0, rewriter.getContext());
  AffineMap identity = rewriter.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  auto fill = linalg::GenericOp::create(
      rewriter, loc, TypeRange{type}, ValueRange{zero}, ValueRange{empty},
      ArrayRef<AffineMap>{scalar, identity}, parallel,
      [](OpBuilder &builder, Location bodyLoc, ValueRange args) {
        linalg::YieldOp::create(builder, bodyLoc, args[0]);
      });
  rewriter.replaceUsesWithIf(empty.getResult(), fill.getResult(0),
                             readsElements);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertLinalgToRepro
    : public repro::impl::ConvertLinalgToReproBase<ConvertLinalgToRepro> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::LinalgOp> named;
    module.walk([&](linalg::LinalgOp op) {
      if (!isa<linalg::GenericOp>(op))
        named.push_back(op);
    });
    for (linalg::LinalgOp op : named) {
      rewriter.setInsertionPoint(op);
      if (failed(linalg::generalizeNamedOp(rewriter, op))) {
        op.emitOpError("cannot be written as a linalg.generic on tensors");
        return signalPassFailure();
      }
    }

    // Visit consumers first: converting one may remove its use of a producer's
    // result, which the producer then does not need to compute.
    SmallVector<linalg::GenericOp> generics;
    module.walk([&](linalg::GenericOp op) { generics.push_back(op); });
    for (linalg::GenericOp op : llvm::reverse(generics)) {
      if (isOpTriviallyDead(op)) {
        rewriter.eraseOp(op);
        continue;
      }
      op = normalizeOutputs(rewriter, op);
      if (!op ||
          (op.getNumReductionLoops() && failed(convertReduction(rewriter, op))))
        return signalPassFailure();
    }
    SmallVector<tensor::EmptyOp> empties;
    module.walk([&](tensor::EmptyOp op) { empties.push_back(op); });
    for (tensor::EmptyOp op : empties)
      fillReadEmpty(rewriter, op);
  }
};
} // namespace
