//===- InsertSlices.cpp - Compute slices in their destination -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-insert-slices (Passes.td), run by lib/Pipelines/Schedule.cpp:
// turns concatenation and padding into chains of insertions, so that
// bufferization can compute each source directly in its slice of the whole
// buffer. Reshapes and other chains between a source and its slice would
// prevent this, so the pass moves reshapes and flattens nested chains. The main
// case is the stride phases of a transposed convolution (K2), which are nested
// concatenations and reshapes.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/TensorSlice.h"
#include "Dialect/Repro/Transforms/ExactFolding.h"

#include "Codegen/Schedule/Tensors/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROINSERTSLICES
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {

struct InsertSlices : public repro::impl::ReproInsertSlicesBase<InsertSlices> {
  void runOnOperation() override;
};

} // namespace

/// If all elements of the tensor equal one constant, returns the constant;
/// otherwise null.
static TypedAttr getSplat(Value tensor) {
  TypedAttr element;
  if (auto splat = tensor.getDefiningOp<tensor::SplatOp>()) {
    matchPattern(splat.getInput(), m_Constant(&element));
    return element;
  }
  SplatElementsAttr elements;
  if (matchPattern(tensor, m_Constant(&elements)))
    return elements.getSplatValue<TypedAttr>();
  return {};
}

/// Returns the tensor at the start of the chain of insertions that ends in
/// `tensor`.
static Value getBase(Value tensor) {
  while (auto insertion = tensor.getDefiningOp<tensor::InsertSliceOp>())
    tensor = insertion.getDest();
  return tensor;
}

static bool isAssembled(Value tensor) {
  Value base = getBase(tensor);
  return base.getDefiningOp<tensor::EmptyOp>() || getSplat(base);
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

namespace {

/// Rewrites collapse(insert(x, y)) as insert(collapse(x), collapse(y)).
struct CollapseInsertion : public OpRewritePattern<tensor::CollapseShapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::CollapseShapeOp op,
                                PatternRewriter &rewriter) const override {
    auto insertion = op.getSrc().getDefiningOp<tensor::InsertSliceOp>();
    if (!insertion || !insertion->hasOneUse() || !isAssembled(insertion))
      return failure();
    std::optional<TensorSlice> slice = getSlice(insertion);
    if (!slice)
      return failure();
    slice = collapse(*slice, insertion.getDestType().getShape(),
                     op.getReassociationIndices());
    if (!slice)
      return failure();
    auto reshape = [&](Value tensor) {
      return tensor::CollapseShapeOp::create(rewriter, op.getLoc(), tensor,
                                             op.getReassociationIndices());
    };
    Value source = reshape(insertion.getSource());
    Value target = reshape(insertion.getDest());
    rewriter.replaceOp(op, createInsertion(rewriter, insertion.getLoc(), source,
                                           target, *slice));
    rewriter.eraseOp(insertion);
    return success();
  }
};

/// Rewrites expand(insert(x, y)) as insert(expand(x), expand(y)).
struct ExpandInsertion : public OpRewritePattern<tensor::ExpandShapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExpandShapeOp op,
                                PatternRewriter &rewriter) const override {
    auto insertion = op.getSrc().getDefiningOp<tensor::InsertSliceOp>();
    if (!insertion || !insertion->hasOneUse() || !isAssembled(insertion) ||
        !op.getResultType().hasStaticShape())
      return failure();
    std::optional<TensorSlice> slice = getSlice(insertion);
    if (!slice)
      return failure();
    ArrayRef<int64_t> extents = op.getResultType().getShape();
    slice = expand(*slice, extents, op.getReassociationIndices());
    if (!slice)
      return failure();
    auto reshape = [&](Value tensor, ArrayRef<int64_t> shape) {
      auto type = cast<RankedTensorType>(tensor.getType());
      return tensor::ExpandShapeOp::create(rewriter, op.getLoc(),
                                           type.clone(shape), tensor,
                                           op.getReassociationIndices());
    };
    SmallVector<int64_t> sizes;
    for (const StridedRange &range : *slice)
      sizes.push_back(range.size);
    Value source = reshape(insertion.getSource(), sizes);
    Value target = reshape(insertion.getDest(), extents);
    rewriter.replaceOp(op, createInsertion(rewriter, insertion.getLoc(), source,
                                           target, *slice));
    rewriter.eraseOp(insertion);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

/// Rewrites insert(insert(x, y), z) as insert(x, insert(y, z)).
struct FlattenInsertion : public OpRewritePattern<tensor::InsertSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::InsertSliceOp outer,
                                PatternRewriter &rewriter) const override {
    auto inner = outer.getSource().getDefiningOp<tensor::InsertSliceOp>();
    if (!inner || !inner->hasOneUse() || !isAssembled(inner))
      return failure();
    std::optional<TensorSlice> slice = getSlice(inner), whole = getSlice(outer);
    if (!slice || !whole)
      return failure();
    Value target = createInsertion(rewriter, outer.getLoc(), inner.getDest(),
                                   outer.getDest(), *whole);
    for (auto [range, of] : llvm::zip_equal(*slice, *whole))
      range = {of.offset + range.offset * of.stride, range.size,
               range.stride * of.stride};
    rewriter.replaceOp(outer,
                       createInsertion(rewriter, inner.getLoc(),
                                       inner.getSource(), target, *slice));
    rewriter.eraseOp(inner);
    return success();
  }
};

/// Rewrites insert(empty, y) as y.
struct DropEmptySlice : public OpRewritePattern<tensor::InsertSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::InsertSliceOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getSource().getDefiningOp<tensor::EmptyOp>())
      return failure();
    rewriter.replaceOp(op, op.getDest());
    return success();
  }
};

/// If at least half of a tensor's elements have one value, fills the tensor
/// with this value first and drops the sources that contain only this value.
struct FillBase : public OpRewritePattern<tensor::InsertSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::InsertSliceOp op,
                                PatternRewriter &rewriter) const override {
    TypedAttr element = getSplat(op.getSource());
    std::optional<TensorSlice> slice = getSlice(op);
    if (!element || !slice)
      return failure();
    int64_t equal = op.getSourceType().getNumElements();
    Value base = op.getDest();
    while (auto other = base.getDefiningOp<tensor::InsertSliceOp>()) {
      std::optional<TensorSlice> taken = getSlice(other);
      if (!taken || overlap(*slice, *taken))
        return failure();
      if (getSplat(other.getSource()) == element)
        equal += other.getSourceType().getNumElements();
      base = other.getDest();
    }
    if (getSplat(base) == element) {
      rewriter.replaceOp(op, op.getDest());
      return success();
    }
    auto empty = base.getDefiningOp<tensor::EmptyOp>();
    if (!empty || !empty->hasOneUse() ||
        2 * equal < op.getDestType().getNumElements())
      return failure();
    rewriter.setInsertionPoint(empty);
    Value scalar = arith::ConstantOp::create(rewriter, op.getLoc(), element);
    rewriter.replaceOpWithNewOp<tensor::SplatOp>(empty, scalar,
                                                 empty.getType());
    rewriter.replaceOp(op, op.getDest());
    return success();
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Reshapes of all sources
//===----------------------------------------------------------------------===//

namespace {

/// A chain of insertions whose sources are all reshaped in the same way. If the
/// sources are inserted before they are reshaped, and the result is reshaped
/// instead, each source can be computed in its slice.
class ReshapedInsertions {
public:
  /// Returns the chain of insertions that ends with `end`; std::nullopt if its
  /// sources are not all reshaped in the same way.
  static std::optional<ReshapedInsertions> match(tensor::InsertSliceOp end);
  void rewrite();

private:
  /// The insertions of the chain, in program order.
  SmallVector<tensor::InsertSliceOp> insertions;
  SmallVector<Value> sources; ///< before the reshape
  SmallVector<TensorSlice> slices;
  SmallVector<ReassociationIndices> groups;
  SmallVector<int64_t> shape; ///< of the whole tensor before the reshape
  bool isExpanded = false;    ///< whether the reshapes expand (else collapse)
};

} // namespace

/// If `tensor` is a reshape, returns its source and sets `groups` and
/// `isExpanded` accordingly; otherwise returns null.
static Value getReshaped(Value tensor,
                         SmallVector<ReassociationIndices> &groups,
                         bool &isExpanded) {
  auto get = [&](auto op, bool expands) -> Value {
    groups = op.getReassociationIndices();
    isExpanded = expands;
    return op.getSrc();
  };
  if (auto expand = tensor.getDefiningOp<tensor::ExpandShapeOp>())
    return get(expand, true);
  if (auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>())
    return get(collapse, false);
  return {};
}

/// Returns the shape `source` after changing the first extent of each group so
/// that the shape collapses to `collapsed`; std::nullopt if that is impossible.
static std::optional<SmallVector<int64_t>>
getExpandedShape(ArrayRef<int64_t> collapsed, ArrayRef<int64_t> source,
                 ArrayRef<ReassociationIndices> groups) {
  SmallVector<int64_t> shape(source);
  for (auto [extent, group] : llvm::zip_equal(collapsed, groups)) {
    int64_t inner = 1;
    for (int64_t dim : ArrayRef(group).drop_front())
      inner *= source[dim];
    if (inner == 0 || extent % inner != 0)
      return std::nullopt;
    shape[group.front()] = extent / inner;
  }
  return shape;
}

std::optional<ReshapedInsertions>
ReshapedInsertions::match(tensor::InsertSliceOp end) {
  ReshapedInsertions result;
  for (tensor::InsertSliceOp op = end; op;
       op = op.getDest().getDefiningOp<tensor::InsertSliceOp>()) {
    if (op != end && !op->hasOneUse())
      return std::nullopt;
    result.insertions.push_back(op);
  }
  std::reverse(result.insertions.begin(), result.insertions.end());
  if (!isAssembled(end))
    return std::nullopt;
  ArrayRef<int64_t> whole = end.getDestType().getShape();
  for (tensor::InsertSliceOp op : result.insertions) {
    std::optional<TensorSlice> slice = getSlice(op);
    SmallVector<ReassociationIndices> groups;
    bool isExpanded;
    Value source = getReshaped(op.getSource(), groups, isExpanded);
    // A tensor of rank 0 has no slices.
    if (!slice || !source || groups.empty())
      return std::nullopt;
    ArrayRef<int64_t> sourceShape =
        cast<RankedTensorType>(source.getType()).getShape();
    std::optional<SmallVector<int64_t>> shape;
    if (isExpanded) {
      shape.emplace();
      for (const ReassociationIndices &group : groups) {
        shape->push_back(1);
        for (int64_t dim : group)
          shape->back() *= whole[dim];
      }
    } else {
      shape = getExpandedShape(whole, sourceShape, groups);
    }
    if (!shape)
      return std::nullopt;
    if (result.sources.empty()) {
      result.groups = groups;
      result.isExpanded = isExpanded;
      result.shape = *shape;
    } else if (result.groups != groups || result.isExpanded != isExpanded ||
               result.shape != *shape) {
      return std::nullopt;
    }
    slice = isExpanded ? collapse(*slice, whole, groups)
                       : expand(*slice, *shape, groups);
    if (!slice)
      return std::nullopt;
    for (auto [range, extent] : llvm::zip_equal(*slice, sourceShape))
      if (range.size != extent)
        return std::nullopt;
    result.sources.push_back(source);
    result.slices.push_back(std::move(*slice));
  }
  return result;
}

void ReshapedInsertions::rewrite() {
  Value base = insertions.front().getDest();
  OpBuilder builder(insertions.front());
  Location loc = insertions.back().getLoc();
  auto type = cast<RankedTensorType>(base.getType());
  Value result;
  if (TypedAttr element = getSplat(base))
    result = arith::ConstantOp::create(
        builder, loc, SplatElementsAttr::get(type.clone(shape), element));
  else
    result =
        tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  for (auto [op, source, slice] :
       llvm::zip_equal(insertions, sources, slices)) {
    builder.setInsertionPoint(op);
    result = createInsertion(builder, op.getLoc(), source, result, slice);
  }
  tensor::InsertSliceOp end = insertions.back();
  if (isExpanded)
    result = tensor::ExpandShapeOp::create(builder, loc, type, result, groups);
  else
    result =
        tensor::CollapseShapeOp::create(builder, loc, type, result, groups);
  end.replaceAllUsesWith(result);
  for (tensor::InsertSliceOp op : llvm::reverse(insertions)) {
    Operation *reshape = op.getSource().getDefiningOp();
    op.erase();
    if (reshape->use_empty())
      reshape->erase();
  }
}

/// Returns the last insertion of each chain of insertions in the block.
static SmallVector<tensor::InsertSliceOp> getChains(Block &block) {
  SmallVector<tensor::InsertSliceOp> ends;
  for (auto op : block.getOps<tensor::InsertSliceOp>()) {
    bool goesOn =
        op->hasOneUse() && llvm::all_of(op->getUses(), [](OpOperand &use) {
          auto next = dyn_cast<tensor::InsertSliceOp>(use.getOwner());
          return next && &use == &next.getDestMutable();
        });
    if (!goesOn)
      ends.push_back(op);
  }
  return ends;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

static void replaceConcat(tensor::ConcatOp op) {
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op.getType());
  Value result = tensor::EmptyOp::create(builder, op.getLoc(), type.getShape(),
                                         type.getElementType());
  int64_t at = 0;
  for (Value input : op.getInputs()) {
    TensorSlice slice = getWhole(cast<RankedTensorType>(input.getType()));
    slice[op.getDim()].offset = at;
    at += slice[op.getDim()].size;
    result = createInsertion(builder, op.getLoc(), input, result, slice);
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

static LogicalResult replacePad(tensor::PadOp op) {
  Value padding = op.getConstantPaddingValue();
  RankedTensorType type = op.getResultType();
  std::optional<SmallVector<int64_t>> lows =
      getConstantIntValues(op.getMixedLowPad());
  if (!padding || !lows || !type.hasStaticShape())
    return op.emitOpError("expected static shape and padding and one padding "
                          "value for all elements");
  OpBuilder builder(op);
  if (op.getRegion().isAncestor(padding.getParentRegion()))
    padding = builder.clone(*padding.getDefiningOp())->getResult(0);
  Value splat = tensor::SplatOp::create(builder, op.getLoc(), padding, type);
  TensorSlice slice = getWhole(op.getSourceType());
  for (auto [range, low] : llvm::zip_equal(slice, *lows))
    range.offset = low;
  op.replaceAllUsesWith(
      createInsertion(builder, op.getLoc(), op.getSource(), splat, slice));
  op.erase();
  return success();
}

void InsertSlices::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return;
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto concat = dyn_cast<tensor::ConcatOp>(op))
      replaceConcat(concat);
    else if (auto pad = dyn_cast<tensor::PadOp>(op);
             pad && failed(replacePad(pad)))
      return signalPassFailure();
  }
  RewritePatternSet patterns(&getContext());
  patterns.add<CollapseInsertion, ExpandInsertion, FlattenInsertion,
               DropEmptySlice, FillBase>(&getContext());
  tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, &getContext());
  tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, &getContext());
  tensor::populateFoldTensorEmptyPatterns(patterns);
  // The number of iterations need not be limited: each pattern removes an
  // operation, so the rewriting ends for chains of any length.
  populateExactFolding(patterns);
  GreedyRewriteConfig config;
  config.enableFolding(false);
  config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
  if (failed(applyPatternsGreedily(function, std::move(patterns), config)))
    return signalPassFailure();
  for (tensor::InsertSliceOp end : getChains(block))
    if (std::optional<ReshapedInsertions> chain =
            ReshapedInsertions::match(end))
      chain->rewrite();
}
