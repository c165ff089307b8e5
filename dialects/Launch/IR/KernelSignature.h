//===- KernelSignature.h - The arguments of kernels -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel function takes its buffers, followed by fixed arguments such as the
// error word. Only this file defines the order of the fixed arguments; all code
// that builds or reads kernel functions uses the classes below.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_KERNELSIGNATURE_H
#define REPRO_LAUNCH_KERNELSIGNATURE_H

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::repro::launch {

/// The arguments of a kernel function before it is lowered for a device: the
/// buffers, the thread's scratch memory, the error word, and the range [begin,
/// end) of work items.
class KernelSignature {
public:
  /// The number of fixed arguments after the buffers.
  static constexpr unsigned numOthers = 4;

  explicit KernelSignature(FunctionOpInterface kernel) : kernel(kernel) {}

  static SmallVector<Type> getOtherTypes(MLIRContext *context) {
    Builder b(context);
    return {MemRefType::get({ShapedType::kDynamic}, b.getI8Type()),
            MemRefType::get({1}, b.getI64Type()), b.getIndexType(),
            b.getIndexType()};
  }
  /// Whether `types` ends with scratch memory of any size, the error word and
  /// the range of work items.
  static bool endsArguments(ArrayRef<Type> types) {
    if (types.size() < numOthers)
      return false;
    types = types.take_back(numOthers);
    auto scratch = dyn_cast<MemRefType>(types.front());
    return scratch && scratch.getRank() == 1 &&
           scratch.getElementType().isInteger(8) &&
           types.drop_front() ==
               ArrayRef(getOtherTypes(scratch.getContext())).drop_front();
  }
  /// Whether the function has no result and its arguments end with scratch
  /// memory of dynamic size, the error word and the range of work items.
  static bool matches(FunctionOpInterface function) {
    ArrayRef<Type> types = function.getArgumentTypes();
    return !function.getNumResults() && endsArguments(types) &&
           cast<MemRefType>(types[types.size() - numOthers]).isDynamicDim(0);
  }

  unsigned getNumBuffers() { return kernel.getNumArguments() - numOthers; }
  BlockArgument getScratch() { return getOther(0); }
  BlockArgument getError() { return getOther(1); }
  BlockArgument getBegin() { return getOther(2); }
  BlockArgument getEnd() { return getOther(3); }

private:
  BlockArgument getOther(unsigned index) {
    return kernel.getArgument(getNumBuffers() + index);
  }

  FunctionOpInterface kernel;
};

/// The arguments of a device kernel: the buffers, the workspace if the kernel
/// uses one, and the error word.
class DeviceKernelSignature {
public:
  /// The number of arguments after the buffers and the workspace: the error
  /// word.
  static constexpr unsigned numOthers = 1;

  explicit DeviceKernelSignature(FunctionOpInterface kernel) : kernel(kernel) {}

  /// Returns the type of the workspace, whose size is dynamic, and that of the
  /// error word.
  static SmallVector<Type> getOtherTypes(MLIRContext *context) {
    Builder b(context);
    return {MemRefType::get({ShapedType::kDynamic}, b.getI8Type()),
            MemRefType::get({1}, b.getI64Type())};
  }
  /// Whether the kernel takes a workspace in addition to `numBuffers` buffers.
  bool hasWorkspace(unsigned numBuffers) {
    return kernel.getNumArguments() == numBuffers + 1 + numOthers;
  }
  BlockArgument getWorkspace() {
    return kernel.getArgument(kernel.getNumArguments() - 1 - numOthers);
  }
  BlockArgument getError() {
    return kernel.getArgument(kernel.getNumArguments() - numOthers);
  }

private:
  FunctionOpInterface kernel;
};

} // namespace mlir::repro::launch

#endif // REPRO_LAUNCH_KERNELSIGNATURE_H
