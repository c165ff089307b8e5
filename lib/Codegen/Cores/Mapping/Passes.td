//===- Passes.td - Passes for machines of many cores -------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_PASSES_TD
#define REPRO_CODEGEN_CORES_MAPPING_PASSES_TD

include "mlir/Pass/PassBase.td"

class Cores_MapPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  list<Option> machineOptions = [
    Option<"machine", "machine", "std::string", /*default=*/"\"tiny-2x2\"",
           "machine of many cores, or the path of its file">];
  list<string> kernelDialects = ["::mlir::affine::AffineDialect",
                                 "::mlir::arith::ArithDialect",
                                 "::mlir::LLVM::LLVMDialect",
                                 "::mlir::math::MathDialect",
                                 "::mlir::memref::MemRefDialect",
                                 "::mlir::repro::cores::CoresDialect",
                                 "::mlir::repro::launch::LaunchDialect",
                                 "::mlir::scf::SCFDialect",
                                 "::mlir::ub::UBDialect",
                                 "::mlir::vector::VectorDialect"];
}

def ReproMapSplit : Cores_MapPass<"repro-map-split"> {
  let summary = "(T4) cut folds at chunks";
  let description = [{
    (T4) Replaces a launch of a fold with an order, or in any order, by launches
    that compute the results of its chunks, and one that combines these results
    as `totals` (F3) says. The number of the chunk is a parallel loop, so
    `repro-map-partition` can give chunks to different cores. If the last chunk
    is shorter, it has a launch of its own. The results are a temporary at the
    end of the arena.

    A launch is replaced if the sum of the predicted times of the new launches
    is at most 0.9 times the predicted time of the launch, or if no tile of the
    launch fits into a core. For tests and comparisons, `cuts=all` cuts each fold
    that can be cut, and `cuts=fit` only those of which no tile fits.

    The elements of a chunk have to be a part of one reduction loop with all
    iterations of the loops in it, or of all reduction loops in one, which
    requires adjacent dimensions without gaps. Otherwise the fold is not cut.
    Folds in the orders `#repro.sequential` (F6) and `#repro.fdpa` (M4) are not
    cut. Exact contractions (K4) have become folds of integers in any order, or
    of f64, before this pass.
  }];
  let options = machineOptions # [
    Option<"cuts", "cuts", "std::string", /*default=*/"\"gain\"",
           "gain, all or fit">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::repro::ReproDialect"];
}

def ReproMapMatrix : Cores_MapPass<"repro-map-matrix"> {
  let summary = "choose the folds that the matrix arrays of cores compute";
  let description = [{
    (K4) Sets `cores.matrix` of each fold that adds products of bytes, if the
    cores of the machine have arrays of multipliers of bytes. The array adds the
    products of a slice, which is so short that no accumulator overflows.
  }];
  let options = machineOptions;
  let dependentDialects = ["::mlir::repro::cores::CoresDialect"];
}

def ReproMapPartition : Cores_MapPass<"repro-map-partition"> {
  let summary = "cut launches into pieces for cores";
  let description = [{
    (T1) Sets `cores.partition` of each launch: the numbers of pieces along the
    parallel loops of its kernel. Their product is at most the number of cores.

    The pass searches for the partitions with the least predicted time of all
    launches, by a dynamic program. Each launch has a few candidates: partitions
    that are fast alone, and those whose pieces access what the pieces of other
    launches write or read. The time of a launch consists of its computation and
    its transfers, where boxes that one core sends to several count once for the
    DRAM. A tensor lies in the DRAM, or in the memories of the cores that
    write it, as long as these have room. Then a piece reads it without a
    transfer if its own core has all that the piece needs, and otherwise over the
    network. After each launch, the program keeps the 32 best states. At the end,
    single changes of a partition or of the place of a tensor are made as long as
    they save time. In plans of more than 200,000 pieces, each launch has the
    partition that is best alone, with all tensors in the DRAM.

    With `strategy=batch`, the pass cuts only the outermost loop of each kernel,
    into as many pieces as there are cores: a mapping without a search, for
    comparisons.
  }];
  let options = machineOptions # [
    Option<"strategy", "strategy", "std::string", /*default=*/"\"time\"",
           "time, or batch">];
  let dependentDialects = kernelDialects;
}

def ReproMapTile : Cores_MapPass<"repro-map-tile"> {
  let summary = "cut pieces into tiles that fit into a core's memory";
  let description = [{
    Sets `cores.tile` of each launch: the extents of a tile along the parallel
    loops of its kernel. Two of each buffer that changes from tile to tile, or
    one where two do not fit, and the scratch memory of the kernels' code for a
    core fit into the data memory of a core.

    Sets `cores.multicast`: the accesses whose boxes one core reads for all
    pieces that need the same boxes, since this makes the predicted time shorter.
    A machine without multicasts or with several chips has none. With
    `multicasts=all`, the pass chooses all accesses whose boxes several pieces
    read, for tests; with `multicasts=none`, it chooses none, for comparisons.
  }];
  let options = machineOptions # [
    Option<"multicasts", "multicasts", "std::string", /*default=*/"\"time\"",
           "time, all, or none">];
  let dependentDialects = kernelDialects;
}

def ReproMapPlace : Cores_MapPass<"repro-map-place"> {
  let summary = "assign pieces to cores";
  let description = [{
    Sets `cores.place` of each launch: the core of each piece, along a snake
    through the rows of the machine, so that neighbouring pieces lie on
    neighbouring cores.

    Sets `cores.home` of launches that write tensors which stay in the memories
    of the cores that compute them, next to the buffers of tiles, until their
    last use. The pass predicts the time that each tensor saves against transfers
    to and from the DRAM, and chooses first those that save most for their bytes
    and the number of launches that they outlast, as long as the cores make at
    most 500,000 copies. With `homes=dram`, or if the plan has more than a million
    pieces, all tensors lie in the DRAM.
  }];
  let options = machineOptions # [
    Option<"homes", "homes", "std::string", /*default=*/"\"cores\"",
           "cores, or dram">];
  let dependentDialects = ["::mlir::repro::cores::CoresDialect"];
}

def ReproMapSchedule : Cores_MapPass<"repro-map-schedule"> {
  let summary = "turn the launch plan into a program for each core";
  let description = [{
    Turns the launch plan with its pieces, tiles and cores into a `cores.plan`.
    Each tile becomes transfers of its boxes between the DRAM and static places
    in the core's memory, and a run of a kernel that computes tiles of its shape.
    Where there is room, the next tile's inputs are copied while a tile runs.
    Instead of a barrier, each piece waits for exactly the pieces of former
    launches that write bytes which it accesses, or access bytes that it writes.
    Each launch has a counter for this purpose.

    For an access in `cores.multicast`, the pieces that access the same boxes,
    tile by tile, form a group, whose cores take turns: for each box, one core
    waits until the slots of all others are free, copies the box to its own slot
    and sends it to the same slot of the others. All cores of a group wait for
    each other in the order of launches and tiles, so no deadlock exists.

    (E1) The cores that make checks copy their error words to the arena. All
    cores check these words before the first launch that is `checked`.
  }];
  let options = machineOptions;
  let dependentDialects = kernelDialects;
}

#endif // REPRO_CODEGEN_CORES_MAPPING_PASSES_TD
