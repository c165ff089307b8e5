//===- Syntax.cpp - Reads PTX text ----------------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Syntax.h"

#include "Emulator/Lexer.h"

#include <cstdlib>

using namespace repro_emulator;

Type repro_emulator::parseType(std::string_view name) {
  if (name == "pred")
    return {Type::Predicate, 1};
  if (name.size() < 2)
    return {};
  unsigned bits = 0;
  for (char c : name.substr(1)) {
    if (c < '0' || c > '9')
      return {};
    bits = bits * 10 + unsigned(c - '0');
  }
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return {};
  switch (name[0]) {
  case 'b':
    return {Type::Bits, bits};
  case 'u':
    return {Type::Unsigned, bits};
  case 's':
    return {Type::Signed, bits};
  case 'f':
    return bits == 8 ? Type() : Type{Type::Float, bits};
  default:
    return {};
  }
}

namespace {

/// A recursive descent parser. After the first error, the lexer is at the end
/// of the text, which ends all loops.
class Parser {
public:
  Parser(std::string_view text, SourceModule &module)
      : lexer(text), module(module) {}

  std::string run() {
    while (!lexer.atEnd())
      parseTopLevel();
    if (lexer.error.empty() && module.target.empty())
      lexer.fail("expected a .target directive");
    return lexer.error;
  }

private:
  void parseTopLevel();
  void parseFunction(bool entry);
  void parseFunctionAttributes(Function &function);
  void parseParameters(std::vector<Variable> &parameters);
  void parseBody(Function &function);
  void parseBodyDirective(Function &function);
  void parseRegisters(Function &function);
  void parseStatement(Function &function);
  Operand parseOperand();
  Operand parseSingleOperand();
  Operand parseList(char close);
  uint64_t parseInteger();
  Variable parseVariable(Space space);
  void parseInitial(Variable &variable, unsigned elementBytes);
  void skipBraces();
  std::string resolve(const std::string &name) const;

  Lexer lexer;
  SourceModule &module;
  const Function *current = nullptr;
  /// For each open brace: a map from the names declared after it to names that
  /// are unique in the function.
  std::vector<std::map<std::string, std::string>> scopes;
  unsigned numScopes = 0;
};

} // namespace

static bool isSpace(std::string_view word, Space &space) {
  static const std::pair<std::string_view, Space> names[] = {
      {".global", Space::Global},
      {".shared", Space::Shared},
      {".local", Space::Local},
      {".const", Space::Constant},
      {".param", Space::Parameter}};
  for (auto [name, value] : names)
    if (name == word) {
      space = value;
      return true;
    }
  return false;
}

void Parser::skipBraces() {
  lexer.expect('{');
  for (int depth = 1; depth && !lexer.atEnd();) {
    depth += lexer.isPunctuation('{') - lexer.isPunctuation('}');
    lexer.next();
  }
}

void Parser::parseTopLevel() {
  Space space;
  const std::string word = lexer.text;
  if (word == ".version") {
    lexer.skipLine();
  } else if (word == ".address_size") {
    lexer.next();
    if (parseInteger() != 64)
      lexer.fail("expected .address_size 64");
  } else if (word == ".target") {
    lexer.next();
    module.target = lexer.takeWord("a target such as sm_75");
    while (lexer.take(','))
      lexer.takeWord("a target option");
  } else if (word == ".file" || word == ".loc") {
    lexer.skipLine();
  } else if (word == ".section") {
    lexer.next();
    lexer.takeWord("a section name");
    skipBraces();
  } else if (word == ".visible" || word == ".weak" || word == ".common") {
    lexer.next();
  } else if (word == ".entry" || word == ".func") {
    lexer.next();
    parseFunction(word == ".entry");
  } else if (word == ".extern") {
    lexer.next();
    if (!isSpace(lexer.text, space))
      return; // a function without a body
    lexer.next();
    Variable variable = parseVariable(space);
    variable.external = true;
    if (space != Space::Shared)
      lexer.fail("expected no external variable but .shared, got '" +
                 variable.name + "'");
    lexer.expect(';');
    module.variables.push_back(std::move(variable));
  } else if (isSpace(word, space) && space != Space::Parameter &&
             space != Space::Local) {
    lexer.next();
    module.variables.push_back(parseVariable(space));
    lexer.expect(';');
  } else {
    lexer.fail("unknown directive '" + word + "'");
  }
}

uint64_t Parser::parseInteger() {
  bool negative = lexer.take('-');
  if (lexer.kind != Lexer::Number) {
    lexer.fail("expected an integer, got '" + lexer.text + "'");
    return 0;
  }
  char *end = nullptr;
  std::string digits = lexer.text;
  if (!digits.empty() && digits.back() == 'U')
    digits.pop_back();
  uint64_t value = std::strtoull(digits.c_str(), &end, 0);
  if (*end)
    lexer.fail("expected an integer, got '" + lexer.text + "'");
  lexer.next();
  return negative ? -value : value;
}

/// Parses a variable after its state space: [.align N] .type name [bytes] [=
/// {...}].
Variable Parser::parseVariable(Space space) {
  Variable variable;
  variable.space = space;
  variable.line = lexer.line;
  unsigned elementBytes = 0;
  bool isPointer = false; // if set, .align is the pointee's alignment
  while (lexer.kind == Lexer::Word && lexer.text[0] == '.') {
    std::string word = lexer.text.substr(1);
    lexer.next();
    if (word == "align") {
      uint64_t alignment = parseInteger();
      if (alignment == 0 || alignment & (alignment - 1))
        lexer.fail("expected a power of two as alignment");
      if (!isPointer)
        variable.alignment = alignment;
    } else if (Type type = parseType(word);
               type && type.kind != Type::Predicate) {
      elementBytes = type.bits / 8;
    } else if (word == "ptr") {
      isPointer = true; // .ptr .global .align 16: a promise of the caller
    } else if (Space ignored; !isSpace("." + word, ignored)) {
      lexer.fail("unknown type '." + word + "'");
    }
  }
  if (!elementBytes)
    lexer.fail("expected a variable with a type");
  variable.alignment = std::max<uint64_t>(variable.alignment, elementBytes);
  variable.name = lexer.takeWord("a variable name");
  uint64_t elements = 1;
  while (lexer.take('[')) {
    elements *= lexer.isPunctuation(']') ? 0 : parseInteger();
    lexer.expect(']');
  }
  if (elements > (uint64_t(1) << 40))
    lexer.fail("variable '" + variable.name + "' is too large");
  variable.bytes = elements * elementBytes;
  if (lexer.take('='))
    parseInitial(variable, elementBytes);
  return variable;
}

void Parser::parseInitial(Variable &variable, unsigned elementBytes) {
  auto append = [&] {
    Operand value = parseSingleOperand();
    if (value.kind != Operand::Integer && value.kind != Operand::Float32 &&
        value.kind != Operand::Float64)
      lexer.fail("expected a number as initial value");
    for (unsigned i = 0; i < elementBytes; ++i)
      variable.initial.push_back(uint8_t(value.bits >> (8 * i)));
  };
  if (lexer.take('{')) {
    do
      append();
    while (lexer.take(','));
    lexer.expect('}');
  } else {
    append();
  }
  if (variable.initial.size() > variable.bytes)
    lexer.fail("variable '" + variable.name + "' has " +
               std::to_string(variable.bytes) + " bytes, but " +
               std::to_string(variable.initial.size()) + " initial ones");
  variable.initial.resize(variable.bytes);
}

void Parser::parseParameters(std::vector<Variable> &parameters) {
  lexer.expect('(');
  if (lexer.take(')'))
    return;
  do {
    if (lexer.text != ".param")
      lexer.fail("expected a .param, got '" + lexer.text + "'");
    lexer.next();
    parameters.push_back(parseVariable(Space::Parameter));
  } while (lexer.take(','));
  lexer.expect(')');
}

void Parser::parseFunctionAttributes(Function &function) {
  while (lexer.kind == Lexer::Word) {
    const std::string word = lexer.text;
    lexer.next();
    if (word == ".maxntid" || word == ".reqntid") {
      uint32_t *extents =
          word == ".maxntid" ? function.greatestBlock : function.requiredBlock;
      extents[0] = extents[1] = extents[2] = 1;
      for (int i = 0; i < 3; ++i) {
        extents[i] = uint32_t(parseInteger());
        if (!lexer.take(','))
          break;
      }
    } else if (word == ".minnctapersm" || word == ".maxnreg") {
      parseInteger();
    } else if (word == ".pragma") {
      lexer.next();
      lexer.expect(';');
    } else if (word != ".noreturn") {
      lexer.fail("unknown directive '" + word + "'");
    }
  }
}

void Parser::parseFunction(bool entry) {
  Function function;
  function.entry = entry;
  function.line = lexer.line;
  if (lexer.isPunctuation('('))
    parseParameters(function.results);
  function.name = lexer.takeWord("a function name");
  if (lexer.isPunctuation('('))
    parseParameters(function.parameters);
  parseFunctionAttributes(function);
  if (lexer.take(';')) {
    module.functions.push_back(std::move(function));
    return;
  }
  function.defined = true;
  lexer.expect('{');
  parseBody(function);
  module.functions.push_back(std::move(function));
}

void Parser::parseBody(Function &function) {
  scopes.assign(1, {});
  current = &function;
  while (!lexer.atEnd()) {
    if (lexer.take('{')) {
      scopes.emplace_back();
      ++numScopes;
    } else if (lexer.take('}')) {
      scopes.pop_back();
      if (scopes.empty())
        return;
    } else if (lexer.kind == Lexer::Word && lexer.text[0] == '.') {
      parseBodyDirective(function);
    } else if (!lexer.take(';')) {
      parseStatement(function);
    }
  }
  lexer.fail("expected the end of function '" + function.name + "'");
}

void Parser::parseBodyDirective(Function &function) {
  Space space;
  const std::string word = lexer.text;
  if (word == ".loc" || word == ".file") {
    lexer.skipLine();
  } else if (word == ".pragma") {
    lexer.next();
    lexer.next();
    lexer.expect(';');
  } else if (word == ".reg") {
    lexer.next();
    parseRegisters(function);
  } else if (isSpace(word, space)) {
    lexer.next();
    Variable variable = parseVariable(space);
    lexer.expect(';');
    if (scopes.size() > 1) {
      std::string outer = variable.name + "." + std::to_string(numScopes);
      scopes.back()[variable.name] = outer;
      variable.name = outer;
    }
    function.variables.push_back(std::move(variable));
  } else {
    lexer.fail("unknown directive '" + word + "'");
  }
}

void Parser::parseRegisters(Function &function) {
  const std::string word = lexer.takeWord("a register type");
  // At the end of the text, the word is empty, so it has no type.
  Type type =
      word.empty() ? Type() : parseType(std::string_view(word).substr(1));
  if (!type || (type.bits == 8))
    lexer.fail("unknown register type '" + word + "'");
  auto declare = [&](const std::string &name) {
    std::string outer = name;
    if (scopes.size() > 1) {
      outer += "." + std::to_string(numScopes);
      scopes.back()[name] = outer;
    }
    function.registers[outer] = type;
  };
  do {
    std::string name = lexer.takeWord("a register name");
    if (!lexer.take('<')) {
      declare(name);
      continue;
    }
    uint64_t count = parseInteger();
    lexer.expect('>');
    if (count > (1u << 24))
      lexer.fail("expected fewer registers than " + std::to_string(count));
    for (uint64_t i = 0; i < count && !lexer.atEnd(); ++i)
      declare(name + std::to_string(i));
  } while (lexer.take(','));
  lexer.expect(';');
}

std::string Parser::resolve(const std::string &name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->find(name); found != scope->end())
      return found->second;
  return name;
}

Operand Parser::parseList(char close) {
  Operand list;
  list.kind = Operand::List;
  if (lexer.take(close))
    return list;
  do
    list.parts.push_back(parseOperand());
  while (lexer.take(','));
  lexer.expect(close);
  return list;
}

Operand Parser::parseSingleOperand() {
  Operand operand;
  if (lexer.take('{'))
    return parseList('}');
  if (lexer.take('('))
    return parseList(')');
  if (lexer.take('[')) {
    operand.kind = Operand::Address;
    if (lexer.kind == Lexer::Word)
      operand.name = resolve(lexer.takeWord("an address"));
    if (operand.name.empty() || lexer.take('+') || lexer.isPunctuation('-'))
      operand.bits = parseInteger();
    lexer.expect(']');
    return operand;
  }
  operand.negated = lexer.take('!');
  if (lexer.isPunctuation('-') || lexer.kind == Lexer::Number) {
    const std::string text = lexer.text;
    bool isFloat =
        text.size() > 2 && text[0] == '0' &&
        (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D');
    if (!isFloat) {
      operand.kind = Operand::Integer;
      operand.bits = parseInteger();
      return operand;
    }
    bool isDouble = text[1] == 'd' || text[1] == 'D';
    operand.kind = isDouble ? Operand::Float64 : Operand::Float32;
    char *end = nullptr;
    operand.bits = std::strtoull(text.c_str() + 2, &end, 16);
    if (*end || text.size() != (isDouble ? 18u : 10u))
      lexer.fail("malformed floating-point number '" + text + "'");
    lexer.next();
    return operand;
  }
  std::string name = lexer.takeWord("an operand");
  if (name == "_")
    return operand;
  operand.name = resolve(name);
  // Registers may also be declared with a name that does not begin with %.
  bool isRegister = (!name.empty() && name[0] == '%') ||
                    (current && current->registers.count(operand.name));
  operand.kind = isRegister ? Operand::Register : Operand::Symbol;
  return operand;
}

Operand Parser::parseOperand() {
  Operand operand = parseSingleOperand();
  if (!lexer.isPunctuation('|'))
    return operand;
  Operand list;
  list.kind = Operand::List;
  list.parts.push_back(std::move(operand));
  while (lexer.take('|'))
    list.parts.push_back(parseSingleOperand());
  return list;
}

void Parser::parseStatement(Function &function) {
  Statement statement;
  statement.line = lexer.line;
  if (lexer.take('@')) {
    statement.guardNegated = lexer.take('!');
    statement.guard = resolve(lexer.takeWord("a predicate"));
  }
  std::string word = lexer.takeWord("an instruction");
  if (statement.guard.empty() && lexer.take(':')) {
    if (lexer.text == ".branchtargets") {
      lexer.next();
      std::vector<std::string> &targets = function.branchTargets[word];
      do
        targets.push_back(lexer.takeWord("a label"));
      while (lexer.take(','));
      lexer.expect(';');
      return;
    }
    statement.label = word;
    function.statements.push_back(std::move(statement));
    return;
  }
  statement.opcode = word;
  if (!lexer.isPunctuation(';')) {
    do
      statement.operands.push_back(parseOperand());
    while (lexer.take(','));
  }
  lexer.expect(';');
  function.statements.push_back(std::move(statement));
}

std::string repro_emulator::parsePtx(std::string_view text,
                                     SourceModule &module) {
  return Parser(text, module).run();
}
