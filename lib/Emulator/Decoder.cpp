//===- Decoder.cpp - Translates PTX statements to steps -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Decoder.h"

#include "Target/FloatResults.h"

#include <algorithm>

using namespace repro_emulator;

void Decoder::fail(const std::string &message) {
  if (error.empty())
    error = "PTX line " + std::to_string(line) + ": " + message;
}

bool Decoder::Opcode::take(std::string_view name) {
  if (atEnd() || parts[at] != name)
    return false;
  ++at;
  return true;
}

std::string Decoder::Opcode::takeAny() {
  return atEnd() ? std::string() : parts[at++];
}

Type Decoder::Opcode::takeType() { return parseType(takeAny()); }

Step &Decoder::addStep(Kind kind) {
  Step step;
  step.kind = kind;
  step.line = line;
  step.guard = guard;
  step.guardNegated = guardNegated;
  step.detail.opcode = statementText;
  program.steps.push_back(std::move(step));
  return program.steps.back();
}

void Decoder::addPure(std::string_view opcode, Value result,
                      std::initializer_list<Value> sources) {
  auto found = opcodes.find(opcode);
  if (found == opcodes.end()) {
    fail("unknown opcode '" + std::string(opcode) + "'");
    return;
  }
  Step &step = addStep(Kind::Pure);
  step.compute = found->second->compute;
  step.results = {result};
  step.sources = sources;
}

Value Decoder::addPure(std::string_view opcode,
                       std::initializer_list<Value> sources) {
  auto found = opcodes.find(opcode);
  if (found == opcodes.end()) {
    fail("unknown opcode '" + std::string(opcode) + "'");
    return newRegister(4);
  }
  Type type = parseType(found->second->types[0]);
  bool isPredicate = type.kind == Type::Predicate;
  Value result = newRegister(isPredicate ? 4 : type.bits / 8, isPredicate);
  addPure(opcode, result, sources);
  return result;
}

uint32_t Decoder::getLabel(const std::string &name) {
  auto [place, isNew] =
      labels.try_emplace(scope->prefix + name, uint32_t(program.labels.size()));
  if (isNew)
    program.labels.push_back(noValue);
  return place->second;
}

/// Assigns addresses in shared and local memory to the variables of a body.
void Decoder::layOut(Scope &scope) {
  auto align = [](uint64_t offset, uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
  };
  for (const Variable &variable : scope.function->variables) {
    line = variable.line;
    std::string name = scope.prefix + variable.name;
    if (variable.space == Space::Shared) {
      kernel->sharedBytes = align(kernel->sharedBytes, variable.alignment);
      sharedOffsets[name] = kernel->sharedBytes;
      kernel->sharedBytes += variable.bytes;
    } else if (variable.space == Space::Local ||
               variable.space == Space::Parameter) {
      kernel->localBytes = align(kernel->localBytes, variable.alignment);
      if (variable.space == Space::Local)
        localOffsets[name] = kernel->localBytes;
      else
        scope.parameters[variable.name] = kernel->localBytes;
      kernel->localBytes += variable.bytes;
    } else {
      fail("expected no variable '" + variable.name +
           "' of this space within a function");
    }
  }
}

void Decoder::decodeBody(Scope &inner) {
  Scope *outer = scope;
  scope = &inner;
  layOut(inner);
  findFloats(inner);
  for (const Statement &statement : inner.function->statements) {
    if (failed())
      break;
    line = statement.line;
    if (!statement.label.empty()) {
      uint32_t &place = program.labels[getLabel(statement.label)];
      if (place != noValue)
        fail("label '" + statement.label + "' occurs twice");
      place = uint32_t(program.steps.size());
      continue;
    }
    decodeStatement(statement);
  }
  scope = outer;
}

void Decoder::findFloats(Scope &scope) {
  for (const Statement &statement : scope.function->statements) {
    if (statement.operands.empty() ||
        !repro_target::givesFloat(statement.opcode))
      continue;
    const Operand &first = statement.operands[0];
    if (first.kind == Operand::Register)
      scope.floats.insert(first.name);
    for (const Operand &part : first.parts)
      scope.floats.insert(part.name);
  }
}

void Decoder::decodeStatement(const Statement &statement) {
  statementText = statement.opcode;
  guard = noValue;
  guardNegated = statement.guardNegated;
  if (!statement.guard.empty()) {
    Value value = getRegister(statement.guard);
    if (!failed() && !program.values[value].isPredicate)
      fail("expected a predicate register after @, got " + statement.guard);
    guard = value;
  }
  if (failed())
    return;

  Opcode opcode;
  for (size_t begin = 0; begin <= statement.opcode.size();) {
    size_t end =
        std::min(statement.opcode.find('.', begin), statement.opcode.size());
    opcode.parts.push_back(statement.opcode.substr(begin, end - begin));
    begin = end + 1;
  }
  using Decode = bool (Decoder::*)(const Statement &, Opcode &);
  static const std::unordered_map<std::string_view, Decode> special = {
      {"bra", &Decoder::decodeControl},
      {"brx", &Decoder::decodeControl},
      {"call", &Decoder::decodeControl},
      {"ret", &Decoder::decodeControl},
      {"exit", &Decoder::decodeControl},
      {"trap", &Decoder::decodeControl},
      {"membar", &Decoder::decodeControl},
      {"fence", &Decoder::decodeControl},
      {"prefetch", &Decoder::decodeControl},
      {"mov", &Decoder::decodeMove},
      {"cvt", &Decoder::decodeConvert},
      {"cvta", &Decoder::decodeAddressConversion},
      {"setp", &Decoder::decodeSetPredicate},
      {"add", &Decoder::decodeCarry},
      {"addc", &Decoder::decodeCarry},
      {"sub", &Decoder::decodeCarry},
      {"subc", &Decoder::decodeCarry},
      {"ld", &Decoder::decodeLoadStore},
      {"ldu", &Decoder::decodeLoadStore},
      {"st", &Decoder::decodeLoadStore},
      {"atom", &Decoder::decodeAtomic},
      {"red", &Decoder::decodeAtomic},
      {"cp", &Decoder::decodeAsync},
      {"bar", &Decoder::decodeBarrier},
      {"barrier", &Decoder::decodeBarrier},
      {"shfl", &Decoder::decodeShuffle},
      {"vote", &Decoder::decodeVote},
      {"activemask", &Decoder::decodeVote},
      {"match", &Decoder::decodeMatch},
      {"redux", &Decoder::decodeReduce},
      {"mma", &Decoder::decodeMatrixMultiply},
      {"ldmatrix", &Decoder::decodeLoadMatrix},
  };
  // Special decoders come first, and return false for opcodes that the table of
  // operations defines.
  if (auto found = special.find(opcode.parts[0]); found != special.end()) {
    if ((this->*found->second)(statement, opcode) || failed())
      return;
  }
  // These operations have no PTX opcode: only the decoder uses them.
  static const std::string_view internal[] = {
      "extend",   "narrow",   "join",     "join4",   "part0", "part1",
      "carry",    "carryc",   "borrow",   "borrowc", "addc",  "subc",
      "quarter0", "quarter1", "quarter2", "quarter3"};
  auto found = opcodes.find(statement.opcode);
  if (found == opcodes.end() ||
      std::find(std::begin(internal), std::end(internal), opcode.parts[0]) !=
          std::end(internal)) {
    fail("unknown opcode '" + statement.opcode + "'");
    return;
  }
  decodeTable(statement, *found->second);
}

bool Decoder::decodeControl(const Statement &statement, Opcode &opcode) {
  const std::string &name = opcode.parts[0];
  if (name == "membar" || name == "fence" || name == "prefetch") {
    // These instructions need no step: the emulator executes the accesses of
    // each thread in order, and the race detector checks the order between
    // threads.
    static const std::string_view known[] = {
        "membar.cta",         "membar.gl",         "membar.sys",
        "fence.acq_rel.cta",  "fence.acq_rel.gpu", "fence.acq_rel.sys",
        "fence.sc.cta",       "fence.sc.gpu",      "fence.sc.sys",
        "prefetch.global.L1", "prefetch.global.L2"};
    return std::find(std::begin(known), std::end(known), statement.opcode) !=
           std::end(known);
  }
  opcode.take("uni");
  if (name == "brx") {
    opcode.take("idx");
    opcode.take("uni");
  }
  if (!opcode.atEnd())
    return false;
  if (name == "call") {
    decodeCall(statement);
    return true;
  }
  if (name == "brx") {
    decodeBranchTable(statement);
    return true;
  }
  if (name == "bra") {
    if (!expectOperands(statement, 1))
      return true;
    uint32_t target = getLabel(statement.operands[0].name);
    addStep(Kind::Branch).target = target;
    return true;
  }
  expectOperands(statement, 0);
  if (name == "trap") {
    addStep(Kind::Trap);
  } else if (name == "ret" && scope->returnLabel != noValue) {
    uint32_t target = scope->returnLabel;
    addStep(Kind::Branch).target = target;
  } else {
    addStep(Kind::Exit);
  }
  return true;
}

void Decoder::decodeBranchTable(const Statement &statement) {
  if (!expectOperands(statement, 2))
    return;
  auto list = scope->function->branchTargets.find(statement.operands[1].name);
  if (list == scope->function->branchTargets.end()) {
    fail("no .branchtargets '" + statement.operands[1].name + "'");
    return;
  }
  Value index = getOperand(statement.operands[0], "u32");
  std::vector<uint32_t> targets;
  for (const std::string &name : list->second)
    targets.push_back(getLabel(name));
  Step &step = addStep(Kind::BranchTable);
  step.sources = {index};
  step.labels = std::move(targets);
}

/// Decodes a call by inlining the body of the function. The .param variables of
/// the body are those that the caller has declared.
void Decoder::decodeCall(const Statement &statement) {
  const std::vector<Operand> &operands = statement.operands;
  size_t at = 0;
  std::vector<Operand> results, arguments;
  if (at < operands.size() && operands[at].kind == Operand::List)
    results = operands[at++].parts;
  std::string name = at < operands.size() ? operands[at++].name : "";
  if (at < operands.size() && operands[at].kind == Operand::List)
    arguments = operands[at++].parts;
  const Function *callee = nullptr;
  for (const Function &function : module.functions)
    if (function.name == name && function.defined && !function.entry)
      callee = &function;
  if (!callee || at != operands.size()) {
    fail("call of '" + name + "', which is not a function of this module");
    return;
  }
  if (guard != noValue) {
    fail("expected no guard on a call");
    return;
  }
  if (std::find(callStack.begin(), callStack.end(), callee) !=
      callStack.end()) {
    fail("recursive call of '" + name + "'");
    return;
  }
  Scope inner;
  inner.function = callee;
  inner.prefix = name + "#" + std::to_string(++numCalls) + ".";
  auto bind = [&](const std::vector<Variable> &formals,
                  const std::vector<Operand> &actuals) {
    if (formals.size() != actuals.size()) {
      fail("call of '" + name + "' with " + std::to_string(actuals.size()) +
           " operands, expected " + std::to_string(formals.size()));
      return;
    }
    for (size_t i = 0; i < formals.size(); ++i) {
      auto found = scope->parameters.find(actuals[i].name);
      if (found == scope->parameters.end()) {
        fail("expected a .param variable as operand of a call, got '" +
             actuals[i].name + "'");
        return;
      }
      inner.parameters[formals[i].name] = found->second;
    }
  };
  bind(callee->results, results);
  bind(callee->parameters, arguments);
  if (failed())
    return;
  inner.returnLabel = uint32_t(program.labels.size());
  program.labels.push_back(noValue);
  callStack.push_back(callee);
  decodeBody(inner);
  callStack.pop_back();
  program.labels[inner.returnLabel] = uint32_t(program.steps.size());
}

std::string Decoder::decode(const Function &entry, Kernel &result) {
  kernel = &result;
  line = entry.line;
  kernel->name = entry.name;
  std::copy_n(entry.requiredBlock, 3, kernel->requiredBlock);
  std::copy_n(entry.greatestBlock, 3, kernel->greatestBlock);
  for (const Variable &parameter : entry.parameters) {
    kernel->parameterBytes =
        (kernel->parameterBytes + parameter.alignment - 1) /
        parameter.alignment * parameter.alignment;
    kernel->parameters.push_back({kernel->parameterBytes, parameter.bytes});
    kernel->parameterBytes += parameter.bytes;
  }
  Scope body;
  body.function = &entry;
  callStack = {&entry};
  // Dynamic shared memory begins after the static shared memory of all bodies.
  // Its offset must be known before the bodies are decoded, so the largest
  // static size that the bodies can need is reserved.
  for (const Variable &variable : module.variables)
    if (variable.space == Space::Shared && !variable.external) {
      uint64_t &bytes = kernel->sharedBytes;
      bytes = (bytes + variable.alignment - 1) / variable.alignment *
              variable.alignment;
      sharedOffsets[variable.name] = bytes;
      bytes += variable.bytes;
    }
  uint64_t dynamicAlignment = 16;
  for (const Variable &variable : module.variables)
    if (variable.space == Space::Shared && variable.external)
      dynamicAlignment = std::max(dynamicAlignment, variable.alignment);
  uint64_t staticBytes = kernel->sharedBytes;
  for (const Function &function : module.functions)
    for (const Variable &variable : function.variables)
      if (variable.space == Space::Shared)
        staticBytes += variable.bytes + variable.alignment;
  kernel->dynamicSharedOffset = (staticBytes + dynamicAlignment - 1) /
                                dynamicAlignment * dynamicAlignment;
  for (const Variable &variable : module.variables)
    if (variable.space == Space::Shared && variable.external)
      sharedOffsets[variable.name] = kernel->dynamicSharedOffset;

  decodeBody(body);
  guard = noValue;
  addStep(Kind::Exit);
  for (auto &[name, label] : labels)
    if (program.labels[label] == noValue)
      fail("no label '" + name + "'");
  if (!failed())
    allocateRegisters(std::move(program), *kernel);
  return error;
}
