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

static std::string getText(nb::bytes nameOrPath) {
  // Either the text or the error.
  std::string text;
  MlirLogicalResult result = reproManyCoreText(
      mlirStringRefCreate(nameOrPath.c_str(), nameOrPath.size()), append,
      append, &text);
  if (mlirLogicalResultIsSuccess(result))
    return text;
  // The error contains the path, whose bytes need not be UTF-8.
  PyErr_SetObject(PyExc_ValueError,
                  nb::steal(PyUnicode_DecodeUTF8(text.data(), text.size(),
                                                 "backslashreplace"))
                      .ptr());
  throw nb::python_error();
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
}
