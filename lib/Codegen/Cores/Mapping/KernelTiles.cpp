//===- KernelTiles.cpp - Tiles of kernels ---------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTiles.h"

#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/KernelContract.h"
#include "Codegen/Schedule/Buffers/KernelOps.h"
#include "Dialect/Repro/IR/AffineBounds.h"
#include "Dialect/Repro/Partition/Division.h"
#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

int64_t cores::getNumElements(ArrayRef<Interval> box) {
  int64_t count = 1;
  for (const Interval &range : box)
    count *= range.size;
  return count;
}

bool KernelAccess::isLinear() const {
  return llvm::all_of(linear,
                      [](const auto &part) { return part.has_value(); });
}

/// Returns an expression as a sum of coefficients times loops plus a constant.
static std::optional<KernelAccess::Linear> getLinear(AffineExpr expr,
                                                     unsigned numLoops) {
  KernelAccess::Linear linear;
  linear.coefficients.resize(numLoops);
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    linear.constant = constant.getValue();
    return linear;
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    linear.coefficients[dim.getPosition()] = 1;
    return linear;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<KernelAccess::Linear> lhs =
      getLinear(binary.getLHS(), numLoops);
  std::optional<KernelAccess::Linear> rhs =
      getLinear(binary.getRHS(), numLoops);
  if (!lhs || !rhs)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add) {
    for (auto [sum, part] :
         llvm::zip_equal(lhs->coefficients, rhs->coefficients))
      sum += part;
    lhs->constant += rhs->constant;
    return lhs;
  }
  auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (expr.getKind() != AffineExprKind::Mul || !factor)
    return std::nullopt;
  for (int64_t &coefficient : lhs->coefficients)
    coefficient *= factor.getValue();
  lhs->constant *= factor.getValue();
  return lhs;
}

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether the operation is one whose indexing maps are attributes.
static bool hasMaps(Operation *op) {
  return isa<linalg::GenericOp, FoldOp>(op);
}

/// Returns the loop whose index `op` reads.
static std::optional<unsigned> getIndexLoop(Operation *op) {
  if (auto index = dyn_cast_or_null<linalg::IndexOp>(op))
    return index.getDim();
  if (auto index = dyn_cast_or_null<repro::IndexOp>(op))
    return index.getDim();
  return std::nullopt;
}

void KernelTiles::addAccess(unsigned buffer, AffineMap map, bool reads,
                            bool writes) {
  KernelAccess &access = accesses.emplace_back();
  access.buffer = buffer;
  access.map = map;
  access.reads = reads;
  access.writes = writes;
  for (AffineExpr expr : map.getResults())
    access.linear.push_back(getLinear(expr, map.getNumDims()));
}

/// Sets the loops, their extents, and the accesses of the operands.
LogicalResult KernelTiles::addLoops() {
  MLIRContext *context = kernel.getContext();
  SmallVector<AffineMap> maps;
  SmallVector<bool> parallel;
  if (hasMaps(body)) {
    auto indexed = cast<IndexingMapOpInterface>(body);
    maps = indexed.getIndexingMapsArray();
    extents = indexed.getStaticLoopRanges();
    auto fold = dyn_cast<FoldOp>(body);
    for (unsigned loop = 0; loop < extents.size(); ++loop)
      parallel.push_back(!fold || fold.getIteratorTypesArray()[loop] ==
                                      utils::IteratorType::parallel);
  } else if (!isa<memref::CopyOp, ArgReduceOp, BlockContractionOp, ScanOp,
                  ScatterOp, SortOp>(body)) {
    return body->emitError("expected one structured operation without "
                           "fusions in a kernel for many cores, got '")
           << body->getName() << "'";
  } else {
    // Each axis is a loop, and so is each dimension of an operand that is on no
    // axis.
    SmallVector<Axis> shared = getDimensionAxes(body);
    if (isa<memref::CopyOp>(body))
      for (int64_t
               dim = 0,
               end = cast<ShapedType>(body->getOperand(0).getType()).getRank();
           dim < end; ++dim)
        shared.push_back({{dim, dim}, {}});
    SmallVector<SmallVector<AffineExpr>> exprs;
    for (Value operand : body->getOperands())
      exprs.emplace_back(cast<ShapedType>(operand.getType()).getRank());
    for (const Axis &axis : shared) {
      AffineExpr loop = getAffineDimExpr(extents.size(), context);
      int64_t extent = 0;
      for (auto [i, dim] : llvm::enumerate(axis.operands))
        if (dim >= 0) {
          exprs[i][dim] = loop;
          extent =
              cast<ShapedType>(body->getOperand(i).getType()).getDimSize(dim);
        }
      extents.push_back(extent);
      parallel.push_back(true);
    }
    for (auto [operand, dims] : llvm::zip_equal(body->getOperands(), exprs))
      for (auto [dim, expr] : llvm::enumerate(dims))
        if (!expr) {
          expr = getAffineDimExpr(extents.size(), context);
          extents.push_back(
              cast<ShapedType>(operand.getType()).getDimSize(dim));
          parallel.push_back(false);
        }
    for (ArrayRef<AffineExpr> dims : exprs)
      maps.push_back(AffineMap::get(extents.size(), 0, dims, context));
  }
  for (auto [loop, isParallel] : llvm::enumerate(parallel))
    if (isParallel)
      axes.push_back(loop);
  for (auto [operand, map] : llvm::zip_equal(body->getOpOperands(), maps)) {
    auto argument = dyn_cast<BlockArgument>(operand.get());
    if (!argument || !isa<MemRefType>(argument.getType())) {
      operandAccesses.push_back(-1);
      continue;
    }
    bool reads = readsOperand(operand), writes = writesOperand(operand);
    // The body may not need an operand that only gives a window its shape.
    if (reads && !writes && hasMaps(body))
      reads = !body->getRegion(0)
                   .getArgument(operand.getOperandNumber())
                   .use_empty();
    auto found = llvm::find_if(accesses, [&](const KernelAccess &access) {
      return access.buffer == argument.getArgNumber() && access.map == map &&
             !access.writes && !writes;
    });
    operandAccesses.push_back(found - accesses.begin());
    if (found == accesses.end())
      addAccess(argument.getArgNumber(), map, reads, writes);
    else
      found->reads |= reads;
  }
  return success();
}

/// Keeps the axes along which each tile writes elements of its own.
void KernelTiles::addAxes() {
  auto isOwn = [&](unsigned loop) {
    return llvm::all_of(accesses, [&](const KernelAccess &access) {
      return !access.writes ||
             llvm::any_of(access.map.getResults(), [&](AffineExpr expr) {
               auto dim = dyn_cast<AffineDimExpr>(expr);
               return dim && dim.getPosition() == loop;
             });
    });
  };
  llvm::erase_if(
      axes, [&](unsigned loop) { return extents[loop] == 1 || !isOwn(loop); });
}

/// Adds the accesses of loads in the body. Their indices depend on data, apart
/// from those that are a loop's index in all loads from a buffer.
void KernelTiles::addLoads() {
  MLIRContext *context = kernel.getContext();
  llvm::MapVector<Value, SmallVector<std::optional<unsigned>>> loads;
  body->walk([&](memref::LoadOp load) {
    SmallVector<std::optional<unsigned>> loops;
    for (Value index : load.getIndices()) {
      std::optional<unsigned> loop = getIndexLoop(index.getDefiningOp());
      if (loop && !llvm::is_contained(axes, *loop))
        loop.reset();
      loops.push_back(loop);
    }
    auto [found, isNew] = loads.insert({load.getMemRef(), loops});
    if (!isNew)
      for (auto [known, loop] : llvm::zip_equal(found->second, loops))
        if (known != loop)
          known.reset();
  });
  // A dimension that no loop's index gives is a loop of its own.
  SmallVector<SmallVector<AffineExpr>> exprs;
  for (auto &[buffer, loops] : loads)
    for (auto [dim, loop] : llvm::enumerate(loops)) {
      if (dim == 0)
        exprs.emplace_back();
      int64_t size = cast<MemRefType>(buffer.getType()).getDimSize(dim);
      if (!loop || extents[*loop] != size) {
        loop = extents.size();
        extents.push_back(size);
      }
      exprs.back().push_back(getAffineDimExpr(*loop, context));
    }
  auto *dims = exprs.begin();
  for (auto &[buffer, loops] : loads) {
    loadAccesses[buffer] = accesses.size();
    SmallVector<AffineExpr> results;
    if (!loops.empty())
      results = *dims++;
    addAccess(cast<BlockArgument>(buffer).getArgNumber(),
              AffineMap::get(extents.size(), 0, results, context),
              /*reads=*/true, /*writes=*/false);
  }
  // All maps have the same loops.
  for (KernelAccess &access : accesses) {
    access.map =
        AffineMap::get(extents.size(), 0, access.map.getResults(), context);
    for (auto &linear : access.linear)
      if (linear)
        linear->coefficients.resize(extents.size());
  }
}

FailureOr<KernelTiles> KernelTiles::get(func::FuncOp kernel) {
  FailureOr<Operation *> body = findKernelBody(kernel);
  if (failed(body))
    return failure();
  if (!*body)
    return kernel.emitError("expected a kernel function");
  KernelTiles tiles(kernel);
  tiles.body = *body;
  if (failed(tiles.addLoops()))
    return failure();
  tiles.numLoops = tiles.extents.size();
  tiles.addAxes();
  tiles.addLoads();
  // The index of a loop that only finds the element of a box is not shifted.
  tiles.indexed.resize(tiles.extents.size());
  (*body)->walk([&](Operation *op) {
    std::optional<unsigned> loop = getIndexLoop(op);
    if (!loop || !llvm::is_contained(tiles.axes, *loop))
      return;
    for (OpOperand &use : op->getUses()) {
      auto load = dyn_cast<memref::LoadOp>(use.getOwner());
      if (!load ||
          !tiles.accesses[tiles.loadAccesses[load.getMemRef()]].dependsOn(
              *loop))
        tiles.indexed.set(*loop);
    }
  });
  return tiles;
}

SmallVector<Interval> KernelTiles::getWhole() const {
  SmallVector<Interval> tile;
  for (int64_t extent : extents)
    tile.push_back({0, extent});
  return tile;
}

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

/// Returns the map of a tile's function before the begin of the box is
/// subtracted: loops count from the begin of the tile. The map is not
/// simplified, since that replaces `(d0 + 8) mod 3` by a difference, whose
/// bounds are not known.
static AffineMap shiftLoops(AffineMap map, ArrayRef<Interval> tile) {
  SmallVector<AffineExpr> dims;
  for (auto [loop, range] : llvm::enumerate(tile))
    dims.push_back(getAffineDimExpr(loop, map.getContext()) + range.begin);
  return map.replaceDimsAndSymbols(dims, {}, map.getNumDims(), 0);
}

/// Returns the sum of the first `numLoops` loops, which count from the begin of
/// the tile, from the begin of the box.
static AffineExpr getExpr(const KernelAccess::Linear &linear, unsigned numLoops,
                          ArrayRef<Interval> tile, int64_t begin,
                          MLIRContext *context) {
  int64_t constant = linear.constant - begin;
  AffineExpr sum = getAffineConstantExpr(0, context);
  for (unsigned loop = 0; loop < numLoops; ++loop) {
    constant += linear.coefficients[loop] * tile[loop].begin;
    sum = sum + getAffineDimExpr(loop, context) * linear.coefficients[loop];
  }
  return sum + constant;
}

Box KernelTiles::getBox(unsigned number, ArrayRef<Interval> tile) const {
  const KernelAccess &access = accesses[number];
  ArrayRef<int64_t> shape = getType(number).getShape();
  Box box;
  AffineMap shifted; // only if the map is not linear
  for (auto [dim, linear] : llvm::enumerate(access.linear)) {
    int64_t low, high;
    if (linear) {
      low = high = linear->constant;
      for (auto [coefficient, range] :
           llvm::zip_equal(linear->coefficients, tile)) {
        if (coefficient == 0)
          continue;
        int64_t first = coefficient * range.begin;
        int64_t last = coefficient * (range.begin + range.size - 1);
        low += std::min(first, last);
        high += std::max(first, last);
      }
    } else {
      if (!shifted)
        shifted = shiftLoops(access.map, tile);
      SmallVector<int64_t> sizes;
      for (const Interval &range : tile)
        sizes.push_back(range.size);
      auto bounds = getExprBounds(shifted.getResult(dim), sizes);
      std::tie(low, high) =
          bounds.value_or(std::pair<int64_t, int64_t>(0, shape[dim] - 1));
    }
    // Loops without iterations access nothing.
    low = std::clamp<int64_t>(low, 0, shape[dim]);
    high = std::clamp<int64_t>(high, low - 1, shape[dim] - 1);
    box.push_back({low, high - low + 1});
  }
  return box;
}

//===----------------------------------------------------------------------===//
// The function of a tile
//===----------------------------------------------------------------------===//

SmallVector<unsigned>
KernelTiles::getShiftedLoops(ArrayRef<Interval> tile) const {
  SmallVector<unsigned> loops;
  for (unsigned loop : axes)
    if (indexed[loop] && tile[loop].size < extents[loop])
      loops.push_back(loop);
  return loops;
}

bool KernelTiles::haveSameFunction(ArrayRef<Interval> a,
                                   ArrayRef<Interval> b) const {
  for (auto [x, y] : llvm::zip_equal(a, b))
    if (x.size != y.size)
      return false;
  bool isLinear = llvm::all_of(
      accesses, [](const KernelAccess &access) { return access.isLinear(); });
  return isLinear || a == b;
}

/// Adds the begin of the tile to each index of the shifted loops that the body
/// reads, except where the index finds an element of a box.
static void shiftIndices(Operation *op, ArrayRef<unsigned> shifted,
                         Value begins,
                         function_ref<bool(memref::LoadOp, unsigned)> isLocal) {
  SmallVector<Operation *> indices;
  op->walk([&](Operation *inner) {
    std::optional<unsigned> loop = getIndexLoop(inner);
    if (loop && llvm::is_contained(shifted, *loop))
      indices.push_back(inner);
  });
  for (Operation *index : indices) {
    unsigned loop = *getIndexLoop(index);
    OpBuilder b(index->getContext());
    b.setInsertionPointAfter(index);
    Location loc = index->getLoc();
    Value position = arith::ConstantIndexOp::create(
        b, loc, llvm::find(shifted, loop) - shifted.begin());
    // The parser leaves out an attribute that is false, and functions are
    // compared with their attributes.
    Value begin = memref::LoadOp::create(b, loc, begins, ValueRange(position),
                                         BoolAttr(), IntegerAttr());
    Value offset = arith::IndexCastOp::create(b, loc, b.getIndexType(), begin);
    auto sum = arith::AddIOp::create(b, loc, index->getResult(0), offset);
    index->getResult(0).replaceUsesWithIf(sum, [&](OpOperand &use) {
      if (use.getOwner() == sum)
        return false;
      auto load = dyn_cast<memref::LoadOp>(use.getOwner());
      return !load || !isLocal(load, loop);
    });
  }
}

func::FuncOp KernelTiles::createTile(ArrayRef<Interval> tile,
                                     StringRef name) const {
  MLIRContext *context = kernel.getContext();
  OpBuilder builder(context);
  SmallVector<Type> types;
  SmallVector<Box> boxes;
  for (unsigned i = 0; i < accesses.size(); ++i) {
    Box &box = boxes.emplace_back(getBox(i, tile));
    SmallVector<int64_t> shape;
    for (const Interval &range : box)
      shape.push_back(range.size);
    types.push_back(MemRefType::get(shape, getType(i).getElementType()));
  }
  SmallVector<unsigned> shifted = getShiftedLoops(tile);
  if (!shifted.empty())
    types.push_back(
        MemRefType::get({int64_t(shifted.size())}, builder.getI64Type()));
  unsigned numBuffers = types.size();
  llvm::append_range(types, launch::KernelSignature::getOtherTypes(context));

  func::FuncOp function = func::FuncOp::create(
      kernel.getLoc(), name, builder.getFunctionType(types, {}));
  function.setPrivate();
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  IRMapping mapping;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (&op != body)
      builder.clone(op, mapping);
  for (auto [buffer, access] : loadAccesses)
    mapping.map(buffer, block->getArgument(access));
  Operation *part = builder.clone(*body, mapping);
  for (auto [i, access] : llvm::enumerate(operandAccesses))
    if (access >= 0)
      part->setOperand(i, block->getArgument(access));
  if (hasMaps(body)) {
    SmallVector<AffineMap> maps =
        cast<IndexingMapOpInterface>(body).getIndexingMapsArray();
    ArrayRef<Interval> loops = tile.take_front(numLoops);
    for (auto [access, map] : llvm::zip_equal(operandAccesses, maps)) {
      if (access < 0)
        continue;
      AffineMap moved = shiftLoops(map, loops);
      SmallVector<AffineExpr> results;
      for (auto [expr, range, linear] : llvm::zip_equal(
               moved.getResults(), boxes[access], accesses[access].linear))
        results.push_back(
            linear ? getExpr(*linear, numLoops, loops, range.begin, context)
                   : expr - range.begin);
      map = AffineMap::get(numLoops, 0, results, context);
    }
    part->setAttr("indexing_maps", builder.getAffineMapArrayAttr(maps));
    if (!shifted.empty())
      shiftIndices(part, shifted, block->getArgument(numBuffers - 1),
                   [&](memref::LoadOp load, unsigned loop) {
                     auto argument = cast<BlockArgument>(load.getMemRef());
                     unsigned access = argument.getArgNumber();
                     return access < accesses.size() &&
                            accesses[access].dependsOn(loop);
                   });
  }
  func::ReturnOp::create(builder, kernel.getLoc());

  UnitAttr unit = builder.getUnitAttr();
  StringRef noalias = LLVM::LLVMDialect::getNoAliasAttrName();
  StringRef accessName = launch::LaunchDialect::AccessAttrHelper::getNameStr();
  for (unsigned i = 0; i < numBuffers + 2; ++i)
    function.setArgAttr(i, noalias, unit);
  for (unsigned i = 0; i < numBuffers; ++i) {
    launch::Access kind{};
    if (i >= accesses.size() || accesses[i].reads)
      kind = kind | launch::Access::Read;
    if (i < accesses.size() && accesses[i].writes)
      kind = kind | launch::Access::Write;
    // A buffer that only gives a window its shape has no contents, so that it
    // cannot count as read.
    if (kind == launch::Access{})
      kind = launch::Access::Write;
    function.setArgAttr(i, accessName, launch::AccessAttr::get(context, kind));
  }
  return function;
}
