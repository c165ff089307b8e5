//===- SplitFolds.cpp - Cut folds of whole tensors at chunks --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-split (Passes.td): a sum over all elements of a tensor has no
// parallel loop, but its chunks (F1) do not depend on each other (T4). The
// launch becomes launches that compute the results of the chunks, and one that
// folds these results as (F3) says.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"
#include "Mapping.h"
#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPSPLIT
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static constexpr int64_t kArenaAlignment = 64;

namespace {
struct MapSplit : public repro::impl::ReproMapSplitBase<MapSplit> {
  using ReproMapSplitBase::ReproMapSplitBase;
  void runOnOperation() override;
};

/// The kernels that replace a fold of n elements.
struct SplitFold {
  func::FuncOp chunks; ///< the results of all full chunks
  func::FuncOp rest;   ///< that of the last chunk; null if it is full
  func::FuncOp totals; ///< folds the results
  int64_t numFull = 0, chunk = 0, restSize = 0;
};
} // namespace

/// Returns the fold of a kernel if it can be split: a sum of all elements, in
/// several chunks whose results are folded again.
static FoldOp getSplittable(func::FuncOp kernel) {
  auto fold = dyn_cast_or_null<FoldOp>(getKernelBody(kernel));
  if (!fold || fold.getOutputs().size() != 1)
    return {};
  auto order = dyn_cast_or_null<OrderAttr>(fold.getOrderAttr());
  Operation *step = fold.getStep();
  // The start value of a further fold has to leave -0 as it is, so the fold is
  // an addition; its sum begins with -0.
  Type type = getElementTypeOrSelf(fold.getOutputs()[0].getType());
  if (!order || order.getTotals() != Totals::refold ||
      !isa_and_nonnull<arith::AddFOp>(step) || !(type.isF32() || type.isF64()))
    return {};
  SmallVector<int64_t> extents = fold.getExtents();
  int64_t n = 1;
  for (auto [extent, iterator] :
       llvm::zip_equal(extents, fold.getIteratorTypesArray())) {
    if (iterator == utils::IteratorType::parallel)
      return {};
    n *= extent;
  }
  int64_t run = 1;
  for (int64_t extent : ArrayRef(extents).take_back(order.getRun()))
    run *= extent;
  if (order.getRun() == 0)
    run = n;
  int64_t lanes = order.getLanes();
  // Then the lane of an element is its number in the chunk modulo the lanes.
  if (n <= order.getChunk() || order.getChunk() % lanes != 0 ||
      (run != n && run % lanes != 0))
    return {};
  for (auto [operand, map] :
       llvm::zip(fold.getInputs(), fold.getIndexingMapsArray())) {
    auto buffer = dyn_cast<MemRefType>(operand.getType());
    bool isWhole = buffer && buffer.getLayout().isIdentity() &&
                   map.isIdentity() && isa<BlockArgument>(operand);
    bool isScalar = buffer && map.isConstant();
    if (!isWhole && !isScalar)
      return {};
  }
  bool readsMore = false;
  fold.walk([&](Operation *op) {
    readsMore |= isa<repro::IndexOp, memref::LoadOp>(op);
  });
  return readsMore ? FoldOp() : fold;
}

/// Creates an empty kernel function with the given buffers, of which the last
/// one is written.
static func::FuncOp createKernel(Location loc, StringRef name,
                                 ArrayRef<Type> buffers) {
  MLIRContext *context = loc.getContext();
  SmallVector<Type> types(buffers);
  llvm::append_range(types, launch::KernelSignature::getOtherTypes(context));
  func::FuncOp kernel =
      func::FuncOp::create(loc, name, FunctionType::get(context, types, {}));
  kernel.setPrivate();
  kernel.addEntryBlock();
  StringRef accessName = launch::LaunchDialect::AccessAttrHelper::getNameStr();
  for (unsigned i = 0; i < buffers.size(); ++i)
    kernel.setArgAttr(
        i, accessName,
        launch::AccessAttr::get(context, i + 1 == buffers.size()
                                             ? launch::Access::Write
                                             : launch::Access::Read));
  for (unsigned i = 0; i < buffers.size() + 2; ++i)
    kernel.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      UnitAttr::get(context));
  return kernel;
}

/// Creates the kernel that computes the results of `count` chunks of `size`
/// elements.
static func::FuncOp createChunks(func::FuncOp kernel, FoldOp fold,
                                 StringRef name, int64_t count, int64_t size) {
  MLIRContext *context = kernel.getContext();
  OpBuilder b(context);
  Location loc = fold.getLoc();
  auto order = cast<OrderAttr>(fold.getOrderAttr());
  auto result = cast<MemRefType>(fold.getOutputs()[0].getType());
  SmallVector<Type> types;
  SmallVector<AffineMap> maps;
  for (auto [operand, map] :
       llvm::zip(fold.getInputs(), fold.getIndexingMapsArray())) {
    auto type = cast<MemRefType>(operand.getType());
    bool isWhole = !map.isConstant();
    types.push_back(
        isWhole ? MemRefType::get({count, size}, type.getElementType()) : type);
    maps.push_back(isWhole ? b.getMultiDimIdentityMap(2)
                           : AffineMap::get(2, 0, map.getResults(), context));
  }
  types.push_back(MemRefType::get({count}, result.getElementType()));
  maps.push_back(AffineMap::get(2, 0, getAffineDimExpr(0, context)));
  func::FuncOp function = createKernel(kernel.getLoc(), name, types);
  Block *block = &function.getBody().front();
  b.setInsertionPointToEnd(block);
  IRMapping mapping;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (&op != fold)
      b.clone(op, mapping);
  auto iterator = [&](utils::IteratorType type) -> Attribute {
    return linalg::IteratorTypeAttr::get(context, type);
  };
  auto chunks =
      FoldOp::create(b, loc, TypeRange(),
                     block->getArguments().take_front(fold.getInputs().size()),
                     ValueRange{block->getArgument(fold.getInputs().size())},
                     b.getAffineMapArrayAttr(maps),
                     b.getArrayAttr({iterator(utils::IteratorType::parallel),
                                     iterator(utils::IteratorType::reduction)}),
                     OrderAttr::get(context, order.getChunk(), order.getLanes(),
                                    /*run=*/1, order.getTotals()));
  fold.getRegion().cloneInto(&chunks.getRegion(), mapping);
  ReproDialect::InitAttrHelper(context).setAttr(
      chunks, b.getArrayAttr({b.getFloatAttr(result.getElementType(), -0.0)}));
  func::ReturnOp::create(b, loc);
  return function;
}

/// Creates the kernel that folds the results of `count` chunks.
static func::FuncOp createTotals(func::FuncOp kernel, FoldOp fold,
                                 StringRef name, int64_t count) {
  MLIRContext *context = kernel.getContext();
  OpBuilder b(context);
  Location loc = fold.getLoc();
  auto order = cast<OrderAttr>(fold.getOrderAttr());
  auto result = cast<MemRefType>(fold.getOutputs()[0].getType());
  SmallVector<Type> types = {MemRefType::get({count}, result.getElementType()),
                             result};
  func::FuncOp function = createKernel(kernel.getLoc(), name, types);
  Block *block = &function.getBody().front();
  b.setInsertionPointToEnd(block);
  AffineMap map = fold.getIndexingMapsArray().back();
  Attribute reduction =
      linalg::IteratorTypeAttr::get(context, utils::IteratorType::reduction);
  auto totals =
      FoldOp::create(b, loc, TypeRange(), ValueRange{block->getArgument(0)},
                     ValueRange{block->getArgument(1)},
                     b.getAffineMapArrayAttr(
                         {b.getMultiDimIdentityMap(1),
                          AffineMap::get(1, 0, map.getResults(), context)}),
                     b.getArrayAttr({reduction}),
                     OrderAttr::get(context, order.getChunk(), order.getLanes(),
                                    /*run=*/0, order.getTotals()));
  Block *body = &totals.getRegion().emplaceBlock();
  Type type = result.getElementType();
  body->addArguments({type, type}, {loc, loc});
  b.setInsertionPointToEnd(body);
  Value sum =
      arith::AddFOp::create(b, loc, body->getArgument(1), body->getArgument(0));
  repro::YieldOp::create(b, loc, ValueRange{sum});
  b.setInsertionPointToEnd(block);
  if (ArrayAttr inits = fold.getConstantInits()) {
    ReproDialect::InitAttrHelper(context).setAttr(totals, inits);
  } else {
    function.setArgAttr(
        1, launch::LaunchDialect::AccessAttrHelper::getNameStr(),
        launch::AccessAttr::get(context,
                                launch::Access::Read | launch::Access::Write));
  }
  func::ReturnOp::create(b, loc);
  return function;
}

void MapSplit::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<launch::PlanOp> found = findPlan(module);
  if (failed(found))
    return signalPassFailure();
  launch::PlanOp plan = *found;
  SymbolTable symbols(module);
  DenseMap<Operation *, SplitFold> splits;
  unsigned numSplits = 0;
  BlockArgument arena = plan.getArena();
  int64_t arenaBytes = cast<MemRefType>(arena.getType()).getDimSize(0);
  SmallVector<launch::DispatchOp> dispatches(
      plan.getBody().getOps<launch::DispatchOp>());
  for (launch::DispatchOp dispatch : dispatches) {
    auto kernel =
        symbols.lookup<func::FuncOp>(dispatch.getKernel().getRootReference());
    FoldOp fold =
        kernel && !kernel.isExternal() ? getSplittable(kernel) : FoldOp();
    if (!fold)
      continue;
    auto [found, isNew] = splits.try_emplace(kernel);
    SplitFold &split = found->second;
    if (isNew) {
      int64_t n = 1;
      for (int64_t extent : fold.getExtents())
        n *= extent;
      split.chunk = cast<OrderAttr>(fold.getOrderAttr()).getChunk();
      split.numFull = n / split.chunk;
      split.restSize = n % split.chunk;
      std::string name = ("split_" + Twine(numSplits++)).str();
      auto insert = [&](func::FuncOp function) {
        symbols.insert(function, Block::iterator(plan));
        return function;
      };
      split.chunks = insert(createChunks(kernel, fold, name + "_chunks",
                                         split.numFull, split.chunk));
      if (split.restSize)
        split.rest = insert(
            createChunks(kernel, fold, name + "_rest", 1, split.restSize));
      split.totals =
          insert(createTotals(kernel, fold, name + "_totals",
                              split.numFull + (split.restSize ? 1 : 0)));
    }
    // The results of the chunks are a new temporary.
    Type type = getElementTypeOrSelf(fold.getOutputs()[0].getType());
    int64_t bytes = launch::getElementBytes(type);
    int64_t begin = llvm::alignTo(arenaBytes, kArenaAlignment);
    int64_t count = split.numFull + (split.restSize ? 1 : 0);
    arenaBytes = begin + count * bytes;
    OpBuilder b(dispatch);
    Location loc = dispatch.getLoc();
    auto getActual = [&](Value operand) {
      return dispatch.getBuffers()[cast<BlockArgument>(operand).getArgNumber()];
    };
    auto view = [&](Value buffer, int64_t offset, Type viewType) -> Value {
      Place place = Place::get(buffer);
      return launch::ViewOp::create(b, loc, viewType, place.root,
                                    place.offset + offset);
    };
    auto run = [&](func::FuncOp function, int64_t firstChunk) {
      SmallVector<Value> buffers;
      for (auto [i, operand] : llvm::enumerate(fold.getInputs())) {
        auto argument = cast<MemRefType>(function.getArgument(i).getType());
        Value actual = getActual(operand);
        bool isScalar = operand.getType() == argument;
        int64_t offset =
            isScalar ? 0
                     : firstChunk * split.chunk *
                           launch::getElementBytes(argument.getElementType());
        buffers.push_back(view(actual, offset, argument));
      }
      auto results = cast<MemRefType>(
          function.getArgument(fold.getInputs().size()).getType());
      buffers.push_back(view(arena, begin + firstChunk * bytes, results));
      launch::DispatchOp::create(b, loc, SymbolRefAttr::get(function), buffers,
                                 DenseI64ArrayAttr(), DenseI64ArrayAttr(),
                                 IntegerAttr(), UnitAttr());
    };
    run(split.chunks, 0);
    if (split.rest)
      run(split.rest, split.numFull);
    Value results = view(arena, begin, split.totals.getArgument(0).getType());
    launch::DispatchOp::create(
        b, loc, SymbolRefAttr::get(split.totals),
        ValueRange{results, getActual(fold.getOutputs()[0])},
        DenseI64ArrayAttr(), DenseI64ArrayAttr(), IntegerAttr(),
        dispatch.getCheckedAttr());
    dispatch.erase();
  }
  arena.setType(
      MemRefType::get({arenaBytes}, IntegerType::get(&getContext(), 8)));
  for (auto &[kernel, split] : splits)
    if (SymbolTable::symbolKnownUseEmpty(kernel, module))
      kernel->erase();
}
