//===- Lexer.h - Tokens of PTX text -----------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_LEXER_H
#define REPRO_EMULATOR_LEXER_H

#include <string>
#include <string_view>

namespace repro_emulator {

/// Splits a text into tokens and holds the current one. After the first error,
/// which is kept, the text ends.
class Lexer {
public:
  enum Kind { Word, Number, String, Punctuation, End };

  explicit Lexer(std::string_view text);

  Kind kind = End;
  std::string text; // the token's text
  int line = 1;     // the token's line
  std::string error;

  bool atEnd() const { return kind == End; }
  bool isPunctuation(char c) const {
    return kind == Punctuation && text[0] == c;
  }
  /// Advances to the next token.
  void next();
  /// Advances to the first token after the current line.
  void skipLine();
  /// If the current token is this character, advances and returns true.
  bool take(char punctuation);
  /// Advances if the current token is this character. Otherwise records an
  /// error.
  void expect(char punctuation);
  /// Returns the current word and advances. Records an error that expects
  /// `what` if the token is not a word.
  std::string takeWord(const char *what);
  /// Records an error, if it is the first one, and moves to the end of the
  /// text.
  void fail(const std::string &message);

private:
  void skipBlanks();

  std::string_view source;
  size_t position = 0;
  int currentLine = 1;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_LEXER_H
