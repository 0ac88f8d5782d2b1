// Passes check their requirements.
// RUN: split-file %s %t
// RUN: not fcdp-opt %t/imported.mlir --fcdp-narrow-gathers 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/imported.mlir --fcdp-bucket 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/imported.mlir --fcdp-decide 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/imported.mlir --fcdp-two-level 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/imported.mlir --fcdp-cache 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/imported.mlir --fcdp-schedule 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/imported.mlir --fcdp-plan-memory 2>&1 | FileCheck %s --check-prefix=SCHEDULED
// RUN: not fcdp-opt %t/no-mesh.mlir --fcdp-bucket 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not fcdp-opt %t/no-init.mlir --fcdp-cache 2>&1 | FileCheck %s --check-prefix=FAMILY
// RUN: not fcdp-opt %t/declaration.mlir --fcdp-schedule 2>&1 | FileCheck %s --check-prefix=ROLE
// RUN: not fcdp-opt %t/no-body.mlir --fcdp-schedule 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not fcdp-opt %t/no-shard.mlir --fcdp-two-level 2>&1 | FileCheck %s --check-prefix=SHARD
// RUN: not fcdp-opt %t/no-grad.mlir --fcdp-schedule 2>&1 | FileCheck %s --check-prefix=GRAD
// RUN: not fcdp-opt %t/no-master.mlir --fcdp-schedule 2>&1 | FileCheck %s --check-prefix=MASTER
// RUN: not fcdp-opt %t/two-axes.mlir --fcdp-schedule 2>&1 | FileCheck %s --check-prefix=AXES

// PHASE: error: expected a module in phase 'sharded'
// SCHEDULED: error: expected a module in phase 'scheduled'
// MESH: error: expected a mesh
// FAMILY: error: expected @init, @update, @only_microbatch, and both or none of @first_evaluation and @next_evaluation
// ROLE: error: expected a role that is the function's name
// BLOCK: error: expected one block
// SHARD: error: 'fcdp.bucket' op expected a state 'shard' of it
// GRAD: error: 'fcdp.bucket' op expected a state 'grad' of it
// MASTER: error: 'fcdp.bucket' op expected a state 'master' of it
// AXES: error: 'fcdp.all_gather' op expected one axis and flat tensors; run --fcdp-bucket and --fcdp-two-level first

//--- imported.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @step() { return }
}

//--- no-mesh.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

//--- no-init.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 1)
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

//--- declaration.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 1)
  func.func private @elsewhere()
}

//--- no-body.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 1)
  func.func private @init() attributes {fcdp.role = #fcdp.role<init>}
}

//--- no-shard.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 1)
  fcdp.parameter @w : tensor<16xf32> unit "" names ["w"]
  fcdp.bucket @b unit "" elements 16 storage f32 wire f32 members [@w at 0]
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

//--- no-grad.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 1)
  fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
  fcdp.bucket @b unit "" elements 16 storage f32 wire f32 trainable members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

//--- no-master.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 1)
  fcdp.parameter @w : tensor<32xbf16> unit "" trainable names ["w"]
  fcdp.bucket @b unit "" elements 32 storage bf16 wire bf16 master f32 trainable members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<32xbf16>
  fcdp.state @b.grad grad of @b in device : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}

//--- two-axes.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.parameter @w : tensor<16xf32> unit "" names ["w"]
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %s = fcdp.read_shard @w : !fcdp.shard<tensor<16xf32>>
    %w = fcdp.all_gather %s of @w over @world[node, local] range 0 : !fcdp.shard<tensor<16xf32>> to tensor<16xf32>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<16xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
