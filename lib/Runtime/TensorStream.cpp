//===- TensorStream.cpp - What all plans contain
//---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorStream.h"

using namespace repro_runtime;

/// Returns the size of an element in bytes, or 0 for an unknown element type.
static uint64_t getElementBytes(const std::string &element) {
  for (const char *name : {"i1", "i8", "f8E4M3FN", "f8E5M2", "f6E3M2FN",
                           "f6E2M3FN", "f4E2M1FN", "f8E8M0FNU"})
    if (element == name)
      return 1;
  for (const char *name : {"i16", "f16", "bf16"})
    if (element == name)
      return 2;
  for (const char *name : {"i32", "f32"})
    if (element == name)
      return 4;
  return element == "i64" || element == "f64" ? 8 : 0;
}

uint64_t Tensor::getBytes() const {
  uint64_t bytes = getElementBytes(element);
  for (uint64_t extent : shape)
    bytes *= extent;
  return bytes;
}

bool repro_runtime::isUTF8(const std::string &text) {
  for (size_t i = 0; i < text.size();) {
    auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80)
      continue;
    unsigned more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (lead < 0xc2 || lead > 0xf4 || more > text.size() - i)
      return false;
    uint32_t code = lead & (0x3f >> more);
    for (unsigned k = 0; k < more; ++k) {
      auto next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xc0) != 0x80)
        return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr uint32_t least[] = {0x80, 0x800, 0x10000};
    bool isSurrogate = code >= 0xd800 && code < 0xe000;
    if (code < least[more - 1] || code > 0x10ffff || isSurrogate)
      return false;
  }
  return true;
}

void repro_runtime::writeTensors(ByteWriter &writer,
                                 const std::vector<Tensor> &tensors) {
  writer.list(tensors, [&](const Tensor &tensor) {
    writer.string(tensor.name);
    writer.string(tensor.element);
    writer.list(tensor.shape, [&](uint64_t extent) { writer.u64(extent); });
  });
}

void repro_runtime::readTensors(ByteReader &reader,
                                std::vector<Tensor> &tensors) {
  reader.list(tensors, 12, [&](Tensor &tensor) {
    tensor.name = reader.string();
    tensor.element = reader.string();
    reader.list(tensor.shape, 8,
                [&](uint64_t &extent) { extent = reader.u64(); });
  });
}

Error repro_runtime::checkTensor(const Tensor &tensor) {
  if (!isUTF8(tensor.name))
    return "has a name that is not UTF-8";
  uint64_t bytes = getElementBytes(tensor.element);
  if (!bytes)
    return "has elements of an unknown type";
  for (uint64_t extent : tensor.shape) {
    if (extent > mostBytes / bytes)
      return "has more than 2^48 bytes";
    bytes *= extent ? extent : 1;
  }
  return {};
}
