//===- Lexer.cpp - Tokens of PTX text -------------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Lexer.h"

#include <algorithm>

using namespace repro_emulator;

static bool isDigit(char c) { return c >= '0' && c <= '9'; }

static bool isWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || isDigit(c) ||
         c == '_' || c == '$' || c == '%' || c == '.';
}

Lexer::Lexer(std::string_view text) : source(text) { next(); }

void Lexer::fail(const std::string &message) {
  if (error.empty())
    error = "PTX line " + std::to_string(line) + ": " + message;
  position = source.size();
  kind = End;
  text.clear();
}

void Lexer::skipBlanks() {
  while (position < source.size()) {
    char c = source[position];
    if (c == '\n') {
      ++currentLine;
      ++position;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      ++position;
    } else if (source.substr(position, 2) == "//") {
      position = std::min(source.find('\n', position), source.size());
    } else if (source.substr(position, 2) == "/*") {
      size_t end = std::min(source.find("*/", position), source.size());
      currentLine += int(
          std::count(source.begin() + position, source.begin() + end, '\n'));
      position = std::min(end + 2, source.size());
    } else {
      return;
    }
  }
}

void Lexer::next() {
  skipBlanks();
  line = currentLine;
  if (position >= source.size()) {
    kind = End;
    text.clear();
    return;
  }
  size_t start = position;
  char first = source[position];
  if (first == '"') {
    kind = String;
    position = std::min(source.find('"', position + 1), source.size() - 1) + 1;
  } else if (isWordCharacter(first)) {
    kind = isDigit(first) ? Number : Word;
    // "::" belongs to a word, as in "ld.global.L1::no_allocate"; a single ":"
    // does not.
    while (position < source.size()) {
      if (isWordCharacter(source[position]))
        ++position;
      else if (source.substr(position, 2) == "::")
        position += 2;
      else
        break;
    }
  } else {
    kind = Punctuation;
    ++position;
  }
  text.assign(source.substr(start, position - start));
}

void Lexer::skipLine() {
  position = std::min(source.find('\n', position), source.size());
  next();
}

bool Lexer::take(char punctuation) {
  if (!isPunctuation(punctuation))
    return false;
  next();
  return true;
}

void Lexer::expect(char punctuation) {
  if (!take(punctuation))
    fail(std::string("expected '") + punctuation + "', got '" + text + "'");
}

std::string Lexer::takeWord(const char *what) {
  if (kind != Word) {
    fail(std::string("expected ") + what + ", got '" + text + "'");
    return {};
  }
  std::string word = std::move(text);
  next();
  return word;
}
