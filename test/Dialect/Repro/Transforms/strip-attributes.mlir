// Attributes that do not affect any bit are removed; operations of other dialects keep the attributes they need.
// RUN: %repro-opt --allow-unregistered-dialect --repro-strip-attributes %s | FileCheck %s

// CHECK: module {
// CHECK: func.func @main(%{{[a-z0-9]+}}: tensor<i64> {repro.name = "seed"}, %{{[a-z0-9]+}}: tensor<i64>)
// CHECK-SAME: -> (tensor<i64> {repro.name = "seed"}, tensor<i64>) attributes {repro.num_state = 1 : i64} {
// CHECK: arith.constant 1 : i64
// CHECK-NOT: torch.
// CHECK: "other.op"() {kept = 1 : i64}
module @name attributes {torch.debug_module_name = "step"} {
  func.func @main(%seed: tensor<i64> {repro.name = "seed", torch.type_bound = i64}, %step: tensor<i64>)
      -> (tensor<i64> {repro.name = "seed"}, tensor<i64>)
      attributes {repro.num_state = 1 : i64, torch.assume_strict_symbolic_shapes} {
    %0 = arith.constant {torch.note} 1 : i64
    "other.op"() {kept = 1 : i64} : () -> ()
    return %seed, %step : tensor<i64>, tensor<i64>
  }
}
