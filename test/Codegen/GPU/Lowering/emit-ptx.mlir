// RUN: %repro-opt %s -pass-pipeline='builtin.module(repro-emit-ptx{arch=sm_90},repro-verify-ptx)' | FileCheck %s

// A mov precedes a store of fewer bits than an instruction on floats computes;
// without the mov, ptxas stores the number as an integer.
// CHECK: gpu.binary @device
// CHECK-SAME: .entry bytes(
// CHECK-SAME: add.rn.f32 \09[[SUM:%r[0-9]+]],
// CHECK-SAME: cvt.u16.u32 \09[[LOW:%rs[0-9]+]], [[SUM]];
// CHECK-SAME: mov.b16 [[MOVED:%rs[0-9]+]], [[LOW]];
// CHECK-SAME: st.global.b8 \09[%rd{{[0-9]+}}], [[MOVED]];
// CHECK-SAME: .entry words(
// CHECK-SAME: add.rn.f64 \09[[SUM:%rd[0-9]+]],
// CHECK-SAME: cvt.u32.u64 \09[[LOW:%r[0-9]+]], [[SUM]];
// CHECK-SAME: mov.b32 [[MOVED:%r[0-9]+]], [[LOW]];
// CHECK-SAME: st.global.b32 \09[%rd{{[0-9]+}}], [[MOVED]];
// CHECK-SAME: .entry pairs(
// CHECK-SAME: mov.b32 [[MOVED:%r[0-9]+]],
// CHECK-SAME: st.global.b32 \09[%rd{{[0-9]+}}], [[MOVED]];
// Bytes that do not fill a word are moved one by one; four bytes are moved as a word.
// CHECK-SAME: .entry two_bytes(
// CHECK-SAME: mov.b16 [[FIRST:%rs[0-9]+]],
// CHECK-SAME: mov.b16 [[SECOND:%rs[0-9]+]],
// CHECK-SAME: st.global.v2.b8 \09[%rd{{[0-9]+}}], {[[FIRST]], [[SECOND]]};
// CHECK-SAME: .entry four_bytes(
// CHECK-SAME: mov.b32 [[MOVED:%r[0-9]+]],
// CHECK-NOT: mov.b
// CHECK-SAME: st.global.b32 \09[%rd{{[0-9]+}}], [[MOVED]];
// CHECK-SAME: .entry bit(
// CHECK-SAME: mov.b16 [[MOVED:%rs[0-9]+]],
// CHECK-SAME: and.b16 \09[[BIT:%rs[0-9]+]], [[MOVED]], 1;
// CHECK-SAME: st.global.b8 \09[%rd{{[0-9]+}}], [[BIT]];
// CHECK-SAME: .entry halves(
// CHECK-SAME: mov.b32 [[FIRST:%r[0-9]+]],
// CHECK-SAME: mov.b32 [[SECOND:%r[0-9]+]],
// CHECK-SAME: st.global.v2.b32 \09[%rd{{[0-9]+}}], {[[FIRST]], [[SECOND]]};
gpu.module @device {
  llvm.func @bytes(%to: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %x : f32
    %bits = llvm.bitcast %sum : f32 to i32
    %low = llvm.trunc %bits : i32 to i8
    llvm.store %low, %to : i8, !llvm.ptr<1>
    llvm.return
  }
  llvm.func @words(%to: !llvm.ptr<1>, %x: f64) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %x : f64
    %bits = llvm.bitcast %sum : f64 to i64
    %low = llvm.trunc %bits : i64 to i32
    llvm.store %low, %to : i32, !llvm.ptr<1>
    llvm.return
  }
  llvm.func @pairs(%to: !llvm.ptr<1>, %x: f32, %y: f32) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %y : f32
    %bits = llvm.bitcast %sum : f32 to i32
    %low = llvm.trunc %bits : i32 to i16
    %none = llvm.mlir.poison : vector<2xi16>
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %first = llvm.insertelement %low, %none[%zero : i32] : vector<2xi16>
    %both = llvm.insertelement %low, %first[%one : i32] : vector<2xi16>
    llvm.store %both, %to {alignment = 4 : i64} : vector<2xi16>, !llvm.ptr<1>
    llvm.return
  }
  llvm.func @two_bytes(%to: !llvm.ptr<1>, %x: f32, %y: f32) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %y : f32
    %product = llvm.fmul %x, %y : f32
    %sum_bits = llvm.bitcast %sum : f32 to i32
    %product_bits = llvm.bitcast %product : f32 to i32
    %a = llvm.trunc %sum_bits : i32 to i8
    %b = llvm.trunc %product_bits : i32 to i8
    %none = llvm.mlir.poison : vector<2xi8>
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %first = llvm.insertelement %a, %none[%zero : i32] : vector<2xi8>
    %both = llvm.insertelement %b, %first[%one : i32] : vector<2xi8>
    llvm.store %both, %to {alignment = 2 : i64} : vector<2xi8>, !llvm.ptr<1>
    llvm.return
  }
  llvm.func @four_bytes(%to: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %x : f32
    %bits = llvm.bitcast %sum : f32 to i32
    %none = llvm.mlir.poison : vector<4xi32>
    %zero = llvm.mlir.constant(0 : i32) : i32
    %first = llvm.insertelement %bits, %none[%zero : i32] : vector<4xi32>
    %all = llvm.shufflevector %first, %none [0, 0, 0, 0] : vector<4xi32>
    %low = llvm.trunc %all : vector<4xi32> to vector<4xi8>
    llvm.store %low, %to {alignment = 4 : i64} : vector<4xi8>, !llvm.ptr<1>
    llvm.return
  }
  llvm.func @bit(%to: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %x : f32
    %bits = llvm.bitcast %sum : f32 to i32
    %low = llvm.trunc %bits : i32 to i1
    llvm.store %low, %to : i1, !llvm.ptr<1>
    llvm.return
  }
  llvm.func @halves(%to: !llvm.ptr<1>, %x: f64, %y: f64) attributes {gpu.kernel, nvvm.kernel} {
    %sum = llvm.fadd %x, %y : f64
    %product = llvm.fmul %x, %y : f64
    %a = llvm.bitcast %sum : f64 to i64
    %b = llvm.bitcast %product : f64 to i64
    %none = llvm.mlir.poison : vector<2xi64>
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %first = llvm.insertelement %a, %none[%zero : i32] : vector<2xi64>
    %both = llvm.insertelement %b, %first[%one : i32] : vector<2xi64>
    %low = llvm.trunc %both : vector<2xi64> to vector<2xi32>
    llvm.store %low, %to {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
    llvm.return
  }
}
