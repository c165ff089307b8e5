//===- DecodeWarp.cpp - Decodes warp-synchronous instructions -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Decoder.h"

using namespace repro_emulator;

bool Decoder::decodeBarrier(const Statement &statement, Opcode &opcode) {
  bool isNew = opcode.parts[0] == "barrier";
  if (!isNew && opcode.take("warp")) {
    if (!opcode.take("sync") || !opcode.atEnd())
      return false;
    if (expectOperands(statement, 1)) {
      Value mask = getOperand(statement.operands[0], "b32");
      addStep(Kind::WarpBarrier).sources = {mask};
    }
    return true;
  }
  opcode.take("cta");
  if (!opcode.take("sync"))
    return false;
  bool isAligned = opcode.take("aligned") || !isNew;
  if (!opcode.atEnd())
    return false;
  size_t count = statement.operands.size();
  if (count < 1 || count > 2 ||
      statement.operands[0].kind != Operand::Integer ||
      statement.operands[0].bits > 15) {
    fail("expected the constant number of a barrier in '" + statement.opcode +
         "'");
    return true;
  }
  Value threads =
      count == 2 ? getOperand(statement.operands[1], "u32") : noValue;
  Step &step = addStep(Kind::Barrier);
  step.detail.number = uint32_t(statement.operands[0].bits);
  step.detail.flag = isAligned;
  step.sources = {threads};
  return true;
}

bool Decoder::decodeShuffle(const Statement &statement, Opcode &opcode) {
  if (!opcode.take("sync"))
    return false;
  ShuffleMode mode;
  if (opcode.take("up"))
    mode = ShuffleMode::Up;
  else if (opcode.take("down"))
    mode = ShuffleMode::Down;
  else if (opcode.take("bfly"))
    mode = ShuffleMode::Butterfly;
  else if (opcode.take("idx"))
    mode = ShuffleMode::Index;
  else
    return false;
  if (!opcode.take("b32") || !opcode.atEnd())
    return false;
  if (!expectOperands(statement, 5))
    return true;
  const Operand &to = statement.operands[0];
  bool isPair = to.kind == Operand::List && to.parts.size() == 2;
  std::vector<Value> results = {getResult(isPair ? to.parts[0] : to, "b32")};
  if (isPair)
    results.push_back(getResult(to.parts[1], "pred"));
  std::vector<Value> sources;
  for (size_t i : {4, 1, 2, 3}) // the mask first
    sources.push_back(getOperand(statement.operands[i], "b32"));
  Step &step = addStep(Kind::Shuffle);
  step.detail.shuffle = mode;
  step.results = std::move(results);
  step.sources = std::move(sources);
  return true;
}

bool Decoder::decodeVote(const Statement &statement, Opcode &opcode) {
  if (opcode.parts[0] == "activemask") {
    if (!opcode.take("b32") || !opcode.atEnd())
      return false;
    if (expectOperands(statement, 1)) {
      Value result = getResult(statement.operands[0], "b32");
      addStep(Kind::ActiveMask).results = {result};
    }
    return true;
  }
  if (!opcode.take("sync"))
    return false;
  VoteMode mode;
  if (opcode.take("all"))
    mode = VoteMode::All;
  else if (opcode.take("any"))
    mode = VoteMode::Any;
  else if (opcode.take("uni"))
    mode = VoteMode::Uniform;
  else if (opcode.take("ballot"))
    mode = VoteMode::Ballot;
  else
    return false;
  const char *type = mode == VoteMode::Ballot ? "b32" : "pred";
  if (!opcode.take(type) || !opcode.atEnd())
    return false;
  if (!expectOperands(statement, 3))
    return true;
  Value source = getOperand(statement.operands[1], "pred");
  Value mask = getOperand(statement.operands[2], "b32");
  Value result = getResult(statement.operands[0], type);
  Step &step = addStep(Kind::Vote);
  step.detail.vote = mode;
  step.results = {result};
  step.sources = {mask, source};
  return true;
}

bool Decoder::decodeMatch(const Statement &statement, Opcode &opcode) {
  bool isAll = opcode.take("all");
  if (!isAll && !opcode.take("any"))
    return false;
  if (!opcode.take("sync"))
    return false;
  Type type = opcode.takeType();
  if (type.kind != Type::Bits || type.bits < 32 || !opcode.atEnd())
    return false;
  if (!expectOperands(statement, 3))
    return true;
  const Operand &to = statement.operands[0];
  bool isPair = isAll && to.kind == Operand::List && to.parts.size() == 2;
  std::vector<Value> results = {getResult(isPair ? to.parts[0] : to, "b32")};
  if (isPair)
    results.push_back(getResult(to.parts[1], "pred"));
  Value source = getOperand(statement.operands[1], type);
  Value mask = getOperand(statement.operands[2], "b32");
  Step &step = addStep(Kind::Match);
  step.detail.flag = isAll;
  step.detail.registerBytes = uint8_t(type.bits / 8);
  step.results = std::move(results);
  step.sources = {mask, source};
  return true;
}

bool Decoder::decodeReduce(const Statement &statement, Opcode &opcode) {
  if (!opcode.take("sync"))
    return false;
  AtomicOperation operation;
  bool isBitwise = true;
  if (opcode.take("and"))
    operation = AtomicOperation::And;
  else if (opcode.take("or"))
    operation = AtomicOperation::Or;
  else if (opcode.take("xor"))
    operation = AtomicOperation::Xor;
  else {
    isBitwise = false;
    if (opcode.take("add"))
      operation = AtomicOperation::Add;
    else if (opcode.take("min"))
      operation = AtomicOperation::Minimum;
    else if (opcode.take("max"))
      operation = AtomicOperation::Maximum;
    else
      return false;
  }
  Type type = opcode.takeType();
  if (type.bits != 32 || !opcode.atEnd() ||
      (isBitwise ? type.kind != Type::Bits : !type.isInteger()))
    return false;
  if (!expectOperands(statement, 3))
    return true;
  Value source = getOperand(statement.operands[1], type);
  Value mask = getOperand(statement.operands[2], "b32");
  Value result = getResult(statement.operands[0], type);
  Step &step = addStep(Kind::Reduce);
  step.detail.atomic = operation;
  step.detail.bytes = 4;
  step.detail.isSigned = type.kind == Type::Signed;
  step.results = {result};
  step.sources = {mask, source};
  return true;
}

/// Returns the element type that mma.sync calls `name`; std::nullopt if
/// mma.sync does not support it with `depth` elements of K and results in f16
/// (`toF16`) or f32.
static std::optional<MatrixElement> findElement(std::string_view name,
                                                unsigned depth, bool toF16) {
  struct Form {
    MatrixElement element;
    bool hasF16;
    unsigned depths[2];
  };
  static const Form forms[] = {{MatrixElement::F16, true, {8, 16}},
                               {MatrixElement::BF16, false, {8, 16}},
                               {MatrixElement::TF32, false, {4, 8}},
                               {MatrixElement::E4M3, true, {32, 32}},
                               {MatrixElement::E5M2, true, {32, 32}}};
  for (const Form &form : forms)
    if (name == repro_target::matrixElementNames[unsigned(form.element)] &&
        (form.hasF16 || !toF16) &&
        (depth == form.depths[0] || depth == form.depths[1]))
      return form.element;
  return std::nullopt;
}

/// Decodes mma.sync on 8-bit integers, or on floats with results in f32 or f16.
/// The comment of multiplyMatrices (WarpOperations.cpp) tells which lane has
/// which elements.
bool Decoder::decodeMatrixMultiply(const Statement &statement, Opcode &opcode) {
  if (!opcode.take("sync") || !opcode.take("aligned"))
    return false;
  struct Shape {
    const char *name;
    uint8_t rows, columns, depth;
  };
  static const Shape shapes[] = {{"m8n8k16", 8, 8, 16},
                                 {"m16n8k4", 16, 8, 4},
                                 {"m16n8k8", 16, 8, 8},
                                 {"m16n8k16", 16, 8, 16},
                                 {"m16n8k32", 16, 8, 32}};
  const Shape *shape = nullptr;
  for (const Shape &candidate : shapes)
    if (opcode.take(candidate.name))
      shape = &candidate;
  if (!shape || !opcode.take("row") || !opcode.take("col"))
    return false;
  bool saturates = opcode.take("satfinite");
  std::string sum = opcode.takeAny(), a = opcode.takeAny(),
              b = opcode.takeAny();
  if (!opcode.take(sum) || !opcode.atEnd())
    return false;
  std::optional<MatrixElement> elementA, elementB;
  bool toF16 = sum == "f16";
  if (sum == "s32") {
    if ((a != "s8" && a != "u8") || (b != "s8" && b != "u8") ||
        shape->depth < 16)
      return false;
  } else {
    elementA = findElement(a, shape->depth, toF16);
    elementB = findElement(b, shape->depth, toF16);
    if ((sum != "f32" && !toF16) || !elementA || !elementB || saturates ||
        shape->rows != 16)
      return false;
    if (a != b && !(isFloat8(*elementA) && isFloat8(*elementB)))
      return false;
    kernel->matrixElements |=
        1u << unsigned(*elementA) | 1u << unsigned(*elementB);
  }
  unsigned bits = elementA ? getBits(*elementA) : 8;
  unsigned results = shape->rows * shape->columns / (toF16 ? 64u : 32u);
  if (!expectOperands(statement, 4))
    return true;
  size_t sizes[] = {results, shape->rows * shape->depth * bits / 1024u,
                    shape->columns * shape->depth * bits / 1024u, results};
  std::vector<Value> targets, sources;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<Operand> parts = {statement.operands[i]};
    if (statement.operands[i].kind == Operand::List)
      parts = statement.operands[i].parts;
    if (parts.size() != sizes[i]) {
      fail("'" + statement.opcode + "' with " + std::to_string(parts.size()) +
           " registers, expected " + std::to_string(sizes[i]));
      return true;
    }
    for (const Operand &part : parts)
      if (i == 0)
        targets.push_back(getResult(part, "b32"));
      else
        sources.push_back(getOperand(part, "b32"));
  }
  Step &step = addStep(Kind::MatrixMultiply);
  step.detail.rows = shape->rows;
  step.detail.columns = shape->columns;
  step.detail.depth = shape->depth;
  step.detail.signedA = a == "s8";
  step.detail.signedB = b == "s8";
  step.detail.elementA = elementA;
  step.detail.elementB = elementB;
  step.detail.toF16 = toF16;
  step.detail.flag = saturates;
  step.results = std::move(targets);
  step.sources = std::move(sources);
  return true;
}

bool Decoder::decodeLoadMatrix(const Statement &statement, Opcode &opcode) {
  if (!opcode.take("sync") || !opcode.take("aligned") || !opcode.take("m8n8"))
    return false;
  unsigned count = opcode.take("x1")   ? 1
                   : opcode.take("x2") ? 2
                   : opcode.take("x4") ? 4
                                       : 0;
  bool transposed = opcode.take("trans");
  if (!count || !(opcode.take("shared") || opcode.take("shared::cta")) ||
      !opcode.take("b16") || !opcode.atEnd())
    return false;
  if (!expectOperands(statement, 2))
    return true;
  std::vector<Operand> parts = {statement.operands[0]};
  if (statement.operands[0].kind == Operand::List)
    parts = statement.operands[0].parts;
  if (parts.size() != count) {
    fail("'" + statement.opcode + "' with " + std::to_string(parts.size()) +
         " registers, expected " + std::to_string(count));
    return true;
  }
  std::vector<Value> results;
  for (const Operand &part : parts)
    results.push_back(getResult(part, "b32"));
  Step step;
  step.detail.space = Space::Shared;
  getAddress(statement.operands[1], step);
  step.detail.opcode = statementText;
  step.detail.bytes = 16;
  step.detail.count = uint8_t(count);
  step.detail.flag = transposed;
  noteGranule(Space::Shared, 16);
  if (failed())
    return true;
  Step &added = addStep(Kind::LoadMatrix);
  added.detail = std::move(step.detail);
  added.results = std::move(results);
  added.sources = std::move(step.sources);
  return true;
}
