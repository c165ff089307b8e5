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
void bindEmulator(nb::module_ &m);
void bindGPU(nb::module_ &m);

NB_MODULE(_repro, m) {
  m.doc() = "The compiler library's entry points.";
  m.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { reproRegisterDialects(registry); },
      nb::arg("registry"), "Registers every dialect of the pipelines.");
  m.def("register_passes", &reproRegisterPasses,
        "Registers every pass and pipeline.");
  bindCPU(m);
  bindEmulator(m);
  bindGPU(m);
  m.def(
      "program_hash",
      [](MlirModule module) {
        uint8_t hash[32];
        std::string errors;
        auto append = [](MlirStringRef text, void *userData) {
          auto &all = *static_cast<std::string *>(userData);
          all +=
              (all.empty() ? "" : "\n") + std::string(text.data, text.length);
        };
        if (!reproProgramHash(module, hash, append, &errors))
          throw nb::value_error(errors.c_str());
        std::string digits;
        for (uint8_t byte : hash)
          for (unsigned nibble : {byte >> 4, byte & 15})
            digits += "0123456789abcdef"[nibble];
        return digits;
      },
      nb::arg("module"),
      "The identity (H2) of a canonical program, 64 hexadecimal digits. Raises "
      "ValueError with the errors where the module is no canonical program.");
  m.def("can_be_exact", &reproCanBeExact, nb::arg("operation"),
        "Whether an operation is a fold that can be exact (K4), but for the "
        "number of its reduction elements.");
}
