//===- artifact.cpp - Artifacts as bytes ----------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/runtime-artifact
//
//===----------------------------------------------------------------------===//

#include "Runtime/Artifact.h"

#include "Expect.h"
#include "Plans.h"

#include <cstring>

using namespace repro_runtime;

static constexpr size_t machineAt = 12, sizeAt = 16, sumAt = 24, bodyAt = 32;
static constexpr size_t tableAt = 40, sectionBytes = 24;

static const std::string code = "code", more = "more code", constants(16, 'c');

static Artifact makeArtifact() {
  Artifact artifact;
  artifact.machine = Machine::AArch64;
  artifact.level = "aarch64";
  artifact.plan = makeHostPlan();
  artifact.objects = {{code.data(), code.size()}, {more.data(), more.size()}};
  artifact.constants = {constants.data(), constants.size()};
  return artifact;
}

static Error read(const std::string &bytes) {
  Artifact artifact;
  return readArtifact({bytes.data(), bytes.size()}, artifact);
}

static std::string toString(Bytes bytes) { return {bytes.data, bytes.size}; }

static void put(std::string &bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i)
    bytes[at + i] = char(value >> (8 * i));
}

/// Returns the artifact with its size and checksum fields updated, so that the
/// reader continues to the sections.
static std::string mend(std::string bytes) {
  put(bytes, sizeAt, bytes.size(), 8);
  put(bytes, sumAt, checksum(bytes.data() + bodyAt, bytes.size() - bodyAt), 8);
  return bytes;
}

static void testRoundTrip() {
  std::string bytes = writeArtifact(makeArtifact());
  Artifact found;
  EXPECT(readArtifact({bytes.data(), bytes.size()}, found).empty());
  EXPECT(found.machine == Machine::AArch64 && found.level == "aarch64");
  EXPECT(writePlan(found.plan) == writePlan(makeHostPlan()));
  EXPECT(found.objects.size() == 2);
  EXPECT(toString(found.objects[0]) == code);
  EXPECT(toString(found.objects[1]) == more);
  EXPECT(toString(found.constants) == constants);
  EXPECT((found.constants.data - bytes.data()) % 64 == 0);
  EXPECT(writeArtifact(found) == bytes && mend(bytes) == bytes);
}

static void testHead() {
  const std::string bytes = writeArtifact(makeArtifact());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_ERROR(read(bytes.substr(0, size)), "artifact");
  EXPECT_ERROR(read(bytes + '\0'), "damaged artifact: expected");
  auto changed = [&](size_t at, uint32_t value) {
    std::string result = bytes;
    put(result, at, value, 4);
    return result;
  };
  EXPECT_ERROR(read(changed(0, 0)), "not an artifact");
  EXPECT_ERROR(read(changed(8, 1)), "artifact of format version 1, expected 2");
  EXPECT_ERROR(read(changed(machineAt, 2)), "unknown machine, number 2");
  EXPECT_ERROR(read(changed(sumAt, 0)), "damaged artifact: expected checksum");
  // The checksum covers every byte after the header, so every changed byte is
  // detected.
  for (size_t at = bodyAt; at < bytes.size(); ++at) {
    std::string result = bytes;
    result[at] ^= 0x10;
    EXPECT_ERROR(read(result), "damaged artifact: expected checksum");
  }
}

/// Section 0 of the test artifact contains object code. The sections after it
/// contain the plan, the constants and the CPU level.
static void testSections() {
  const std::string bytes = writeArtifact(makeArtifact());
  auto change = [&](size_t at, uint64_t value, size_t size = 4) {
    std::string result = bytes;
    put(result, at, value, size);
    return read(mend(result));
  };
  auto section = [](size_t number) { return tableAt + number * sectionBytes; };
  EXPECT(change(section(0), 1).empty()); // no change
  const char *missing = "damaged artifact: expected object code, and one plan";
  for (uint32_t count = 0; count < 5; ++count)
    EXPECT_ERROR(change(bodyAt, count), missing);
  EXPECT_ERROR(change(bodyAt, ~0u), "damaged artifact");
  EXPECT_ERROR(change(bodyAt + 4, 1), missing);
  for (uint32_t kind : {2, 3, 4}) // a second section of this kind
    EXPECT_ERROR(change(section(0), kind), missing);
  for (size_t number : {2, 3, 4}) // without the section of this kind
    EXPECT_ERROR(change(section(number), 1), missing);
  for (uint32_t kind : {0u, 5u, ~0u})
    EXPECT_ERROR(change(section(1), kind), "section 1 is of unknown kind");
  EXPECT_ERROR(change(section(1) + 4, 1), missing);
  for (uint64_t offset :
       {uint64_t(bytes.size() + 64) / 64 * 64, uint64_t(65), ~uint64_t(63)})
    EXPECT_ERROR(change(section(1) + 8, offset, 8), "section 1 lies outside");
  for (uint64_t size : {uint64_t(bytes.size()), ~uint64_t(0)})
    EXPECT_ERROR(change(section(1) + 16, size, 8), "section 1 lies outside");
}

static void testPlan() {
  Artifact artifact = makeArtifact();
  artifact.plan.kernels[0].grain = 0;
  EXPECT_ERROR(read(writeArtifact(artifact)),
               "damaged artifact: damaged launch plan: kernel 0 has no grain");
  artifact = makeArtifact();
  artifact.plan = makeDevicePlan();
  EXPECT_ERROR(read(writeArtifact(artifact)), "its plan is not one of a CPU");
  artifact = makeArtifact();
  artifact.constants.size = 15;
  EXPECT_ERROR(read(writeArtifact(artifact)), "with these constants");
}

int main() {
  testRoundTrip();
  testHead();
  testSections();
  testPlan();
}
