// Code that cannot be unrolled is one error each; errors about sizes are reported at the outermost loop or call.
// RUN: %repro-opt --allow-unregistered-dialect --repro-unroll-loops %s -split-input-file -verify-diagnostics

func.func @values(%n: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %c9 = arith.constant 9 : i32
  // expected-error @+1 {{'scf.while' op the number of iterations depends on values}}
  %r = scf.while (%i = %n) : (i32) -> i32 {
    %c = arith.cmpi slt, %i, %c9 : i32
    scf.condition(%c) %i : i32
  } do {
  ^bb0(%i: i32):
    %j = arith.addi %i, %c1 : i32
    scf.yield %j : i32
  }
  return %r : i32
}

// -----

func.func @bounds(%n: index) {
  %c1 = arith.constant 1 : index
  // expected-error @+1 {{'scf.for' op the number of iterations depends on values}}
  scf.for %i = %c1 to %n step %c1 {
  }
  return
}

// -----

func.func @step() {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  // expected-error @+1 {{'scf.for' op expected a positive step}}
  scf.for %i = %c0 to %c9 step %c0 {
  }
  return
}

// -----

// The loop is empty, but endless.
func.func @endless() {
  %true = arith.constant true
  // expected-error @+1 {{'scf.while' op makes more than 1000000 operations of the program}}
  scf.while : () -> () {
    scf.condition(%true)
  } do {
    scf.yield
  }
  return
}

// -----

func.func @long() {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %end = arith.constant 0x7FFFFFFFFFFFFFFF : i64
  // expected-error @+1 {{'scf.for' op makes more than 1000000 operations of the program}}
  scf.for %i = %c0 to %end step %c1 : i64 {
    scf.for %j = %c0 to %c1 step %c1 : i64 {
    }
  }
  return
}

// -----

#v = affine_map<(d0) -> (d0)>
func.func @much(%x: i32) {
  %true = arith.constant true
  %n = arith.constant dense<0> : tensor<1024xi32>
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{'scf.while' op needs too much work to find the number of iterations}}
  %r = scf.while (%m = %n) : (tensor<1024xi32>) -> tensor<1024xi32> {
    scf.condition(%true) %m : tensor<1024xi32>
  } do {
  ^bb0(%m: tensor<1024xi32>):
    %k = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
        ins(%m : tensor<1024xi32>) outs(%m : tensor<1024xi32>) {
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %c1 : i32
      linalg.yield %c : i32
    } -> tensor<1024xi32>
    scf.yield %k : tensor<1024xi32>
  }
  return
}

// -----

// Each call doubles the number of operations.
func.func @doubling() {
  // expected-error @+1 {{'func.call' op makes more than 1000000 operations of the program}}
  call @f0() : () -> ()
  return
}
func.func private @f0() {
  call @f1() : () -> ()
  call @f1() : () -> ()
  return
}
func.func private @f1() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 999999 : index
  scf.for %i = %c0 to %c9 step %c1 {
  }
  return
}

// -----

func.func @recursion() {
  call @again() : () -> ()
  return
}
func.func private @again() {
  // expected-error @+1 {{'func.call' op is recursive}}
  call @again() : () -> ()
  return
}

// -----

func.func private @nothing()
func.func @external() {
  // expected-error @+1 {{'func.call' op expected a function of one block}}
  call @nothing() : () -> ()
  return
}

// -----

func.func @check(%p: i1, %q: i1) {
  scf.if %p {
    // expected-error @+1 {{'cf.assert' op is in a branch whose condition depends on values: both sides are computed, so neither may have a check}}
    cf.assert %q, "checked"
  }
  return
}

// -----

func.func @read(%p: i1, %x: tensor<4xf32>, %i: index) -> f32 {
  %z = arith.constant 0.0 : f32
  %r = scf.if %p -> (f32) {
    // expected-error @+1 {{'tensor.extract' op is in a branch whose condition depends on values}}
    %v = tensor.extract %x[%i] : tensor<4xf32>
    scf.yield %v : f32
  } else {
    scf.yield %z : f32
  }
  return %r : f32
}

// -----

func.func @unknown(%p: i1) {
  scf.if %p {
    // expected-error @+1 {{'foo.bar' op is in a branch whose condition depends on values}}
    "foo.bar"() : () -> ()
  }
  return
}

// -----

func.func @sizes(%p: i1, %x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{'scf.if' op selects between 'tensor<?xf32>' and 'tensor<?xf32>', expected scalars or tensors of one static shape}}
  %r = scf.if %p -> (tensor<?xf32>) {
    scf.yield %x : tensor<?xf32>
  } else {
    scf.yield %y : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// -----

// A sum of floats has no order yet, so it is not evaluated.
#v = affine_map<(d0) -> (d0)>
#o = affine_map<(d0) -> ()>
func.func @sum() {
  %x = arith.constant dense<1.0> : tensor<4xf32>
  %z = arith.constant dense<0.0> : tensor<f32>
  %most = arith.constant 9.0 : f32
  // expected-error @+1 {{'scf.while' op the number of iterations depends on values}}
  scf.while : () -> () {
    %s = linalg.generic {indexing_maps = [#v, #o], iterator_types = ["reduction"]}
        ins(%x : tensor<4xf32>) outs(%z : tensor<f32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    } -> tensor<f32>
    %t = tensor.extract %s[] : tensor<f32>
    %c = arith.cmpf ogt, %t, %most : f32
    scf.condition(%c)
  } do {
    scf.yield
  }
  return
}

// -----

func.func @foreign_while(%x: f32) -> f32 {
  // expected-error @+1 {{'stablehlo.while' op expected the operands, regions and results of StableHLO}}
  %r = "stablehlo.while"(%x) ({
  ^bb0(%y: f32):
    "stablehlo.return"(%y) : (f32) -> ()
  }, {
  ^bb0(%y: f32):
    "stablehlo.return"(%y) : (f32) -> ()
  }) : (f32) -> f32
  return %r : f32
}

// -----

func.func @foreign_case(%x: tensor<i32>) -> f32 {
  // expected-error @+1 {{'stablehlo.case' op expected the operands, regions and results of StableHLO}}
  %r = "stablehlo.case"(%x) ({
    "stablehlo.return"() : () -> ()
  }) : (tensor<i32>) -> f32
  return %r : f32
}

// -----

// The upper limit is above the extent, so it proves nothing.
func.func @above(%p: i1, %x: tensor<4xf32>, %i: i64) -> f32 {
  %z = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i64
  %c300 = arith.constant 300 : i64
  %r = scf.if %p -> (f32) {
    %a = arith.maxsi %i, %c0 : i64
    %b = arith.minsi %a, %c300 : i64
    %j = arith.index_cast %b : i64 to index
    // expected-error @+1 {{'tensor.extract' op is in a branch whose condition depends on values}}
    %v = tensor.extract %x[%j] : tensor<4xf32>
    scf.yield %v : f32
  } else {
    scf.yield %z : f32
  }
  return %r : f32
}
