//===- ReproExtension.cpp - Python access to the compiler -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Repro.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

void bindCPU(nb::module_ &m);

NB_MODULE(_repro, m) {
  m.doc() = "The compiler library's entry points.";
  m.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { reproRegisterDialects(registry); },
      nb::arg("registry"), "Registers every dialect of the pipelines.");
  m.def("register_passes", &reproRegisterPasses,
        "Registers every pass and pipeline.");
  bindCPU(m);
}
