/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* What AddressSanitizer and UndefinedBehaviorSanitizer do in every process that has this library preloaded, whatever
 * is left of its environment. REPORTS is the beginning of the names of the files in which they report.
 *
 * LLVM and Python are not instrumented and keep memory to their end: no leaks are looked for. What a signal ends, ends
 * as it does without sanitizers. An allocation that is too large fails as one without memory does. This library alone
 * comes before that of AddressSanitizer, which has such functions too. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define COMMON "log_path=" REPORTS ":abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_abort=0"

__attribute__((visibility("default"))) const char *__asan_default_options(void) {
  return COMMON ":detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0";
}

__attribute__((visibility("default"))) const char *__ubsan_default_options(void) {
  return COMMON ":print_stacktrace=1";
}

/* In one process the library of UndefinedBehaviorSanitizer calls AddressSanitizer's function of this name and not its
 * own, and would report on standard error. */
__attribute__((constructor)) static void set_report_path(void) {
  void *library = dlopen("libubsan.so.1", RTLD_NOW | RTLD_NOLOAD);
  void (*set)(const char *) = NULL;
  if (library)
    *(void **)&set = dlsym(library, "__sanitizer_set_report_path");
  if (set)
    set(REPORTS);
}
