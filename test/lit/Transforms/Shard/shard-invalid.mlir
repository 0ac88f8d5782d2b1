// RUN: split-file %s %t
// RUN: not fcdp-opt %t/phase.mlir --fcdp-shard 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fcdp-opt %t/no-step.mlir --fcdp-shard 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not fcdp-opt %t/results.mlir --fcdp-shard 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not fcdp-opt %t/declared.mlir --fcdp-shard 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="nodes=0" 2>&1 | FileCheck %s --check-prefix=NODES
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="ranks-per-node=-2" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="micro-batches=0" 2>&1 | FileCheck %s --check-prefix=MICRO
// RUN: not fcdp-opt %t/step.mlir --fcdp-shard="nodes=65536 ranks-per-node=65536" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not fcdp-opt %t/step.mlir --fcdp-pipeline="strategy=zero4" 2>&1 | FileCheck %s --check-prefix=STRATEGY
// PHASE: error: expected a module in phase 'imported'
// STEP: error: expected a function @step of one block, without arguments or results
// NODES: error: nodes: expected a positive number, got '0'
// RANKS: error: ranks-per-node: expected a positive number, got '-2'
// MICRO: error: micro-batches: expected a positive number, got '0'
// MANY: error: 'fcdp.mesh' op expected at most 2147483647 ranks, got 65536 times 65536
// STRATEGY: error: strategy: expected one of {{.*}}, got 'zero4'

//--- phase.mlir
module {}
//--- no-step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @other() { return }
}
//--- results.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func @step(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
}
//--- declared.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  func.func private @step()
}
//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.input @x : tensor<f32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<f32>
    fcdp.loss %x : tensor<f32>
    return
  }
}
