//===- Plan.cpp - The launches of a compiled program ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "TensorStream.h"

#include <cstring>

using namespace repro_runtime;

namespace {

constexpr char planMagic[12] = "reproplan";
constexpr uint32_t planVersion = 1;
constexpr uint32_t checkFlag = 1;
constexpr uint64_t mostThreads = 1024; ///< per block, on every GPU

void parse(ByteReader &reader, Plan &plan) {
  auto string = [&](std::string &text) { text = reader.string(); };
  auto triple = [&](std::array<uint32_t, 3> &sizes) {
    for (uint32_t &size : sizes)
      size = reader.u32();
  };
  plan.arenaBytes = reader.u64();
  plan.constantBytes = reader.u64();
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    readTensors(reader, *tensors);
  reader.list(plan.messages, 4, string);
  reader.list(plan.kernels, 20, [&](Kernel &kernel) {
    kernel.name = reader.string();
    if (plan.processor == Processor::CPU) {
      kernel.items = reader.u64();
      kernel.grain = reader.u64();
      kernel.scratchBytes = reader.u64();
    } else {
      triple(kernel.block);
      kernel.sharedBytes = reader.u32();
    }
  });
  reader.list(plan.launches, 12, [&](Launch &launch) {
    launch.kernel = reader.u32();
    uint32_t flags = reader.u32();
    launch.check = flags & checkFlag;
    reader.failed |= flags > checkFlag;
    if (plan.processor == Processor::GPU)
      triple(launch.grid);
    reader.list(launch.buffers, 16, [&](BufferRef &buffer) {
      buffer.space = Space(reader.u32());
      buffer.index = reader.u32();
      buffer.offset = reader.u64();
    });
  });
}

/// Sets `bytes` to the size of the memory in which a buffer lies; returns false
/// if there is no such memory.
bool findSpace(const Plan &plan, const BufferRef &buffer, uint64_t &bytes) {
  auto find = [&](const std::vector<Tensor> &tensors) {
    if (buffer.index >= tensors.size())
      return false;
    bytes = tensors[buffer.index].getBytes();
    return true;
  };
  switch (buffer.space) {
  case Space::State:
    return find(plan.states);
  case Space::Input:
    return find(plan.inputs);
  case Space::Output:
    return find(plan.outputs);
  case Space::Arena:
    bytes = plan.arenaBytes;
    return buffer.index == 0;
  case Space::Constant:
    bytes = plan.constantBytes;
    return buffer.index == 0;
  }
  return false;
}

Error checkKernel(const Kernel &kernel, Processor processor) {
  if (!isUTF8(kernel.name))
    return "has a name that is not UTF-8";
  if (processor == Processor::CPU) {
    if (!kernel.grain || kernel.grain > mostBytes || kernel.items > mostBytes)
      return "has no grain, or more than 2^48 work items";
    if (kernel.scratchBytes > mostBytes)
      return "has more than 2^48 bytes of scratch";
    return {};
  }
  uint64_t threads = 1;
  for (uint64_t size : kernel.block) {
    if (!size || size > mostThreads / threads)
      return "has a block of no thread, or of more than 1024";
    threads *= size;
  }
  return {};
}

Error checkLaunch(const Plan &plan, const Launch &launch) {
  auto number = [](uint64_t value) { return std::to_string(value); };
  if (launch.kernel >= plan.kernels.size())
    return "is of kernel " + number(launch.kernel) + ", of " +
           number(plan.kernels.size());
  if (plan.processor == Processor::GPU)
    for (uint32_t size : launch.grid)
      if (!size)
        return "has a grid without blocks";
  for (const BufferRef &buffer : launch.buffers) {
    uint64_t bytes = 0;
    // An empty buffer may start at the end of its memory.
    if (!findSpace(plan, buffer, bytes) || buffer.offset > bytes)
      return "has a buffer at byte " + number(buffer.offset) + " of number " +
             number(buffer.index) + " in space " +
             number(uint32_t(buffer.space)) + ", which does not exist";
  }
  return {};
}

/// Returns an error if a number in the plan is out of range or a text is not
/// UTF-8.
Error check(const Plan &plan) {
  if (plan.arenaBytes > mostBytes || plan.constantBytes > mostBytes)
    return "its arena or its constants have more than 2^48 bytes";
  auto message = [](const std::string &text) -> Error {
    return isUTF8(text) ? "" : "is not UTF-8";
  };
  auto kernel = [&](const Kernel &kernel) {
    return checkKernel(kernel, plan.processor);
  };
  auto launch = [&](const Launch &launch) { return checkLaunch(plan, launch); };
  for (const Error &error : {checkEach("state ", plan.states, checkTensor),
                             checkEach("input ", plan.inputs, checkTensor),
                             checkEach("output ", plan.outputs, checkTensor),
                             checkEach("message ", plan.messages, message),
                             checkEach("kernel ", plan.kernels, kernel),
                             checkEach("launch ", plan.launches, launch)})
    if (!error.empty())
      return error;
  return {};
}

} // namespace

std::string repro_runtime::writePlan(const Plan &plan) {
  ByteWriter writer;
  auto string = [&](const std::string &text) { writer.string(text); };
  auto triple = [&](const std::array<uint32_t, 3> &sizes) {
    for (uint32_t size : sizes)
      writer.u32(size);
  };
  writer.bytes.append(planMagic, sizeof planMagic);
  writer.u32(planVersion);
  writer.u32(uint32_t(plan.processor));
  writer.u64(plan.arenaBytes);
  writer.u64(plan.constantBytes);
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    writeTensors(writer, *tensors);
  writer.list(plan.messages, string);
  writer.list(plan.kernels, [&](const Kernel &kernel) {
    writer.string(kernel.name);
    if (plan.processor == Processor::CPU) {
      writer.u64(kernel.items);
      writer.u64(kernel.grain);
      writer.u64(kernel.scratchBytes);
    } else {
      triple(kernel.block);
      writer.u32(kernel.sharedBytes);
    }
  });
  writer.list(plan.launches, [&](const Launch &launch) {
    writer.u32(launch.kernel);
    writer.u32(launch.check ? checkFlag : 0);
    if (plan.processor == Processor::GPU)
      triple(launch.grid);
    writer.list(launch.buffers, [&](const BufferRef &buffer) {
      writer.u32(uint32_t(buffer.space));
      writer.u32(buffer.index);
      writer.u64(buffer.offset);
    });
  });
  return writer.bytes;
}

Error repro_runtime::readPlan(Bytes bytes, Plan &plan) {
  if (bytes.size < sizeof planMagic ||
      std::memcmp(bytes.data, planMagic, sizeof planMagic) != 0)
    return "not a launch plan: expected 'reproplan' at its start";
  ByteReader reader{bytes, sizeof planMagic};
  if (uint32_t found = reader.u32(); found != planVersion)
    return "launch plan of version " + std::to_string(found) + ", expected " +
           std::to_string(planVersion);
  uint32_t processor = reader.u32();
  if (processor > uint32_t(Processor::GPU))
    return "damaged launch plan: processor of number " +
           std::to_string(processor);
  Plan result;
  result.processor = Processor(processor);
  parse(reader, result);
  if (reader.failed)
    return "damaged launch plan: it is cut short, or a count or a flag in it "
           "is too large";
  if (reader.at != bytes.size)
    return "damaged launch plan: " + std::to_string(bytes.size - reader.at) +
           " bytes after its end";
  if (Error error = check(result); !error.empty())
    return "damaged launch plan: " + error;
  plan = std::move(result);
  return {};
}
