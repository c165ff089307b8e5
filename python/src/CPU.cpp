//===- CPU.cpp - Python bindings for CPU targets --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/CPU.h"
#include "FirstError.h"
#include "Tensors.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

namespace {

/// Runs `make` without the GIL. Raises ValueError with the first diagnostic
/// that is an error.
template <typename Make>
void run(MlirModule module, Make make) {
  MlirLogicalResult result;
  FirstError error(mlirModuleGetContext(module));
  {
    nb::gil_scoped_release release;
    result = make();
  }
  if (mlirLogicalResultIsFailure(result))
    throw nb::value_error(error.message.empty() ? "compilation failed"
                                                : error.message.c_str());
}

nb::bytes compile(MlirModule module, const std::string &level, unsigned jobs,
                  bool timing) {
  MlirStringRef name = mlirStringRefCreate(level.data(), level.size());
  std::string artifact;
  run(module, [&] {
    return reproCPUCompile(module, name, jobs, timing, append, &artifact);
  });
  return nb::bytes(artifact.data(), artifact.size());
}

void take(MlirStringRef text, void *taken) {
  static_cast<std::vector<std::string> *>(taken)->emplace_back(text.data,
                                                               text.length);
}

nb::tuple compileMicrocontroller(MlirModule module, const std::string &level,
                                 const std::string &name,
                                 const std::vector<nb::bytes> &initial,
                                 bool timing) {
  std::vector<MlirStringRef> states;
  for (const nb::bytes &state : initial)
    states.push_back(mlirStringRefCreate(state.c_str(), state.size()));
  std::vector<std::string> texts;
  uint64_t sizes[3];
  run(module, [&] {
    return reproMicrocontrollerCompile(
        module, mlirStringRefCreate(level.data(), level.size()),
        mlirStringRefCreate(name.data(), name.size()), states.data(),
        states.size(), timing, sizes, take, &texts);
  });
  return nb::make_tuple(nb::bytes(texts[0].data(), texts[0].size()),
                        nb::bytes(texts[1].data(), texts[1].size()), sizes[0],
                        sizes[1], sizes[2]);
}

nb::tuple analyze(MlirModule module, const std::string &level, unsigned jobs) {
  MlirStringRef name = mlirStringRefCreate(level.data(), level.size());
  std::vector<std::string> texts;
  run(module,
      [&] { return reproCPUAnalyze(module, name, jobs, take, &texts); });
  return nb::make_tuple(nb::bytes(texts[0].data(), texts[0].size()), texts[1],
                        texts[2]);
}

class PyLoadedArtifact {
public:
  PyLoadedArtifact(nb::bytes artifact, unsigned threads) {
    std::string error;
    loaded = reproLoadedArtifactCreate(
        mlirStringRefCreate(artifact.c_str(), artifact.size()), threads, append,
        &error);
    if (!loaded.ptr)
      throw nb::value_error(error.c_str());
  }
  ~PyLoadedArtifact() { reproLoadedArtifactDestroy(loaded); }
  PyLoadedArtifact(const PyLoadedArtifact &) = delete;
  PyLoadedArtifact &operator=(const PyLoadedArtifact &) = delete;

  nb::list getTensors(ReproTensorKind kind) const {
    nb::list result;
    for (intptr_t i = 0, e = reproLoadedArtifactGetNumTensors(loaded, kind);
         i < e; ++i) {
      MlirStringRef name, element;
      uint64_t bytes;
      const uint64_t *shape;
      intptr_t rank;
      reproLoadedArtifactGetTensor(loaded, kind, i, &name, &element, &bytes,
                                   &shape, &rank);
      result.append(toTuple(name, element, shape, rank));
    }
    return result;
  }

  nb::list getLaunches() const {
    nb::list result;
    for (intptr_t i = 0, e = reproLoadedArtifactGetNumLaunches(loaded); i < e;
         ++i) {
      MlirStringRef name = reproLoadedArtifactGetLaunchKernel(loaded, i);
      result.append(nb::str(name.data, name.length));
    }
    return result;
  }

  void run(const std::vector<uintptr_t> &addresses) const {
    execute(addresses, [&](void *const *buffers, std::string &error) {
      return reproLoadedArtifactRun(loaded, buffers, append, &error);
    });
  }

  std::pair<std::vector<uint64_t>, std::vector<uint64_t>>
  profile(const std::vector<uintptr_t> &addresses,
          const std::vector<int> &counters) const {
    size_t launches = reproLoadedArtifactGetNumLaunches(loaded);
    std::vector<uint64_t> times(launches), counts(launches * counters.size());
    execute(addresses, [&](void *const *buffers, std::string &error) {
      return reproLoadedArtifactProfile(loaded, buffers, counters.data(),
                                        counters.size(), times.data(),
                                        counts.data(), append, &error);
    });
    return {times, counts};
  }

  uint64_t getArenaBytes() const {
    return reproLoadedArtifactGetArenaBytes(loaded);
  }
  unsigned getThreads() const { return reproLoadedArtifactGetThreads(loaded); }
  uint64_t getCompleted() const { return completed; }

private:
  template <typename Step>
  void execute(const std::vector<uintptr_t> &addresses, Step step) const {
    intptr_t expected =
        reproLoadedArtifactGetNumTensors(loaded, ReproTensorState) +
        reproLoadedArtifactGetNumTensors(loaded, ReproTensorInput) +
        reproLoadedArtifactGetNumTensors(loaded, ReproTensorOutput);
    if (intptr_t(addresses.size()) != expected)
      throw nb::value_error(("expected " + std::to_string(expected) +
                             " buffers, got " +
                             std::to_string(addresses.size()))
                                .c_str());
    std::vector<void *> buffers;
    for (uintptr_t address : addresses)
      buffers.push_back(reinterpret_cast<void *>(address));
    std::string error;
    MlirLogicalResult result;
    {
      nb::gil_scoped_release release;
      result = step(buffers.data(), error);
    }
    if (mlirLogicalResultIsFailure(result))
      throw std::runtime_error(error);
    // Count the step here: no Python code, and so no signal handler, can run
    // between the step and its count.
    ++completed;
  }

  ReproLoadedArtifact loaded;
  mutable uint64_t completed = 0;
};

} // namespace

void bindCPU(nb::module_ &m) {
  auto collect = [](void (*get)(MlirStringCallback, void *)) {
    std::string text;
    get(append, &text);
    return text;
  };
  m.def(
      "cpu_levels", [collect] { return collect(reproCPULevels); },
      "The names of the CPU levels, separated by ', '.");
  m.def(
      "runnable_cpu_levels",
      [collect] {
        nb::str names(collect(reproCPURunnableLevels).c_str());
        return names.attr("split")(", ");
      },
      "The names of the CPU levels that this machine runs, worst first.");
  m.def(
      "cpu_host_level", [collect] { return collect(reproCPUHostLevel); },
      "The name of the best CPU level that this machine runs.");
  m.def(
      "compile_cpu", &compile, nb::arg("module"),
      nb::arg("level") = "x86-64-v3", nb::arg("jobs") = 1,
      nb::arg("timing") = false,
      "Compiles a canonical module for a CPU level; the result is an artifact. "
      "Raises ValueError with the first error.");
  m.def("compile_microcontroller", &compileMicrocontroller, nb::arg("module"),
        nb::arg("level"), nb::arg("name"), nb::arg("initial"),
        nb::arg("timing") = false,
        "Compiles a canonical module to an object for a microcontroller. "
        "Returns the object, the plan, and the bytes of code, of constants and "
        "of memory. Raises ValueError with the first error.");
  m.def("analyze_cpu", &analyze, nb::arg("module"), nb::arg("level"),
        nb::arg("jobs") = 1,
        "The plan of a canonical module for a CPU level, what its kernels read "
        "and write, and their assembly. Raises ValueError with the first "
        "error.");
  nb::class_<PyLoadedArtifact>(m, "LoadedArtifact",
                               "A loaded artifact. Raises ValueError if it is "
                               "damaged or made for another machine.")
      .def(nb::init<nb::bytes, unsigned>(), nb::arg("artifact"),
           nb::arg("threads") = 1)
      .def_prop_ro(
          "states",
          [](PyLoadedArtifact &e) { return e.getTensors(ReproTensorState); },
          "(name, element type, shape) of each state tensor.")
      .def_prop_ro(
          "inputs",
          [](PyLoadedArtifact &e) { return e.getTensors(ReproTensorInput); })
      .def_prop_ro(
          "outputs",
          [](PyLoadedArtifact &e) { return e.getTensors(ReproTensorOutput); })
      .def_prop_ro("launches", &PyLoadedArtifact::getLaunches,
                   "The kernel of each launch of a step.")
      .def_prop_ro("arena_bytes", &PyLoadedArtifact::getArenaBytes)
      .def_prop_ro("threads", &PyLoadedArtifact::getThreads)
      .def_prop_ro("completed", &PyLoadedArtifact::getCompleted,
                   "How many steps have run to their end.")
      .def("run", &PyLoadedArtifact::run, nb::arg("addresses"),
           "One step on the addresses of states, inputs and outputs, without "
           "the "
           "GIL. Raises RuntimeError with the message of a failed check; the "
           "states are unchanged then.")
      .def("profile", &PyLoadedArtifact::profile, nb::arg("addresses"),
           nb::arg("counters"),
           "Like run; returns the nanoseconds of each launch, and launch after "
           "launch how far each counter went on, 2^64 - 1 if it cannot be "
           "read. A counter is a file descriptor that gives eight bytes.");
}
