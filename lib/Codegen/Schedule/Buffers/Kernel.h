//===- Kernel.h - Kernel functions and their launches -----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNEL_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNEL_H

#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::repro {

class FoldOp;

/// Creates kernel functions in a module whose entry is `main`; equal kernels
/// share one function.
class KernelOutliner {
public:
  /// Kernels are named `prefix`_0, `prefix`_1, ...
  KernelOutliner(func::FuncOp main, StringRef prefix);

  /// Moves a structured op on buffers (or a memref.copy) into a kernel and
  /// replaces it by a launch on views of whole buffers. Emits an error at the
  /// op if the op depends on values other than buffers and constants.
  FailureOr<launch::DispatchOp> outline(Operation *op);

  func::FuncOp getKernel(launch::DispatchOp dispatch) const {
    return symbols.lookup<func::FuncOp>(
        dispatch.getKernel().getRootReference());
  }

private:
  func::FuncOp main;
  std::string prefix;
  SymbolTable symbols;
  /// Kernels by hash.
  DenseMap<size_t, SmallVector<func::FuncOp, 1>> kernels;
  size_t numKernels = 0;
};

/// Returns the body of a kernel function: a structured op, a loop over blocks
/// of rows, or a scope that contains a contraction and the op on its results.
Operation *getKernelBody(func::FuncOp kernel);

/// Whether the op reads (or writes) the buffer of this operand.
bool readsOperand(OpOperand &operand);
bool writesOperand(OpOperand &operand);

/// Returns the memref that `memref` is a view of, or null.
Value getViewSource(Value memref);

/// Returns the buffer that `memref` views: an allocation, a global, or an
/// argument.
Value getRootBuffer(Value memref);

/// Returns the uses of a buffer and of all its views, except the uses that
/// create views.
SmallVector<OpOperand *> getBufferUses(Value root);

/// An access of an operand, as a linear function of the loops.
struct LinearAccess {
  Value root;
  int64_t offset;
  SmallVector<int64_t> steps; ///< stride of the address per loop

  bool operator==(const LinearAccess &other) const {
    return root == other.root && offset == other.offset && steps == other.steps;
  }
};

/// Returns the access as a linear function of the loops; std::nullopt if the
/// shape or layout is dynamic, if an index is not a sum of dimensions and
/// constants, or if addresses descend.
std::optional<LinearAccess> getLinearAccess(Value memref, AffineMap map);

/// Returns the strides of a memref and sets `offset`, which may be dynamic;
/// fails if the shape or a stride is not static.
FailureOr<SmallVector<int64_t>> getStaticStrides(MemRefType type,
                                                 int64_t &offset);

/// Returns the indexing map of the fold's first output with the fold's parallel
/// dimensions as its only dimensions.
AffineMap getResultMap(FoldOp fold);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNEL_H
