//===- KernelChecks.h - Which kernels contain checks ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_KERNELCHECKS_H
#define REPRO_CODEGEN_CORES_KERNELCHECKS_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::repro::cores {

/// Whether a kernel may write the error word (E1): before or after its
/// expansion, and after its lowering to the LLVM dialect.
bool hasChecks(FunctionOpInterface kernel);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_KERNELCHECKS_H
