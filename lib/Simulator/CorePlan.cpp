//===- CorePlan.cpp - The programs of many cores --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CorePlan.h"

#include "Runtime/Artifact.h"
#include "Runtime/TensorStream.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace repro_simulator;
using namespace repro_runtime;

namespace {

constexpr char corePlanMagic[12] = "reprocore";
constexpr uint32_t corePlanVersion = 1;
constexpr size_t headerBytes = sizeof corePlanMagic + 4 + 8;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

// Each `exchange` names the fields of one structure in their order, for both
// the writer and the reader.

struct Writer {
  ByteWriter &bytes;

  void number(const uint32_t &value) { bytes.u32(value); }
  void number(const uint64_t &value) { bytes.u64(value); }
  void text(const std::string &value) { bytes.string(value); }
  void tensors(const std::vector<Tensor> &value) { writeTensors(bytes, value); }
  void flag(const bool &value) { bytes.u32(value); }
  void memory(const Memory &value) { bytes.u32(uint32_t(value)); }
  /// Bytes that may be more than 4 GiB.
  void blob(const std::string &value) {
    bytes.u64(value.size());
    bytes.bytes += value;
  }
  template <typename T, typename Each>
  void list(const std::vector<T> &value, size_t, Each each) {
    bytes.list(value, each);
  }
};

struct Reader {
  ByteReader &bytes;

  void number(uint32_t &value) { value = bytes.u32(); }
  void number(uint64_t &value) { value = bytes.u64(); }
  void text(std::string &value) { value = bytes.string(); }
  void tensors(std::vector<Tensor> &value) { readTensors(bytes, value); }
  void flag(bool &value) {
    uint32_t found = bytes.u32();
    bytes.failed |= found > 1;
    value = found == 1;
  }
  void memory(Memory &value) {
    uint32_t found = bytes.u32();
    bytes.failed |= found > uint32_t(Memory::Remote);
    value = Memory(found);
  }
  void blob(std::string &value) {
    uint64_t size = bytes.u64();
    if (bytes.failed || size > bytes.bytes.size - bytes.at) {
      bytes.failed = true;
      return;
    }
    value.assign(bytes.bytes.data + bytes.at, size);
    bytes.at += size;
  }
  template <typename T, typename Each>
  void list(std::vector<T> &value, size_t least, Each each) {
    bytes.list(value, least, each);
  }
};

template <typename Stream, typename Numbers>
void exchangeNumbers(Stream &stream, Numbers &numbers) {
  stream.list(numbers, 8, [&](auto &number) { stream.number(number); });
}

template <typename Stream, typename Cores>
void exchangeCores(Stream &stream, Cores &cores) {
  stream.list(cores, 8, [&](auto &core) {
    stream.number(core.x);
    stream.number(core.y);
  });
}

template <typename Stream, typename Op>
void exchangeOp(Stream &stream, Op &op) {
  using Type = std::remove_const_t<Op>;
  if constexpr (std::is_same_v<Type, Copy>) {
    for (auto *place : {&op.from, &op.to}) {
      stream.memory(place->memory);
      stream.number(place->index);
      stream.number(place->offset);
    }
    stream.number(op.elementBytes);
    for (auto *numbers : {&op.extents, &op.fromStrides, &op.toStrides})
      exchangeNumbers(stream, *numbers);
  } else if constexpr (std::is_same_v<Type, Wait>) {
    stream.number(op.transfer);
  } else if constexpr (std::is_same_v<Type, Run>) {
    stream.number(op.kernel);
    exchangeNumbers(stream, op.offsets);
  } else if constexpr (std::is_same_v<Type, Send>) {
    stream.number(op.from);
    stream.number(op.bytes);
    exchangeCores(stream, op.cores);
    stream.number(op.to);
    stream.number(op.counter);
  } else if constexpr (std::is_same_v<Type, Release>) {
    exchangeCores(stream, op.cores);
    stream.number(op.counter);
  } else if constexpr (std::is_same_v<Type, Acquire>) {
    stream.number(op.counter);
    stream.number(op.count);
  } else {
    static_assert(std::is_same_v<Type, Check>);
    stream.number(op.offset);
    stream.number(op.words);
  }
}

void exchangeOp(Writer &stream, const CoreOp &op) {
  stream.bytes.u32(op.index());
  std::visit([&](const auto &op) { exchangeOp(stream, op); }, op);
}

/// Makes `op` the alternative of number `kind`.
template <size_t kind = 0>
bool emplaceOp(CoreOp &op, uint32_t found) {
  if constexpr (kind < std::variant_size_v<CoreOp>) {
    if (found != kind)
      return emplaceOp<kind + 1>(op, found);
    op.emplace<kind>();
    return true;
  }
  return false;
}

void exchangeOp(Reader &stream, CoreOp &op) {
  if (!emplaceOp(op, stream.bytes.u32())) {
    stream.bytes.failed = true;
    return;
  }
  std::visit([&](auto &op) { exchangeOp(stream, op); }, op);
}

template <typename Stream, typename Plan>
void exchange(Stream &stream, Plan &plan) {
  stream.text(plan.machine);
  stream.text(plan.level);
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    stream.tensors(*tensors);
  stream.number(plan.arenaBytes);
  stream.blob(plan.constants);
  stream.list(plan.messages, 4, [&](auto &message) { stream.text(message); });
  stream.list(plan.kernels, 44, [&](auto &kernel) {
    stream.text(kernel.name);
    stream.number(kernel.items);
    stream.number(kernel.scratchBytes);
    stream.number(kernel.codeBytes);
    stream.number(kernel.cycles);
    stream.flag(kernel.hasChecks);
    stream.list(kernel.buffers, 12, [&](auto &buffer) {
      stream.number(buffer.bytes);
      stream.number(buffer.access);
    });
  });
  stream.list(plan.programs, 52, [&](auto &program) {
    stream.number(program.core.x);
    stream.number(program.core.y);
    stream.number(program.localBytes);
    stream.number(program.codeBytes);
    stream.number(program.scratchOffset);
    stream.number(program.scratchBytes);
    stream.number(program.errorOffset);
    stream.list(program.ops, 8, [&](auto &op) { exchangeOp(stream, op); });
  });
  stream.list(plan.objects, 8, [&](auto &object) { stream.blob(object); });
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

std::string toText(uint64_t value) { return std::to_string(value); }

std::string toText(Core core) {
  return "(" + toText(core.x) + ", " + toText(core.y) + ")";
}

/// Whether `bytes` from `offset` on lie within a memory of `available` bytes.
bool fits(uint64_t offset, uint64_t bytes, uint64_t available) {
  return offset <= available && bytes <= available - offset;
}

std::string describeRange(uint64_t offset, uint64_t bytes, uint64_t available) {
  return toText(bytes) + " bytes at byte " + toText(offset) +
         " of a memory of " + toText(available);
}

/// Checks one program after the other: its operations in their order.
class ProgramCheck {
public:
  ProgramCheck(const CorePlan &plan,
               const std::map<Core, const CoreProgram *> &programs,
               const CoreProgram &program)
      : plan(plan), programs(programs), program(program) {}

  Error check() {
    if (Error error = checkMemory(); !error.empty())
      return error;
    for (size_t i = 0; i < program.ops.size(); ++i)
      if (Error error = std::visit([&](const auto &op) { return check(op); },
                                   program.ops[i]);
          !error.empty())
        return "operation " + toText(i) + " " + error;
    for (size_t i = 0; i < isAwaited.size(); ++i)
      if (!isAwaited[i])
        return "has no wait for transfer " + toText(i);
    return {};
  }

private:
  Error checkMemory() {
    if (program.localBytes > mostBytes || program.codeBytes > mostBytes)
      return "has more than 2^48 bytes of memory or code";
    if (program.scratchOffset % 64 ||
        !fits(program.scratchOffset, program.scratchBytes, program.localBytes))
      return "has scratch memory outside of its memory, or not at a multiple "
             "of 64";
    if (program.errorOffset % 8 ||
        !fits(program.errorOffset, 8, program.localBytes))
      return "has an error word outside of its memory, or not at a multiple "
             "of 8";
    return {};
  }

  /// Sets `bytes` to the size of the memory of a place. Returns false if
  /// the plan lacks this memory.
  bool findMemory(const Place &place, uint64_t &bytes) {
    auto find = [&](const std::vector<Tensor> &tensors) {
      if (place.index >= tensors.size())
        return false;
      bytes = tensors[place.index].getBytes();
      return true;
    };
    switch (place.memory) {
    case Memory::State:
      return find(plan.states);
    case Memory::Input:
      return find(plan.inputs);
    case Memory::Output:
      return find(plan.outputs);
    case Memory::Arena:
      bytes = plan.arenaBytes;
      return place.index == 0;
    case Memory::Constant:
      bytes = plan.constants.size();
      return place.index == 0;
    case Memory::Local:
      bytes = program.localBytes;
      return place.index == 0;
    case Memory::Remote:
      if (place.index >= plan.programs.size())
        return false;
      bytes = plan.programs[place.index].localBytes;
      return true;
    }
    return false;
  }

  /// Checks that the elements of one side of a copy lie within their memory.
  Error checkSide(const Copy &copy, const Place &place,
                  const std::vector<uint64_t> &strides) {
    uint64_t available = 0;
    if (!findMemory(place, available))
      return "is of a buffer of number " + toText(place.index) + " in memory " +
             toText(uint32_t(place.memory)) + ", which does not exist";
    uint64_t bytes = copy.elementBytes;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (!copy.extents[i])
        bytes = 0;
      if (!bytes)
        break;
      uint64_t steps = copy.extents[i] - 1;
      if (steps && strides[i] > mostBytes / steps)
        return "is of more than 2^48 bytes";
      bytes += steps * strides[i];
      if (bytes > mostBytes)
        return "is of more than 2^48 bytes";
    }
    if (!fits(place.offset, bytes, available))
      return "is of " + describeRange(place.offset, bytes, available);
    return {};
  }

  /// Whether each element has bytes of its own, as nested loops over the
  /// strides have.
  static bool isInjective(const Copy &copy,
                          const std::vector<uint64_t> &strides) {
    std::vector<std::pair<uint64_t, uint64_t>> loops; // stride, extent
    for (size_t i = 0; i < strides.size(); ++i) {
      if (!copy.extents[i])
        return true;
      if (copy.extents[i] > 1)
        loops.push_back({strides[i], copy.extents[i]});
    }
    std::sort(loops.begin(), loops.end());
    uint64_t inner = copy.elementBytes;
    for (auto [stride, extent] : loops) {
      if (stride < inner)
        return false;
      inner += stride * (extent - 1);
    }
    return true;
  }

  Error check(const Copy &copy) {
    isAwaited.push_back(false);
    if (copy.fromStrides.size() != copy.extents.size() ||
        copy.toStrides.size() != copy.extents.size())
      return "has different numbers of extents and strides";
    uint32_t bytes = copy.elementBytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
      return "has elements of " + toText(bytes) + " bytes";
    if (copy.from.memory != Memory::Local && copy.to.memory != Memory::Local)
      return "copies without the core's memory";
    if (copy.to.memory == Memory::Input || copy.to.memory == Memory::Constant)
      return "writes an input or a constant";
    if (copy.to.memory == Memory::Remote)
      return "writes the memory of another core";
    if (copy.from.memory == Memory::Remote &&
        copy.from.index < plan.programs.size() &&
        &plan.programs[copy.from.index] == &program)
      return "reads the program's own memory as that of another core";
    if (Error error = checkSide(copy, copy.from, copy.fromStrides);
        !error.empty())
      return error;
    if (Error error = checkSide(copy, copy.to, copy.toStrides); !error.empty())
      return error;
    if (!isInjective(copy, copy.toStrides))
      return "writes bytes twice";
    return {};
  }

  Error check(const Wait &wait) {
    if (wait.transfer >= isAwaited.size())
      return "waits for transfer " + toText(wait.transfer) + " of " +
             toText(isAwaited.size());
    if (isAwaited[wait.transfer])
      return "waits for transfer " + toText(wait.transfer) + " again";
    isAwaited[wait.transfer] = true;
    return {};
  }

  Error check(const Run &run) {
    if (run.kernel >= plan.kernels.size())
      return "runs kernel " + toText(run.kernel) + " of " +
             toText(plan.kernels.size());
    const TileKernel &kernel = plan.kernels[run.kernel];
    if (kernel.codeBytes && kernel.scratchBytes > program.scratchBytes)
      return "runs a kernel with " + toText(kernel.scratchBytes) +
             " bytes of scratch memory, of " + toText(program.scratchBytes);
    if (kernel.codeBytes > program.codeBytes)
      return "runs a kernel with " + toText(kernel.codeBytes) +
             " bytes of code, of " + toText(program.codeBytes);
    if (run.offsets.size() != kernel.buffers.size())
      return "has " + toText(run.offsets.size()) +
             " buffers for a kernel that takes " +
             toText(kernel.buffers.size());
    for (size_t i = 0; i < run.offsets.size(); ++i)
      if (uint64_t bytes = kernel.buffers[i].bytes;
          !fits(run.offsets[i], bytes, program.localBytes))
        return "has a buffer of " +
               describeRange(run.offsets[i], bytes, program.localBytes);
    return {};
  }

  Error check(const Send &send) {
    isAwaited.push_back(false);
    if (Error error = checkCores(send.cores); !error.empty())
      return error;
    if (!fits(send.from, send.bytes, program.localBytes))
      return "sends " +
             describeRange(send.from, send.bytes, program.localBytes);
    for (Core core : send.cores) {
      if (core == program.core)
        return "sends to its own core";
      uint64_t available = programs.at(core)->localBytes;
      if (!fits(send.to, send.bytes, available))
        return "sends to core " + toText(core) + " " +
               describeRange(send.to, send.bytes, available);
    }
    return {};
  }

  Error check(const Release &release) { return checkCores(release.cores); }

  Error check(const Acquire &acquire) {
    return acquire.count ? "" : "waits for a count of 0";
  }

  Error check(const Check &check) {
    if (check.offset % 8 || check.words > mostBytes / 8 ||
        !fits(check.offset, check.words * 8, program.localBytes))
      return "checks words outside of the memory, or not at a multiple of 8";
    return {};
  }

  Error checkCores(std::vector<Core> cores) {
    if (cores.empty())
      return "is for no core";
    for (Core core : cores)
      if (!programs.count(core))
        return "is for core " + toText(core) + ", which has no program";
    std::sort(cores.begin(), cores.end());
    if (auto same = std::adjacent_find(cores.begin(), cores.end());
        same != cores.end())
      return "is for core " + toText(*same) + " twice";
    return {};
  }

  const CorePlan &plan;
  const std::map<Core, const CoreProgram *> &programs;
  const CoreProgram &program;
  std::vector<bool> isAwaited;
};

/// The most scratch memory of a kernel, which the simulator allocates once.
constexpr uint64_t mostScratchBytes = uint64_t(1) << 30;

Error checkKernel(const TileKernel &kernel) {
  if (!isUTF8(kernel.name))
    return "has a name that is not UTF-8";
  for (uint64_t number :
       {kernel.items, kernel.scratchBytes, kernel.codeBytes, kernel.cycles})
    if (number > mostBytes)
      return "has more than 2^48 work items, bytes or cycles";
  if (kernel.scratchBytes > mostScratchBytes)
    return "has more than 2^30 bytes of scratch memory";
  for (const KernelBuffer &buffer : kernel.buffers) {
    if (buffer.bytes > mostBytes)
      return "has a buffer of more than 2^48 bytes";
    if (!buffer.access || buffer.access > (readAccess | writeAccess))
      return "has a buffer with access " + toText(buffer.access);
  }
  return {};
}

Error check(const CorePlan &plan) {
  if (!isUTF8(plan.machine) || !isUTF8(plan.level))
    return "its machine or its CPU level is not UTF-8";
  if (plan.arenaBytes > mostBytes)
    return "its arena has more than 2^48 bytes";
  if (plan.objects.empty())
    return "has no code";
  std::map<Core, const CoreProgram *> programs;
  for (const CoreProgram &program : plan.programs)
    if (!programs.emplace(program.core, &program).second)
      return "has two programs of core " + toText(program.core);
  auto message = [](const std::string &text) -> Error {
    return isUTF8(text) ? "" : "is not UTF-8";
  };
  for (const Error &error : {checkEach("state ", plan.states, checkTensor),
                             checkEach("input ", plan.inputs, checkTensor),
                             checkEach("output ", plan.outputs, checkTensor),
                             checkEach("message ", plan.messages, message),
                             checkEach("kernel ", plan.kernels, checkKernel)})
    if (!error.empty())
      return error;
  for (const CoreProgram &program : plan.programs)
    if (Error error = ProgramCheck(plan, programs, program).check();
        !error.empty())
      return "program of core " + toText(program.core) + ": " + error;
  return {};
}

} // namespace

std::string repro_simulator::writeCorePlan(const CorePlan &plan) {
  ByteWriter body;
  Writer stream{body};
  exchange(stream, plan);
  ByteWriter result;
  result.bytes.append(corePlanMagic, sizeof corePlanMagic);
  result.u32(corePlanVersion);
  result.u64(checksum(body.bytes.data(), body.bytes.size()));
  return result.bytes + body.bytes;
}

Error repro_simulator::readCorePlan(Bytes bytes, CorePlan &plan) {
  if (bytes.size < headerBytes ||
      std::memcmp(bytes.data, corePlanMagic, sizeof corePlanMagic) != 0)
    return "not a core plan: expected 'reprocore' at its start";
  ByteReader reader{bytes, sizeof corePlanMagic};
  if (uint32_t found = reader.u32(); found != corePlanVersion)
    return "core plan of version " + toText(found) + ", expected " +
           toText(corePlanVersion);
  if (reader.u64() !=
      checksum(bytes.data + headerBytes, bytes.size - headerBytes))
    return "damaged core plan: its checksum is wrong";
  CorePlan result;
  Reader stream{reader};
  exchange(stream, result);
  if (reader.failed)
    return "damaged core plan: it is cut short, or a count, a flag or a kind "
           "in it is too large";
  if (reader.at != bytes.size)
    return "damaged core plan: " + toText(bytes.size - reader.at) +
           " bytes after its end";
  if (Error error = check(result); !error.empty())
    return "damaged core plan: " + error;
  plan = std::move(result);
  return {};
}
