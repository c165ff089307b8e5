//===- FuseRows.cpp - Operations on the same rows in one loop -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of an op are the points of its first dimensions. An access is *by
// rows* if row i of the op touches nothing but the i-th of as many equal parts
// of the buffer. Where all accesses of what a run of ops writes are by rows,
// the run may go block by block: each op meets the elements that it met before.
//
//===----------------------------------------------------------------------===//

#include "FuseRows.h"

#include "Kernel.h"
#include "RowBlocks.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::repro;

/// What a block of several rows may touch of what is by rows: half of a small
/// first-level cache.
static constexpr int64_t blockBytes = 16 << 10;
/// What a block should touch, so that a loop is worth the while.
static constexpr int64_t leastBlockBytes = 4 << 10;
/// What one row may touch: a share of a third-level cache,
static constexpr int64_t rowBytesLimit = 4 << 20;
/// and what where there are fewer rows than threads may want: one op alone
/// would be shared by all of them.
static constexpr int64_t fewRowsBytesLimit = 512 << 10;
static constexpr int64_t leastRows = 16;
/// How many ops away a run looks for one that touches its rows.
static constexpr size_t reach = 4;

namespace {

class RowFuser {
public:
  explicit RowFuser(func::FuncOp main) : main(main) {}
  void run();

private:
  void grow(size_t position, int64_t rows);

  func::FuncOp main;
  /// The structured ops of `main`; null where a run has been, or a call.
  SmallVector<Operation *> ops;
};

} // namespace

static bool isContraction(Operation *op) {
  auto fold = dyn_cast<FoldOp>(op);
  return fold && fold.isContraction();
}

/// Whether the op is a fold that a run of ops may grow from: a contraction, or
/// one whose elements do not come one after the other.
static bool isRowFold(Operation *op) {
  auto fold = dyn_cast_or_null<FoldOp>(op);
  if (!fold)
    return false;
  auto order = dyn_cast<OrderAttr>(fold.getOrder());
  return fold.isContraction() || isa<AnyOrderAttr>(fold.getOrder()) ||
         (order && order.getLanes() > 1);
}

/// Extents of the parallel dimensions before the first other one. Those of a
/// contraction are its batch: a factor that rows share would be packed again
/// for each block of them.
static SmallVector<int64_t> getLeadingSizes(Operation *op) {
  SmallVector<utils::IteratorType> types =
      isa<FoldOp>(op) ? cast<FoldOp>(op).getIteratorTypesArray()
                      : cast<linalg::GenericOp>(op).getIteratorTypesArray();
  SmallVector<AffineMap> maps =
      cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
  auto isShared = [&](unsigned dim) {
    return !llvm::all_of(
        maps, [&](AffineMap map) { return map.isFunctionOfDim(dim); });
  };
  SmallVector<int64_t> sizes;
  for (auto [dim, type, size] : llvm::enumerate(types, getSizes(op))) {
    if (type != utils::IteratorType::parallel ||
        (isContraction(op) && isShared(dim)))
      break;
    sizes.push_back(size);
  }
  return sizes;
}

/// Finds out whether the access is by rows.
static void findRowStride(RowAccess &access, ArrayRef<int64_t> rowSizes,
                          int64_t rows) {
  SmallVector<int64_t> steps(rowSizes.size(), 0);
  int64_t last = access.offset; // the last element of row 0
  for (auto [dim, size, stride] : llvm::zip_equal(
           access.rowDims, access.getType().getShape(), access.strides)) {
    if (dim >= 0)
      steps[dim] += stride;
    else if (stride >= 0)
      last += (size - 1) * stride;
    else
      return;
  }
  int64_t rowStride = 0, inner = 1;
  for (size_t dim = rowSizes.size(); dim > 0; --dim) {
    if (rowSizes[dim - 1] == 1)
      continue;
    if (rowStride == 0)
      rowStride = steps[dim - 1];
    if (rowStride <= 0 || steps[dim - 1] != rowStride * inner)
      return;
    inner *= rowSizes[dim - 1];
  }
  auto root = cast<MemRefType>(access.root.getType());
  if (last < rowStride && root.getLayout().isIdentity() &&
      root.getNumElements() == rows * rowStride)
    access.rowStride = rowStride;
}

/// The op as one on `rows` rows, if it is one.
static std::optional<RowOp> getRowOp(Operation *op, int64_t rows) {
  if (!isRowFold(op) && !isa_and_nonnull<linalg::GenericOp>(op))
    return std::nullopt;
  RowOp result{op, {}, {}};
  int64_t product = 1;
  for (int64_t size : getLeadingSizes(op)) {
    if (product == rows)
      break;
    result.sizes.push_back(size);
    product *= size;
  }
  if (product != rows || llvm::is_contained(getSizes(op), 0))
    return std::nullopt;
  int64_t numRowDims = result.sizes.size();

  bool fits = true;
  auto addAccess = [&](OpOperand &use, bool writes,
                       SmallVector<int64_t> rowDims) {
    RowAccess access{&use,         getRootBuffer(use.get()), writes, {},
                     /*offset=*/0, std::move(rowDims)};
    MemRefType type = access.getType();
    if (!type.hasStaticShape() ||
        failed(type.getStridesAndOffset(access.strides, access.offset)) ||
        ShapedType::isDynamic(access.offset) ||
        llvm::any_of(access.strides, ShapedType::isDynamic)) {
      fits = false;
      return;
    }
    findRowStride(access, result.sizes, rows);
    result.accesses.push_back(std::move(access));
  };
  auto getRowDim = [&](AffineExpr expr) -> int64_t {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    return dim && dim.getPosition() < numRowDims ? int64_t(dim.getPosition())
                                                 : -1;
  };

  SmallVector<AffineMap> maps =
      cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
  for (auto [use, map] : llvm::zip_equal(op->getOpOperands(), maps)) {
    if (!isa<MemRefType>(use.get().getType()))
      return std::nullopt;
    SmallVector<int64_t> rowDims;
    for (AffineExpr expr : map.getResults()) {
      rowDims.push_back(getRowDim(expr));
      for (int64_t dim = 0; dim < numRowDims; ++dim)
        if (rowDims.back() < 0 && expr.isFunctionOfDim(dim))
          return std::nullopt;
    }
    addAccess(use, writesOperand(use), rowDims);
  }
  // In a body the number of a row may do nothing but say what is loaded.
  auto getRowIndex = [&](Operation *index) -> int64_t {
    int64_t dim = -1;
    if (auto generic = dyn_cast_or_null<linalg::IndexOp>(index))
      dim = generic.getDim();
    else if (auto fold = dyn_cast_or_null<repro::IndexOp>(index))
      dim = fold.getDim();
    return dim < numRowDims ? dim : -1;
  };
  op->getRegion(0).walk([&](Operation *nested) {
    if (getRowIndex(nested) >= 0)
      fits &= llvm::all_of(nested->getUsers(), llvm::IsaPred<memref::LoadOp>);
    auto load = dyn_cast<memref::LoadOp>(nested);
    if (!load)
      return;
    SmallVector<int64_t> rowDims;
    for (Value index : load.getIndices())
      rowDims.push_back(getRowIndex(index.getDefiningOp()));
    // Rows beyond the memref's are an error of the step, which a block would
    // not see.
    for (auto [dim, size] :
         llvm::zip_equal(rowDims, load.getMemRefType().getShape()))
      fits &= dim < 0 || result.sizes[dim] <= size;
    addAccess(load.getMemrefMutable(), /*writes=*/false, rowDims);
  });
  if (!fits)
    return std::nullopt;
  return result;
}

/// Whether all that the ops write is touched by rows, and by equal ones.
static bool canFuse(ArrayRef<RowOp> run) {
  llvm::SmallDenseMap<Value, int64_t> strides; // of what is written
  for (const RowOp &op : run)
    for (const RowAccess &access : op.accesses)
      if (access.writes)
        strides[access.root] = access.rowStride;
  for (const RowOp &op : run)
    for (const RowAccess &access : op.accesses) {
      auto found = strides.find(access.root);
      if (found != strides.end() &&
          (found->second == 0 || access.rowStride != found->second))
        return false;
    }
  return true;
}

/// Whether the two touch rows of one buffer.
static bool shareRows(const RowOp &a, const RowOp &b) {
  return llvm::any_of(a.accesses, [&](const RowAccess &x) {
    return x.rowStride && llvm::any_of(b.accesses, [&](const RowAccess &y) {
             return y.rowStride && x.root == y.root;
           });
  });
}

/// How many rows a block has; 0 if it is not worth it.
static int64_t chooseBlock(ArrayRef<RowOp> run, int64_t rows) {
  llvm::SmallDenseMap<Value, int64_t> touched;
  for (const RowOp &op : run)
    for (const RowAccess &access : op.accesses)
      touched[access.root] =
          access.rowStride * getElementBytes(access.getType().getElementType());
  bool hasProducts =
      llvm::any_of(run, [](const RowOp &op) { return isContraction(op.op); });
  int64_t rowBytes = 0;
  for (auto [root, bytes] : touched)
    rowBytes += bytes;
  int64_t limit = rowBytesLimit;
  if (rows < leastRows) // more threads than that share the row of a product
    limit = hasProducts ? blockBytes : fewRowsBytesLimit;
  if (rowBytes > limit)
    return 0;
  int64_t block = std::clamp<int64_t>(blockBytes / rowBytes, 1, rows);
  auto isEven = [&] {
    return rows % block == 0 && llvm::all_of(run, [&](const RowOp &op) {
             return !getTile(op.sizes, block).empty();
           });
  };
  while (!isEven())
    --block;
  bool isWorthIt = block == rows || block * rowBytes >= leastBlockBytes;
  return isWorthIt ? block : 0;
}

/// Makes a loop of the op at `position` and all neighbours that work on the
/// same rows.
void RowFuser::grow(size_t position, int64_t rows) {
  std::optional<RowOp> seed = getRowOp(ops[position], rows);
  if (!seed || !canFuse(*seed))
    return;
  SmallVector<RowOp> run = {*seed};
  size_t begin = position, end = position + 1;
  int64_t block = chooseBlock(run, rows);
  // Adds the ops from `next` on, up to the first that touches rows of the run;
  // those between come along.
  auto extend = [&](size_t next, bool atEnd) -> size_t {
    SmallVector<RowOp> added;
    for (; added.size() < reach && next < ops.size(); next += atEnd ? 1 : -1) {
      std::optional<RowOp> op = getRowOp(ops[next], rows);
      if (!op)
        return 0;
      bool isConnected =
          llvm::any_of(run, [&](RowOp &o) { return shareRows(o, *op); });
      added.insert(atEnd ? added.end() : added.begin(), std::move(*op));
      SmallVector<RowOp> longer = atEnd ? run : added;
      llvm::append_range(longer, atEnd ? added : run);
      if (!canFuse(longer))
        return 0;
      if (!isConnected)
        continue;
      int64_t longerBlock = chooseBlock(longer, rows);
      // What is too much with products may be worth a loop without.
      if (!longerBlock && (block || llvm::any_of(added, [](const RowOp &o) {
                             return isContraction(o.op);
                           })))
        return 0;
      run = std::move(longer);
      block = longerBlock;
      return added.size();
    }
    return 0;
  };
  for (size_t before = 0; before != run.size();) {
    before = run.size();
    while (size_t added = extend(end, /*atEnd=*/true))
      end += added;
    while (size_t added = begin ? extend(begin - 1, /*atEnd=*/false) : 0)
      begin -= added;
  }
  if (run.size() < 2 || !block)
    return;
  writeRowBlocks(run, rows, block);
  std::fill(ops.begin() + begin, ops.begin() + end, nullptr);
}

void RowFuser::run() {
  for (Operation &op : main.getBody().front().without_terminator())
    if (isa<DestinationStyleOpInterface, memref::CopyOp, func::CallOp>(op))
      ops.push_back(isa<func::CallOp>(op) ? nullptr : &op);
  for (size_t position = 0; position < ops.size(); ++position)
    if (isRowFold(ops[position])) {
      int64_t rows = 1;
      for (int64_t size : getLeadingSizes(ops[position]))
        rows *= size;
      if (rows > 1)
        grow(position, rows);
    }
  // Allocations and views that nobody uses any more.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void mlir::repro::fuseRows(func::FuncOp main) { RowFuser(main).run(); }
