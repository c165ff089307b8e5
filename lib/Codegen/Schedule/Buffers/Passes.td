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
  let summary = "tensors become buffers of identity layout";
  let description = [{
    One-shot bufferization over function boundaries. Arguments are never
    written: which state is updated in place is decided by
    `repro-plan-buffers`.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ReproNumberChecks : Pass<"repro-number-checks", "::mlir::ModuleOp"> {
  let summary = "(E1) each check has the number of its message";
  let description = [{
    Checks (`cf.assert`) receive the attribute `launch.message = <number> : i64`
    in the order of the program, their messages are listed in the module
    attribute `launch.messages`.
  }];
  let dependentDialects = ["::mlir::repro::launch::LaunchDialect"];
}

def ReproFuseEpilogues : Pass<"repro-fuse-epilogues", "::mlir::func::FuncOp"> {
  let summary = "contractions and operations on their results";
  let description = [{
    A contraction without a batch and the element-wise operation that alone reads
    its results (a bias, a residual, ReLU, rounding) become one kernel: a
    `memref.alloca_scope` that holds both and the results, a `memref.alloca`,
    which never reach memory. The loops of the operation are the parallel
    dimensions of the contraction, whatever shapes it saw the results in. One
    with elementary functions, with more than 16 operations or 5 other inputs,
    with results that are no floats, or 8 operations and more away stays apart;
    so does one that would make vectors shorter, and what reads whole images
    beside a convolution.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ReproFuseRows : Pass<"repro-fuse-rows", "::mlir::func::FuncOp"> {
  let summary = "operations on the same rows in one loop";
  let description = [{
    Neighbouring operations on the same rows of which one is a fold of each row
    (as in softmax and layer norm) or a product of each (as in attention) become
    one kernel: an `scf.forall` over blocks of rows that holds the operations on
    the slices of their buffers. What one writes for the next is in the cache
    then. A buffer that nobody else uses shrinks to one block, a `memref.alloc`
    in the loop. Each operation reads the elements it read before. Without
    products, the element-wise one with the most arithmetic prefetches
    (`memref.prefetch`) what later ones and the next block read first. The rows
    of a contraction are the items of its batch (as in attention): one whose rows
    share a factor stays a kernel of its own.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def ReproOutlineKernels : Pass<"repro-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "each structured operation becomes a kernel function";
  let description = [{
    See "Kernel function" in docs/architecture.md: what fusions made one is one
    kernel. Equal kernels are shared. `main` launches them by `launch.dispatch`.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::repro::launch::LaunchDialect"];
}

def ReproPlanBuffers : Pass<"repro-plan-buffers", "::mlir::ModuleOp"> {
  let summary = "place all buffers of `main`, which becomes a plan";
  let description = [{
    Allocations become parts of one arena by their lifetimes; a new state is
    written in place of the old one where nothing reads the old one later and
    no check can still fail (E1), otherwise it is copied at the end. An
    element-wise result takes the buffer of an operand that nobody reads
    afterwards. `main` becomes a `launch.plan`, with the constants that kernels
    read in it.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::repro::launch::LaunchDialect"];
}

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PASSES_TD
