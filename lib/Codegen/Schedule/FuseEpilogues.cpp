//===- FuseEpilogues.cpp - Results of products used at once ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element-wise op goes through the elements of the results in its own loops
// and the contraction in its parallel dimensions: both count addresses, in
// mixed radices. Where each dimension of the contraction is a part of one loop,
// all that the op touches is linear in those dimensions too.
//
//===----------------------------------------------------------------------===//

#include "FuseEpilogues.h"

#include "Kernel.h"
#include "RowBlocks.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::repro;

/// How many ops away the one that reads the results may be.
static constexpr size_t reach = 8;
/// Operations on each result at most, and other buffers that they read. With
/// more the time is that of the arithmetic, and a kernel repeats it for each of
/// its tiles' shapes.
static constexpr size_t mostOperations = 16, mostInputs = 5;
/// Numbers of a vector on any target.
static constexpr int64_t widestVector = 16;

namespace {

/// What an operand touches at a point of the loops.
struct LinearAccess {
  Value root;
  int64_t offset;
  SmallVector<int64_t> steps; ///< per loop

  bool operator==(const LinearAccess &other) const {
    return root == other.root && offset == other.offset && steps == other.steps;
  }
};

/// A loop, or several that follow each other in all accesses.
struct Loop {
  int64_t size;
  SmallVector<int64_t> steps; ///< per access
};

/// A contraction and the op on its results.
class Epilogue {
public:
  /// Nothing where the op that reads the results has to stay apart.
  static std::optional<Epilogue> match(FoldOp fold, ArrayRef<Operation *> next);
  Operation *getConsumer() { return generic; }
  void write();

private:
  bool findResult();
  bool mayMove(ArrayRef<Operation *> between);
  bool followDimensions();
  bool keepsVectors();

  FoldOp fold;
  linalg::GenericOp generic;
  unsigned result = 0;                ///< the operand of `generic`
  SmallVector<int64_t> sizes;         ///< of the fold's parallel dimensions
  SmallVector<LinearAccess> accesses; ///< of `generic`
};

} // namespace

static std::optional<LinearAccess> getLinearAccess(Value memref,
                                                   AffineMap map) {
  auto type = dyn_cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  LinearAccess access{getRootBuffer(memref), 0,
                      SmallVector<int64_t>(map.getNumDims(), 0)};
  if (!type || !type.hasStaticShape() ||
      failed(type.getStridesAndOffset(strides, access.offset)) ||
      ShapedType::isDynamic(access.offset))
    return std::nullopt;
  for (auto [expr, stride] : llvm::zip_equal(map.getResults(), strides)) {
    if (ShapedType::isDynamic(stride) || stride < 0)
      return std::nullopt;
    if (auto constant = dyn_cast<AffineConstantExpr>(expr))
      access.offset += constant.getValue() * stride;
    else if (auto dim = dyn_cast<AffineDimExpr>(expr))
      access.steps[dim.getPosition()] += stride;
    else
      return std::nullopt;
  }
  return access;
}

/// Whether the body is arithmetic on its arguments alone.
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

/// Whether all indices are sums of multiples of dimensions.
static bool isLinear(AffineMap map) {
  bool linear = true;
  map.walkExprs([&](AffineExpr expr) {
    linear &= isa<AffineDimExpr, AffineConstantExpr>(expr) ||
              expr.getKind() == AffineExprKind::Add ||
              expr.getKind() == AffineExprKind::Mul;
  });
  return linear;
}

/// The arguments of the body that a value of it depends on.
static SmallPtrSet<Value, 4> getLeaves(Value value, Block *body) {
  SmallPtrSet<Value, 4> leaves;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (Operation *op = next.getDefiningOp())
      llvm::append_range(open, op->getOperands());
    else if (next.getParentBlock() == body)
      leaves.insert(next);
  }
  return leaves;
}

/// Whether the kernel of contractions is sure to take the fold. Not those with
/// a batch, which are for runs of ops on the same rows.
static bool isPlainContraction(FoldOp fold) {
  if (!fold.isContraction() || !fold->hasAttr(initAttrName) ||
      !isArithmetic(*fold.getBody()))
    return false;
  auto fma = cast<math::FmaOp>(fold.getStep());
  if (!fma.getType().isF32() && !fma.getType().isF64())
    return false;
  SmallVector<AffineMap> maps = getMaps(fold);
  if (!llvm::all_of(maps, isLinear))
    return false;
  auto readsDim = [&](Value factor, unsigned dim) {
    return llvm::any_of(getLeaves(factor, fold.getBody()), [&](Value leaf) {
      return maps[cast<BlockArgument>(leaf).getArgNumber()].isFunctionOfDim(
          dim);
    });
  };
  bool hasDimension = false;
  for (auto [dim, type, size] :
       llvm::enumerate(fold.getIteratorTypesArray(), getSizes(fold))) {
    if (size == 0)
      return false;
    if (type != utils::IteratorType::parallel || size == 1)
      continue;
    if (readsDim(fma.getA(), dim) == readsDim(fma.getB(), dim))
      return false;
    hasDimension = true;
  }
  return hasDimension;
}

/// Whether the op reads or writes a part of the buffer.
static bool touches(Operation *op, Value root, bool reads) {
  return op
      ->walk([&](Operation *nested) {
        for (OpOperand &use : nested->getOpOperands())
          if (isa<MemRefType>(use.get().getType()) &&
              getRootBuffer(use.get()) == root &&
              (writesOperand(use) || (reads && readsOperand(use))))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

/// Finds the operand that is the results, which nobody else may read.
bool Epilogue::findResult() {
  Value root = getRootBuffer(fold.getOutputs()[0]);
  unsigned count = 0;
  for (OpOperand *input : generic.getDpsInputOperands())
    if (getRootBuffer(input->get()) == root) {
      result = input->getOperandNumber();
      ++count;
    }
  return count == 1 &&
         !generic.getMatchingBlockArgument(&generic->getOpOperand(result))
              .use_empty();
}

/// Whether the fold may come as late as the op, and each of its results after
/// another as the op's.
bool Epilogue::mayMove(ArrayRef<Operation *> between) {
  const LinearAccess &output = accesses.back();
  for (Value input : fold.getInputs()) {
    Value root = getRootBuffer(input);
    if (root == output.root || llvm::any_of(between, [&](Operation *op) {
          return touches(op, root, /*reads=*/false);
        }))
      return false;
  }
  return llvm::all_of(accesses, [&](const LinearAccess &access) {
    return access.root != output.root || access == output;
  });
}

/// Gives the accesses the fold's parallel dimensions instead of loops.
bool Epilogue::followDimensions() {
  // Loops in the order of the results' addresses, merged where all follow.
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
      return false; // not all of the results, each once
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

  // The same of the fold's dimensions.
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

/// Whether vectors of results stay as long as they are: neighbouring dimensions
/// are one to a contraction if all accesses follow, and the rows of an image
/// seldom fill vectors.
bool Epilogue::keepsVectors() {
  SmallVector<AffineMap> maps = getMaps(fold);
  const LinearAccess written =
      *getLinearAccess(fold.getOutputs()[0], maps.back());
  SmallVector<unsigned> dims; // parallel, from the innermost on
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

std::optional<Epilogue> Epilogue::match(FoldOp fold,
                                        ArrayRef<Operation *> next) {
  if (!isPlainContraction(fold))
    return std::nullopt;
  Value root = getRootBuffer(fold.getOutputs()[0]);
  Epilogue epilogue;
  epilogue.fold = fold;
  size_t position = 0;
  while (position < next.size() && next[position] &&
         !touches(next[position], root, /*reads=*/true))
    ++position;
  if (position == next.size())
    return std::nullopt;
  auto generic = dyn_cast_or_null<linalg::GenericOp>(next[position]);
  if (!generic || generic.getNumParallelLoops() != generic.getNumLoops() ||
      generic.getNumDpsInits() != 1 ||
      generic.getNumDpsInputs() > mostInputs + 1 ||
      generic.getBody()->getOperations().size() > mostOperations + 1 ||
      !isArithmetic(*generic.getBody()) ||
      !generic.getRegionOutputArgs()[0].use_empty())
    return std::nullopt;
  epilogue.generic = generic;
  if (!isa<FloatType>(getElementTypeOrSelf(generic.getDpsInits()[0])))
    return std::nullopt;
  for (auto [operand, map] : llvm::zip_equal(generic->getOperands(),
                                             generic.getIndexingMapsArray())) {
    std::optional<LinearAccess> access = getLinearAccess(operand, map);
    if (!access)
      return std::nullopt;
    epilogue.accesses.push_back(std::move(*access));
  }
  if (!epilogue.findResult() || !epilogue.mayMove(next.take_front(position)) ||
      !epilogue.followDimensions() || !epilogue.keepsVectors())
    return std::nullopt;
  // Nobody else.
  SmallVector<Value> views = {root};
  while (!views.empty())
    for (Operation *user : views.pop_back_val().getUsers()) {
      if (isa<ViewLikeOpInterface>(user))
        llvm::append_range(views, user->getResults());
      else if (user != fold && user != generic)
        return std::nullopt;
    }
  return epilogue;
}

void Epilogue::write() {
  OpBuilder b(generic);
  Location loc =
      FusedLoc::get(b.getContext(), {fold.getLoc(), generic.getLoc()});
  unsigned numDims = sizes.size();
  // The other operands as linear views: a dimension for each that they follow.
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
  // The fold's output map, its parallel dimensions renumbered.
  SmallVector<AffineExpr> dims;
  unsigned next = 0;
  for (utils::IteratorType kind : fold.getIteratorTypesArray())
    dims.push_back(kind == utils::IteratorType::parallel
                       ? b.getAffineDimExpr(next++)
                       : b.getAffineConstantExpr(0));
  operands[result] = results;
  maps[result] =
      getMaps(fold).back().replaceDimsAndSymbols(dims, {}, numDims, 0);
  auto copy = linalg::GenericOp::create(
      b, generic.getLoc(), ArrayRef(operands).drop_back(), operands.back(),
      maps,
      SmallVector<utils::IteratorType>(numDims, utils::IteratorType::parallel));
  copy.getRegion().takeBody(generic.getRegion());
  memref::AllocaScopeReturnOp::create(b, loc);
  generic.erase();
  fold.erase();
}

void mlir::repro::fuseEpilogues(func::FuncOp main) {
  /// The structured ops of `main`; null where a pair has been, or a call.
  SmallVector<Operation *> ops;
  for (Operation &op : main.getBody().front().without_terminator())
    if (isa<DestinationStyleOpInterface, memref::CopyOp, func::CallOp>(op))
      ops.push_back(isa<func::CallOp>(op) ? nullptr : &op);
  for (size_t position = 0; position < ops.size(); ++position) {
    auto fold = dyn_cast_or_null<FoldOp>(ops[position]);
    if (!fold)
      continue;
    std::optional<Epilogue> epilogue = Epilogue::match(
        fold, ArrayRef(ops).drop_front(position + 1).take_front(reach));
    if (!epilogue)
      continue;
    *llvm::find(ops, epilogue->getConsumer()) = nullptr;
    ops[position] = nullptr;
    epilogue->write();
  }
  // Buffers and views that nobody uses any more.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}
