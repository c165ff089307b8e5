//===- Repro.cpp - C API of the compiler ----------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Repro.h"

#include "Dialect/Repro/Identity/ProgramIdentity.h"
#include "Pipelines/Registration.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

using namespace mlir;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Repro, repro, repro::ReproDialect)

void reproRegisterDialects(MlirDialectRegistry registry) {
  repro::registerDialects(*unwrap(registry));
}

void reproRegisterPasses() { repro::registerPasses(); }

bool reproProgramHash(MlirModule module, uint8_t *hash,
                      MlirStringCallback onError, void *userData) {
  ModuleOp op = unwrap(module);
  ScopedDiagnosticHandler handler(op.getContext(), [&](Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << diagnostic.getLocation() << ": " << diagnostic;
    onError(mlirStringRefCreate(text.data(), text.size()), userData);
    return success();
  });
  FailureOr<repro::ProgramHash> result = repro::hashProgram(op);
  if (failed(result))
    return false;
  llvm::copy(*result, hash);
  return true;
}

bool reproCanBeExact(MlirOperation op) {
  auto fold = dyn_cast<repro::FoldOp>(unwrap(op));
  if (!fold)
    return false;
  std::optional<repro::ContractionBody> contraction =
      repro::getContraction(fold);
  return contraction && contraction->canBeExact();
}

int reproOptMain(int argc, char **argv) {
  repro::registerPasses();
  DialectRegistry registry;
  repro::registerDialects(registry);
  return asMainReturnCode(
      MlirOptMain(argc, argv, "repro-mlir modular optimizer\n", registry));
}

int reproLspServerMain(int argc, char **argv) {
  DialectRegistry registry;
  repro::registerDialects(registry);
  return failed(MlirLspServerMain(argc, argv, registry));
}
