//===- FuseRows.cpp - Fuse operations on the same rows --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-fuse-rows (Passes.td), run by lib/Pipelines/Schedule.cpp: fuses
// neighbouring ops into a loop over blocks of rows. Each op reads the same
// elements as before. The rows of an op are the points of its first dimensions.
// An access is *by rows* if row i of the op touches only slice i of the buffer,
// where all slices have one size. A run of ops may execute block by block if
// all accesses to the buffers that it writes are by rows.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "KernelOps.h"
#include "RowBlocks.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <deque>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFUSEROWS
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The maximum number of bytes that a block of several rows accesses by rows:
/// half of a small L1 cache.
static constexpr int64_t blockBytes = 16 << 10;
/// The minimum number of bytes that a block accesses: with fewer, the loop
/// costs more than it saves.
static constexpr int64_t leastBlockBytes = 4 << 10;
/// The maximum number of bytes that one row accesses: a share of an L3 cache.
static constexpr int64_t rowBytesLimit = 4 << 20;
/// The same maximum for fewer than `leastRows` rows: they may not occupy all
/// threads, whereas an op in a kernel of its own could.
static constexpr int64_t fewRowsBytesLimit = 512 << 10;
static constexpr int64_t leastRows = 16;
/// The maximum number of ops in a run. It is limited because compile time grows
/// faster than linearly with the length of the run.
static constexpr size_t mostOps = 64;
/// The maximum number of neighbouring ops that are added to a run in order to
/// include one that shares rows with the run.
static constexpr size_t reach = 4;

/// Whether a run may start with the op: a contraction, or a fold whose order
/// permits processing several elements at once.
static bool isRowFold(Operation *op) {
  auto fold = dyn_cast_or_null<FoldOp>(op);
  if (!fold)
    return false;
  auto order = dyn_cast_if_present<OrderAttr>(fold.getOrderAttr());
  return addsProductsInTurn(fold) ||
         isa_and_present<AnyOrderAttr>(fold.getOrderAttr()) ||
         (order && order.getLanes() > 1);
}

/// Returns the extents of an op's leading parallel dimensions. For a
/// contraction, only batch dimensions count: along other dimensions, rows share
/// a factor, which would be packed again for each block of rows.
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
        (addsProductsInTurn(op) && isShared(dim)))
      break;
    sizes.push_back(size);
  }
  return sizes;
}

/// Sets the row stride of `access` if its rows are a constant distance apart,
/// do not overlap, and fill the buffer.
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

/// Returns the op with its first dimensions viewed as `rows` rows; std::nullopt
/// if these dimensions do not form `rows` rows.
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
  // A body may use the number of a row only as an index of a load.
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
    addAccess(load.getMemrefMutable(), /*writes=*/false, rowDims);
  });
  if (!fits)
    return std::nullopt;
  return result;
}

namespace {

/// A run: neighbouring ops and the buffers that they access. An op is first
/// tried, then kept or dropped. The cost of trying an op depends only on the
/// op's own accesses, not on the length of the run.
class RowRun {
public:
  explicit RowRun(int64_t rows) : rows(rows) {}
  void tryOp(RowOp op, bool atEnd);
  void keep();
  void drop();
  /// Whether the op and the kept ops access rows of the same buffer.
  bool sharesRows(const RowOp &op) const;
  /// Whether every buffer that one of the ops writes is accessed by rows only,
  /// with one stride.
  bool canFuse() const { return state.fits; }
  /// Returns the number of rows in a block. Returns 0 if the ops access too
  /// little memory for a loop, and std::nullopt if they access too much.
  std::optional<int64_t> chooseBlock() const;
  size_t size() const { return ops.size(); }
  void write(int64_t block) const {
    writeRowBlocks(SmallVector<RowOp>(ops.begin(), ops.end()), rows, block);
  }

private:
  struct Buffer {
    int64_t rowStride;      ///< of the first access
    int64_t rowBytes = 0;   ///< the largest span of an access within one row
    bool isEven = true;     ///< all accesses have the stride `rowStride`
    bool isWritten = false; ///< by any op
    bool isShared = false;  ///< kept ops access rows of it
  };
  struct State {
    int64_t rowBytes = 0;
    bool hasProducts = false, fits = true;
    size_t numShapes = 0;
  };

  int64_t rows;
  std::deque<RowOp> ops;
  llvm::DenseMap<Value, Buffer> buffers;    // by root
  SmallVector<SmallVector<int64_t>> shapes; // distinct shapes of the rows
  State state, kept;
  // Data to undo the trial of the ops that are not kept yet.
  size_t front = 0, back = 0;
  SmallVector<std::pair<Value, std::optional<Buffer>>> undo;
};

class RowFuser {
public:
  explicit RowFuser(func::FuncOp main) : main(main) {}
  void run();

private:
  void grow(size_t position, int64_t rows);

  func::FuncOp main;
  /// The structured ops of `main`, with null in place of each loop and scope.
  SmallVector<Operation *> ops;
};

} // namespace

void RowRun::tryOp(RowOp op, bool atEnd) {
  for (const RowAccess &access : op.accesses) {
    auto [entry, isNew] =
        buffers.try_emplace(access.root, Buffer{access.rowStride});
    Buffer &buffer = entry->second;
    undo.emplace_back(access.root,
                      isNew ? std::nullopt : std::optional<Buffer>(buffer));
    int64_t bytes = access.rowStride *
                    launch::getElementBytes(access.getType().getElementType());
    state.rowBytes += std::max<int64_t>(bytes - buffer.rowBytes, 0);
    buffer.rowBytes = std::max(buffer.rowBytes, bytes);
    buffer.isEven &= access.rowStride == buffer.rowStride;
    buffer.isWritten |= access.writes;
    if (buffer.isWritten && (!buffer.isEven || buffer.rowStride == 0))
      state.fits = false;
  }
  state.hasProducts |= addsProductsInTurn(op.op);
  if (!llvm::is_contained(shapes, op.sizes)) {
    shapes.push_back(op.sizes);
    ++state.numShapes;
  }
  if (atEnd) {
    ops.push_back(std::move(op));
    ++back;
  } else {
    ops.push_front(std::move(op));
    ++front;
  }
}

void RowRun::keep() {
  for (auto &[root, before] : undo) {
    Buffer &buffer = buffers.find(root)->second;
    buffer.isShared = buffer.rowBytes != 0;
  }
  undo.clear();
  front = back = 0;
  kept = state;
}

void RowRun::drop() {
  for (auto &[root, before] : llvm::reverse(undo)) {
    if (before)
      buffers.find(root)->second = *before;
    else
      buffers.erase(root);
  }
  undo.clear();
  state = kept;
  shapes.resize(state.numShapes);
  for (; front > 0; --front)
    ops.pop_front();
  for (; back > 0; --back)
    ops.pop_back();
}

bool RowRun::sharesRows(const RowOp &op) const {
  return llvm::any_of(op.accesses, [&](const RowAccess &access) {
    auto found = buffers.find(access.root);
    return access.rowStride && found != buffers.end() && found->second.isShared;
  });
}

std::optional<int64_t> RowRun::chooseBlock() const {
  int64_t limit = rowBytesLimit;
  if (rows < leastRows) // several threads share the row of a product
    limit = state.hasProducts ? blockBytes : fewRowsBytesLimit;
  if (state.rowBytes > limit)
    return std::nullopt;
  int64_t block = std::clamp<int64_t>(
      blockBytes / std::max<int64_t>(state.rowBytes, 1), 1, rows);
  auto isEven = [&] {
    return rows % block == 0 && llvm::all_of(shapes, [&](const auto &sizes) {
             return !getTile(sizes, block).empty();
           });
  };
  while (!isEven())
    --block;
  bool isWorthIt = block == rows || block * state.rowBytes >= leastBlockBytes;
  return isWorthIt ? block : 0;
}

/// Builds a loop, if that is worthwhile, from the op at `position` and the
/// neighbouring ops that process the same rows.
void RowFuser::grow(size_t position, int64_t rows) {
  std::optional<RowOp> seed = getRowOp(ops[position], rows);
  if (!seed)
    return;
  RowRun run(rows);
  run.tryOp(std::move(*seed), /*atEnd=*/true);
  std::optional<int64_t> block = run.chooseBlock();
  if (!run.canFuse() || !block)
    return;
  run.keep();
  size_t begin = position, end = position + 1;
  // Adds the ops from `next` on, up to the first one that shares rows with the
  // run. Returns the number of ops added, 0 if none can be.
  auto extend = [&](size_t next, bool atEnd) -> size_t {
    for (size_t added = 1;
         added <= reach && next < ops.size() && run.size() < mostOps;
         ++added, next += atEnd ? 1 : -1) {
      std::optional<RowOp> op = getRowOp(ops[next], rows);
      if (!op)
        break;
      bool isConnected = run.sharesRows(*op);
      run.tryOp(std::move(*op), atEnd);
      if (!run.canFuse())
        break;
      if (!isConnected)
        continue;
      std::optional<int64_t> longerBlock = run.chooseBlock();
      if (!longerBlock || (*longerBlock == 0 && *block != 0))
        break;
      run.keep();
      block = longerBlock;
      return added;
    }
    run.drop();
    return 0;
  };
  for (size_t before = 0; before != run.size();) {
    before = run.size();
    while (size_t added = extend(end, /*atEnd=*/true))
      end += added;
    while (size_t added = begin ? extend(begin - 1, /*atEnd=*/false) : 0)
      begin -= added;
  }
  if (run.size() < 2 || *block == 0)
    return;
  run.write(*block);
  std::fill(ops.begin() + begin, ops.begin() + end, nullptr);
}

void RowFuser::run() {
  for (Operation &op : main.getBody().front().without_terminator())
    if (isa<KernelOpInterface>(op))
      ops.push_back(isa<memref::AllocaScopeOp>(op) ? nullptr : &op);
  for (size_t position = 0; position < ops.size(); ++position)
    if (isRowFold(ops[position])) {
      int64_t rows = 1;
      for (int64_t size : getLeadingSizes(ops[position]))
        rows *= size;
      if (rows > 1)
        grow(position, rows);
    }
}

namespace {
struct FuseRows : public repro::impl::ReproFuseRowsBase<FuseRows> {
  void runOnOperation() override {
    if (getOperation().getBody().hasOneBlock())
      RowFuser(getOperation()).run();
  }
};
} // namespace
