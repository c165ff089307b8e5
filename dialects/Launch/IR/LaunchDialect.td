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
    The dialect describes a compiled program from the creation of kernels to the
    artifact: a `launch.plan` lists the kernels that run, their order and the
    bytes that they access. Kernels are functions next to the plan: first
    `func.func`s, later functions in the dialects of the target. The plan remains
    in this dialect until it is translated.

    Attributes of kernels and of their operations:

    - `launch.access` of an argument: how the kernel accesses the buffer;
    - `launch.work` of a CPU function: its work items and scratch memory;
    - `launch.message` of a check (E1): the number of its message;
    - `launch.messages` of a module that has no plan yet: the messages;
    - `launch.tiles` of a function: the tiling of its contractions, which only
      serves people who read the code.
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
