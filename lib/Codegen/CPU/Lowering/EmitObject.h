//===- EmitObject.h - From the LLVM dialect to object code ------*- C++ -*-===//
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

/// Object code of a module whose kernels are `llvm.func`s of the kernel
/// contract with bare pointers. The objects together define `repro_kernels`,
/// the entries (KernelEntry of lib/Runtime) in the order of `kernels`. Code is
/// made in up to `jobs` threads; the bytes do not depend on their number.
FailureOr<SmallVector<std::string>> emitObjects(ModuleOp module,
                                                ArrayRef<std::string> kernels,
                                                const Level &level,
                                                unsigned jobs);

/// What is done to optimized code before its assembly is made; gives the empty
/// string or an error.
using PrepareAssembly = llvm::function_ref<std::string(llvm::Module &)>;

/// Assembly of the same code without entries, for readers of it. Comments have
/// the names of blocks.
FailureOr<SmallVector<std::string>>
emitAssembly(ModuleOp module, ArrayRef<std::string> kernels, const Level &level,
             unsigned jobs, PrepareAssembly prepare);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_EMITOBJECT_H
