//===- CudaDevice.cpp - Entry points: devices, errors ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared library with the entry points of libcuda.so.1 that the runner
// (python/repro_mlir/runner) uses, with their documented signatures. It
// simulates one device: kernels run on the PTX emulator, device memory is host
// memory, and all work is done when a call returns. It accepts PTX, but no
// machine code.
//
// Environment variables, read at cuInit:
//   REPRO_STUB_CAPABILITY   compute capability of the device (9.0)
//   REPRO_STUB_MATRIX_UNIT  matrix unit: a class or an architecture (sm_90)
//   REPRO_STUB_MEMORY       bytes of device memory (16 GiB)
//   REPRO_STUB_THREADS      host threads of a launch (one per processor)
//   REPRO_STUB_CHECKED      1: find races and reads of unwritten shared memory
//   REPRO_STUB_FAIL         "cuMemAlloc_v2=2,cuGraphLaunch=700@3": from its
//                           third call on, cuGraphLaunch returns 700
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <cstdio>

using namespace repro_stub;

EXPORT int cuInit(unsigned flags) {
  if (int code = injected("cuInit"))
    return code;
  if (!driver().initialized)
    driver().configure();
  return flags ? InvalidValue : Success;
}

EXPORT int cuDriverGetVersion(int *version) {
  *version = 13000;
  return injected("cuDriverGetVersion");
}

/// Not a function of CUDA: returns the build of this driver, which the runner
/// reports instead of the version of NVIDIA's driver.
EXPORT int reproDriverGetBuild(char *build, int bytes) {
  std::snprintf(build, bytes, "stand-in");
  return injected("reproDriverGetBuild");
}

EXPORT int cuDeviceGetCount(int *count) {
  return call("cuDeviceGetCount", [&] {
    *count = 1;
    return Success;
  });
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  return call("cuDeviceGet", [&] {
    *device = ordinal;
    return ordinal ? InvalidDevice : Success;
  });
}

EXPORT int cuDeviceGetName(char *name, int bytes, int) {
  return call("cuDeviceGetName", [&] {
    std::snprintf(name, bytes, "PTX emulator");
    return Success;
  });
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  return call("cuDeviceGetAttribute", [&] {
    switch (attribute) {
    case 75: // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
      *value = driver().major;
      return Success;
    case 76: // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
      *value = driver().minor;
      return Success;
    case 16: // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
      *value = driver().options.threads;
      return Success;
    case 13: // CU_DEVICE_ATTRIBUTE_CLOCK_RATE
      *value = 1000000;
      return Success;
    default:
      return InvalidValue;
    }
  });
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int) {
  return call("cuDeviceTotalMem_v2", [&] {
    *bytes = driver().memoryBytes;
    return Success;
  });
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int) {
  return call("cuDevicePrimaryCtxRetain", [&] {
    *context = &driver();
    return Success;
  });
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  return call("cuDevicePrimaryCtxRelease_v2", [] { return Success; });
}

EXPORT int cuCtxSetCurrent(void *context) {
  return call("cuCtxSetCurrent",
              [&] { return context == &driver() ? Success : InvalidHandle; });
}

EXPORT int cuCtxSynchronize() {
  return call("cuCtxSynchronize", [] { return Success; });
}

EXPORT int cuGetErrorName(int code, const char **name) {
  switch (code) {
  case OutOfMemory:
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    break;
  case IllegalAddress:
    *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
    break;
  case InvalidPtx:
    *name = "CUDA_ERROR_INVALID_PTX";
    break;
  default:
    *name = "CUDA_ERROR";
  }
  return Success;
}

EXPORT int cuGetErrorString(int code, const char **text) {
  *text = code == IllegalAddress ? "an illegal memory access was encountered"
                                 : "as the stand-in for the driver reports";
  return Success;
}
