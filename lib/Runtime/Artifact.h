//===- Artifact.h - A compiled program as bytes ---------------------*- C++
//-*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An artifact is what the compiler hands to the executor: object code and the
// launch plan. All integers are little-endian.
//
//   0   8 bytes  magic "reproart"
//   8   u32      version of this format, 1
//   12  u32      machine: 0 x86-64, 1 aarch64
//   16  u64      size of the whole artifact in bytes
//   24  u64      checksum of all bytes from 32 on (see checksum())
//   32  u32      number of sections, u32 zero
//   40           per section: u32 kind, u32 zero, u64 offset, u64 size
//
// Sections: 1 an ELF relocatable object (one or more), 2 the plan (one), 3 the
// read-only constants (one). Offsets are multiples of 64. The objects together
// define `repro_kernels`, an array of the addresses of all kernels.
//
// The plan is a stream; a string is its u32 length and its bytes.
//
//   string level; u64 arena bytes; u64 scratch bytes per thread
//   u32 states, u32 inputs, u32 outputs; then each of them:
//       string name, string element type, u64 bytes, u32 rank, u64 dimensions
//   u32 kernels; then each: string name, u64 work items, u64 grain
//   u32 messages; then each: string
//   u32 launches; then each: u32 kernel, u32 flags (bit 0: stop here if a check
//       has failed), u32 buffers; then each: u32 space, u32 index, u64 offset
//
// This file and Artifact.cpp need nothing but the C++ standard library: the
// runner of another machine is built from the same sources.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_ARTIFACT_H
#define REPRO_RUNTIME_ARTIFACT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace repro_runtime {

/// The empty string for success, else one message for the user.
using Error = std::string;

enum class Machine : uint32_t { X86_64 = 0, AArch64 = 1 };

/// What a buffer of a launch is part of.
enum class Space : uint32_t {
  State = 0,    ///< index: which state
  Input = 1,    ///< index: which input
  Output = 2,   ///< index: which output
  Arena = 3,    ///< index is 0
  Constant = 4, ///< index is 0
};

struct BufferRef {
  Space space;
  uint32_t index;
  uint64_t offset; ///< in bytes
};

struct Tensor {
  std::string name;
  std::string element; ///< MLIR's name of the element type, such as f32
  uint64_t bytes;
  std::vector<uint64_t> shape;
};

struct Kernel {
  std::string name;
  uint64_t items; ///< independent work items
  uint64_t grain; ///< the smallest sensible share of them
};

struct Launch {
  uint32_t kernel;
  bool check; ///< stop before this launch if a check has failed
  std::vector<BufferRef> buffers;
};

struct Plan {
  std::string level;
  uint64_t arenaBytes = 0;
  uint64_t scratchBytes = 0; ///< per thread
  std::vector<Tensor> states, inputs, outputs;
  std::vector<Kernel> kernels;
  std::vector<std::string> messages;
  std::vector<Launch> launches;
};

struct Bytes {
  const char *data = nullptr;
  size_t size = 0;
};

/// An artifact; the sections point into the bytes it was read from.
struct Artifact {
  Machine machine = Machine::X86_64;
  Plan plan;
  std::vector<Bytes> objects;
  Bytes constants;
};

/// FNV-1a over 64-bit words, the last one padded with zeros.
uint64_t checksum(const char *data, size_t size);

std::string writeArtifact(const Artifact &artifact);

/// Reads and checks an artifact: whatever the bytes are, the result is an
/// error or a plan whose every index and offset is in range.
Error readArtifact(Bytes bytes, Artifact &artifact);

} // namespace repro_runtime

#endif // REPRO_RUNTIME_ARTIFACT_H
