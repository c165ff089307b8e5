// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Functions that let the compiler's libraries run with older libraries than
// those of tools/release/sysroot.py, with which they are linked.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <typeinfo>

// The archives of LLVM and MLIR, compiled with GCC 14, and nanobind call these
// functions of newer versions of libstdc++. Only a label gives a member of a
// class of libstdc++ a definition that our libraries do not export.
extern "C" void moveRuntimeError(std::runtime_error *place,
                                 std::runtime_error *other) noexcept
    __asm__("_ZNSt13runtime_errorC2EOS_");

void moveRuntimeError(std::runtime_error *place,
                      std::runtime_error *other) noexcept {
  new (place) std::runtime_error(*other);
}

extern "C" bool equalsMakeSharedTag(const std::type_info &type) noexcept
    __asm__("_ZNSt19_Sp_make_shared_tag5_S_eqERKSt9type_info");

bool equalsMakeSharedTag(const std::type_info &type) noexcept {
  return type == typeid(std::_Sp_make_shared_tag);
}

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
#define CALL_FIRST_VERSION(name, parameters, arguments)                        \
  extern "C" double first_##name parameters;                                   \
  __asm__(".symver first_" #name "," #name "@" FIRST_VERSION);                 \
  extern "C" double our_##name parameters __asm__(#name);                      \
  double our_##name parameters { return first_##name arguments; }

CALL_FIRST_VERSION(exp, (double x), (x))
CALL_FIRST_VERSION(exp2, (double x), (x))
CALL_FIRST_VERSION(log, (double x), (x))
CALL_FIRST_VERSION(log2, (double x), (x))
CALL_FIRST_VERSION(pow, (double x, double y), (x, y))
