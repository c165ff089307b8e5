//===- Kernel.h - Kernel functions and their calls --------------*- C++ -*-===//
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

/// Makes kernel functions in a module whose entry is `main`; equal kernels are
/// one.
class KernelOutliner {
public:
  /// Kernels are named `prefix`_0, `prefix`_1, ...
  KernelOutliner(func::FuncOp main, StringRef prefix);

  /// Moves a structured op on buffers (or a memref.copy) into a kernel and
  /// launches it instead, on views of whole buffers. An error at the op if it
  /// depends on more than buffers and constants.
  FailureOr<launch::DispatchOp> outline(Operation *op);

  func::FuncOp getKernel(launch::DispatchOp dispatch) const {
    return symbols.lookup<func::FuncOp>(
        dispatch.getKernel().getRootReference());
  }

private:
  func::FuncOp main;
  std::string prefix;
  SymbolTable symbols;
  /// By hash.
  DenseMap<size_t, SmallVector<func::FuncOp, 1>> kernels;
  size_t numKernels = 0;
};

/// The one structured op of a kernel function, its loop over blocks of rows, or
/// its scope of a contraction and the op on its results.
Operation *getKernelBody(func::FuncOp kernel);

/// Whether the op reads or writes the buffer of this operand.
bool readsOperand(OpOperand &operand);
bool writesOperand(OpOperand &operand);

/// What a view of a buffer is a view of, or null.
Value getViewSource(Value memref);

/// The buffer that a memref is a view of: an allocation, a global, or an
/// argument.
Value getRootBuffer(Value memref);

/// The uses of a buffer and of all views of it, other than by views.
SmallVector<OpOperand *> getBufferUses(Value root);

/// What an operand touches of a buffer at a point of the loops.
struct LinearAccess {
  Value root;
  int64_t offset;
  SmallVector<int64_t> steps; ///< per loop

  bool operator==(const LinearAccess &other) const {
    return root == other.root && offset == other.offset && steps == other.steps;
  }
};

/// Nothing where the shape or layout is dynamic, where indices are more than
/// dimensions and constants, or where addresses descend.
std::optional<LinearAccess> getLinearAccess(Value memref, AffineMap map);

/// Strides of a memref, and its offset, which may be dynamic; failure where
/// shape or strides are not static.
FailureOr<SmallVector<int64_t>> getStaticStrides(MemRefType type,
                                                 int64_t &offset);

/// The map of the first output of a fold in terms of its parallel dimensions.
AffineMap getResultMap(FoldOp fold);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNEL_H
