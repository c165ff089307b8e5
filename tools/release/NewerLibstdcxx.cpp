// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Functions that the archives of LLVM and MLIR call, and that the libstdc++ of
// tools/release/sysroot.py lacks: the archives were compiled with GCC 14.

#include <cstdio>
#include <cstdlib>
#include <new>

namespace std {

[[noreturn]] void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}

[[noreturn]] void __glibcxx_assert_fail(const char *file, int line,
                                        const char *function,
                                        const char *condition) noexcept {
  if (file && function && condition)
    fprintf(stderr, "%s:%d: %s: Assertion '%s' failed.\n", file, line, function,
            condition);
  abort();
}

} // namespace std
