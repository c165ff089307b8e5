//===- KernelOps.cpp - Operations that become kernels ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelOps.h"

#include "Kernel.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::repro;

#include "lib/Codegen/Schedule/Buffers/KernelOpInterface.cpp.inc"

/// Verifies the operands of a structured operation: memrefs of static layout
/// (kernel contract, docs/contributors/architecture.md).
static LogicalResult verifyOperands(Operation *op) {
  for (Value operand : op->getOperands()) {
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (!memref) {
      if (isa<ShapedType>(operand.getType()))
        return op->emitError("expected operands to be memrefs, got ")
               << operand.getType();
      continue;
    }
    int64_t offset;
    // A part of a buffer, used in a loop over blocks, may have any offset.
    bool isPart = operand.getDefiningOp<memref::ReinterpretCastOp>() &&
                  isa<scf::ForallOp>(op->getParentOp());
    if (failed(getStaticStrides(memref, offset)) ||
        (ShapedType::isDynamic(offset) && !isPart))
      return op->emitError("expected static shapes, strides and offsets, got ")
             << memref;
  }
  return success();
}

/// Verifies a loop over blocks of rows (kernel contract,
/// docs/contributors/architecture.md).
static LogicalResult verifyBlocks(scf::ForallOp loop) {
  if (!loop.isNormalized() || loop.getRank() != 1 ||
      !getConstantIntValue(loop.getMixedUpperBound()[0]) ||
      loop->getNumResults())
    return loop.emitError("expected a loop over blocks of rows from 0 to a "
                          "constant, without results");
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (isa<linalg::GenericOp, FoldOp>(op)) {
      if (failed(cast<KernelOpInterface>(op).verifyKernel()))
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

/// Verifies a scope with a contraction and the operation on its results (kernel
/// contract, docs/contributors/architecture.md).
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
  if (!addsProductsInTurn(fold) || !fold.getConstantInits())
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
    return generic.emitError("expected only element-wise operations on inputs "
                             "in a scope");
  return success(succeeded(cast<KernelOpInterface>(*fold).verifyKernel()) &&
                 succeeded(cast<KernelOpInterface>(*generic).verifyKernel()));
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {
/// Implements KernelOpInterface for destination-style operations that write
/// their destinations and read their other operands.
template <typename Model, typename OpTy>
struct DestinationModel : KernelOpInterface::ExternalModel<Model, OpTy> {
  bool readsOperand(Operation *op, OpOperand &operand) const {
    return !cast<DestinationStyleOpInterface>(op).isDpsInit(&operand);
  }
  bool writesOperand(Operation *op, OpOperand &operand) const {
    return cast<DestinationStyleOpInterface>(op).isDpsInit(&operand);
  }
  LogicalResult verifyKernel(Operation *op) const { return verifyOperands(op); }
};

struct ArgReduceModel : DestinationModel<ArgReduceModel, ArgReduceOp> {};
struct ScanModel : DestinationModel<ScanModel, ScanOp> {};
struct SortModel : DestinationModel<SortModel, SortOp> {};

struct BlockContractionModel
    : DestinationModel<BlockContractionModel, BlockContractionOp> {
  /// The destination is read too: products are added to its initial value.
  bool readsOperand(Operation *, OpOperand &) const { return true; }
};

struct FoldModel : DestinationModel<FoldModel, FoldOp> {
  /// The destination is read unless the initial value is a constant.
  bool readsOperand(Operation *op, OpOperand &operand) const {
    return !cast<FoldOp>(op).isDpsInit(&operand) ||
           !cast<FoldOp>(op).getConstantInits();
  }
};

struct ScatterModel : DestinationModel<ScatterModel, ScatterOp> {
  /// The destination is read too: updates are combined with its initial value.
  bool readsOperand(Operation *, OpOperand &) const { return true; }
};

struct GenericModel : DestinationModel<GenericModel, linalg::GenericOp> {
  bool readsOperand(Operation *op, OpOperand &operand) const {
    return cast<linalg::GenericOp>(op).payloadUsesValueFromOperand(&operand);
  }
  LogicalResult verifyKernel(Operation *op) const {
    if (failed(verifyOperands(op)))
      return failure();
    if (cast<linalg::GenericOp>(op).getNumReductionLoops())
      return op->emitError("expected parallel iterators, got a reduction: "
                           "reductions are repro.fold");
    return success();
  }
};

struct CopyModel : KernelOpInterface::ExternalModel<CopyModel, memref::CopyOp> {
  bool readsOperand(Operation *op, OpOperand &operand) const {
    return &operand == &cast<memref::CopyOp>(op).getSourceMutable();
  }
  bool writesOperand(Operation *op, OpOperand &operand) const {
    return &operand == &cast<memref::CopyOp>(op).getTargetMutable();
  }
  LogicalResult verifyKernel(Operation *op) const { return verifyOperands(op); }
};

/// Implements KernelOpInterface for operations that contain the operations of a
/// kernel and access no buffer themselves.
template <typename Model, typename OpTy, LogicalResult (*verify)(OpTy)>
struct HolderModel : KernelOpInterface::ExternalModel<Model, OpTy> {
  bool readsOperand(Operation *, OpOperand &) const { return false; }
  bool writesOperand(Operation *, OpOperand &) const { return false; }
  LogicalResult verifyKernel(Operation *op) const {
    return verify(cast<OpTy>(op));
  }
};

struct BlocksModel : HolderModel<BlocksModel, scf::ForallOp, verifyBlocks> {};
struct ScopeModel
    : HolderModel<ScopeModel, memref::AllocaScopeOp, verifyScope> {};
} // namespace

void mlir::repro::registerKernelOps(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, ReproDialect *) {
    ArgReduceOp::attachInterface<ArgReduceModel>(*context);
    BlockContractionOp::attachInterface<BlockContractionModel>(*context);
    FoldOp::attachInterface<FoldModel>(*context);
    ScanOp::attachInterface<ScanModel>(*context);
    ScatterOp::attachInterface<ScatterModel>(*context);
    SortOp::attachInterface<SortModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    linalg::GenericOp::attachInterface<GenericModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, memref::MemRefDialect *) {
    memref::AllocaScopeOp::attachInterface<ScopeModel>(*context);
    memref::CopyOp::attachInterface<CopyModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, scf::SCFDialect *) {
    scf::ForallOp::attachInterface<BlocksModel>(*context);
  });
}
