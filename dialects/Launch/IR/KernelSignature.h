//===- KernelSignature.h - The arguments of kernels -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel function takes its buffers, then what whoever runs the plan adds.
// What in the IR knows the order of these arguments is here.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_KERNELSIGNATURE_H
#define REPRO_LAUNCH_KERNELSIGNATURE_H

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::repro::launch {

/// A kernel function before it is a device's: buffers, scratch memory of the
/// thread, error word, and the share [begin, end) of the work items.
class KernelSignature {
public:
  /// Arguments behind the buffers.
  static constexpr unsigned numOthers = 4;

  explicit KernelSignature(FunctionOpInterface kernel) : kernel(kernel) {}

  static SmallVector<Type> getOtherTypes(MLIRContext *context) {
    Builder b(context);
    return {MemRefType::get({ShapedType::kDynamic}, b.getI8Type()),
            MemRefType::get({1}, b.getI64Type()), b.getIndexType(),
            b.getIndexType()};
  }
  /// Whether the last arguments are such, with scratch memory of any size.
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
  /// Whether the function has such arguments, its scratch memory of no size
  /// yet, and no result.
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

/// A kernel of a device: buffers, the workspace as the last of them where the
/// kernel uses one, and the error word.
class DeviceKernelSignature {
public:
  /// Arguments behind the buffers that a launch passes.
  static constexpr unsigned numOthers = 1;

  explicit DeviceKernelSignature(FunctionOpInterface kernel) : kernel(kernel) {}

  /// Behind the types of the buffers; the workspace has no size yet.
  static SmallVector<Type> getOtherTypes(MLIRContext *context) {
    Builder b(context);
    return {MemRefType::get({ShapedType::kDynamic}, b.getI8Type()),
            MemRefType::get({1}, b.getI64Type())};
  }
  /// Whether there is a workspace behind `numBuffers` buffers.
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
