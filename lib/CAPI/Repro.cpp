//===- Repro.cpp - C API of the compiler ----------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Repro.h"

#include "Dialect/Repro/Identity/ProgramIdentity.h"
#include "Dialect/Repro/Identity/ProgramReader.h"
#include "Dialect/Repro/Identity/ProgramWriter.h"
#include "Dialect/Repro/Identity/StoredFormat.h"
#include "Dialect/Repro/Identity/SymbolicProgram.h"
#include "Dialect/Repro/Transforms/ContractionRoles.h"
#include "Pipelines/Registration.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Utils.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Repro, repro, repro::ReproDialect)

void reproRegisterDialects(MlirDialectRegistry registry) {
  repro::registerDialects(*unwrap(registry));
}

void reproRegisterPasses() { repro::registerPasses(); }

namespace {
/// Passes errors, location first, to a callback instead of printing them.
class ErrorsTo : public ScopedDiagnosticHandler {
public:
  ErrorsTo(MLIRContext *context, MlirStringCallback onError, void *userData)
      : ScopedDiagnosticHandler(context, [=](Diagnostic &diagnostic) {
          std::string text;
          llvm::raw_string_ostream stream(text);
          stream << diagnostic.getLocation() << ": " << diagnostic;
          onError(mlirStringRefCreate(text.data(), text.size()), userData);
          return success();
        }) {}
};
} // namespace

bool reproProgramHash(MlirModule module, uint8_t *hash,
                      MlirStringCallback onError, void *userData) {
  ModuleOp op = unwrap(module);
  ErrorsTo handler(op.getContext(), onError, userData);
  FailureOr<repro::ProgramHash> result = repro::hashProgram(op);
  if (failed(result))
    return false;
  llvm::copy(*result, hash);
  return true;
}

bool reproSymbolicHash(MlirModule module, uint8_t *hash,
                       MlirStringCallback onError, void *userData) {
  ModuleOp op = unwrap(module);
  ErrorsTo handler(op.getContext(), onError, userData);
  FailureOr<repro::ProgramHash> result = repro::hashSymbolicProgram(op);
  if (failed(result))
    return false;
  llvm::copy(*result, hash);
  return true;
}

bool reproWriteProgram(MlirModule module, MlirStringCallback onBytes,
                       void *bytesData, MlirStringCallback onError,
                       void *errorData) {
  ModuleOp op = unwrap(module);
  ErrorsTo handler(op.getContext(), onError, errorData);
  mlir::detail::CallbackOstream stream(onBytes, bytesData);
  return succeeded(repro::writeProgram(op, stream));
}

MlirModule reproReadProgram(MlirContext context, MlirStringRef bytes,
                            MlirStringCallback onError, void *userData) {
  ErrorsTo handler(unwrap(context), onError, userData);
  return wrap(repro::readProgram(unwrap(bytes), unwrap(context)).release());
}

bool reproGetMultipliedTypes(MlirOperation op, MlirType *x, MlirType *y) {
  auto fold = dyn_cast<repro::FoldOp>(unwrap(op));
  if (!fold)
    return false;
  std::optional<std::pair<Type, Type>> types = repro::getMultipliedTypes(fold);
  if (!types)
    return false;
  *x = wrap(types->first);
  *y = wrap(types->second);
  return true;
}

static StringRef getName(repro::Role role) {
  switch (role) {
  case repro::Role::fprop:
    return "fprop";
  case repro::Role::dgrad:
    return "dgrad";
  case repro::Role::wgrad:
    return "wgrad";
  case repro::Role::product:
    return "product";
  case repro::Role::other:
    return "other";
  }
  llvm_unreachable("a role without a name");
}

static StringRef getName(repro::Factor factor) {
  switch (factor) {
  case repro::Factor::activation:
    return "activation";
  case repro::Factor::weight:
    return "weight";
  case repro::Factor::gradient:
    return "gradient";
  case repro::Factor::none:
    return "none";
  }
  llvm_unreachable("a factor without a name");
}

bool reproContractionRoles(
    MlirModule module, int64_t numState, bool hasNewState, int64_t loss,
    MlirStringRef lossName,
    void (*onRole)(MlirOperation contraction, MlirStringRef role,
                   MlirStringRef left, MlirStringRef right, int64_t weight,
                   int64_t forward, void *userData),
    void *roleData, MlirStringCallback onError, void *errorData) {
  ModuleOp op = unwrap(module);
  ErrorsTo handler(op.getContext(), onError, errorData);
  auto main = op.lookupSymbol<func::FuncOp>("main");
  if (!main) {
    op.emitError("expected a function @main");
    return false;
  }
  repro::StepShape shape{numState, hasNewState, loss, unwrap(lossName)};
  FailureOr<SmallVector<repro::ContractionRole>> roles =
      repro::getRoles(main, shape);
  if (failed(roles))
    return false;
  for (auto [fold, role] :
       llvm::zip_equal(repro::getContractions(main), *roles))
    onRole(wrap(fold.getOperation()), wrap(getName(role.role)),
           wrap(getName(role.factors[0])), wrap(getName(role.factors[1])),
           role.weight, role.forward, roleData);
  return true;
}

/// Runs repro-opt on a stored program, as if its module were given as text.
static LogicalResult optStoredProgram(StringRef bytes, StringRef outputFile,
                                      DialectRegistry &registry) {
  std::string text;
  {
    MLIRContext context(registry);
    OwningOpRef<ModuleOp> module = repro::readProgram(bytes, &context);
    if (!module)
      return failure();
    llvm::raw_string_ostream stream(text);
    module->print(stream, OpPrintingFlags().enableDebugInfo());
  }
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> output =
      openOutputFile(outputFile, &error);
  if (!output) {
    llvm::errs() << error << "\n";
    return failure();
  }
  if (failed(MlirOptMain(output->os(), llvm::MemoryBuffer::getMemBuffer(text),
                         registry, MlirOptMainConfig::createFromCLOptions())))
    return failure();
  output->keep();
  return success();
}

int reproOptMain(int argc, char **argv) {
  repro::registerPasses();
  DialectRegistry registry;
  repro::registerDialects(registry);
  auto [inputFile, outputFile] = registerAndParseCLIOptions(
      argc, argv, "repro-mlir modular optimizer\n", registry);
  // Read the input only if it is a regular file, because a pipe can be read
  // only once. If the file cannot be read, MlirOptMain reports the error.
  if (llvm::sys::fs::is_regular_file(inputFile)) {
    auto input = llvm::MemoryBuffer::getFile(inputFile);
    if (input && (*input)->getBuffer().starts_with(repro::kFileMagic))
      return asMainReturnCode(
          optStoredProgram((*input)->getBuffer(), outputFile, registry));
  }
  return asMainReturnCode(
      MlirOptMain(argc, argv, inputFile, outputFile, registry));
}

int reproLspServerMain(int argc, char **argv) {
  DialectRegistry registry;
  repro::registerDialects(registry);
  return failed(MlirLspServerMain(argc, argv, registry));
}

int reproTranslateMain(int argc, char **argv) {
  repro::registerTranslations();
  return failed(mlirTranslateMain(argc, argv, "repro-mlir translator"));
}
