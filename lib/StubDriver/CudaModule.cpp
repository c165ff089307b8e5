//===- CudaModule.cpp - Entry points: code and launches -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <cstdio>
#include <cstring>

using namespace repro_stub;

namespace {

struct Kernel {
  ReproEmulatorModule module;
  intptr_t index;
  /// A real driver rejects launches with more than 48 KiB of dynamic shared
  /// memory unless the attribute is set.
  uint32_t dynamicSharedLimit = 48 * 1024;
};

struct Module {
  ReproEmulatorModule code;
  std::map<std::string, Kernel> kernels;
};

void print(MlirStringRef message, void *) {
  std::fprintf(stderr, "stub driver: %.*s\n", static_cast<int>(message.length),
               message.data);
}

void append(MlirStringRef message, void *to) {
  static_cast<std::string *>(to)->append(message.data, message.length);
}

int run(const Kernel &kernel, const uint32_t grid[3], const uint32_t block[3],
        uint32_t shared, const std::vector<uint8_t> &parameters) {
  switch (reproEmulatorLaunch(
      kernel.module, kernel.index, grid, block, shared, parameters.data(),
      parameters.size(), driver().memory, driver().options, print, nullptr)) {
  case ReproEmulatorSuccess:
    return Success;
  case ReproEmulatorBadLaunch:
    return InvalidValue;
  case ReproEmulatorOutOfBounds:
    return IllegalAddress;
  case ReproEmulatorMisaligned:
    return MisalignedAddress;
  default:
    return LaunchFailed;
  }
}

} // namespace

EXPORT int cuModuleLoadDataEx(void **result, const char *image, unsigned count,
                              const int *names, void **values) {
  return call("cuModuleLoadDataEx", [&] {
    if (!std::memcmp(image, "\177ELF", 4))
      return NoBinaryForGpu;
    if (!std::strstr(image, ".version"))
      return InvalidImage;
    std::string error;
    ReproEmulatorModule code =
        reproEmulatorLoad(MlirStringRef{image, std::strlen(image)},
                          MlirStringRef{"", 0}, append, &error);
    if (!code.ptr) {
      char *log = nullptr;
      size_t size = 0;
      for (unsigned i = 0; i < count; ++i) {
        if (names[i] == 5) // CU_JIT_ERROR_LOG_BUFFER
          log = static_cast<char *>(values[i]);
        else if (names[i] == 6) // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
          size = reinterpret_cast<uintptr_t>(values[i]);
      }
      if (log && size)
        std::snprintf(log, size, "%s", error.c_str());
      return InvalidPtx;
    }
    // As on a real device, code for a newer architecture does not run.
    MlirStringRef target = reproEmulatorGetTarget(code);
    int version = 0;
    std::sscanf(std::string(target.data, target.length).c_str(), "sm_%d",
                &version);
    if (version > 10 * driver().major + driver().minor) {
      reproEmulatorUnload(code);
      return NoBinaryForGpu;
    }
    *result = new Module{code, {}};
    return Success;
  });
}

EXPORT int cuModuleUnload(void *module) {
  return call("cuModuleUnload", [&] {
    auto *loaded = static_cast<Module *>(module);
    reproEmulatorUnload(loaded->code);
    delete loaded;
    return Success;
  });
}

EXPORT int cuModuleGetFunction(void **function, void *module,
                               const char *name) {
  return call("cuModuleGetFunction", [&] {
    auto *loaded = static_cast<Module *>(module);
    intptr_t index = reproEmulatorFindKernel(
        loaded->code, MlirStringRef{name, std::strlen(name)});
    if (index < 0)
      return NotFound;
    Kernel kernel;
    kernel.module = loaded->code;
    kernel.index = index;
    *function = &loaded->kernels.emplace(name, kernel).first->second;
    return Success;
  });
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  return call("cuFuncSetAttribute", [&] {
    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (attribute == 8)
      static_cast<Kernel *>(function)->dynamicSharedLimit = value;
    return Success;
  });
}

EXPORT int cuFuncLoad(void *) {
  return call("cuFuncLoad", [] { return Success; });
}

EXPORT int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY,
                          unsigned gridZ, unsigned blockX, unsigned blockY,
                          unsigned blockZ, unsigned shared, void *,
                          void **parameters, void **) {
  return call("cuLaunchKernel", [&]() -> int {
    const Kernel kernel = *static_cast<Kernel *>(function);
    if (!gridX || !gridY || !gridZ || gridY > 65535 || gridZ > 65535 ||
        blockX * blockY * blockZ - 1 >= 1024 ||
        shared > kernel.dynamicSharedLimit)
      return InvalidValue;
    std::vector<uint8_t> values(
        reproEmulatorGetParameterBytes(kernel.module, kernel.index));
    intptr_t count = reproEmulatorGetNumParameters(kernel.module, kernel.index);
    for (intptr_t i = 0; i < count; ++i) {
      uint64_t offset, bytes;
      reproEmulatorGetParameter(kernel.module, kernel.index, i, &offset,
                                &bytes);
      std::memcpy(values.data() + offset, parameters[i], bytes);
    }
    return enqueue([=] {
      const uint32_t grid[3] = {gridX, gridY, gridZ};
      const uint32_t block[3] = {blockX, blockY, blockZ};
      return run(kernel, grid, block, shared, values);
    });
  });
}
