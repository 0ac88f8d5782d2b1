// A schedule is tested by its properties (see properties.py): a value is read
// on another stream only after a wait, work on another stream waits for
// compute, gathers do not wait for reductions, at most two steps of a reduction
// are in flight, every buffer is
// released once, after its last use on any stream, stores to the cache do not
// delay compute, and all streams are joined at the end, except for the work whose
// tokens the function returns.

// REQUIRES: numpy
// RUN: split-file %S/../Inputs/steps.mlir %t
// RUN: fcdp-opt %t/layers.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp" --mlir-print-op-generic | %check-order | FileCheck %s
// RUN: fcdp-opt %t/layers.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 micro-batches=3 prefetch=2" --mlir-print-op-generic | %check-order | FileCheck %s
// RUN: fcdp-opt %t/types.mlir --fcdp-pipeline="nodes=3 ranks-per-node=2 strategy=fcdp micro-batches=2" --mlir-print-op-generic | %check-order | FileCheck %s
// RUN: fcdp-opt %t/corners.mlir --fcdp-pipeline="nodes=3 strategy=fcdp" --mlir-print-op-generic | %check-order | FileCheck %s
// RUN: fcdp-opt %t/corners.mlir --fcdp-pipeline="ranks-per-node=3 strategy=fcdp" --mlir-print-op-generic | %check-order | FileCheck %s
// RUN: fcdp-opt %t/corners.mlir --fcdp-pipeline --mlir-print-op-generic | %check-order | FileCheck %s
// CHECK: functions have the properties

