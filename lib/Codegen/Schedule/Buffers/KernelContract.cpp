//===- KernelContract.cpp - What a kernel function may be -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelContract.h"

#include "Kernel.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;

bool mlir::repro::isStructuredOp(Operation &op) {
  return isa<linalg::GenericOp, memref::CopyOp, FoldOp, ArgReduceOp, ScatterOp,
             ScanOp, SortOp>(op);
}

/// The structured operation of a kernel function, its loop over blocks or its
/// scope.
static FailureOr<Operation *> findOnlyOp(func::FuncOp function) {
  Operation *found = nullptr;
  for (Operation &op : function.getBody().front()) {
    if (!isStructuredOp(op) && !isa<scf::ForallOp, memref::AllocaScopeOp>(op))
      continue;
    if (found)
      return op.emitError("expected one structured operation in a kernel "
                          "function, got another after '")
             << found->getName() << "'";
    found = &op;
  }
  return found;
}

/// The contract of docs/architecture.md on the signature.
static LogicalResult verifySignature(func::FuncOp function) {
  FunctionType type = function.getFunctionType();
  auto isArgument = [&](unsigned fromEnd, Type expected) {
    return type.getNumInputs() >= fromEnd &&
           type.getInput(type.getNumInputs() - fromEnd) == expected;
  };
  Builder b(function.getContext());
  if (type.getNumResults() || !isArgument(1, b.getIndexType()) ||
      !isArgument(2, b.getIndexType()) ||
      !isArgument(3, MemRefType::get({1}, b.getI64Type())) ||
      !isArgument(4, MemRefType::get({ShapedType::kDynamic}, b.getI8Type())))
    return function.emitError("expected a kernel function that ends with "
                              "(memref<?xi8>, memref<1xi64>, index, index) and "
                              "returns nothing, got ")
           << type;
  return success();
}

/// The contract of docs/architecture.md on a structured operation.
static LogicalResult verifyOp(Operation *op) {
  for (Value operand : op->getOperands()) {
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (!memref) {
      if (isa<ShapedType>(operand.getType()))
        return op->emitError("expected operands to be memrefs, got ")
               << operand.getType();
      continue;
    }
    int64_t offset;
    // The part of a buffer that belongs to a block begins anywhere.
    bool isPart = operand.getDefiningOp<memref::ReinterpretCastOp>() &&
                  isa<scf::ForallOp>(op->getParentOp());
    if (failed(getStaticStrides(memref, offset)) ||
        (ShapedType::isDynamic(offset) && !isPart))
      return op->emitError("expected static shapes, strides and offsets, got ")
             << memref;
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op);
      generic && generic.getNumReductionLoops())
    return op->emitError("expected parallel iterators, got a reduction: "
                         "reductions are repro.fold");
  return success();
}

/// The contract of docs/architecture.md on a loop over blocks of rows.
static LogicalResult verifyBlocks(scf::ForallOp loop) {
  if (!loop.isNormalized() || loop.getRank() != 1 ||
      !getConstantIntValue(loop.getMixedUpperBound()[0]) ||
      loop->getNumResults())
    return loop.emitError("expected a loop over blocks of rows from 0 to a "
                          "constant, without results");
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (isa<linalg::GenericOp, FoldOp>(op)) {
      if (failed(verifyOp(&op)))
        return failure();
    } else if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
      if (alloc.getType().getRank() != 1 || !alloc.getType().hasStaticShape())
        return alloc.emitError("expected a block of static size and rank 1, "
                               "got ")
               << alloc.getType();
    } else if (!isMemoryEffectFree(&op)) {
      return op.emitError(
                 "expected linalg.generic, repro.fold and memref.alloc "
                 "in a loop over blocks of rows, got '")
             << op.getName() << "'";
    }
  }
  return success();
}

/// The contract of docs/architecture.md on a contraction and the operation on
/// its results.
static LogicalResult verifyScope(memref::AllocaScopeOp scope) {
  SmallVector<Operation *> ops =
      llvm::map_to_vector(scope.getBodyRegion().front().without_terminator(),
                          [](Operation &op) { return &op; });
  auto results = dyn_cast<memref::AllocaOp>(ops.empty() ? scope : ops[0]);
  auto fold = dyn_cast<FoldOp>(ops.size() < 2 ? scope : ops[1]);
  auto generic = dyn_cast<linalg::GenericOp>(ops.size() != 3 ? scope : ops[2]);
  if (!results || !fold || !generic || fold.getOutputs()[0] != results ||
      llvm::count(generic.getDpsInputs(), results.getResult()) != 1 ||
      generic.getNumDpsInits() != 1 ||
      size_t(llvm::range_size(results->getUsers())) != 2)
    return scope.emitError(
        "expected memref.alloca, the repro.fold that writes "
        "it and the linalg.generic that reads it in a scope");
  if (!addsProductsInTurn(fold) || !fold->hasAttr(initAttrName))
    return fold.emitError("expected a contraction from constant initial values "
                          "in a scope");
  AffineMap map = getResultMap(fold);
  for (auto [operand, readMap] :
       llvm::zip_equal(generic->getOperands(), generic.getIndexingMapsArray()))
    if (operand == results && readMap != map)
      return generic.emitError("expected the parallel dimensions of the "
                               "contraction as loops and its results read by ")
             << AffineMapAttr::get(map) << ", got "
             << AffineMapAttr::get(readMap);
  bool isElementwise =
      generic.getRegionOutputArgs()[0].use_empty() &&
      llvm::all_of(generic.getBody()->without_terminator(), [](Operation &op) {
        return op.hasTrait<OpTrait::ConstantLike>() ||
               op.hasTrait<OpTrait::Elementwise>();
      });
  if (!isElementwise)
    return generic.emitError("expected element-wise operations on inputs alone "
                             "in a scope");
  return success(succeeded(verifyOp(fold)) && succeeded(verifyOp(generic)));
}

FailureOr<Operation *> mlir::repro::findKernelBody(func::FuncOp function) {
  FailureOr<Operation *> op = findOnlyOp(function);
  if (failed(op) || !*op)
    return op;
  if (failed(verifySignature(function)))
    return failure();
  LogicalResult verified = llvm::TypeSwitch<Operation *, LogicalResult>(*op)
                               .Case(verifyBlocks)
                               .Case(verifyScope)
                               .Default(verifyOp);
  if (failed(verified))
    return failure();
  return op;
}
