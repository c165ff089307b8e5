//===- FoldOp.cpp - repro.fold --------------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StructuredOpImpl.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"

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

/// Whether the operation folds an accumulator by an operation of (F4).
static bool isFoldingOp(Operation *op) {
  return isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
             arith::AddIOp, arith::MulIOp, arith::MaxSIOp, arith::MinSIOp,
             arith::MaxUIOp, arith::MinUIOp, arith::AndIOp, arith::OrIOp,
             arith::XOrIOp>(op);
}

Operation *FoldOp::getStep() {
  Block *body = getBody();
  if (getOutputs().size() != 1 || body->getTerminator()->getNumOperands() != 1)
    return nullptr;
  BlockArgument accumulator = body->getArguments().back();
  Operation *step = body->getTerminator()->getOperand(0).getDefiningOp();
  if (!step || step->getBlock() != body || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != step)
    return nullptr;
  if (auto fma = dyn_cast<math::FmaOp>(step))
    return fma.getC() == accumulator ? step : nullptr;
  return isFoldingOp(step) ? step : nullptr;
}

/// (F5): the result of folding by `step` cannot depend on the order.
static bool isOrderIndependent(Operation *step) {
  return isa<arith::MaximumFOp, arith::MinimumFOp>(step) ||
         step->getResult(0).getType().isIntOrIndex();
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
  for (auto [index, map, operand] : llvm::enumerate(maps, getOperands())) {
    if (map.getNumDims() != iterators.size() || map.getNumSymbols())
      return emitOpError("indexing map #")
             << index << " has " << map.getNumDims() << " dimensions and "
             << map.getNumSymbols() << " symbols, expected "
             << iterators.size() << " and 0";
    auto shaped = dyn_cast<ShapedType>(operand.getType());
    int64_t rank = shaped ? shaped.getRank() : 0;
    if (int64_t(map.getNumResults()) != rank)
      return emitOpError("indexing map #")
             << index << " has " << map.getNumResults()
             << " results, expected the operand's rank " << rank;
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
  auto order = dyn_cast<OrderAttr>(getOrder());
  int64_t reductions =
      llvm::count(iterators, utils::IteratorType::reduction);
  if (order && order.getRun() > reductions)
    return emitOpError("(F1) run is ")
           << order.getRun() << ", but there are only " << reductions
           << " reduction dimensions";
  return cast<IndexingMapOpInterface>(getOperation()).verifyImpl();
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
  if (!step) {
    if (!isa<SequentialAttr>(getOrder()))
      return emitOpError("(F6) a body that is not op(acc, f(inputs)) folds in "
                         "#repro.sequential order, got ")
             << getOrder();
    return success();
  }
  bool independent = isOrderIndependent(step);
  if (independent && !isa<AnyOrderAttr>(getOrder()))
    return emitOpError("(F5) the result cannot depend on the order: expected "
                       "#repro.any_order, got ")
           << getOrder();
  if (!independent && !isa<OrderAttr>(getOrder()))
    return emitOpError("(F1) expected #repro.order for a fold by '")
           << step->getName() << "', got " << getOrder();
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

namespace {
/// An input that is a cast from a more static shape is read as it was.
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
} // namespace

void FoldOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                         MLIRContext *context) {
  patterns.add<FoldInputCast>(context);
}
