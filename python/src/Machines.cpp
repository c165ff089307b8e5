//===- Machines.cpp - Python bindings for machines of many cores ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Machines.h"
#include "FirstError.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

/// Raises ValueError. The error can contain a path, whose bytes need not be
/// UTF-8.
[[noreturn]] static void raiseValueError(const std::string &error) {
  PyErr_SetObject(PyExc_ValueError,
                  nb::steal(PyUnicode_DecodeUTF8(error.data(), error.size(),
                                                 "backslashreplace"))
                      .ptr());
  throw nb::python_error();
}

static std::string getText(nb::bytes nameOrPath) {
  // Either the text or the error.
  std::string text;
  MlirLogicalResult result = reproManyCoreText(
      mlirStringRefCreate(nameOrPath.c_str(), nameOrPath.size()), append,
      append, &text);
  if (mlirLogicalResultIsSuccess(result))
    return text;
  raiseValueError(text);
}

static double getMatrixCycles(nb::bytes nameOrPath, int64_t depth) {
  std::string error;
  double cycles = reproManyCoreMatrixCycles(
      mlirStringRefCreate(nameOrPath.c_str(), nameOrPath.size()), depth, append,
      &error);
  if (!error.empty())
    raiseValueError(error);
  return cycles;
}

void bindMachines(nb::module_ &m) {
  m.def(
      "many_core_machines",
      [] {
        std::string text;
        reproManyCoreMachines(append, &text);
        return text;
      },
      "The names of the machines of many cores, separated by ', '.");
  m.def("many_core_text", &getText, nb::arg("name_or_path"),
        "The complete description of a machine of many cores, as JSON. The "
        "path has the bytes that the file system has. Raises ValueError with "
        "the reason why there is no such machine.");
  m.def("many_core_matrix_cycles", &getMatrixCycles, nb::arg("name_or_path"),
        nb::arg("depth"),
        "The cycles that the array of multipliers of a core takes to add "
        "`depth` products to each accumulator, from the first operand to the "
        "last result. Raises ValueError if there is no array.");
}
