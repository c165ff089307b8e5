//===- MachineReader.cpp - Reads descriptions of machines -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/MachineReader.h"

#include "Target/DescriptionReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// An integer parameter of a machine and its permitted range. The range bounds
/// scratch memory, which grows with the sizes of caches. Unsuitable values
/// within the range only make code slow.
template <typename T>
struct Size {
  StringLiteral key;
  int64_t T::*member;
  int64_t least, most;
  bool isPowerOfTwo;
  /// Whether the parameter describes the instructions; a file that extends a
  /// machine cannot change such a parameter.
  bool isFixed;
};

/// A property of the instructions. One of `text` and `truth` is the member that
/// stores it; the other is null.
template <typename T>
struct Fact {
  StringLiteral key;
  std::string T::*text;
  bool T::*truth;
};

template <typename T>
struct Form;

template <>
struct Form<Level> {
  static constexpr Fact<Level> facts[] = {
      {"triple", &Level::triple, nullptr},
      {"cpu", &Level::cpu, nullptr},
      {"features", &Level::features, nullptr},
      {"fma", nullptr, &Level::hasFma},
      {"f16", nullptr, &Level::hasF16},
      {"byte_dots", nullptr, &Level::hasByteDots},
  };
  static constexpr Size<Level> sizes[] = {
      {"vector_bits", &Level::vectorWidth, 32, 2048, true, true},
      {"vector_registers", &Level::vectorRegisters, 8, 128, true, true},
      {"line_bytes", &Level::lineBytes, 32, 256, true, false},
      {"l1_bytes", &Level::l1Bytes, 4096, 1 << 20, false, false},
      {"l1_ways", &Level::l1Ways, 1, 64, false, false},
      {"l2_bytes", &Level::l2Bytes, 65536, 1 << 24, false, false},
  };
  static LogicalResult check(const Level &level, std::string &error) {
    if (level.l1Bytes % (level.l1Ways * level.lineBytes) == 0)
      return success();
    error = "sizes.l1_bytes: expected a multiple of l1_ways * line_bytes = " +
            std::to_string(level.l1Ways * level.lineBytes) + ", got " +
            std::to_string(level.l1Bytes);
    return failure();
  }
};

template <>
struct Form<Architecture> {
  static constexpr Fact<Architecture> facts[] = {
      {"packed_fma", nullptr, &Architecture::hasPackedFma},
      {"byte_matrices", nullptr, &Architecture::hasByteMatrices},
  };
  static constexpr Size<Architecture> sizes[] = {
      {"multiprocessors", &Architecture::multiprocessors, 1, 4096, false,
       false},
  };
  static LogicalResult check(const Architecture &, std::string &) {
    return success();
  }
};
} // namespace

template <typename T>
static LogicalResult readSize(const llvm::json::Value &value,
                              const Size<T> &size, T &machine,
                              std::string &error) {
  std::string place = ("sizes." + size.key + ": ").str();
  FailureOr<const llvm::json::Value *> number = readEntry(value, place, error);
  if (failed(number))
    return failure();
  std::optional<int64_t> given = (*number)->getAsInteger();
  if (!given || *given < size.least || *given > size.most ||
      (size.isPowerOfTwo && !llvm::isPowerOf2_64(*given))) {
    std::string found = "no integer";
    if (given)
      found = std::to_string(*given);
    return fail(error, place + "expected " +
                           (size.isPowerOfTwo ? "a power of two" : "a value") +
                           " from " + Twine(size.least) + " to " +
                           Twine(size.most) + ", got " + found);
  }
  machine.*size.member = *given;
  return success();
}

template <typename T>
static LogicalResult readSizes(const llvm::json::Object &description,
                               bool extends, T &machine, std::string &error) {
  const llvm::json::Object *sizes = description.getObject("sizes");
  if (!sizes)
    return fail(error, "sizes: expected an object");
  SmallVector<StringRef> keys, required;
  for (const Size<T> &size : Form<T>::sizes) {
    if (extends && size.isFixed)
      continue;
    keys.push_back(size.key);
    if (!extends)
      required.push_back(size.key);
  }
  if (failed(checkKeys(*sizes, "sizes: ", keys, required, error)))
    return failure();
  for (const Size<T> &size : Form<T>::sizes)
    if (const llvm::json::Value *value = sizes->get(size.key))
      if (failed(readSize(*value, size, machine, error)))
        return failure();
  return Form<T>::check(machine, error);
}

template <typename T>
static LogicalResult readFacts(const llvm::json::Object &description,
                               T &machine, std::string &error) {
  const llvm::json::Object *facts = description.getObject("instructions");
  if (!facts)
    return fail(error, "instructions: expected an object");
  SmallVector<StringRef> keys;
  for (const Fact<T> &fact : Form<T>::facts)
    keys.push_back(fact.key);
  if (failed(checkKeys(*facts, "instructions: ", keys, keys, error)))
    return failure();
  for (const Fact<T> &fact : Form<T>::facts) {
    std::optional<bool> truth = facts->getBoolean(fact.key);
    std::optional<StringRef> text = facts->getString(fact.key);
    if (fact.truth ? !truth : !text)
      return fail(error, "instructions." + fact.key + ": expected " +
                             (fact.truth ? "true or false" : "a string"));
    if (fact.truth)
      machine.*fact.truth = *truth;
    else
      machine.*fact.text = text->str();
  }
  return success();
}

template <typename T>
static LogicalResult read(StringRef text, T &machine, std::string &error) {
  FailureOr<llvm::json::Object> description = parseObject(text, error);
  if (failed(description) ||
      failed(checkKeys(*description, "", {"kind", "instructions", "sizes"},
                       {"kind", "instructions", "sizes"}, error)) ||
      failed(readFacts(*description, machine, error)))
    return failure();
  return readSizes(*description, /*extends=*/false, machine, error);
}

LogicalResult mlir::repro::readMachine(StringRef text, Level &machine,
                                       std::string &error) {
  if (failed(read(text, machine, error)))
    return failure();
  StringRef processor = StringRef(machine.triple).split('-').first;
  if (processor == "x86_64")
    machine.machine = ::repro_runtime::Machine::X86_64;
  else if (processor == "aarch64")
    machine.machine = ::repro_runtime::Machine::AArch64;
  else if (processor == "thumbv7em")
    machine.machine = ::repro_runtime::Machine::Thumb;
  else
    return fail(error,
                "expected a triple of x86_64, aarch64 or thumbv7em, got '" +
                    machine.triple + "'");
  machine.isMicrocontroller =
      machine.machine == ::repro_runtime::Machine::Thumb;
  return success();
}

LogicalResult mlir::repro::readMachine(StringRef text, Architecture &machine,
                                       std::string &error) {
  return read(text, machine, error);
}

std::string mlir::repro::readMachineKind(StringRef text) {
  std::string error;
  FailureOr<llvm::json::Object> description = parseObject(text, error);
  if (failed(description))
    return "";
  return description->getString("kind").value_or("").str();
}

template <typename T>
static FailureOr<T> readFile(StringRef path, ArrayRef<T> machines,
                             std::string &error) {
  auto describe = [&](const Twine &reason) {
    return fail(error, path + ": " + reason);
  };
  std::string reason;
  FailureOr<std::string> text = readFileText(path, reason);
  if (failed(text))
    return describe(reason);
  FailureOr<llvm::json::Object> description = parseObject(*text, reason);
  if (failed(description) ||
      failed(checkKeys(*description, "", {"extends", "sizes", "performance"},
                       {"extends", "sizes"}, reason)))
    return describe(reason);
  StringRef name = description->getString("extends").value_or("");
  const T *base = findByName(machines, name);
  if (!base)
    return describe("extends: expected one of " + listNames(machines) +
                    ", got " + quote(name));
  T machine = *base;
  machine.description = path.str();
  if (failed(readSizes(*description, /*extends=*/true, machine, reason)))
    return describe(reason);
  return machine;
}

FailureOr<Level> mlir::repro::readMachineFile(StringRef path,
                                              ArrayRef<Level> machines,
                                              std::string &error) {
  return readFile(path, machines, error);
}

FailureOr<Architecture>
mlir::repro::readMachineFile(StringRef path, ArrayRef<Architecture> machines,
                             std::string &error) {
  return readFile(path, machines, error);
}
