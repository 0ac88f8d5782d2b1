// RUN: fcdp-opt %s --fcdp-decide="strategy=fcdp" | FileCheck %s --check-prefixes=CHECK,FCDP
// RUN: fcdp-opt %s --fcdp-decide="strategy=zero3" | FileCheck %s --check-prefixes=CHECK,ZERO3
// RUN: not fcdp-opt %s --fcdp-decide="strategy=best" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A second run decides nothing, so it does not rename the strategy either.
// RUN: fcdp-opt %s --fcdp-decide="strategy=fcdp" | fcdp-opt --fcdp-decide="strategy=zero3" | FileCheck %s --check-prefixes=CHECK,FCDP

// FCDP: fcdp.strategy = "fcdp"
// ZERO3: fcdp.strategy = "zero3"
// FCDP: fcdp.bucket @open {{.*}} residency host
// ZERO3: fcdp.bucket @open {{.*}} residency drop
// A given residency wins.
// CHECK: fcdp.bucket @given {{.*}} residency full

// UNKNOWN: error: strategy: expected one of 'zero1', 'zero2', 'zero3', 'hpz', 'fcdp', 'ddp', 'hsdp', 'mics' or 'auto', got 'best'
// RUN: not fcdp-opt %s --fcdp-decide="accumulate=often" 2>&1 | FileCheck %s --check-prefix=OFTEN
// OFTEN: error: accumulate: expected 'sharded', 'node', 'node_host' or 'full', got 'often'

// RUN: not fcdp-opt %s --fcdp-decide="collectives=ring" 2>&1 | FileCheck %s --check-prefix=RING
// RING: error: collectives: expected 'two-level', 'flat' or 'auto', got 'ring'
// RUN: not fcdp-opt %s --fcdp-decide="collectives=auto" 2>&1 | FileCheck %s --check-prefix=NOCLUSTER
// NOCLUSTER: error: collectives 'auto' chooses for a cluster; give one as 'cluster', a file or the name of a preset

// `two-level` needs no word; a given one wins.
// RUN: fcdp-opt %s --fcdp-decide="strategy=zero3 collectives=flat" | FileCheck %s --check-prefix=FLAT
// FLAT: fcdp.bucket @open {{.*}} residency drop collectives flat members
// RUN: fcdp-opt %s --fcdp-decide="strategy=zero3 collectives=two-level" | FileCheck %s --check-prefix=SPLIT
// SPLIT: fcdp.bucket @open {{.*}} residency drop members
// RUN: %edit %s --replace "members [@t" "collectives two_level members [@t" | fcdp-opt --fcdp-decide="strategy=zero3 collectives=flat" | FileCheck %s --check-prefix=DONTFLAT
// DONTFLAT: fcdp.bucket @trained {{.*}} residency drop collectives two_level members

// Accumulation is decided for what has gradients; `sharded` needs no word.
// RUN: fcdp-opt %s --fcdp-decide="strategy=zero1" | FileCheck %s --check-prefix=ZERO1
// ZERO1: fcdp.bucket @open {{.*}} residency full members
// ZERO1: fcdp.bucket @trained {{.*}} residency full accumulation full members
// RUN: fcdp-opt %s --fcdp-decide="strategy=zero1 accumulate=node" | FileCheck %s --check-prefix=OVERRULED
// OVERRULED: fcdp.bucket @trained {{.*}} residency full accumulation node members
// RUN: fcdp-opt %s --fcdp-decide="strategy=zero2" | FileCheck %s --check-prefix=ZERO2
// ZERO2: fcdp.bucket @trained {{.*}} residency full members
// RUN: fcdp-opt %s --fcdp-decide="strategy=hpz" | FileCheck %s --check-prefix=HPZ
// HPZ: fcdp.bucket @trained {{.*}} residency node members

module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.parameter @v : tensor<16xf32> unit "" names ["v"]
  fcdp.parameter @w : tensor<16xf32> unit "" names ["w"]
  fcdp.bucket @open unit "" elements 32 storage f32 wire f32 members [@v at 0]
  fcdp.state @open.shard shard of @open in device : tensor<16xf32>
  fcdp.bucket @given unit "" elements 32 storage f32 wire f32 residency full members [@w at 0]
  fcdp.state @given.shard shard of @given in device : tensor<16xf32>
  fcdp.parameter @t : tensor<16xf32> unit "" trainable names ["t"]
  fcdp.bucket @trained unit "" elements 32 storage f32 wire f32 trainable members [@t at 0]
  fcdp.state @trained.shard shard of @trained in device : tensor<16xf32>
  fcdp.state @trained.grad grad of @trained in device : tensor<16xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
