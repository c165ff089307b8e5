//===- CoresDialect.td - The cores dialect -----------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CORES_CORESDIALECT_TD
#define REPRO_CORES_CORESDIALECT_TD

include "mlir/IR/DialectBase.td"

def Cores_Dialect : Dialect {
  let name = "cores";
  let cppNamespace = "::mlir::repro::cores";
  let summary = "Programs of the cores of a machine with many small memories";
  let description = [{
    The dialect describes one step of a program on a machine whose cores have
    memories of their own. A `cores.plan` contains a straight `cores.program`
    per core. Every address, transfer and synchronization is a constant of the
    plan. Kernels are functions next to the plan, as for `launch.plan`, and
    compute on buffers in the core's memory alone.

    **Memory.** The DRAM contains the states, inputs, outputs and constants of
    the plan, and the arena. All cores access the DRAM, by transfers alone. Each
    core has a data memory of its own, whose buffers have the memory space
    `#cores.memory<local>`. A transfer may also read the data memory of another
    core, which is the result of a `cores.remote`. At the beginning of a step,
    the error word is zero, and the other bytes of the data memory are
    undefined.

    **Transfers.** `cores.copy` and `cores.send` start a transfer and do not
    wait for its end. A transfer accesses memory at any time between its start
    and its `cores.wait`. Each transfer has exactly one wait.

    **Counters.** A core has counters, which are 0 at the beginning of a step and
    never decrease. `cores.release`, and the arrival of a `cores.send`, add 1 to
    a counter. `cores.acquire` blocks its core until a counter has at least the
    given value.

    **Order.** An operation is ordered before another one if

    - both are of one program, in this order, and the first one is not a
      transfer, or its wait is before the second one;
    - the first one is ordered before a release or a send that an acquire
      counts, and the second one follows this acquire;
    - the first one is a send that an acquire counts, and the second one follows
      this acquire at the core where the send arrives.

    Two accesses to the same bytes, of which at least one writes, are a race
    unless one is ordered before the other. An acquire with count `k` counts the
    first `k` releases of its counter, so these must be the same in each run:
    either one program makes all releases of the counter, and none of the later
    ones starts before the first `k` are complete, or `k` is the number of all
    releases that the plan makes. `repro-verify-cores` refuses plans with races
    or deadlocks, and plans in which an acquire does not satisfy this rule. So
    the bits of the results do not depend on the time that anything takes.

    Attributes of kernels:

    - `cores.cycles` of a function, an i64: the predicted cycles of one run;
    - `cores.matrix` of a fold, a `#cores.matrix`: the core's array of multipliers
      computes the fold.

    Attributes of launches, which the passes `repro-map-*` set:

    - `cores.partition`: the number of pieces along each axis of the kernel;
    - `cores.tile`: the extent of a tile along each axis;
    - `cores.multicast`: the numbers of the accesses of the kernel whose boxes
      one core of a group reads and sends to the others;
    - `cores.place`: the core of each piece, as row * columns + column;
    - `cores.home`: for each access of the kernel that writes a tensor of the
      arena, the address at which each piece stays in the memory of its core, or
      -1 if the access does not write or the tensor lies in the DRAM.

    Attributes of launch plans, which `repro-map-tile` sets:

    - `cores.scratch`: the largest number of bytes of scratch memory that a tile
      needs. On the function of a tile, which `repro-map-schedule` creates, the
      number that this tile needs. The numbers are those of the code for a core;
      the simulator's own code has scratch memory outside of the cores.

    Attributes of modules, which `repro-map-tile` sets if it fails:

    - `cores.overflow`, a string: why the smallest tile of a launch does not fit
      into the data memory of a core. Its absence means that the pass failed for
      another reason.
  }];
  let discardableAttrs = (ins "::mlir::IntegerAttr":$cycles,
                          "::mlir::repro::cores::MatrixAttr":$matrix,
                          "::mlir::DenseI64ArrayAttr":$partition,
                          "::mlir::DenseI64ArrayAttr":$tile,
                          "::mlir::DenseI64ArrayAttr":$multicast,
                          "::mlir::DenseI64ArrayAttr":$place,
                          "::mlir::DenseI64ArrayAttr":$home,
                          "::mlir::IntegerAttr":$scratch,
                          "::mlir::StringAttr":$overflow);
  let hasOperationAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif // REPRO_CORES_CORESDIALECT_TD
