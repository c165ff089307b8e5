//===- Emulator.cpp - Python bindings for the PTX emulator ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Emulator.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

namespace {

void append(MlirStringRef text, void *string) {
  static_cast<std::string *>(string)->append(text.data, text.length);
}

MlirStringRef toStringRef(const std::string &text) {
  return {text.data(), text.size()};
}

class PyMemory {
public:
  PyMemory() : memory(reproEmulatorMemoryCreate()) {}
  ~PyMemory() { reproEmulatorMemoryDestroy(memory); }
  PyMemory(const PyMemory &) = delete;
  PyMemory &operator=(const PyMemory &) = delete;

  bool add(uintptr_t address, uint64_t bytes, const std::string &name) {
    return reproEmulatorMemoryAdd(memory, reinterpret_cast<void *>(address),
                                  bytes, toStringRef(name));
  }
  bool remove(uintptr_t address) {
    return reproEmulatorMemoryRemove(memory, reinterpret_cast<void *>(address));
  }

  ReproEmulatorMemory memory;
};

class PyModule {
public:
  PyModule(const std::string &ptx, const std::string &level) {
    std::string error;
    {
      nb::gil_scoped_release release;
      module = reproEmulatorLoad(toStringRef(ptx), toStringRef(level), append,
                                 &error);
    }
    if (!module.ptr)
      throw nb::value_error(error.c_str());
  }
  ~PyModule() { reproEmulatorUnload(module); }
  PyModule(const PyModule &) = delete;
  PyModule &operator=(const PyModule &) = delete;

  std::string getTarget() const {
    MlirStringRef target = reproEmulatorGetTarget(module);
    return {target.data, target.length};
  }

  nb::list getKernels() const {
    nb::list result;
    for (intptr_t i = 0, e = reproEmulatorGetNumKernels(module); i < e; ++i) {
      MlirStringRef name = reproEmulatorGetKernelName(module, i);
      nb::list parameters;
      for (intptr_t j = 0, n = reproEmulatorGetNumParameters(module, i); j < n;
           ++j) {
        uint64_t offset, bytes;
        reproEmulatorGetParameter(module, i, j, &offset, &bytes);
        parameters.append(nb::make_tuple(offset, bytes));
      }
      result.append(nb::make_tuple(nb::str(name.data, name.length), parameters,
                                   reproEmulatorGetSharedBytes(module, i)));
    }
    return result;
  }

  nb::tuple launch(intptr_t kernel, const std::vector<uint32_t> &grid,
                   const std::vector<uint32_t> &block, uint32_t sharedBytes,
                   nb::bytes parameters, const PyMemory &memory,
                   unsigned threads, bool checked, int order, uint64_t seed,
                   const std::string &matrixUnit) const {
    if (kernel < 0 || kernel >= reproEmulatorGetNumKernels(module))
      throw nb::index_error("no such kernel");
    if (grid.size() != 3 || block.size() != 3)
      throw nb::value_error("expected three extents of grid and of block");
    ReproEmulatorOptions options = {threads, checked, ReproEmulatorOrder(order),
                                    seed, toStringRef(matrixUnit)};
    std::string error;
    ReproEmulatorStatus status;
    {
      nb::gil_scoped_release release;
      status = reproEmulatorLaunch(module, kernel, grid.data(), block.data(),
                                   sharedBytes, parameters.c_str(),
                                   parameters.size(), memory.memory, options,
                                   append, &error);
    }
    return nb::make_tuple(int(status), error);
  }

  nb::tuple count(intptr_t kernel, const std::vector<uint32_t> &grid,
                  const std::vector<uint32_t> &block, uint32_t sharedBytes,
                  nb::bytes parameters, const PyMemory &memory,
                  const std::vector<uint64_t> &blocks, uint64_t most) const {
    if (kernel < 0 || kernel >= reproEmulatorGetNumKernels(module))
      throw nb::index_error("no such kernel");
    if (grid.size() != 3 || block.size() != 3)
      throw nb::value_error("expected three extents of grid and of block");
    struct Found {
      std::string error;
      std::vector<ReproEmulatorInstructionCount> instructions;
      std::vector<std::pair<std::string, ReproEmulatorBufferCount>> buffers;
    } found;
    ReproEmulatorCountCallbacks callbacks = {
        [](ReproEmulatorInstructionCount count, void *to) {
          static_cast<Found *>(to)->instructions.push_back(count);
        },
        [](ReproEmulatorBufferCount count, void *to) {
          static_cast<Found *>(to)->buffers.emplace_back(
              std::string(count.name.data, count.name.length), count);
        },
        [](MlirStringRef text, void *to) {
          append(text, &static_cast<Found *>(to)->error);
        },
        &found};
    ReproEmulatorStatus status;
    {
      nb::gil_scoped_release release;
      status = reproEmulatorCount(
          module, kernel, grid.data(), block.data(), sharedBytes,
          parameters.c_str(), parameters.size(), memory.memory, blocks.data(),
          intptr_t(blocks.size()), most, callbacks);
    }
    nb::list instructions, buffers;
    for (const ReproEmulatorInstructionCount &each : found.instructions)
      instructions.append(nb::make_tuple(each.line, each.runs, each.sectors,
                                         each.newSectors, each.wavefronts));
    for (const auto &[name, each] : found.buffers)
      buffers.append(nb::make_tuple(name, each.begin, each.end, each.newSectors,
                                    each.isRead, each.isWritten));
    return nb::make_tuple(int(status), found.error, instructions, buffers);
  }

private:
  ReproEmulatorModule module;
};

} // namespace

void bindEmulator(nb::module_ &m) {
  auto list = [](void (*get)(MlirStringCallback, void *)) {
    std::string names;
    get(append, &names);
    return nb::str(names.c_str()).attr("split")(", ");
  };
  m.def(
      "emulator_opcodes", [list] { return list(reproEmulatorOpcodes); },
      "The rows of the emulator's table of instructions without memory.");
  m.def(
      "emulator_levels", [list] { return list(reproEmulatorLevels); },
      "The host instruction levels that the emulator can use here, worst "
      "first.");
  nb::class_<PyMemory>(m, "EmulatorMemory",
                       "The host buffers that emulated kernels may access.")
      .def(nb::init<>())
      .def("add", &PyMemory::add, nb::arg("address"), nb::arg("bytes"),
           nb::arg("name"), "False if the bytes overlap those of another.")
      .def("remove", &PyMemory::remove, nb::arg("address"));
  nb::class_<PyModule>(m, "EmulatorModule",
                       "Translated PTX text. Raises ValueError if it is "
                       "malformed or has an opcode that is not known.")
      .def(nb::init<const std::string &, const std::string &>(), nb::arg("ptx"),
           nb::arg("level") = "")
      .def_prop_ro("target", &PyModule::getTarget)
      .def_prop_ro("kernels", &PyModule::getKernels,
                   "(name, (offset, bytes) of each parameter, bytes of static "
                   "shared memory) of each kernel.")
      .def("launch", &PyModule::launch, nb::arg("kernel"), nb::arg("grid"),
           nb::arg("block"), nb::arg("shared_bytes"), nb::arg("parameters"),
           nb::arg("memory"), nb::arg("threads") = 1,
           nb::arg("checked") = false, nb::arg("order") = 0,
           nb::arg("seed") = 0, nb::arg("matrix_unit") = "",
           "Runs all blocks without the GIL; returns a ReproEmulatorStatus "
           "and its message.")
      .def("count", &PyModule::count, nb::arg("kernel"), nb::arg("grid"),
           nb::arg("block"), nb::arg("shared_bytes"), nb::arg("parameters"),
           nb::arg("memory"), nb::arg("blocks"), nb::arg("most"),
           "Runs these blocks without the GIL; returns a ReproEmulatorStatus, "
           "its message, (line, runs, sectors, sectors that are new to the "
           "block, wavefronts of shared memory) of each instruction, and "
           "(name, first byte, byte behind the last one, new sectors, whether "
           "it is read, written) of each buffer.");
}
