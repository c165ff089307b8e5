//===- ElementwiseKernel.cpp - Expansion of parallel operations -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/BodyVectorizer.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ParallelLoops.h"
#include "Codegen/Functions/ElementaryFunctions.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

namespace {
/// The maximum number of elements of a work item.
constexpr int64_t kItemElements = 4096;
/// The minimum number of elements for which another thread is worthwhile.
constexpr int64_t kGrainElements = 32768;

/// An access of a later operation, whose cache lines this kernel prefetches.
struct Fetch {
  Access access;
  bool isWrite;
};

/// Builds the kernel of an elementwise operation or a copy.
class ElementwiseKernel {
public:
  /// If `body` is null, the kernel copies its only input to its only output.
  ElementwiseKernel(HostBuilder &b, Block *body, ArrayRef<int64_t> sizes,
                    SmallVector<Access> inputs, SmallVector<Access> outputs,
                    SmallVector<Fetch> fetches)
      : b(b), body(body), sizes(sizes), inputs(std::move(inputs)),
        outputs(std::move(outputs)), fetches(std::move(fetches)) {}

  void expand();

private:
  void orderDims();
  /// Computes `lanes` elements along the innermost loop. The first is at index
  /// `inner` of this loop and at the current coordinates of the outer loops.
  void emitElements(Value inner, int64_t lanes, LaneMask mask);
  void emitRow(Value lower, Value upper);
  void emitLoops(unsigned depth);
  /// If some inputs are contiguous along a loop other than the innermost one,
  /// sets `rowLoop` to this other loop. Square blocks of their elements are
  /// then transposed in registers.
  void findTranspose();
  void expandTransposed();
  /// Computes the square block of `lanes` times `lanes` elements that begins at
  /// (row, column). `isFull`: no row or column of the block lies beyond the
  /// end.
  void emitSquare(Value row, Value column, bool isFull);
  void setCoordinate(const CollapsedDim &loop, Value value);
  Value getOffset(unsigned access, Value inner);
  /// Whether an input depends on the innermost loop, but is neither linear nor
  /// contiguous along this loop.
  bool isScattered(unsigned input) const {
    return !inputs[input].linear && isInnermost(inputs[input]) &&
           !isContiguous(input, loops.size() - 1);
  }
  /// Whether an access depends on the innermost loop. If any access is not
  /// linear, this loop has only one dimension, so its first dimension decides.
  bool isInnermost(const Access &access) const {
    return access.expression.isFunctionOfDim(loops.back().dims[0]);
  }
  /// Whether an input is contiguous along `loop`. This is also true if each
  /// element is used by two adjacent lanes.
  bool isContiguous(unsigned input, unsigned loop) const;
  /// Returns a vector of `lanes` lanes in which each loaded element fills two
  /// adjacent lanes.
  Value loadPairs(const Access &access, Type element, Value offset,
                  int64_t lanes, LaneMask mask);
  void emitFetches(Value inner, int64_t lanes);

  HostBuilder &b;
  Block *body;
  SmallVector<int64_t> sizes;
  SmallVector<Access> inputs, outputs;
  SmallVector<Fetch> fetches;
  SmallVector<Access *> accesses; ///< inputs, outputs, fetches
  SmallVector<CollapsedDim> loops;
  /// `loopValues` has the value of each loop variable, `coordinates` that of
  /// each original dimension.
  SmallVector<Value> loopValues, coordinates;
  int64_t lanes = 0;
  /// For transposed inputs: the loop over the rows of the square blocks, and a
  /// buffer for the transposed blocks of each such input.
  std::optional<unsigned> rowLoop;
  SmallVector<Value> squares;
  Value squareRow;
};
} // namespace

/// Whether the body computes an elementary function (S5) as one long dependency
/// chain. Functions of f64 consist of many short chains instead.
static bool hasLongChain(Block &body) {
  return llvm::any_of(body, [](Operation &op) {
    return isa_and_nonnull<ReproDialect>(op.getDialect()) &&
           isElementaryFunction(op.getName().stripDialect()) &&
           !op.getResult(0).getType().isF64();
  });
}

/// Whether the body computes with bytes only, apart from loop indices.
static bool isOfBytes(Block &body) {
  auto isByte = [](Type type) {
    return type.isInteger(1) || type.isInteger(8);
  };
  return llvm::all_of(body.getArgumentTypes(), isByte) &&
         llvm::all_of(body.without_terminator(), [&](Operation &op) {
           return isa<arith::ConstantOp, arith::IndexCastOp, linalg::IndexOp>(
                      op) ||
                  llvm::all_of(op.getResultTypes(), isByte);
         });
}

/// Returns the number of byte lanes to use: 4 or 2 times `lanes`, the number of
/// f32 lanes, if that divides `size`; otherwise `lanes`.
static int64_t getByteLanes(int64_t lanes, int64_t size) {
  for (int64_t wide : {4 * lanes, 2 * lanes})
    if (size % wide == 0)
      return wide;
  return lanes;
}

/// Whether coordinates 2i and 2i + 1 of dimension `dim` access one element, and
/// 2i + 2 and 2i + 3 the next element in memory.
static bool hasPairs(const Access &access, unsigned dim, unsigned numDims) {
  AffineExpr all = access.expression;
  AffineExpr loop = getAffineDimExpr(dim, all.getContext());
  AffineExpr even = all.replace(loop, loop * 2);
  AffineExpr first =
      all.replace(loop, getAffineConstantExpr(0, all.getContext()));
  return even == all.replace(loop, loop * 2 + 1) &&
         simplifyAffineExpr(even - first, numDims, 0) == loop;
}

void ElementwiseKernel::orderDims() {
  // The dimension along which the output is contiguous becomes the innermost
  // loop. A body that only has checks (E1) has no output.
  SmallVector<unsigned> dims =
      llvm::to_vector(llvm::seq<unsigned>(sizes.size()));
  if (!outputs.empty() && outputs.front().linear)
    llvm::stable_sort(dims, [&](unsigned x, unsigned y) {
      return std::abs(outputs.front().coefficients[x]) >
             std::abs(outputs.front().coefficients[y]);
    });
  llvm::SmallBitVector fixed(sizes.size());
  if (body)
    fixed = getIndexedDims(*body, sizes.size());
  loops = collapseDims(
      dims, sizes,
      SmallVector<const Access *>(accesses.begin(), accesses.end()), fixed);
}

void ElementwiseKernel::setCoordinate(const CollapsedDim &loop, Value value) {
  loopValues[&loop - loops.data()] = value;
  if (loop.dims.size() == 1)
    coordinates[loop.dims[0]] = value;
}

Value ElementwiseKernel::getOffset(unsigned i, Value inner) {
  const Access &access = *accesses[i];
  if (!access.linear)
    return b.getOffset(access, coordinates);
  Value offset = b.index(access.constant);
  for (auto [loop, value] : llvm::zip_equal(loops, loopValues))
    if (loop.coefficients[i])
      offset = b.add(offset, b.mul(value, loop.coefficients[i]));
  return offset;
}

/// Prefetches the cache lines of `lanes` elements of each access in `fetches`,
/// unless this would mostly prefetch the lines of the previous vector again.
void ElementwiseKernel::emitFetches(Value inner, int64_t lanes) {
  for (auto [i, fetch] : llvm::enumerate(fetches)) {
    int64_t line = b.getLineElements(fetch.access.element);
    unsigned position = inputs.size() + outputs.size() + i;
    if (lanes < std::max<int64_t>(line / 2, 1) ||
        loops.back().coefficients[position] != 1)
      continue;
    Value offset = getOffset(position, inner);
    for (int64_t lane = 0; lane < lanes; lane += line)
      b.prefetch(fetch.access.buffer, b.add(offset, lane), fetch.isWrite);
  }
}

void ElementwiseKernel::emitElements(Value inner, int64_t lanes,
                                     LaneMask mask) {
  if (!loops.empty())
    setCoordinate(loops.back(), inner);
  emitFetches(inner, lanes);
  auto stride = [&](unsigned i) -> int64_t {
    return loops.empty() || !accesses[i]->linear ? 0
                                                 : loops.back().coefficients[i];
  };
  auto load = [&](unsigned i) -> Value {
    const Access &access = *accesses[i];
    if (!access.isMemory())
      return access.scalar;
    if (i < squares.size() && squares[i])
      return b.loadVector(squares[i], access.element, b.mul(squareRow, lanes),
                          1, lanes);
    Value offset = getOffset(i, inner);
    if (lanes && !access.linear && isInnermost(access))
      return loadPairs(access, access.element, offset, lanes, mask);
    if (!lanes || !stride(i))
      return b.load(access.buffer, access.element, offset);
    return b.loadVector(access.buffer, access.element, offset, stride(i), lanes,
                        mask);
  };
  SmallVector<Value> results;
  if (!body) {
    results.push_back(load(0));
    if (lanes && !isa<VectorType>(results[0].getType()))
      results[0] = b.broadcast(results[0], lanes);
  } else {
    BodyVectorizer vectorizer(b, lanes, mask);
    vectorizer.index = [&](int64_t dim) {
      bool isInner = !loops.empty() && loops.back().dims[0] == dim;
      return LaneValue{coordinates[dim],
                       lanes && isInner ? LaneValue::Iota : LaneValue::Uniform};
    };
    for (unsigned i = 0; i < body->getNumArguments(); ++i)
      if (!body->getArgument(i).use_empty())
        vectorizer.map(body->getArgument(i), load(i));
    results = vectorizer.inlineBody(*body);
  }
  for (auto [i, result] : llvm::enumerate(results)) {
    const Access &access = outputs[i];
    unsigned position = inputs.size() + i;
    Value value = b.canonicalizeNaN(result);
    if (isa<FloatType>(access.element))
      value = b.convertFloat(value, access.element);
    Value offset = getOffset(position, inner);
    if (lanes)
      b.storeVector(value, access.buffer, offset, stride(position), mask);
    else
      b.store(value, access.buffer, offset);
  }
}

bool ElementwiseKernel::isContiguous(unsigned input, unsigned loop) const {
  return inputs[input].linear
             ? loops[loop].coefficients[input] == 1
             : hasPairs(inputs[input], loops[loop].dims[0], sizes.size());
}

Value ElementwiseKernel::loadPairs(const Access &access, Type element,
                                   Value offset, int64_t lanes, LaneMask mask) {
  int64_t pairs = llvm::divideCeil(lanes, 2);
  LaneMask half;
  if (mask)
    half = b.getMask(b.div(b.add(mask.count, 1), 2), pairs);
  Value loaded = b.loadVector(access.buffer, element, offset, 1, pairs, half);
  SmallVector<int64_t> positions;
  for (int64_t lane = 0; lane < lanes; ++lane)
    positions.push_back(lane / 2);
  return vector::ShuffleOp::create(b, loaded, loaded, positions);
}

void ElementwiseKernel::emitRow(Value lower, Value upper) {
  if (!lanes) {
    b.loop(lower, upper, 1, [&](Value i) { emitElements(i, 0, {}); });
    return;
  }
  Value count = b.sub(upper, lower);
  Value rest = b.rem(count, lanes);
  Value full = b.sub(upper, rest);
  b.loop(lower, full, lanes, [&](Value i) { emitElements(i, lanes, {}); });
  if (loops.back().size % lanes)
    b.when(b.less(full, upper),
           [&] { emitElements(full, lanes, b.getMask(rest, lanes)); });
}

void ElementwiseKernel::emitLoops(unsigned depth) {
  Value zero = b.index(0);
  if (loops.empty()) {
    emitElements(zero, 0, {});
    return;
  }
  if (depth + 1 == loops.size()) {
    emitRow(zero, b.index(loops.back().size));
    return;
  }
  b.loop(zero, b.index(loops[depth].size), 1, [&](Value i) {
    setCoordinate(loops[depth], i);
    emitLoops(depth + 1);
  });
}

void ElementwiseKernel::findTranspose() {
  if (!lanes || loops.size() < 2 || loops.back().size < lanes / 2)
    return;
  for (unsigned i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isMemory() || (body && body->getArgument(i).use_empty()))
      continue;
    if (inputs[i].linear ? std::abs(loops.back().coefficients[i]) <= 1
                         : !isScattered(i))
      continue;
    for (unsigned loop = 0; loop + 1 < loops.size(); ++loop)
      if (isContiguous(i, loop) && loops[loop].size >= lanes / 2 &&
          (!rowLoop || *rowLoop == loop)) {
        rowLoop = loop;
        squares.resize(inputs.size());
        squares[i] = b.getScratch(inputs[i].element, lanes * lanes);
      }
  }
}

void ElementwiseKernel::emitSquare(Value row, Value column, bool isFull) {
  const CollapsedDim &rowDim = loops[*rowLoop], &columnDim = loops.back();
  Value rows = b.index(lanes), columns = rows;
  if (!isFull) {
    rows = b.min(rows, b.sub(b.index(rowDim.size), row));
    columns = b.min(columns, b.sub(b.index(columnDim.size), column));
  }
  setCoordinate(rowDim, row);
  for (auto [i, square] : llvm::enumerate(squares)) {
    if (!square)
      continue;
    LaneMask mask = isFull ? LaneMask() : b.getMask(rows, lanes);
    SmallVector<Value> vectors;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value step = b.index(lane);
      if (!isFull) // lanes beyond the last column repeat it
        step = b.min(step, b.sub(columns, b.index(1)));
      setCoordinate(columnDim, b.add(column, step));
      Type element = getStorageType(inputs[i].element);
      Value offset = getOffset(i, column);
      vectors.push_back(
          inputs[i].linear
              ? b.loadVector(inputs[i].buffer, element, offset, 1, lanes, mask)
              : loadPairs(inputs[i], element, offset, lanes, mask));
    }
    for (auto [lane, vector] : llvm::enumerate(b.transpose(vectors)))
      b.storeVector(vector, square, b.index(lane * lanes), 1);
  }
  b.loop(b.index(0), rows, 1, [&](Value i) {
    squareRow = i;
    setCoordinate(rowDim, b.add(row, i));
    emitElements(column, lanes,
                 isFull ? LaneMask() : b.getMask(columns, lanes));
  });
}

void ElementwiseKernel::expandTransposed() {
  int64_t rows = loops[*rowLoop].size, columns = loops.back().size;
  SmallVector<int64_t> items;
  for (const CollapsedDim &loop : ArrayRef(loops).drop_back())
    items.push_back(loop.size);
  items[*rowLoop] = llvm::divideCeil(rows, lanes);
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, items);
    for (unsigned i = 0; i < at.size(); ++i)
      if (i != *rowLoop)
        setCoordinate(loops[i], at[i]);
    Value row = b.mul(at[*rowLoop], lanes);
    b.loop(b.index(0), b.index(columns), lanes, [&](Value column) {
      if (rows % lanes == 0 && columns % lanes == 0) {
        emitSquare(row, column, true);
        return;
      }
      Value isFull =
          arith::AndIOp::create(b, b.less(row, b.index(rows - lanes + 1)),
                                b.less(column, b.index(columns - lanes + 1)));
      b.when(
          isFull, [&] { emitSquare(row, column, true); },
          [&] { emitSquare(row, column, false); });
    });
  });
  b.setWork(getProduct(items), kGrainElements / (lanes * columns));
}

void ElementwiseKernel::expand() {
  for (Access &access : inputs)
    accesses.push_back(&access);
  for (Access &access : outputs)
    accesses.push_back(&access);
  for (Fetch &fetch : fetches)
    accesses.push_back(&fetch.access);
  if (getProduct(sizes) == 0) {
    b.setWork(0, 1);
    return;
  }
  orderDims();
  coordinates.assign(sizes.size(), b.index(0));
  loopValues.assign(loops.size(), b.index(0));
  lanes = b.getLanes();
  if (loops.empty() || (body && !BodyVectorizer::canVectorize(*body)))
    lanes = 0;
  // If an output does not depend on the innermost loop, it must contain the
  // value of the loop's last iteration. Vector stores do not guarantee this
  // order, so scalar code is emitted.
  for (size_t i = 0; lanes && i < outputs.size(); ++i)
    if (!outputs[i].linear || !loops.back().coefficients[inputs.size() + i])
      lanes = 0;

  findTranspose();
  for (unsigned i = 0; lanes && i < inputs.size(); ++i)
    if (isScattered(i) && !(i < squares.size() && squares[i])) {
      lanes = 0;
      rowLoop.reset();
      squares.clear();
    }
  if (rowLoop) {
    expandTransposed();
    return;
  }
  // Doubling the lanes gives two independent chains, which keep the execution
  // units busy.
  if (body && hasLongChain(*body) && lanes && loops.back().size >= 2 * lanes)
    lanes *= 2;
  if (body && lanes && isOfBytes(*body))
    lanes = getByteLanes(lanes, loops.back().size);
  // Short rows use shorter vectors, which need masks less often: on some
  // processors, masked stores that miss the L1 cache wait for each other.
  while (lanes > 2 && loops.back().size <= lanes / 2)
    lanes /= 2;

  // A work item covers the inner loops that have at most kItemElements elements
  // together, or a part of the innermost loop if it has more.
  unsigned first = loops.size();
  int64_t elements = 1;
  while (first > 0 && elements * loops[first - 1].size <= kItemElements)
    elements *= loops[--first].size;
  SmallVector<int64_t> outer;
  for (unsigned i = 0; i < first; ++i)
    outer.push_back(loops[i].size);
  bool split = !loops.empty() && first == loops.size();
  int64_t blockSize = 1;
  if (split) {
    elements = blockSize = kItemElements;
    outer.back() = llvm::divideCeil(loops.back().size, kItemElements);
  }
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, outer);
    unsigned wholeLoops = split ? first - 1 : first;
    for (unsigned i = 0; i < wholeLoops; ++i)
      setCoordinate(loops[i], at[i]);
    if (!split) {
      emitLoops(first);
      return;
    }
    Value lower = b.mul(at.back(), blockSize);
    Value upper = b.add(lower, blockSize);
    if (loops.back().size % blockSize)
      upper = b.min(upper, b.index(loops.back().size));
    emitRow(lower, upper);
  });
  b.setWork(getProduct(outer), kGrainElements / elements);
}

void repro::cpu::expandElementwise(HostBuilder &b, linalg::GenericOp op) {
  SmallVector<Access> inputs, outputs;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [operand, map] : llvm::zip_equal(op->getOperands(), maps))
    (inputs.size() < op.getInputs().size() ? inputs : outputs)
        .push_back(b.getAccess(operand, map));
  SmallVector<Fetch> fetches;
  for (auto prefetch : op.getBody()->getOps<memref::PrefetchOp>()) {
    SmallVector<AffineExpr> at;
    for (Value index : prefetch.getIndices())
      if (auto dim = index.getDefiningOp<linalg::IndexOp>())
        at.push_back(b.getAffineDimExpr(dim.getDim()));
    if (at.size() != prefetch.getIndices().size())
      continue; // a hint that does not follow the loops
    auto map = AffineMap::get(op.getNumLoops(), 0, at, b.getContext());
    fetches.push_back(
        {b.getAccess(prefetch.getMemref(), map), prefetch.getIsWrite()});
  }
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  ElementwiseKernel(b, op.getBody(), sizes, inputs, outputs, fetches).expand();
}

void repro::cpu::expandCopy(HostBuilder &b, memref::CopyOp op) {
  auto type = cast<MemRefType>(op.getSource().getType());
  AffineMap map =
      AffineMap::getMultiDimIdentityMap(type.getRank(), b.getContext());
  ElementwiseKernel(b, nullptr, type.getShape(),
                    {b.getAccess(op.getSource(), map)},
                    {b.getAccess(op.getTarget(), map)}, /*fetches=*/{})
      .expand();
}
