//===- Passes.td - Schedule passes on buffers --------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_PASSES_TD
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproBufferize : Pass<"repro-bufferize", "::mlir::ModuleOp"> {
  let summary = "bufferize tensors to buffers with identity layout";
  let description = [{
    Runs upstream's one-shot bufferization across function boundaries. Arguments
    are never written: `repro-plan-buffers` decides later which states are
    updated in place.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ReproNumberChecks : Pass<"repro-number-checks", "::mlir::ModuleOp"> {
  let summary = "(E1) number the messages of checks";
  let description = [{
    Numbers the checks (`cf.assert`) in the order of the program, as the attribute
    `launch.message = <number> : i64`, and lists their messages in the module
    attribute `launch.messages`.
  }];
  let dependentDialects = ["::mlir::repro::launch::LaunchDialect"];
}

def ReproFuseEpilogues : Pass<"repro-fuse-epilogues", "::mlir::func::FuncOp"> {
  let summary = "fuse contractions with element-wise operations on their results";
  let description = [{
    Fuses a contraction without a batch and the only reader of its results, an
    element-wise operation (a bias, a residual, ReLU, rounding), into one kernel.
    The kernel is a `memref.alloca_scope` that contains both operations and the
    results of the contraction, a `memref.alloca` that is never written to
    memory. The loops of the element-wise operation become the parallel
    dimensions of the contraction, even if it read the results in another shape.

    An element-wise operation is not fused if it

    - contains elementary functions or more than 16 operations;
    - has more than 5 other inputs, or results that are not floats;
    - is 8 or more operations away from the contraction;
    - would make vectors shorter;
    - reads whole images in addition to the results of a convolution.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ReproFuseRows : Pass<"repro-fuse-rows", "::mlir::func::FuncOp"> {
  let summary = "fuse operations on the same rows into one loop";
  let description = [{
    Fuses neighbouring operations on the same rows into one kernel if one of them
    folds each row (as in softmax and layer norm) or is a product per row (as in
    attention). The kernel is an `scf.forall` over blocks of rows that contains
    the operations on slices of their buffers, so that values that one operation
    writes and the next one reads stay in the cache. A buffer without other users
    shrinks to one block, a `memref.alloc` in the loop. Each operation reads the
    same elements as before.

    In a kernel without products, the element-wise operation with the most
    arithmetic prefetches (`memref.prefetch`) the buffers that later operations
    and the next block read first. The rows of a contraction are the items of its
    batch (as in attention): a contraction whose rows share a factor stays a
    kernel of its own.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def ReproOutlineKernels : Pass<"repro-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "outline structured operations as kernel functions";
  let description = [{
    Moves each structured operation, or each group of operations that was fused,
    into a kernel function of its own (see "Kernel function" in
    docs/contributors/architecture.md). Equal kernels share one function. `main` launches the
    kernels by `launch.dispatch`.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::repro::launch::LaunchDialect"];
}

def ReproPlanBuffers : Pass<"repro-plan-buffers", "::mlir::ModuleOp"> {
  let summary = "assign all buffers of `main` to memory and create the plan";
  let description = [{
    Replaces `main` by a `launch.plan` and assigns a position in memory to each
    buffer. Allocations become parts of one arena by their lifetimes. A new state
    overwrites the old one if no operation reads the old one later and no check
    can still fail (E1); otherwise the new state is copied at the end. An
    element-wise result reuses the buffer of an operand that no operation reads
    afterwards. The plan contains the constants that kernels read.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::repro::launch::LaunchDialect"];
}

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PASSES_TD
