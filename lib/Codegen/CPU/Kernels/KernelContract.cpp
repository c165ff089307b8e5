//===- KernelContract.cpp - What a kernel function may be -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/KernelContract.h"

#include "Codegen/CPU/Kernels/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::repro;

/// The structured operation of a kernel function, null if there is none.
static FailureOr<Operation *> findOnlyOp(func::FuncOp function) {
  Operation *found = nullptr;
  for (Operation &op : function.getBody().front()) {
    if (!isa<linalg::GenericOp, memref::CopyOp, FoldOp, ArgReduceOp, ScatterOp,
             ScanOp, SortOp>(op))
      continue;
    if (found)
      return op.emitError("expected one structured operation in a kernel "
                          "function, got another after '")
             << found->getName() << "'";
    found = &op;
  }
  return found;
}

/// The contract of docs/architecture.md on signature and operands.
static LogicalResult verifyKernel(func::FuncOp function, Operation *op) {
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
  for (Value operand : op->getOperands()) {
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (!memref) {
      if (isa<ShapedType>(operand.getType()))
        return op->emitError("expected operands to be memrefs, got ")
               << operand.getType();
      continue;
    }
    int64_t offset;
    if (failed(cpu::getStaticStrides(memref, offset)))
      return op->emitError("expected static shapes, strides and offsets, got ")
             << memref;
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op);
      generic && generic.getNumReductionLoops())
    return op->emitError("expected parallel iterators, got a reduction: "
                         "reductions are repro.fold");
  return success();
}

FailureOr<Operation *>
mlir::repro::cpu::findStructuredOp(func::FuncOp function) {
  FailureOr<Operation *> op = findOnlyOp(function);
  if (failed(op) || (*op && failed(verifyKernel(function, *op))))
    return failure();
  return op;
}
