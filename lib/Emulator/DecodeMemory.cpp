//===- DecodeMemory.cpp - Loads, stores, atomics and copies ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Decoder.h"

#include <algorithm>

using namespace repro_emulator;

bool Decoder::takeSpace(Opcode &opcode, Space &space) {
  static const std::pair<std::string_view, Space> names[] = {
      {"global", Space::Global},      {"shared", Space::Shared},
      {"shared::cta", Space::Shared}, {"local", Space::Local},
      {"const", Space::Constant},     {"param", Space::Parameter}};
  for (auto [name, value] : names)
    if (opcode.take(name)) {
      space = value;
      return true;
    }
  space = Space::Generic;
  return false;
}

/// Consumes ordering modifiers such as .volatile and .relaxed.gpu. Sets
/// `detail.strong` if there is a modifier other than .weak.
void Decoder::takeOrdering(Opcode &opcode, Detail &detail) {
  if (opcode.take("weak"))
    return;
  for (std::string_view name :
       {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
    detail.strong |= opcode.take(name);
  for (std::string_view scope : {"cta", "gpu", "sys", "cluster"})
    opcode.take(scope);
}

void Decoder::noteGranule(Space space, unsigned bytes) {
  if (space == Space::Shared || space == Space::Generic)
    kernel->sharedGranule = std::min(kernel->sharedGranule, bytes);
  if (space != Space::Shared)
    kernel->globalGranule = std::min(kernel->globalGranule, bytes);
}

/// Returns the registers of a list {a, b, ...}, or a single register. Sets
/// `registerBytes` to their common size.
std::vector<Value> Decoder::getElements(const Operand &operand, Type type,
                                        unsigned count, bool isLoad,
                                        uint8_t &registerBytes) {
  std::vector<Operand> parts = {operand};
  if (operand.kind == Operand::List)
    parts = operand.parts;
  if (parts.size() != count || (count > 1) != (operand.kind == Operand::List))
    fail("'" + statementText + "' with " + std::to_string(parts.size()) +
         " registers, expected " + std::to_string(count));
  // Registers may be wider than the elements in memory.
  unsigned bits = std::max(16u, type.bits);
  for (const Operand &part : parts)
    if (unsigned registerBits = getRegisterBits(part); registerBits > bits)
      bits = registerBits;
  if (bits > type.bits && type.kind == Type::Float)
    fail("'" + statementText + "' on a register of " + std::to_string(bits) +
         " bits");
  // If a store is narrower than a register with a float, ptxas wrongly converts
  // the float to an integer instead of storing its low bits.
  if (!isLoad)
    for (const Operand &part : parts)
      if (scope->floats.count(part.name) && getRegisterBits(part) > type.bits)
        fail("'" + statementText + "' of " + part.name +
             ", which is wider and given by an instruction on floats: expected "
             "a mov of bits between them");
  std::vector<Value> values;
  for (const Operand &part : parts) {
    if (part.kind == Operand::Sink && isLoad)
      values.push_back(noValue);
    else if (isLoad)
      values.push_back(getResult(part, Type{Type::Bits, bits}));
    else
      values.push_back(getOperand(part, Type{Type::Bits, bits}));
  }
  registerBytes = uint8_t(bits / 8);
  return values;
}

bool Decoder::decodeLoadStore(const Statement &statement, Opcode &opcode) {
  bool isLoad = opcode.parts[0] != "st";
  Step step;
  step.kind = isLoad ? Kind::Load : Kind::Store;
  Detail &detail = step.detail;
  takeOrdering(opcode, detail);
  takeSpace(opcode, detail.space);
  // Modifiers that do not affect the result are skipped.
  if (isLoad)
    opcode.take("nc");
  while (!opcode.atEnd() && (opcode.parts[opcode.at].substr(0, 4) == "L1::" ||
                             opcode.parts[opcode.at].substr(0, 4) == "L2::"))
    ++opcode.at;
  for (std::string_view cache : {"ca", "cg", "cs", "lu", "cv", "wb", "wt"})
    opcode.take(cache);
  unsigned count = opcode.take("v2")   ? 2
                   : opcode.take("v4") ? 4
                   : opcode.take("v8") ? 8
                                       : 1;
  Type type = opcode.takeType();
  if (!type || type.kind == Type::Predicate || !opcode.atEnd() ||
      count * type.bits > 256)
    return false;
  if (!expectOperands(statement, 2))
    return true;
  const Operand &address = statement.operands[isLoad ? 1 : 0];
  const Operand &data = statement.operands[isLoad ? 0 : 1];
  detail.count = uint8_t(count);
  detail.bytes = uint8_t(type.bits / 8);
  detail.isSigned = type.kind == Type::Signed;
  std::vector<Value> elements =
      getElements(data, type, count, isLoad, detail.registerBytes);
  if (failed())
    return true;
  if (detail.space == Space::Parameter)
    return decodeParameterAccess(statement, step, address, elements, isLoad,
                                 type);
  (isLoad ? step.results : step.sources) = std::move(elements);
  getAddress(address, step);
  if (detail.space == Space::Constant && !isLoad)
    return false;
  noteGranule(detail.space, detail.bytes);
  if (failed())
    return true;
  Step &added = addStep(step.kind);
  detail.opcode = statementText;
  added.detail = std::move(detail);
  added.results = std::move(step.results);
  added.sources = std::move(step.sources);
  return true;
}

/// Decodes a load or store of a parameter. A parameter of the kernel is a
/// location in the frame; a parameter of a called function is in local memory.
bool Decoder::decodeParameterAccess(const Statement &statement, Step &step,
                                    const Operand &address,
                                    const std::vector<Value> &elements,
                                    bool isLoad, Type type) {
  Detail &detail = step.detail;
  if (address.kind != Operand::Address || address.name.empty() ||
      address.name[0] == '%') {
    fail("expected the name of a parameter in '" + statement.opcode + "'");
    return true;
  }
  if (auto found = scope->parameters.find(address.name);
      found != scope->parameters.end()) {
    Step &added = addStep(step.kind);
    added.detail = std::move(detail);
    added.detail.opcode = statementText;
    added.detail.space = Space::Local;
    added.detail.offset = address.bits + found->second;
    (isLoad ? added.results : added.sources) = elements;
    added.sources.insert(added.sources.begin(), noValue);
    return true;
  }
  const std::vector<Variable> &parameters = scope->function->parameters;
  size_t index = 0;
  while (index < parameters.size() && parameters[index].name != address.name)
    ++index;
  if (index == parameters.size() || !scope->function->entry || !isLoad) {
    fail("no parameter '" + address.name + "' to access by '" +
         statement.opcode + "'");
    return true;
  }
  if (address.bits + uint64_t(detail.count) * detail.bytes >
      parameters[index].bytes) {
    fail("'" + statement.opcode + "' beyond parameter '" + address.name +
         "' of " + std::to_string(parameters[index].bytes) + " bytes");
    return true;
  }
  for (unsigned i = 0; i < detail.count; ++i) {
    if (elements[i] == noValue)
      continue;
    Value slot = newRegister(detail.registerBytes);
    ValueInfo &info = program.values.back();
    info.source = ValueInfo::KernelParameter;
    info.parameterBytes = detail.bytes;
    info.bits = kernel->parameters[index].offset + address.bits +
                uint64_t(i) * detail.bytes;
    info.isSigned = type.kind == Type::Signed;
    addPure("mov.b" + std::to_string(8 * detail.registerBytes), elements[i],
            {slot});
  }
  return true;
}

bool Decoder::decodeAtomic(const Statement &statement, Opcode &opcode) {
  bool hasResult = opcode.parts[0] == "atom";
  Step step;
  Detail &detail = step.detail;
  takeOrdering(opcode, detail);
  detail.strong = true;
  takeSpace(opcode, detail.space);
  static const std::pair<std::string_view, AtomicOperation> names[] = {
      {"add", AtomicOperation::Add},
      {"min", AtomicOperation::Minimum},
      {"max", AtomicOperation::Maximum},
      {"and", AtomicOperation::And},
      {"or", AtomicOperation::Or},
      {"xor", AtomicOperation::Xor},
      {"exch", AtomicOperation::Exchange},
      {"cas", AtomicOperation::CompareAndSwap}};
  std::string name = opcode.takeAny();
  auto found = std::find_if(std::begin(names), std::end(names),
                            [&](auto &entry) { return entry.first == name; });
  if (found == std::end(names))
    return false;
  detail.atomic = found->second;
  Type type = opcode.takeType();
  bool isArithmetic = detail.atomic == AtomicOperation::Add ||
                      detail.atomic == AtomicOperation::Minimum ||
                      detail.atomic == AtomicOperation::Maximum;
  if (!opcode.atEnd() || (type.bits != 32 && type.bits != 64) ||
      (isArithmetic ? !type.isInteger() : type.kind != Type::Bits) ||
      detail.space == Space::Local || detail.space == Space::Constant ||
      detail.space == Space::Parameter)
    return false;
  bool isSwap = detail.atomic == AtomicOperation::CompareAndSwap;
  if (!hasResult && (isSwap || detail.atomic == AtomicOperation::Exchange))
    return false;
  if (!expectOperands(statement, size_t(hasResult) + 2 + isSwap))
    return true;
  detail.bytes = detail.registerBytes = uint8_t(type.bits / 8);
  detail.isSigned = type.kind == Type::Signed;
  size_t at = hasResult;
  const Operand &address = statement.operands[at++];
  if (hasResult && statement.operands[0].kind != Operand::Sink)
    step.results = {getResult(statement.operands[0], type)};
  for (; at < statement.operands.size(); ++at)
    step.sources.push_back(getOperand(statement.operands[at], type));
  getAddress(address, step);
  if (failed())
    return true;
  noteGranule(detail.space, detail.bytes);
  Step &added = addStep(Kind::Atomic);
  detail.opcode = statementText;
  added.detail = std::move(detail);
  added.results = std::move(step.results);
  added.sources = std::move(step.sources);
  return true;
}

/// Decodes cp.async and its waits. The bytes are copied only when the kernel
/// waits for them.
bool Decoder::decodeAsync(const Statement &statement, Opcode &opcode) {
  if (!opcode.take("async"))
    return false;
  if (opcode.take("commit_group")) {
    if (!opcode.atEnd())
      return false;
    if (expectOperands(statement, 0))
      addStep(Kind::AsyncCommit);
    return true;
  }
  if (opcode.take("wait_all")) {
    if (!opcode.atEnd())
      return false;
    if (expectOperands(statement, 0)) {
      Step &step = addStep(Kind::AsyncWait);
      step.detail.flag = true; // includes copies that are not in a group
    }
    return true;
  }
  if (opcode.take("wait_group")) {
    if (!opcode.atEnd())
      return false;
    if (expectOperands(statement, 1)) {
      if (statement.operands[0].kind != Operand::Integer)
        fail("expected a constant in '" + statement.opcode + "'");
      addStep(Kind::AsyncWait).detail.number =
          uint32_t(statement.operands[0].bits);
    }
    return true;
  }
  bool all = opcode.take("ca"), global = !all && opcode.take("cg");
  if (!(all || global) ||
      !(opcode.take("shared") || opcode.take("shared::cta")) ||
      !opcode.take("global"))
    return false;
  while (!opcode.atEnd() && opcode.parts[opcode.at].substr(0, 4) == "L2::")
    ++opcode.at;
  size_t operands = statement.operands.size();
  if (!opcode.atEnd() || operands < 3 || operands > 4)
    return false;
  uint64_t bytes = statement.operands[2].bits;
  if (statement.operands[2].kind != Operand::Integer ||
      !(bytes == 16 || (all && (bytes == 4 || bytes == 8)))) {
    fail("'" + statement.opcode + "' of " + std::to_string(bytes) + " bytes");
    return true;
  }
  Step to, from;
  to.detail.space = Space::Shared;
  getAddress(statement.operands[0], to);
  from.detail.space = Space::Global;
  getAddress(statement.operands[1], from);
  Value used = operands == 4 ? getOperand(statement.operands[3], "u32")
                             : getConstant(bytes, 4);
  // Returns a 64-bit register with the address of `step`, including the offset.
  auto complete = [&](const Step &step) {
    Value offset = getConstant(step.detail.offset, 8), base = step.sources[0];
    if (base == noValue)
      return offset;
    if (step.detail.addressBytes == 4)
      base = addPure("cvt.u64.u32", {base});
    return addPure("add.u64", {base, offset});
  };
  if (failed())
    return true;
  Value target = complete(to), source = complete(from);
  noteGranule(Space::Generic, unsigned(bytes));
  Step &step = addStep(Kind::AsyncCopy);
  step.detail.bytes = uint8_t(bytes);
  step.sources = {target, source, used};
  return true;
}
