//===- ReproExtension.cpp - Python bindings for the compiler --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Repro.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include "llvm/Config/llvm-config.h"

namespace nb = nanobind;

void bindCPU(nb::module_ &m);
void bindCores(nb::module_ &m);
void bindEmulator(nb::module_ &m);
void bindGPU(nb::module_ &m);
void bindMachines(nb::module_ &m);
void bindPartialHash(nb::module_ &m);

/// Appends a line to the std::string that `userData` points to.
static void appendLine(MlirStringRef text, void *userData) {
  auto &all = *static_cast<std::string *>(userData);
  all += (all.empty() ? "" : "\n") + std::string(text.data, text.length);
}

static std::string inHexadecimal(const uint8_t (&hash)[32]) {
  std::string digits;
  for (uint8_t byte : hash)
    for (unsigned nibble : {byte >> 4, byte & 15})
      digits += "0123456789abcdef"[nibble];
  return digits;
}

using Role = std::tuple<MlirOperation, std::string, std::string, std::string,
                        int64_t, int64_t>;

static std::vector<Role> getRoles(MlirModule module, int64_t numState,
                                  bool hasNewState, int64_t loss,
                                  const std::string &lossName) {
  std::vector<Role> roles;
  std::string errors;
  auto append = [](MlirOperation contraction, MlirStringRef role,
                   MlirStringRef left, MlirStringRef right, int64_t weight,
                   int64_t forward, void *userData) {
    auto inPython = [](MlirStringRef text) {
      return std::string(text.data, text.length);
    };
    static_cast<std::vector<Role> *>(userData)->emplace_back(
        contraction, inPython(role), inPython(left), inPython(right), weight,
        forward);
  };
  if (!reproContractionRoles(
          module, numState, hasNewState, loss,
          mlirStringRefCreate(lossName.data(), lossName.size()), append, &roles,
          appendLine, &errors))
    throw nb::value_error(errors.c_str());
  return roles;
}

NB_MODULE(_repro, m) {
  m.doc() = "The compiler library's entry points.";
  m.attr("__version__") = REPRO_VERSION;
  m.attr("llvm_version") = LLVM_VERSION_STRING;
  m.def(
      "register_dialects",
      [](MlirDialectRegistry registry) { reproRegisterDialects(registry); },
      nb::arg("registry"), "Registers every dialect of the pipelines.");
  m.def("register_passes", &reproRegisterPasses,
        "Registers every pass and pipeline.");
  bindCPU(m);
  bindCores(m);
  bindEmulator(m);
  bindGPU(m);
  bindMachines(m);
  bindPartialHash(m);
  m.def(
      "program_hash",
      [](MlirModule module) {
        uint8_t hash[32];
        std::string errors;
        if (!reproProgramHash(module, hash, appendLine, &errors))
          throw nb::value_error(errors.c_str());
        return inHexadecimal(hash);
      },
      nb::arg("module"),
      "The identity (H2) of a canonical program, 64 hexadecimal digits. Raises "
      "ValueError with the errors where the module is no canonical program.");
  m.def(
      "symbolic_hash",
      [](MlirModule module) {
        uint8_t hash[32];
        std::string errors;
        if (!reproSymbolicHash(module, hash, appendLine, &errors))
          throw nb::value_error(errors.c_str());
        return inHexadecimal(hash);
      },
      nb::arg("module"),
      "The identity (H4) of an imported program of many sizes, 64 hexadecimal "
      "digits. Raises ValueError with the errors where the module is none.");
  m.def(
      "write_program",
      [](MlirModule module) {
        std::string bytes, errors;
        auto append = [](MlirStringRef part, void *userData) {
          static_cast<std::string *>(userData)->append(part.data, part.length);
        };
        if (!reproWriteProgram(module, append, &bytes, appendLine, &errors))
          throw nb::value_error(errors.c_str());
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("module"),
      "The bytes of a canonical program as it is stored "
      "(docs/verification/identity.md). "
      "Raises ValueError with the errors where the module is no canonical "
      "program.");
  m.def(
      "read_program",
      [](nb::bytes bytes, MlirContext context) {
        std::string errors;
        MlirModule module = reproReadProgram(
            context, mlirStringRefCreate(bytes.c_str(), bytes.size()),
            appendLine, &errors);
        if (mlirModuleIsNull(module))
          throw nb::value_error(errors.c_str());
        return module;
      },
      nb::arg("bytes"), nb::arg("context").none() = nb::none(),
      "The canonical module with these bytes of a stored program, with its "
      "names, messages and locations. Raises ValueError with the errors where "
      "they are none.");
  m.def(
      "contraction_roles", &getRoles, nb::arg("module"), nb::arg("num_state"),
      nb::arg("has_new_state"), nb::arg("loss"), nb::arg("loss_name"),
      "For each contraction whose sum may be chosen, in program order: the "
      "operation, its role, what its two factors are, the argument that is the "
      "layer's weight and the number of the layer's contraction in the forward "
      "pass, -1 for none. `loss` is a result, or -1 for the one of a name. "
      "Raises ValueError where no result is the loss and weights change.");
  m.def(
      "multiplied_types",
      [](MlirOperation operation)
          -> std::optional<std::pair<MlirType, MlirType>> {
        MlirType x, y;
        if (!reproGetMultipliedTypes(operation, &x, &y))
          return std::nullopt;
        return std::make_pair(x, y);
      },
      nb::arg("operation"),
      "The types of the elements that an operation multiplies, if it is a "
      "contraction (K1) whose sum may be chosen: (K4), but for the number of "
      "its reduction elements, or (M4). Else None.");
}
