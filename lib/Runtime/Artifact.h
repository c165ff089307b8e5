//===- Artifact.h - A serialized CPU program --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An artifact is the output of the compiler for the executor: object code and
// the launch plan. All integers are little-endian.
//
//   0   8 bytes  magic "reproart"
//   8   u32      version of this format, 2
//   12  u32      machine: 0 x86-64, 1 aarch64
//   16  u64      size of the whole artifact in bytes
//   24  u64      checksum of all bytes from 32 on (see checksum())
//   32  u32      number of sections, u32 zero
//   40           per section: u32 kind, u32 zero, u64 offset, u64 size
//
// Sections: 1 an ELF relocatable object (one or more), 2 the plan for a CPU
// (docs/reference/plan.md), 3 the read-only constants, 4 the name of the CPU
// level that the code requires (one of each). Offsets are multiples of 64. The
// objects together define `repro_kernels`, an array of the addresses of all
// kernels.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_ARTIFACT_H
#define REPRO_RUNTIME_ARTIFACT_H

#include "Plan.h"

namespace repro_runtime {

enum class Machine : uint32_t {
  X86_64 = 0,
  AArch64 = 1,
  Thumb = 2, ///< of microcontrollers, which run no artifacts
};

/// An artifact, whose sections are views of the bytes from which the artifact
/// was read.
struct Artifact {
  Machine machine = Machine::X86_64;
  std::string level;
  Plan plan;
  std::vector<Bytes> objects;
  Bytes constants;
};

/// Returns a hash of the data: a variant of FNV-1a over 64-bit words, the last
/// of which is padded with zeros.
uint64_t checksum(const char *data, size_t size);

/// Serializes an artifact.
std::string writeArtifact(const Artifact &artifact);

/// Reads and checks an artifact and its plan (see readPlan).
Error readArtifact(Bytes bytes, Artifact &artifact);

} // namespace repro_runtime

#endif // REPRO_RUNTIME_ARTIFACT_H
