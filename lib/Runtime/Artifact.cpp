//===- Artifact.cpp - A compiled program as bytes -------------------*- C++
//-*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Artifact.h"

#include <cstring>

using namespace repro_runtime;

namespace {

constexpr char magic[] = "reproart";
constexpr uint32_t version = 1;
constexpr size_t headerBytes = 40, sectionBytes = 24, alignment = 64;
enum SectionKind : uint32_t { object = 1, plan = 2, constants = 3 };

struct Writer {
  std::string bytes;

  void u32(uint64_t value) { integer(value, 4); }
  void u64(uint64_t value) { integer(value, 8); }
  void string(const std::string &text) {
    u32(text.size());
    bytes += text;
  }
  void tensor(const Tensor &tensor) {
    string(tensor.name);
    string(tensor.element);
    u64(tensor.bytes);
    u32(tensor.shape.size());
    for (uint64_t extent : tensor.shape)
      u64(extent);
  }
  void align() {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }

private:
  void integer(uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
      bytes += static_cast<char>(value >> (8 * i));
  }
};

/// Reads a stream; past its end `failed` is set and every value is zero.
struct Reader {
  const char *data;
  size_t size;
  size_t at = 0;
  bool failed = false;

  uint64_t u32() { return integer(4); }
  uint64_t u64() { return integer(8); }
  std::string string() {
    uint64_t length = u32();
    if (length > size - at) {
      failed = true;
      return {};
    }
    at += length;
    return std::string(data + at - length, length);
  }
  /// A count of things that take at least `each` bytes.
  uint64_t count(size_t each) {
    uint64_t number = u32();
    if (number > (size - at) / each) {
      failed = true;
      return 0;
    }
    return number;
  }
  Tensor tensor() {
    Tensor result;
    result.name = string();
    result.element = string();
    result.bytes = u64();
    result.shape.resize(count(8));
    for (uint64_t &extent : result.shape)
      extent = u64();
    return result;
  }

private:
  uint64_t integer(unsigned bytes) {
    if (failed || bytes > size - at) {
      failed = true;
      return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i)
      value |= uint64_t(static_cast<unsigned char>(data[at + i])) << (8 * i);
    at += bytes;
    return value;
  }
};

void writePlan(Writer &writer, const Plan &plan) {
  writer.string(plan.level);
  writer.u64(plan.arenaBytes);
  writer.u64(plan.scratchBytes);
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    writer.u32(tensors->size());
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    for (const Tensor &tensor : *tensors)
      writer.tensor(tensor);
  writer.u32(plan.kernels.size());
  for (const Kernel &kernel : plan.kernels) {
    writer.string(kernel.name);
    writer.u64(kernel.items);
    writer.u64(kernel.grain);
  }
  writer.u32(plan.messages.size());
  for (const std::string &message : plan.messages)
    writer.string(message);
  writer.u32(plan.launches.size());
  for (const Launch &launch : plan.launches) {
    writer.u32(launch.kernel);
    writer.u32(launch.check);
    writer.u32(launch.buffers.size());
    for (const BufferRef &buffer : launch.buffers) {
      writer.u32(uint32_t(buffer.space));
      writer.u32(buffer.index);
      writer.u64(buffer.offset);
    }
  }
}

void readPlan(Reader &reader, Plan &plan) {
  plan.level = reader.string();
  plan.arenaBytes = reader.u64();
  plan.scratchBytes = reader.u64();
  uint64_t counts[3];
  for (uint64_t &number : counts)
    number = reader.u32();
  std::vector<Tensor> *groups[] = {&plan.states, &plan.inputs, &plan.outputs};
  for (unsigned group = 0; group < 3; ++group)
    for (uint64_t i = 0; i < counts[group] && !reader.failed; ++i)
      groups[group]->push_back(reader.tensor());
  for (uint64_t i = 0, e = reader.count(20); i < e && !reader.failed; ++i) {
    Kernel kernel;
    kernel.name = reader.string();
    kernel.items = reader.u64();
    kernel.grain = reader.u64();
    plan.kernels.push_back(kernel);
  }
  for (uint64_t i = 0, e = reader.count(4); i < e && !reader.failed; ++i)
    plan.messages.push_back(reader.string());
  for (uint64_t i = 0, e = reader.count(12); i < e && !reader.failed; ++i) {
    Launch launch;
    launch.kernel = reader.u32();
    launch.check = reader.u32() & 1;
    launch.buffers.resize(reader.count(16));
    for (BufferRef &buffer : launch.buffers) {
      buffer.space = Space(reader.u32());
      buffer.index = reader.u32();
      buffer.offset = reader.u64();
    }
    plan.launches.push_back(std::move(launch));
  }
}

/// Whether every index and offset of the plan is in range.
bool isInRange(const Artifact &artifact) {
  const Plan &plan = artifact.plan;
  for (const Launch &launch : plan.launches) {
    if (launch.kernel >= plan.kernels.size())
      return false;
    for (const BufferRef &buffer : launch.buffers) {
      uint64_t limit = 0;
      auto of = [&](const std::vector<Tensor> &tensors) {
        return buffer.index < tensors.size() ? tensors[buffer.index].bytes : 0;
      };
      switch (buffer.space) {
      case Space::State:
        limit = of(plan.states);
        break;
      case Space::Input:
        limit = of(plan.inputs);
        break;
      case Space::Output:
        limit = of(plan.outputs);
        break;
      case Space::Arena:
        limit = plan.arenaBytes;
        break;
      case Space::Constant:
        limit = artifact.constants.size;
        break;
      default:
        return false;
      }
      // An empty tensor starts at the end of nothing.
      if (buffer.offset > limit)
        return false;
    }
  }
  return true;
}

} // namespace

uint64_t repro_runtime::checksum(const char *data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, size - i < 8 ? size - i : 8);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string repro_runtime::writeArtifact(const Artifact &artifact) {
  Writer planBytes;
  writePlan(planBytes, artifact.plan);
  struct Section {
    SectionKind kind;
    Bytes bytes;
  };
  std::vector<Section> sections;
  for (Bytes bytes : artifact.objects)
    sections.push_back({object, bytes});
  sections.push_back({plan, {planBytes.bytes.data(), planBytes.bytes.size()}});
  sections.push_back({constants, artifact.constants});

  Writer body; // everything from byte 32 on
  body.u32(sections.size());
  body.u32(0);
  uint64_t offset = headerBytes + sections.size() * sectionBytes;
  for (const Section &section : sections) {
    offset = (offset + alignment - 1) / alignment * alignment;
    body.u32(section.kind);
    body.u32(0);
    body.u64(offset);
    body.u64(section.bytes.size);
    offset += section.bytes.size;
  }
  constexpr size_t bodyStart = 32;
  for (const Section &section : sections) {
    size_t end = body.bytes.size() + bodyStart;
    body.bytes.resize((end + alignment - 1) / alignment * alignment -
                      bodyStart);
    body.bytes.append(section.bytes.data ? section.bytes.data : "",
                      section.bytes.size);
  }

  Writer result;
  result.bytes.append(magic, 8);
  result.u32(version);
  result.u32(uint32_t(artifact.machine));
  result.u64(bodyStart + body.bytes.size());
  result.u64(checksum(body.bytes.data(), body.bytes.size()));
  return result.bytes + body.bytes;
}

Error repro_runtime::readArtifact(Bytes bytes, Artifact &artifact) {
  auto number = [](uint64_t value) { return std::to_string(value); };
  if (bytes.size < headerBytes || std::memcmp(bytes.data, magic, 8) != 0)
    return "not an artifact: expected a header of " + number(headerBytes) +
           " bytes that starts with 'reproart', got " + number(bytes.size) +
           " bytes";
  Reader reader{bytes.data, bytes.size, 8};
  if (uint64_t actual = reader.u32(); actual != version)
    return "artifact of format version " + number(actual) + ", expected " +
           number(version);
  uint64_t machine = reader.u32();
  if (machine > uint32_t(Machine::AArch64))
    return "artifact of an unknown machine, number " + number(machine);
  artifact.machine = Machine(machine);
  if (uint64_t expected = reader.u64(); expected != bytes.size)
    return "damaged artifact: expected " + number(expected) + " bytes, got " +
           number(bytes.size);
  uint64_t expected = reader.u64();
  if (uint64_t actual =
          checksum(bytes.data + reader.at, bytes.size - reader.at);
      actual != expected)
    return "damaged artifact: expected checksum " + number(expected) +
           ", got " + number(actual);

  uint64_t sections = reader.count(sectionBytes);
  reader.u32();
  bool hasPlan = false;
  for (uint64_t i = 0; i < sections && !reader.failed; ++i) {
    uint64_t kind = reader.u32();
    reader.u32();
    uint64_t offset = reader.u64(), size = reader.u64();
    if (offset > bytes.size || size > bytes.size - offset)
      return "damaged artifact: section " + number(i) + " lies outside of it";
    Bytes section{bytes.data + offset, size_t(size)};
    if (kind == object) {
      artifact.objects.push_back(section);
    } else if (kind == constants) {
      artifact.constants = section;
    } else if (kind == plan) {
      Reader planReader{section.data, section.size};
      readPlan(planReader, artifact.plan);
      hasPlan = !planReader.failed && planReader.at == section.size;
    }
  }
  if (reader.failed || !hasPlan || artifact.objects.empty())
    return "damaged artifact: its plan or its object code is incomplete";
  if (!isInRange(artifact))
    return "damaged artifact: a launch names a buffer that does not exist";
  return {};
}
