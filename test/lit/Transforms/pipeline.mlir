// The whole compiler, in one go and by way of text between any two passes.
// RUN: split-file %S/Inputs/steps.mlir %t
// RUN: fcdp-opt %t/layers.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=3 remat=unit strategy=fcdp optimizer=adamw dump-dir=%t/dump" -o %t/once.mlir
// RUN: fcdp-opt %t/layers.mlir --fcdp-decide-remat="remat=unit" | fcdp-opt --fcdp-remat | fcdp-opt --fcdp-shard="nodes=2 ranks-per-node=2 micro-batches=3 optimizer=adamw" \
// RUN:   | fcdp-opt --fcdp-narrow-gathers | fcdp-opt --fcdp-bucket | fcdp-opt --fcdp-decide="strategy=fcdp" \
// RUN:   | fcdp-opt --fcdp-two-level | fcdp-opt --fcdp-accumulate | fcdp-opt --fcdp-cache \
// RUN:   | fcdp-opt --fcdp-prefetch | fcdp-opt --fcdp-prefetch-across | fcdp-opt --fcdp-delay-sums | fcdp-opt --fcdp-schedule | fcdp-opt --fcdp-make-gradients-in-place | fcdp-opt --fcdp-plan-memory -o %t/steps.mlir
// RUN: diff %t/once.mlir %t/steps.mlir

// Every phase is written, with locations, and can be carried on.
// RUN: fcdp-opt %t/dump/1-sharded.mlir --fcdp-verify-sharded --fcdp-prefetch --fcdp-prefetch-across --fcdp-delay-sums --fcdp-schedule --fcdp-make-gradients-in-place --fcdp-plan-memory -o %t/from-sharded.mlir
// RUN: diff %t/once.mlir %t/from-sharded.mlir
// RUN: fcdp-opt %t/dump/2-scheduled.mlir --fcdp-verify-scheduled --fcdp-make-gradients-in-place --fcdp-plan-memory -o %t/from-scheduled.mlir
// RUN: diff %t/once.mlir %t/from-scheduled.mlir
// RUN: fcdp-opt %t/dump/3-planned.mlir --fcdp-verify-planned -o %t/from-planned.mlir
// RUN: diff %t/once.mlir %t/from-planned.mlir
// RUN: fcdp-opt %t/dump/0-imported.mlir --fcdp-verify-imported -o /dev/null

// Passes that are run twice, and those before them again, change nothing.
// RUN: fcdp-opt %t/dump/1-sharded.mlir --fcdp-narrow-gathers --fcdp-bucket --fcdp-decide --fcdp-two-level --fcdp-accumulate --fcdp-cache -o %t/again.mlir
// RUN: fcdp-opt %t/dump/1-sharded.mlir -o %t/sharded.mlir
// RUN: diff %t/sharded.mlir %t/again.mlir

// Layout and merging are options of the whole, too.
// RUN: fcdp-opt %t/layers.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 layout=ragged<2> bucket-bytes=1000" | FileCheck %s --check-prefix=LAYOUT
// LAYOUT: module attributes {fcdp.bucket_bytes = 1000 : i64,
// LAYOUT: fcdp.bucket @bucket.wte..b unit "wte..b" {{.*}} layout ragged<2> residency host

// A phase is entered once.
// RUN: not fcdp-opt %t/once.mlir --fcdp-plan-memory 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: expected a module in phase 'scheduled'

// RUN: not fcdp-opt %t/layers.mlir --fcdp-pipeline="dump-dir=%t/layers.mlir" 2>&1 | FileCheck %s --check-prefix=DUMP
// DUMP: error: cannot write '{{.*}}layers.mlir/0-imported.mlir': {{.+}}
