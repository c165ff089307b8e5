// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Functions that let the compiler's libraries run with older libraries than
// those of tools/release/sysroot.py, with which they are linked.

#include <cstdio>
#include <cstdlib>
#include <new>

// The archives of LLVM and MLIR, compiled with GCC 14, call these functions of
// newer versions of libstdc++.
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

// glibc 2.29 gave these functions new versions, which do not call a handler of
// errors that programs could set; the results are the same.
#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif
#define FIRST(name)                                                            \
  __asm__(".symver first_" #name "," #name "@" FIRST_VERSION)

extern "C" {

FIRST(exp);
FIRST(exp2);
FIRST(log);
FIRST(log2);
FIRST(pow);

double first_exp(double);
double first_exp2(double);
double first_log(double);
double first_log2(double);
double first_pow(double, double);

double exp(double x) { return first_exp(x); }
double exp2(double x) { return first_exp2(x); }
double log(double x) { return first_log(x); }
double log2(double x) { return first_log2(x); }
double pow(double x, double y) { return first_pow(x, y); }
}
