//===- EmitObject.h - Emits object code from the LLVM dialect ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_EMITOBJECT_H
#define REPRO_CODEGEN_CPU_EMITOBJECT_H

#include "Target/Level.h"

#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::repro {

/// Compiles kernels, which are `llvm.func`s with bare pointers, to object
/// files. One object file defines `repro_kernels`, the list of KernelEntry in
/// the order of `kernels`. The bytes do not depend on `jobs`, the number of
/// threads. If `separate` is set, each kernel has a section of its own, and
/// the objects share their routines, so that a linker can make an image of some
/// of the kernels. The entries then run all work items of their kernels, which
/// makes the code smaller.
FailureOr<SmallVector<std::string>>
emitObjects(ModuleOp module, ArrayRef<std::string> kernels, const Level &level,
            unsigned jobs, bool separate = false);

/// Returns the name of the function by which a kernel is called.
std::string getEntryName(StringRef kernel);

/// Optimizes the module and compiles it to an object. On failure, sets `error`
/// to one reason; the object must refer to no function of a library.
std::string emitModule(llvm::Module &module, const Level &level,
                       std::string &error);

/// A hook that changes optimized code before its assembly is emitted. Returns
/// an error message, empty on success.
using PrepareAssembly = llvm::function_ref<std::string(llvm::Module &)>;

/// Returns the assembly of the kernels, for human readers: without the kernels'
/// entries, and with the names of basic blocks as comments.
FailureOr<SmallVector<std::string>>
emitAssembly(ModuleOp module, ArrayRef<std::string> kernels, const Level &level,
             unsigned jobs, PrepareAssembly prepare);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_EMITOBJECT_H
