//===- CudaStream.cpp - Entry points: streams, graphs, events -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <chrono>

using namespace repro_stub;

using Event = std::chrono::steady_clock::time_point;

EXPORT int cuStreamCreate(void **stream, unsigned) {
  return call("cuStreamCreate", [&] {
    *stream = &driver();
    return Success;
  });
}

EXPORT int cuStreamDestroy_v2(void *) {
  return call("cuStreamDestroy_v2", [] { return Success; });
}

EXPORT int cuStreamSynchronize(void *) {
  return call("cuStreamSynchronize", [] {
    // CUDA does not permit synchronization during a capture.
    return driver().recording ? InvalidHandle : Success;
  });
}

EXPORT int cuStreamBeginCapture_v2(void *, int) {
  return call("cuStreamBeginCapture_v2", [] {
    if (driver().recording)
      return InvalidHandle;
    driver().recording = new Graph;
    return Success;
  });
}

EXPORT int cuStreamEndCapture(void *, void **graph) {
  return call("cuStreamEndCapture", [&] {
    *graph = driver().recording;
    driver().recording = nullptr;
    return *graph ? Success : InvalidHandle;
  });
}

EXPORT int cuGraphInstantiateWithFlags(void **executable, void *graph,
                                       unsigned long long) {
  return call("cuGraphInstantiateWithFlags", [&] {
    *executable = new Graph(*static_cast<Graph *>(graph));
    return Success;
  });
}

EXPORT int cuGraphLaunch(void *executable, void *) {
  return call("cuGraphLaunch", [&]() -> int {
    for (const Work &work : *static_cast<Graph *>(executable))
      if (int code = work())
        return code;
    return Success;
  });
}

EXPORT int cuGraphExecDestroy(void *executable) {
  return call("cuGraphExecDestroy", [&] {
    delete static_cast<Graph *>(executable);
    return Success;
  });
}

EXPORT int cuGraphDestroy(void *graph) {
  return call("cuGraphDestroy", [&] {
    delete static_cast<Graph *>(graph);
    return Success;
  });
}

EXPORT int cuEventCreate(void **event, unsigned) {
  return call("cuEventCreate", [&] {
    *event = new Event;
    return Success;
  });
}

EXPORT int cuEventRecord(void *event, void *) {
  return call("cuEventRecord", [&] {
    *static_cast<Event *>(event) = std::chrono::steady_clock::now();
    return Success;
  });
}

EXPORT int cuEventSynchronize(void *) {
  return call("cuEventSynchronize", [] { return Success; });
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  return call("cuEventElapsedTime", [&] {
    std::chrono::duration<float, std::milli> time =
        *static_cast<Event *>(end) - *static_cast<Event *>(start);
    *milliseconds = time.count();
    return Success;
  });
}

EXPORT int cuEventDestroy_v2(void *event) {
  return call("cuEventDestroy_v2", [&] {
    delete static_cast<Event *>(event);
    return Success;
  });
}
