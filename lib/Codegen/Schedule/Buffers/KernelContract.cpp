//===- KernelContract.cpp - The contract of kernel functions --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelContract.h"

#include "KernelOps.h"
#include "dialects/Launch/IR/KernelSignature.h"

using namespace mlir;
using namespace mlir::repro;

/// Returns the only operation of a kernel function that implements
/// KernelOpInterface; null if there is none. Emits an error if there are
/// several.
static FailureOr<Operation *> findOnlyOp(func::FuncOp function) {
  Operation *found = nullptr;
  for (Operation &op : function.getBody().front()) {
    if (!isa<KernelOpInterface>(op))
      continue;
    if (found)
      return op.emitError("expected one structured operation in a kernel "
                          "function, got another after '")
             << found->getName() << "'";
    found = &op;
  }
  return found;
}

/// Verifies the signature of a kernel function (kernel contract,
/// docs/contributors/architecture.md).
static LogicalResult verifySignature(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("expected a kernel function of one block");
  if (!launch::KernelSignature::matches(function))
    return function.emitError("expected a kernel function that ends with "
                              "(memref<?xi8>, memref<1xi64>, index, index) and "
                              "returns nothing, got ")
           << function.getFunctionType();
  return success();
}

FailureOr<Operation *> mlir::repro::findKernelBody(func::FuncOp function) {
  FailureOr<Operation *> op = findOnlyOp(function);
  if (failed(op) || !*op)
    return op;
  if (failed(verifySignature(function)))
    return failure();
  if (failed(cast<KernelOpInterface>(*op).verifyKernel()))
    return failure();
  return op;
}
