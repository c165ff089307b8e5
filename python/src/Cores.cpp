//===- Cores.cpp - Python bindings for machines of many cores -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Cores.h"
#include "FirstError.h"
#include "Tensors.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

namespace {

/// Returns the text that `make` passes to a callback. Raises ValueError with
/// the first error.
template <typename Make>
std::string take(MlirModule module, Make make) {
  std::string text;
  MlirLogicalResult result;
  FirstError error(mlirModuleGetContext(module));
  {
    nb::gil_scoped_release release;
    result = make(&text);
  }
  if (mlirLogicalResultIsFailure(result))
    throw nb::value_error(error.message.empty() ? "compilation failed"
                                                : error.message.c_str());
  return text;
}

MlirStringRef toRef(const std::string &text) {
  return mlirStringRefCreate(text.data(), text.size());
}

nb::bytes compile(MlirModule module, const std::string &machine,
                  const std::string &level, unsigned jobs, bool timing) {
  std::string plan = take(module, [&](std::string *text) {
    return reproCoresCompile(module, toRef(machine), toRef(level), jobs, timing,
                             append, text);
  });
  return nb::bytes(plan.data(), plan.size());
}

std::string describe(MlirModule module, const std::string &machine) {
  return take(module, [&](std::string *text) {
    return reproCoresDescribe(module, toRef(machine), append, text);
  });
}

/// Runs Python's handlers of signals that have arrived, such as that of Ctrl-C.
/// Returns whether one of them has raised an exception.
bool hasSignalRaised() {
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

class PyLoadedCorePlan {
public:
  explicit PyLoadedCorePlan(nb::bytes plan) {
    std::string error;
    MlirStringRef bytes = mlirStringRefCreate(plan.c_str(), plan.size());
    loaded = reproLoadedCorePlanCreate(bytes, append, &error);
    if (!loaded.ptr)
      throw nb::value_error(error.c_str());
  }
  ~PyLoadedCorePlan() { reproLoadedCorePlanDestroy(loaded); }
  PyLoadedCorePlan(const PyLoadedCorePlan &) = delete;
  PyLoadedCorePlan &operator=(const PyLoadedCorePlan &) = delete;

  nb::list getTensors(ReproTensorKind kind) const {
    nb::list result;
    for (intptr_t i = 0, e = reproLoadedCorePlanGetNumTensors(loaded, kind);
         i < e; ++i) {
      MlirStringRef name, element;
      const uint64_t *shape;
      intptr_t rank;
      reproLoadedCorePlanGetTensor(loaded, kind, i, &name, &element, &shape,
                                   &rank);
      result.append(toTuple(name, element, shape, rank));
    }
    return result;
  }

  std::string run(const std::vector<uintptr_t> &addresses, bool timeline) {
    intptr_t expected = 0;
    for (ReproTensorKind kind :
         {ReproTensorState, ReproTensorInput, ReproTensorOutput})
      expected += reproLoadedCorePlanGetNumTensors(loaded, kind);
    if (intptr_t(addresses.size()) != expected)
      throw nb::value_error(("expected " + std::to_string(expected) +
                             " buffers, got " +
                             std::to_string(addresses.size()))
                                .c_str());
    std::vector<void *> buffers;
    for (uintptr_t address : addresses)
      buffers.push_back(reinterpret_cast<void *>(address));
    std::string text; // the report or the error
    ReproSimulationOutcome outcome;
    {
      nb::gil_scoped_release release;
      outcome = reproLoadedCorePlanRun(loaded, buffers.data(), timeline,
                                       hasSignalRaised, append, append, &text);
    }
    if (outcome == ReproSimulationInterrupted)
      throw nb::python_error();
    if (outcome == ReproSimulationCheckFailed)
      throw std::runtime_error(text);
    if (outcome == ReproSimulationWrongPlan)
      throw nb::value_error(text.c_str());
    return text;
  }

private:
  ReproLoadedCorePlan loaded;
};

} // namespace

void bindCores(nb::module_ &m) {
  m.def("compile_cores", &compile, nb::arg("module"), nb::arg("machine"),
        nb::arg("level"), nb::arg("jobs") = 1, nb::arg("timing") = false,
        "Maps a canonical module onto a machine of many cores; the result is a "
        "core plan. Raises ValueError with the first error.");
  m.def("describe_cores", &describe, nb::arg("module"), nb::arg("machine"),
        "Maps a canonical module onto a machine of many cores, and describes "
        "the mapping as JSON. Raises ValueError with the first error.");
  nb::class_<PyLoadedCorePlan>(
      m, "LoadedCorePlan",
      "A core plan in a simulator. Raises ValueError if the plan is damaged or "
      "does not fit its machine.")
      .def(nb::init<nb::bytes>(), nb::arg("plan"))
      .def_prop_ro(
          "states",
          [](PyLoadedCorePlan &e) { return e.getTensors(ReproTensorState); },
          "(name, element type, shape) of each state tensor.")
      .def_prop_ro(
          "inputs",
          [](PyLoadedCorePlan &e) { return e.getTensors(ReproTensorInput); })
      .def_prop_ro(
          "outputs",
          [](PyLoadedCorePlan &e) { return e.getTensors(ReproTensorOutput); })
      .def("run", &PyLoadedCorePlan::run, nb::arg("addresses"),
           nb::arg("timeline") = false,
           "Simulates one step on the addresses of states, inputs and outputs, "
           "without the GIL; returns the measurements as JSON. Raises "
           "RuntimeError with the message of a failed check, ValueError if the "
           "plan has a race or a deadlock, and the exception of a signal that "
           "interrupts the step.");
}
