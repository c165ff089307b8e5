//===- LaunchDialect.td - The launch dialect ---------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_LAUNCHDIALECT_TD
#define REPRO_LAUNCH_LAUNCHDIALECT_TD

include "mlir/IR/DialectBase.td"

def Launch_Dialect : Dialect {
  let name = "launch";
  let cppNamespace = "::mlir::repro::launch";
  let summary = "Launches of kernels on buffers, for all targets";
  let description = [{
    What a compiled program does, from the first kernel to the artifact: a
    `launch.plan` says which kernels run, in which order and on which bytes.
    Kernels are functions beside the plan: `func.func`s, then the dialects of
    the target. The plan stays as it is until it is translated.

    Attributes of kernels and of what they hold:

    - `launch.access` of an argument: what the kernel does with the buffer;
    - `launch.work` of a CPU function: its work items and scratch memory;
    - `launch.message` of a check (E1): the number of its message;
    - `launch.messages` of a module without a plan yet: the messages;
    - `launch.tiles` of a function: how contractions are tiled, for readers
      alone.
  }];
  let discardableAttrs = (ins
    "::mlir::repro::launch::AccessAttr":$access,
    "::mlir::repro::launch::WorkAttr":$work,
    "::mlir::IntegerAttr":$message,
    "::mlir::ArrayAttr":$messages,
    "::mlir::ArrayAttr":$tiles);
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
}

#endif // REPRO_LAUNCH_LAUNCHDIALECT_TD
