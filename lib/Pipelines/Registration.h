//===- Registration.h - Everything the compiler knows -----------*- C++ -*-===//
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
/// and the external interface models they need.
void registerDialects(DialectRegistry &registry);

/// Registers the passes and named pipelines, once per process.
void registerPasses();

/// Registers what `repro-translate` makes of compiled modules; not for a
/// process that has a command line of its own.
void registerTranslations();

} // namespace repro
} // namespace mlir

#endif // REPRO_PIPELINES_REGISTRATION_H
