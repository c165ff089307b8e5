//===- RowBlocks.cpp - A loop over blocks of rows -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowBlocks.h"

#include "Kernel.h"

#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::repro;

/// An elementary function counts as this number of operations.
static constexpr int64_t functionWork = 20;

SmallVector<int64_t> repro::getSizes(Operation *op) {
  return cast<IndexingMapOpInterface>(op).getStaticLoopRanges();
}

SmallVector<int64_t> repro::getTile(ArrayRef<int64_t> sizes, int64_t block) {
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

namespace {

/// Writes the loop over blocks of rows that replaces the ops of a run.
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
  linalg::GenericOp findBusiest();
  void fetchRows(linalg::GenericOp during, size_t position);

  ArrayRef<RowOp> run;
  int64_t rows, block;
  OpBuilder b;
  Location loc;
  scf::ForallOp loop;
  /// `flat` maps each buffer to a rank-1 view of this buffer. `scratch` maps a
  /// buffer to the scratch buffer that replaces it within a block.
  DenseMap<Value, Value> flat, scratch;
};

} // namespace

BlockWriter::BlockWriter(ArrayRef<RowOp> run, int64_t rows, int64_t block)
    : run(run), rows(rows), block(block), b(run.back().op->getContext()),
      loc(run.back().op->getLoc()) {
  // The loop comes after the last op of the run, where all buffers that the run
  // reads exist.
  b.setInsertionPointAfter(run.back().op);
  SmallVector<OpFoldResult> blocks = {b.getIndexAttr(rows / block)};
  loop = scf::ForallOp::create(b, loc, blocks, /*outputs=*/ValueRange(),
                               /*mapping=*/std::nullopt);
}

/// Whether only the ops of the run use the buffer.
bool BlockWriter::isPrivate(Value root) {
  if (!root.getDefiningOp<memref::AllocOp>())
    return false;
  return llvm::all_of(getBufferUses(root), [&](OpOperand *use) {
    return llvm::any_of(
        run, [&](const RowOp &o) { return o.op->isAncestor(use->getOwner()); });
  });
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

/// Returns the offset in the buffer at which the rows of the current block
/// begin.
Value BlockWriter::getOffset(const RowOp &op, const RowAccess &access,
                             ArrayRef<int64_t> tile) {
  Value number = loop.getInductionVar(0);
  auto scale = [&](Value value, int64_t by) -> Value {
    return b.createOrFold<arith::MulIOp>(loc, value, index(by));
  };
  if (access.rowStride)
    return b.createOrFold<arith::AddIOp>(
        loc, scale(number, block * access.rowStride), index(access.offset));
  // The number of the block gives the position of its first row.
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

/// Returns a view of the part of the memref that the op accesses in the current
/// block.
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

/// Returns the elementwise op with the most arithmetic: while this op runs, the
/// memory system is idle. Returns null if the run has contractions, which use
/// the caches fully.
linalg::GenericOp BlockWriter::findBusiest() {
  linalg::GenericOp busiest;
  int64_t mostWork = 0;
  for (const RowOp &op : run) {
    if (addsProductsInTurn(op.op))
      return {};
    auto generic = dyn_cast<linalg::GenericOp>(op.op);
    if (!generic)
      continue;
    int64_t work = 0;
    for (Operation &nested : *generic.getBody())
      work += isa<ReproDialect>(nested.getDialect()) ? functionWork : 1;
    work *= computeProduct(getSizes(generic));
    if (work > mostWork) {
      busiest = generic;
      mostWork = work;
    }
  }
  return busiest;
}

/// Makes `during`, the op at `position`, prefetch the rows that later ops read
/// or write in this block, and those that the other ops read or write in the
/// next block. Hardware does not prefetch these rows, because blocks are short.
void BlockWriter::fetchRows(linalg::GenericOp during, size_t position) {
  SmallVector<int64_t> sizes = getSizes(during);
  SmallVector<int64_t> strides = computeSuffixProduct(sizes);
  int64_t elements = computeProduct(sizes);
  auto layout =
      StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, strides);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(during);
  Value number = loop.getInductionVar(0);
  Value current = b.createOrFold<arith::MulIOp>(loc, number, index(elements));
  Value following = b.createOrFold<arith::MinUIOp>( // clamped to the last block
      loc, b.createOrFold<arith::AddIOp>(loc, number, index(1)),
      index(rows / block - 1));
  Value next = b.createOrFold<arith::MulIOp>(loc, following, index(elements));
  OpBuilder body = OpBuilder::atBlockBegin(during.getBody());
  SmallVector<Value> indices;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    indices.push_back(linalg::IndexOp::create(body, loc, dim));
  SmallPtrSet<Value, 8> met;
  for (auto [i, op] : llvm::enumerate(run))
    for (const RowAccess &access : op.accesses) {
      if (access.rowStride * block != elements ||
          scratch.contains(access.root) || !met.insert(access.root).second)
        continue;
      Value part = memref::ReinterpretCastOp::create(
          b, loc,
          MemRefType::get(sizes, access.getType().getElementType(), layout),
          getFlat(access.root), OpFoldResult(i <= position ? next : current),
          getAsIndexOpFoldResult(b.getContext(), sizes),
          getAsIndexOpFoldResult(b.getContext(), strides));
      memref::PrefetchOp::create(body, loc, part, indices, access.writes,
                                 /*localityHint=*/3, /*isDataCache=*/true);
    }
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
  linalg::GenericOp busiest = findBusiest();
  for (auto [position, op] : llvm::enumerate(run)) {
    SmallVector<Value> parts;
    for (const RowAccess &access : op.accesses)
      parts.push_back(getPart(op, access));
    Operation *copy = b.clone(*op.op);
    ArrayRef<Value> rest = parts;
    for (OpOperand &operand : copy->getOpOperands())
      operand.set(rest.consume_front());
    copy->getRegion(0).walk([&](memref::LoadOp load) {
      load.getMemrefMutable().set(rest.consume_front());
    });
    // With a single block, there is no next block whose rows could be
    // prefetched.
    if (busiest && op.op == busiest && block < rows)
      fetchRows(cast<linalg::GenericOp>(copy), position);
  }
  for (const RowOp &op : run)
    op.op->erase();
}

void repro::writeRowBlocks(ArrayRef<RowOp> run, int64_t rows, int64_t block) {
  BlockWriter(run, rows, block).write();
}
