//===- Artifact.cpp - A compiled program as bytes -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Artifact.h"

#include "ByteStream.h"

#include <cstring>

using namespace repro_runtime;

static constexpr char artifactMagic[] = "reproart";
static constexpr uint32_t artifactVersion = 2;
static constexpr size_t headerBytes = 40, sectionBytes = 24, alignment = 64;
/// The checksum covers all bytes from this offset on.
static constexpr size_t bodyStart = 32;

namespace {
enum SectionKind : uint32_t {
  objectSection = 1,
  planSection,
  constantsSection,
  levelSection,
  numSections
};
} // namespace

static size_t align(size_t offset) {
  return (offset + alignment - 1) / alignment * alignment;
}

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
  struct Section {
    SectionKind kind;
    Bytes bytes;
  };
  std::vector<Section> sections;
  for (Bytes bytes : artifact.objects)
    sections.push_back({objectSection, bytes});
  std::string planBytes = writePlan(artifact.plan);
  sections.push_back({planSection, {planBytes.data(), planBytes.size()}});
  sections.push_back({constantsSection, artifact.constants});
  sections.push_back(
      {levelSection, {artifact.level.data(), artifact.level.size()}});

  ByteWriter body;
  body.u32(sections.size());
  body.u32(0);
  uint64_t offset = headerBytes + sections.size() * sectionBytes;
  for (const Section &section : sections) {
    offset = align(offset);
    body.u32(section.kind);
    body.u32(0);
    body.u64(offset);
    body.u64(section.bytes.size);
    offset += section.bytes.size;
  }
  for (const Section &section : sections) {
    body.bytes.resize(align(bodyStart + body.bytes.size()) - bodyStart);
    body.bytes.append(section.bytes.data ? section.bytes.data : "",
                      section.bytes.size);
  }

  ByteWriter result;
  result.bytes.append(artifactMagic, 8);
  result.u32(artifactVersion);
  result.u32(uint32_t(artifact.machine));
  result.u64(bodyStart + body.bytes.size());
  result.u64(checksum(body.bytes.data(), body.bytes.size()));
  return result.bytes + body.bytes;
}

Error repro_runtime::readArtifact(Bytes bytes, Artifact &artifact) {
  auto number = [](uint64_t value) { return std::to_string(value); };
  if (bytes.size < headerBytes ||
      std::memcmp(bytes.data, artifactMagic, 8) != 0)
    return "not an artifact: expected a header of " + number(headerBytes) +
           " bytes that starts with 'reproart', got " + number(bytes.size) +
           " bytes";
  ByteReader reader{bytes, 8};
  if (uint32_t actual = reader.u32(); actual != artifactVersion)
    return "artifact of format version " + number(actual) + ", expected " +
           number(artifactVersion);
  uint32_t machine = reader.u32();
  if (machine > uint32_t(Machine::AArch64))
    return "artifact of an unknown machine, number " + number(machine);
  artifact.machine = Machine(machine);
  if (uint64_t expected = reader.u64(); expected != bytes.size)
    return "damaged artifact: expected " + number(expected) + " bytes, got " +
           number(bytes.size);
  uint64_t expected = reader.u64();
  if (uint64_t actual =
          checksum(bytes.data + bodyStart, bytes.size - bodyStart);
      actual != expected)
    return "damaged artifact: expected checksum " + number(expected) +
           ", got " + number(actual);

  std::vector<Bytes> found[numSections];
  uint32_t sections = reader.u32();
  bool isPadded = reader.u32() == 0;
  for (uint32_t i = 0; i < sections && !reader.failed; ++i) {
    uint32_t kind = reader.u32();
    isPadded &= reader.u32() == 0;
    uint64_t offset = reader.u64(), size = reader.u64();
    if (offset > bytes.size || size > bytes.size - offset ||
        offset % alignment != 0)
      return "damaged artifact: section " + number(i) +
             " lies outside of it or between its lines";
    if (kind < objectSection || kind >= numSections)
      return "damaged artifact: section " + number(i) + " is of unknown kind " +
             number(kind);
    found[kind].push_back({bytes.data + offset, size_t(size)});
  }
  if (reader.failed || !isPadded || found[objectSection].empty() ||
      found[planSection].size() != 1 || found[constantsSection].size() != 1 ||
      found[levelSection].size() != 1)
    return "damaged artifact: expected object code, and one plan, one section "
           "of constants and one level";
  if (Error error = readPlan(found[planSection][0], artifact.plan);
      !error.empty())
    return "damaged artifact: " + error;
  if (artifact.plan.processor != Processor::CPU ||
      artifact.plan.constantBytes != found[constantsSection][0].size)
    return "damaged artifact: its plan is not one of a CPU with these "
           "constants";
  artifact.objects = std::move(found[objectSection]);
  artifact.constants = found[constantsSection][0];
  artifact.level.assign(found[levelSection][0].data,
                        found[levelSection][0].size);
  return {};
}
