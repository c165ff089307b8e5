//===- FirstError.h - Captures the first error of a context -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PYTHON_FIRSTERROR_H
#define REPRO_PYTHON_FIRSTERROR_H

#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"

#include <string>

/// Appends text from a callback of the C API to a std::string.
inline void append(MlirStringRef text, void *string) {
  static_cast<std::string *>(string)->append(text.data, text.length);
}

/// Captures the first error that a context reports during its lifetime.
class FirstError {
public:
  explicit FirstError(MlirContext context)
      : context(context), handler(mlirContextAttachDiagnosticHandler(
                              context, &handle, &message, nullptr)) {}
  ~FirstError() { mlirContextDetachDiagnosticHandler(context, handler); }

  std::string message;

private:
  static MlirLogicalResult handle(MlirDiagnostic diagnostic, void *data) {
    auto &message = *static_cast<std::string *>(data);
    if (mlirDiagnosticGetSeverity(diagnostic) != MlirDiagnosticError ||
        !message.empty())
      return mlirLogicalResultSuccess();
    MlirLocation location = mlirDiagnosticGetLocation(diagnostic);
    std::string place;
    mlirLocationPrint(location, append, &place);
    if (place != "loc(unknown)")
      message = place + ": ";
    mlirDiagnosticPrint(diagnostic, append, &message);
    return mlirLogicalResultSuccess();
  }

  MlirContext context;
  MlirDiagnosticHandlerID handler;
};

#endif // REPRO_PYTHON_FIRSTERROR_H
