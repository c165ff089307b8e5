//===- Registration.h - Dialects, passes, translations ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PIPELINES_REGISTRATION_H
#define REPRO_PIPELINES_REGISTRATION_H

namespace mlir {
class DialectRegistry;
namespace repro {

/// Registers the repro dialect, the upstream dialects that the pipelines use,
/// and the external models of interfaces on their operations.
void registerDialects(DialectRegistry &registry);

/// Registers the passes and named pipelines; repeated calls have no effect.
void registerPasses();

/// Registers the translations of `repro-translate` and its command line
/// options. Call it only in a process that has no other command line.
void registerTranslations();

} // namespace repro
} // namespace mlir

#endif // REPRO_PIPELINES_REGISTRATION_H
