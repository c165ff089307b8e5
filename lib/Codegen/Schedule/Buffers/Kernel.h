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

/// Creates kernel functions in a module whose entry is `main`. Equal kernels
/// share one function.
class KernelOutliner {
public:
  /// The kernels get the names `prefix`_0, `prefix`_1, ...
  KernelOutliner(func::FuncOp main, StringRef prefix);

  /// Moves a structured op on buffers (or a memref.copy) into a kernel and
  /// replaces it by a launch, whose operands are views of whole buffers. Emits
  /// an error if the op uses values other than buffers and constants.
  FailureOr<launch::DispatchOp> outline(Operation *op);

  func::FuncOp getKernel(launch::DispatchOp dispatch) const {
    return symbols.lookup<func::FuncOp>(
        dispatch.getKernel().getRootReference());
  }

private:
  func::FuncOp main;
  std::string prefix;
  SymbolTable symbols;
  /// The kernels, by their hash.
  DenseMap<size_t, SmallVector<func::FuncOp, 1>> kernels;
  size_t numKernels = 0;
};

/// Returns the operation in a kernel function: a structured op, a loop over
/// blocks of rows, or a scope with a contraction and the op that reads its
/// results.
Operation *getKernelBody(func::FuncOp kernel);

/// Whether the op that has `operand` reads (or writes) the buffer of the
/// operand.
bool readsOperand(OpOperand &operand);
bool writesOperand(OpOperand &operand);

/// Returns the memref of which `memref` is a view, or null if it is not a view.
Value getViewSource(Value memref);

/// Returns the whole buffer of which `memref` is a view: an allocation, a
/// global, or an argument.
Value getRootBuffer(Value memref);

/// Returns the uses of a buffer and of all its views, except those that create
/// views.
SmallVector<OpOperand *> getBufferUses(Value root);

/// An access to a buffer: the iteration with indices i accesses element offset
/// + sum of steps * i of `root`.
struct LinearAccess {
  Value root;
  int64_t offset;
  SmallVector<int64_t> steps; ///< stride of the address per loop

  bool operator==(const LinearAccess &other) const {
    return root == other.root && offset == other.offset && steps == other.steps;
  }
};

/// Returns the access of an operand as a linear function of the loops. Returns
/// std::nullopt if the operand's shape or layout is dynamic, an index is not a
/// sum of dimensions and constants, or a step is negative.
std::optional<LinearAccess> getLinearAccess(Value memref, AffineMap map);

/// Returns the strides of a memref and sets `offset`, which may be dynamic.
/// Fails if the shape or a stride is dynamic.
FailureOr<SmallVector<int64_t>> getStaticStrides(MemRefType type,
                                                 int64_t &offset);

/// Returns the indexing map of the fold's first output as a function of the
/// fold's parallel dimensions only.
AffineMap getResultMap(FoldOp fold);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNEL_H
