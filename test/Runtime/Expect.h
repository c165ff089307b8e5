//===- Expect.h - What the native tests expect ------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TEST_RUNTIME_EXPECT_H
#define REPRO_TEST_RUNTIME_EXPECT_H

#include <cstdlib>
#include <iostream>
#include <string>

/// Unless the condition holds, prints the source location and ends the test.
#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::cerr << __FILE__ << ":" << __LINE__ << ": expected " << #condition  \
                << "\n";                                                       \
      std::exit(1);                                                            \
    }                                                                          \
  } while (false)

/// Unless the message contains the text, prints both and ends the test.
#define EXPECT_ERROR(message, text)                                            \
  do {                                                                         \
    std::string said = (message);                                              \
    if (said.find(text) == std::string::npos) {                                \
      std::cerr << __FILE__ << ":" << __LINE__ << ": expected '" << (text)     \
                << "' in '" << said << "'\n";                                  \
      std::exit(1);                                                            \
    }                                                                          \
  } while (false)

#endif // REPRO_TEST_RUNTIME_EXPECT_H
