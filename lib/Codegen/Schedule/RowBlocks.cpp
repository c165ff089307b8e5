//===- RowBlocks.cpp - Operations on the same rows in one loop ------------===//
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

#include "RowBlocks.h"

#include "Kernel.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <deque>

using namespace mlir;
using namespace mlir::repro;

/// What a block of several rows may touch of what is by rows: a part of a small
/// second-level cache. One row alone may touch four times as much.
static constexpr int64_t blockBytes = 128 << 10;
/// What it should touch, so that a loop over its rows is worth the while.
static constexpr int64_t leastBlockBytes = 16 << 10;
/// What one row may touch where the run contracts factors (an item of batched
/// products): a share of a third-level cache.
static constexpr int64_t itemBytes = 4 << 20;
/// Blocks that all threads together should have.
static constexpr int64_t leastBlocks = 16;

namespace {

/// How an op touches a buffer, by an operand or by a load in its body.
struct RowAccess {
  OpOperand *use;
  Value root;
  bool writes;
  SmallVector<int64_t> strides;
  int64_t offset;
  /// For each dimension of the memref the dimension among those of the rows
  /// that it follows, or -1.
  SmallVector<int64_t> rowDims;
  /// Elements from one row to the next; 0: not by rows.
  int64_t rowStride = 0;

  MemRefType getType() const { return cast<MemRefType>(use->get().getType()); }
};

struct RowOp {
  Operation *op;
  /// Extents of the dimensions of the rows.
  SmallVector<int64_t> sizes;
  SmallVector<RowAccess> accesses;
};

class RowFuser {
public:
  explicit RowFuser(func::FuncOp main) : main(main) {}
  void run();

private:
  bool grow(size_t position, int64_t rows, bool takesProducts);

  func::FuncOp main;
  /// The structured ops of `main`; null where a run has been, or a call.
  SmallVector<Operation *> ops;
};

} // namespace

static SmallVector<int64_t> getSizes(Operation *op) {
  return cast<IndexingMapOpInterface>(op).getStaticLoopRanges();
}

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

/// The extents of a block of `block` neighbouring rows among `sizes`; empty if
/// they are no box.
static SmallVector<int64_t> getTile(ArrayRef<int64_t> sizes, int64_t block) {
  SmallVector<int64_t> tile(sizes.size(), 1);
  for (size_t dim = sizes.size(); dim > 0; --dim) {
    int64_t size = sizes[dim - 1];
    tile[dim - 1] = std::min(size, block);
    if (size >= block ? size % block : block % size)
      return {};
    block /= tile[dim - 1];
  }
  return tile;
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
  int64_t most = hasProducts ? itemBytes : 4 * blockBytes;
  int64_t rowBytes = 0;
  for (auto [root, bytes] : touched)
    rowBytes += bytes;
  for (int64_t block = std::clamp<int64_t>(blockBytes / rowBytes, 1, rows);
       block > 0; --block) {
    int64_t bytes = block * rowBytes;
    bool isEven = rows % block == 0 && llvm::all_of(run, [&](const RowOp &op) {
                    return !getTile(op.sizes, block).empty();
                  });
    // Alone, one row of products is shared by threads.
    if (!isEven || (rows / block < leastBlocks && bytes > leastBlockBytes &&
                    (block > 1 || hasProducts)))
      continue;
    bool isWorthIt = bytes >= leastBlockBytes / 4 || block == rows;
    return isWorthIt && bytes <= most ? block : 0;
  }
  return 0;
}

namespace {

/// Writes the ops of a run for one block.
class BlockWriter {
public:
  BlockWriter(ArrayRef<RowOp> run, int64_t rows, int64_t block);
  void write();

private:
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  bool isPrivate(Value root);
  Value getFlat(Value root);
  Value getPart(const RowOp &op, const RowAccess &access);
  Value getOffset(const RowOp &op, const RowAccess &access,
                  ArrayRef<int64_t> tile);

  ArrayRef<RowOp> run;
  int64_t rows, block;
  OpBuilder b;
  Location loc;
  scf::ForallOp loop;
  /// A buffer as one of rank 1, or the part of it that a block needs.
  DenseMap<Value, Value> flat, scratch;
};

} // namespace

BlockWriter::BlockWriter(ArrayRef<RowOp> run, int64_t rows, int64_t block)
    : run(run), rows(rows), block(block), b(run.back().op->getContext()),
      loc(run.back().op->getLoc()) {
  // All that the run reads is there before its last op.
  b.setInsertionPointAfter(run.back().op);
  SmallVector<OpFoldResult> blocks = {b.getIndexAttr(rows / block)};
  loop = scf::ForallOp::create(b, loc, blocks, /*outputs=*/ValueRange(),
                               /*mapping=*/std::nullopt);
}

/// Whether nobody but the run uses the buffer.
bool BlockWriter::isPrivate(Value root) {
  if (!root.getDefiningOp<memref::AllocOp>())
    return false;
  SmallVector<Value> views = {root};
  while (!views.empty())
    for (Operation *user : views.pop_back_val().getUsers()) {
      if (isa<ViewLikeOpInterface>(user) && user->getNumResults() == 1)
        views.push_back(user->getResult(0));
      else if (llvm::none_of(
                   run, [&](const RowOp &o) { return o.op->isAncestor(user); }))
        return false;
    }
  return true;
}

Value BlockWriter::getFlat(Value root) {
  Value &result = flat[root];
  auto type = cast<MemRefType>(root.getType());
  if (result || type.getRank() == 1)
    return result ? result : root;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop);
  auto flatType =
      MemRefType::get({type.getNumElements()}, type.getElementType());
  return result = memref::ReinterpretCastOp::create(
             b, loc, flatType, root, /*offset=*/0, flatType.getShape(),
             /*strides=*/ArrayRef<int64_t>{1});
}

/// Where the part of a buffer of others begins that the block touches.
Value BlockWriter::getOffset(const RowOp &op, const RowAccess &access,
                             ArrayRef<int64_t> tile) {
  Value number = loop.getInductionVar(0);
  auto scale = [&](Value value, int64_t by) -> Value {
    return b.createOrFold<arith::MulIOp>(loc, value, index(by));
  };
  if (access.rowStride)
    return b.createOrFold<arith::AddIOp>(
        loc, scale(number, block * access.rowStride), index(access.offset));
  // The block's number as a position in the space of the rows.
  SmallVector<Value> origin(tile.size());
  for (size_t dim = tile.size(); dim > 0; --dim) {
    Value count = index(op.sizes[dim - 1] / tile[dim - 1]);
    origin[dim - 1] = scale(b.createOrFold<arith::RemUIOp>(loc, number, count),
                            tile[dim - 1]);
    number = b.createOrFold<arith::DivUIOp>(loc, number, count);
  }
  Value offset = index(access.offset);
  for (auto [dim, stride] : llvm::zip_equal(access.rowDims, access.strides))
    if (dim >= 0)
      offset = b.createOrFold<arith::AddIOp>(loc, offset,
                                             scale(origin[dim], stride));
  return offset;
}

/// What the op sees instead of the whole memref.
Value BlockWriter::getPart(const RowOp &op, const RowAccess &access) {
  if (llvm::all_of(access.rowDims, [](int64_t dim) { return dim < 0; }))
    return access.use->get();
  SmallVector<int64_t> tile = getTile(op.sizes, block);
  MemRefType type = access.getType();
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, dim] : llvm::zip_equal(shape, access.rowDims))
    if (dim >= 0)
      size = tile[dim];
  Value source;
  OpFoldResult offset = b.getIndexAttr(access.offset);
  if (access.rowStride)
    source = scratch.lookup(access.root);
  if (!source) {
    source = getFlat(access.root);
    offset = getAsOpFoldResult(getOffset(op, access, tile));
  }
  auto layout = StridedLayoutAttr::get(
      b.getContext(),
      getConstantIntValue(offset).value_or(ShapedType::kDynamic),
      access.strides);
  return memref::ReinterpretCastOp::create(
      b, loc, MemRefType::get(shape, type.getElementType(), layout), source,
      offset, getAsIndexOpFoldResult(b.getContext(), shape),
      getAsIndexOpFoldResult(b.getContext(), access.strides));
}

void BlockWriter::write() {
  b.setInsertionPointToStart(loop.getBody());
  for (const RowOp &op : run)
    for (const RowAccess &access : op.accesses)
      if (access.rowStride && isPrivate(access.root) &&
          !scratch.contains(access.root))
        scratch[access.root] = memref::AllocOp::create(
            b, loc,
            MemRefType::get({block * access.rowStride},
                            access.getType().getElementType()));
  for (const RowOp &op : run) {
    SmallVector<Value> parts;
    for (const RowAccess &access : op.accesses)
      parts.push_back(getPart(op, access));
    // The accesses in the order in which `getRowOp` has found them.
    Operation *copy = b.clone(*op.op);
    ArrayRef<Value> rest = parts;
    for (OpOperand &operand : copy->getOpOperands())
      operand.set(rest.consume_front());
    copy->getRegion(0).walk([&](memref::LoadOp load) {
      load.getMemrefMutable().set(rest.consume_front());
    });
  }
  for (const RowOp &op : run)
    op.op->erase();
}

/// Makes a loop of the op at `position` and all neighbours that work on the
/// same rows.
bool RowFuser::grow(size_t position, int64_t rows, bool takesProducts) {
  std::optional<RowOp> seed = getRowOp(ops[position], rows);
  if (!seed || !canFuse(*seed))
    return false;
  std::deque<RowOp> found;
  found.push_back(*seed);
  size_t begin = position, end = position + 1;
  auto tryOne = [&](size_t next, bool atEnd) {
    std::optional<RowOp> op = getRowOp(ops[next], rows);
    if (!op || (isContraction(ops[next]) && !takesProducts) ||
        llvm::none_of(found, [&](RowOp &o) { return shareRows(o, *op); }))
      return false;
    std::deque<RowOp> longer = found;
    longer.insert(atEnd ? longer.end() : longer.begin(), *op);
    if (!canFuse(SmallVector<RowOp>(longer.begin(), longer.end())))
      return false;
    found = std::move(longer);
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (; end < ops.size() && tryOne(end, true); ++end)
      changed = true;
    for (; begin > 0 && tryOne(begin - 1, false); --begin)
      changed = true;
  }
  if (found.size() < 2)
    return false;
  SmallVector<RowOp> run(found.begin(), found.end());
  int64_t block = chooseBlock(run, rows);
  if (!block)
    return false;
  BlockWriter(run, rows, block).write();
  std::fill(ops.begin() + begin, ops.begin() + end, nullptr);
  return true;
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
      // What is too much with products may be worth a loop without.
      if (rows > 1 && !grow(position, rows, /*takesProducts=*/true) &&
          !isContraction(ops[position]))
        grow(position, rows, /*takesProducts=*/false);
    }
  // Allocations and views that nobody uses any more.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void mlir::repro::fuseRows(func::FuncOp main) { RowFuser(main).run(); }
