//===- FuseEpilogues.cpp - Fuse contractions with their readers -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-fuse-epilogues (Passes.td), run by lib/Pipelines/Schedule.cpp:
// fuses a contraction with the elementwise op that reads its results. Each
// element undergoes the same operations as before. Both the op's loops and the
// contraction's parallel dimensions enumerate the addresses of the results, but
// with different extents. If each dimension is a part of one loop, all accesses
// of the op are linear functions of the dimensions too.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "KernelOps.h"
#include "RowBlocks.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFUSEEPILOGUES
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The maximum number of kernels between the contraction and the elementwise op
/// that reads its results. Until that op runs, the factors must stay in memory.
static constexpr size_t mostBetween = 8;
/// The maximum numbers of operations of the elementwise op per result, and of
/// other buffers that it reads. With more operations, arithmetic dominates the
/// time, and the kernel has a copy of the operations for every tile shape.
static constexpr size_t mostOperations = 16, mostInputs = 5;
/// The maximum number of lanes of a vector on any target.
static constexpr int64_t widestVector = 16;

namespace {

/// A loop of the op, or several loops merged because every access is contiguous
/// across them.
struct Loop {
  int64_t size;
  SmallVector<int64_t> steps; ///< per access
};

/// A contraction and the elementwise op that reads its results.
class EpilogueFusion {
public:
  /// Returns the fusion of `fold` with the op that reads its results, or
  /// std::nullopt if the op must stay in a kernel of its own.
  static std::optional<EpilogueFusion> match(FoldOp fold);
  void write();

private:
  bool findReader();
  bool isLight();
  bool isNear();
  bool findAccesses();
  bool mayMove();
  bool followDimensions();
  bool suitsVectors();

  FoldOp fold;
  linalg::GenericOp generic;
  unsigned result = 0;                ///< the operand of `generic`
  SmallVector<int64_t> sizes;         ///< of the fold's parallel dimensions
  SmallVector<LinearAccess> accesses; ///< of `generic`
};

} // namespace

/// Whether a body only has arithmetic operations.
static bool isArithmetic(Block &body) {
  return llvm::all_of(body.without_terminator(), [](Operation &op) {
    return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
               op.getDialect()) &&
           op.getNumResults() == 1 && isMemoryEffectFree(&op);
  });
}

static SmallVector<AffineMap> getMaps(FoldOp fold) {
  return cast<IndexingMapOpInterface>(fold.getOperation())
      .getIndexingMapsArray();
}

/// Whether all results of the map are sums of multiples of dimensions.
static bool isLinear(AffineMap map) {
  bool linear = true;
  map.walkExprs([&](AffineExpr expr) {
    linear &= isa<AffineDimExpr, AffineConstantExpr>(expr) ||
              expr.getKind() == AffineExprKind::Add ||
              expr.getKind() == AffineExprKind::Mul;
  });
  return linear;
}

/// Whether the contraction kernel certainly supports the fold. Folds with batch
/// dimensions are excluded, because FuseRows.cpp fuses them.
static bool isPlainContraction(FoldOp fold) {
  std::optional<ContractionBody> contraction = getContraction(fold);
  if (!contraction || contraction->isInLanes || !fold.getConstantInits() ||
      isa_and_present<FdpaAttr>(fold.getOrderAttr()) ||
      !isArithmetic(*fold.getBody()))
    return false;
  if (!contraction->type.isF32() && !contraction->type.isF64())
    return false;
  if (!llvm::all_of(getMaps(fold), isLinear))
    return false;
  bool hasDimension = false;
  for (auto [dim, type, size] :
       llvm::enumerate(fold.getIteratorTypesArray(), getSizes(fold))) {
    if (size == 0)
      return false;
    if (type != utils::IteratorType::parallel || size == 1)
      continue;
    if (!contraction->isOfOneFactor(dim))
      return false;
    hasDimension = true;
  }
  return hasDimension;
}

/// Finds the elementwise op that reads the results. Returns false unless this
/// op is the only reader of the results.
bool EpilogueFusion::findReader() {
  for (OpOperand *use : getBufferUses(getRootBuffer(fold.getOutputs()[0]))) {
    if (use->getOwner() == fold)
      continue;
    auto reader = dyn_cast<linalg::GenericOp>(use->getOwner());
    if (!reader || generic || !reader.isDpsInput(use) ||
        reader.getMatchingBlockArgument(use).use_empty() ||
        reader->getBlock() != fold->getBlock() ||
        !fold->isBeforeInBlock(reader))
      return false;
    generic = reader;
    result = use->getOperandNumber();
  }
  return generic && generic.getNumParallelLoops() == generic.getNumLoops();
}

/// Whether the op has few operations and inputs, and a single float output.
bool EpilogueFusion::isLight() {
  return isArithmetic(*generic.getBody()) &&
         generic.getBody()->getOperations().size() <= mostOperations + 1 &&
         size_t(generic.getNumDpsInputs()) <= mostInputs + 1 &&
         generic.getNumDpsInits() == 1 &&
         generic.getRegionOutputArgs()[0].use_empty() &&
         isa<FloatType>(
             getElementTypeOrSelf(generic.getDpsInits()[0].getType()));
}

/// Whether few kernels lie between the contraction and the op.
bool EpilogueFusion::isNear() {
  size_t between = 0;
  for (Operation *op = fold->getNextNode();
       op != generic && between < mostBetween; op = op->getNextNode())
    between += isa<KernelOpInterface>(*op);
  return between < mostBetween;
}

bool EpilogueFusion::findAccesses() {
  for (auto [operand, map] : llvm::zip_equal(generic->getOperands(),
                                             generic.getIndexingMapsArray())) {
    std::optional<LinearAccess> access = getLinearAccess(operand, map);
    if (!access)
      return false;
    accesses.push_back(std::move(*access));
  }
  return true;
}

/// Whether the contraction can move to the op, and both can then run tile by
/// tile: no element is overwritten before its last read.
bool EpilogueFusion::mayMove() {
  const LinearAccess &output = accesses.back();
  Block *block = fold->getBlock();
  auto isWrittenBetween = [&](Value root) {
    return llvm::any_of(getBufferUses(root), [&](OpOperand *use) {
      Operation *user = block->findAncestorOpInBlock(*use->getOwner());
      return writesOperand(*use) && fold->isBeforeInBlock(user) &&
             user->isBeforeInBlock(generic);
    });
  };
  for (Value input : fold.getInputs()) {
    Value root = getRootBuffer(input);
    if (root == accesses[result].root || root == output.root ||
        isWrittenBetween(root))
      return false;
  }
  return llvm::all_of(accesses, [&](const LinearAccess &access) {
    return access.root != output.root || access == output;
  });
}

/// Rewrites the op's accesses as functions of the fold's parallel dimensions.
/// Returns false if this is not possible.
bool EpilogueFusion::followDimensions() {
  // Sorts the loops by their steps in the results, and merges contiguous ones.
  SmallVector<Loop> loops;
  for (auto [loop, size] : llvm::enumerate(generic.getStaticLoopRanges())) {
    if (size == 1)
      continue;
    loops.push_back({size, {}});
    for (const LinearAccess &access : accesses)
      loops.back().steps.push_back(access.steps[loop]);
  }
  llvm::stable_sort(loops, [&](const Loop &x, const Loop &y) {
    return x.steps[result] > y.steps[result];
  });
  SmallVector<Loop> merged;
  int64_t count = 1;
  for (Loop &loop : llvm::reverse(loops)) {
    if (loop.steps[result] != count)
      return false; // the op does not read each result exactly once
    count *= loop.size;
    bool follows =
        !merged.empty() &&
        llvm::all_of(llvm::zip_equal(loop.steps, merged.back().steps),
                     [&](auto pair) {
                       auto [outer, inner] = pair;
                       return outer == inner * merged.back().size;
                     });
    if (follows)
      merged.back().size *= loop.size;
    else
      merged.push_back(std::move(loop));
  }

  // Sorts the fold's dimensions by their steps in the results, and finds, for
  // each dimension, the loop of which it is a part.
  std::optional<LinearAccess> written =
      getLinearAccess(fold.getOutputs()[0], getMaps(fold).back());
  auto root = dyn_cast_or_null<memref::AllocOp>(
      getRootBuffer(fold.getOutputs()[0]).getDefiningOp());
  if (!written || !root || accesses[result].offset != 0 ||
      written->offset != 0 || root.getType().getNumElements() != count)
    return false;
  SmallVector<std::pair<int64_t, unsigned>> dimensions; // step, position
  for (auto [dim, type, size] :
       llvm::enumerate(fold.getIteratorTypesArray(), getSizes(fold)))
    if (type == utils::IteratorType::parallel) {
      if (size != 1)
        dimensions.emplace_back(written->steps[dim], sizes.size());
      sizes.push_back(size);
    }
  llvm::sort(dimensions);
  SmallVector<SmallVector<int64_t>> steps(
      accesses.size(), SmallVector<int64_t>(sizes.size(), 0));
  int64_t passed = 1;
  for (auto [step, position] : dimensions) {
    if (step != passed)
      return false;
    passed *= sizes[position];
    const Loop *loop = llvm::find_if(merged, [&, step = step](const Loop &l) {
      return step < l.steps[result] * l.size;
    });
    if (loop == merged.end() || step % loop->steps[result] != 0 ||
        passed > loop->steps[result] * loop->size)
      return false;
    for (auto [to, from] : llvm::zip_equal(steps, loop->steps))
      to[position] = step / loop->steps[result] * from;
  }
  if (passed != count)
    return false;
  for (auto [access, of] : llvm::zip_equal(accesses, steps))
    access.steps = std::move(of);
  return true;
}

/// Whether the op can work on the contraction's vectors. Rows of images fill
/// vectors only if they are merged, so the op must be contiguous across rows.
/// For images, no other input may depend on several dimensions: vectors along
/// channels would have to gather the elements of such an input.
bool EpilogueFusion::suitsVectors() {
  SmallVector<AffineMap> maps = getMaps(fold);
  const LinearAccess written =
      *getLinearAccess(fold.getOutputs()[0], maps.back());
  SmallVector<unsigned> dims; // parallel, innermost first
  SmallVector<int64_t> extents = getSizes(fold);
  SmallVector<unsigned> positions(extents.size());
  unsigned position = 0;
  for (auto [dim, type] : llvm::enumerate(fold.getIteratorTypesArray()))
    if (type == utils::IteratorType::parallel) {
      positions[dim] = position++;
      if (extents[dim] != 1)
        dims.push_back(dim);
    }
  llvm::stable_sort(dims, [&](unsigned x, unsigned y) {
    return written.steps[x] < written.steps[y];
  });
  auto isGathered = [&](OpOperand *input) {
    return input->getOperandNumber() != result &&
           llvm::count_if(accesses[input->getOperandNumber()].steps,
                          [](int64_t step) { return step != 0; }) > 1;
  };
  if (dims.size() > 2 &&
      llvm::any_of(generic.getDpsInputOperands(), isGathered))
    return false;
  if (dims.size() < 2 || extents[dims[0]] % widestVector == 0)
    return true;
  unsigned inner = dims[0], outer = dims[1];
  auto follows = [&](const std::optional<LinearAccess> &access, unsigned x,
                     unsigned y) {
    return access && access->steps[y] == access->steps[x] * extents[inner];
  };
  for (auto [input, map] : llvm::zip(fold.getInputs(), maps))
    if (!follows(getLinearAccess(input, map), inner, outer))
      return true;
  return llvm::all_of(accesses, [&](const LinearAccess &access) {
    return follows(access, positions[inner], positions[outer]);
  });
}

std::optional<EpilogueFusion> EpilogueFusion::match(FoldOp fold) {
  EpilogueFusion fusion;
  fusion.fold = fold;
  if (isPlainContraction(fold) && fusion.findReader() && fusion.isLight() &&
      fusion.isNear() && fusion.findAccesses() && fusion.mayMove() &&
      fusion.followDimensions() && fusion.suitsVectors())
    return fusion;
  return std::nullopt;
}

void EpilogueFusion::write() {
  OpBuilder b(generic);
  Location loc =
      FusedLoc::get(b.getContext(), {fold.getLoc(), generic.getLoc()});
  unsigned numDims = sizes.size();
  // Views each operand other than the contraction's result as a buffer with one
  // dimension for each dimension of the fold on which the operand depends.
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  for (auto [number, access] : llvm::enumerate(accesses)) {
    if (number == result) {
      operands.push_back({});
      maps.push_back({});
      continue;
    }
    SmallVector<int64_t> shape, strides;
    SmallVector<AffineExpr> at;
    for (unsigned dim = 0; dim < numDims; ++dim)
      if (access.steps[dim] != 0) {
        shape.push_back(sizes[dim]);
        strides.push_back(access.steps[dim]);
        at.push_back(b.getAffineDimExpr(dim));
      }
    auto type = MemRefType::get(
        shape, getElementTypeOrSelf(generic->getOperand(number)));
    if (access.offset != 0 || computeSuffixProduct(shape) != strides)
      type = MemRefType::get(
          shape, type.getElementType(),
          StridedLayoutAttr::get(b.getContext(), access.offset, strides));
    Value view = access.root;
    if (view.getType() != type)
      view = memref::ReinterpretCastOp::create(b, loc, type, view,
                                               access.offset, shape, strides);
    operands.push_back(view);
    maps.push_back(AffineMap::get(numDims, 0, at, b.getContext()));
  }

  auto scope = memref::AllocaScopeOp::create(b, loc, TypeRange());
  b.createBlock(&scope.getBodyRegion());
  auto type = cast<MemRefType>(fold.getOutputs()[0].getType());
  Value results = memref::AllocaOp::create(
      b, loc, MemRefType::get(type.getShape(), type.getElementType()));
  auto product = cast<FoldOp>(b.clone(*fold));
  product.getOutputsMutable()[0].set(results);
  operands[result] = results;
  maps[result] = getResultMap(fold);
  auto copy = linalg::GenericOp::create(
      b, generic.getLoc(), ArrayRef(operands).drop_back(), operands.back(),
      maps,
      SmallVector<utils::IteratorType>(numDims, utils::IteratorType::parallel));
  copy.getRegion().takeBody(generic.getRegion());
  memref::AllocaScopeReturnOp::create(b, loc);
  generic.erase();
  fold.erase();
}

namespace {
struct FuseEpilogues
    : public repro::impl::ReproFuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock())
      return;
    for (auto fold : llvm::make_early_inc_range(
             getOperation().getBody().front().getOps<FoldOp>()))
      if (std::optional<EpilogueFusion> fusion = EpilogueFusion::match(fold))
        fusion->write();
  }
};
} // namespace
