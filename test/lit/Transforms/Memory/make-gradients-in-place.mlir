// Gradients that operators write straight into their bucket, where the arena
// stays as large as it is.
// RUN: split-file %s %t
// RUN: %python %S/../Inputs/products.py 6 64 > %t/products.mlir

// A gradient alone in its bucket takes no memory of its own any more. Not those
// whose reductions run on past the end.
// RUN: fcdp-opt %t/products.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero3 dump-dir=%t/dump" -o %t/zero3.mlir
// RUN: FileCheck %s --check-prefix=ALL --input-file=%t/zero3.mlir
// ALL: fcdp.pack @bucket.5({{.*}}in_place = [@w5]
// ALL: fcdp.pack @bucket.4({{.*}}in_place = [@w4]
// ALL: fcdp.pack @bucket.3({{.*}}in_place = [@w3]
// ALL: fcdp.pack @bucket.2({{.*}}in_place = [@w2]
// ALL-NOT: in_place
// ALL: func.func @update

// Dont: here packing would take more than with copies.
// RUN: fcdp-opt %t/products.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero2 dump-dir=%t/dump2" -o %t/zero2.mlir
// RUN: FileCheck %s --check-prefix=SOME --input-file=%t/zero2.mlir
// SOME: fcdp.pack @bucket.5({{.*}}in_place = [@w5]
// SOME-NOT: @bucket.3({{.*}}in_place
// SOME: fcdp.pack @bucket.2({{.*}}in_place = [@w2]
// A remark reports it.
// RUN: fcdp-opt %t/dump2/2-scheduled.mlir --fcdp-make-gradients-in-place --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK-NOT: bucket bucket.5:
// REMARK: remark: {{.*}}bucket bucket.3: 1 of 1 gradients are copied into the bucket, for want of room
// REMARK-NOT: bucket bucket.2:
// RUN: fcdp-opt %t/dump2/2-scheduled.mlir --fcdp-plan-memory -o %t/copies2.mlir
// RUN: not fcdp-opt %t/copies2.mlir --fcdp-verify-plan=device-memory=1 2>&1 | grep -o "needs [0-9]*" > %t/copies.txt
// RUN: not fcdp-opt %t/zero2.mlir --fcdp-verify-plan=device-memory=1 2>&1 | grep -o "needs [0-9]*" > %t/in-place.txt
// RUN: diff %t/copies.txt %t/in-place.txt
// A given choice wins: with all, the arena is larger.
// RUN: %edit %t/dump2/2-scheduled.mlir --replace "{{(pack @bucket[.]([2-5])[(].*[)]) :}}" "\1 {in_place = [@w\2]} :" | fcdp-opt --fcdp-make-gradients-in-place --fcdp-plan-memory --fcdp-verify-planned --fcdp-verify-plan -o %t/given.mlir
// RUN: FileCheck %s --check-prefix=ALL --input-file=%t/given.mlir
// RUN: not fcdp-opt %t/given.mlir --fcdp-verify-plan=device-memory=1 2>&1 | grep -o "needs [0-9]*" | not diff %t/copies.txt - > %t/differs.txt
// Twice is once.
// RUN: fcdp-opt %t/dump/2-scheduled.mlir --fcdp-make-gradients-in-place -o %t/once.mlir
// RUN: fcdp-opt %t/once.mlir --fcdp-make-gradients-in-place | diff - %t/once.mlir

// @mm and @bias are made in place, be it seen through views of the whole; not
// what is transposed, used twice, or made by an operator without an out-variant.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero2 prefetch=0 dump-dir=%t/dump3" -o %t/planned.mlir
// RUN: FileCheck %s --input-file=%t/planned.mlir
// CHECK-LABEL: func.func @only_microbatch
// CHECK: fcdp.pack @bucket.u.unused({{.*}}in_place = [@mm, @bias]}
// RUN: fcdp-opt %t/dump3/2-scheduled.mlir --fcdp-make-gradients-in-place --remarks-filter="fcdp-.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REFUSED
// REFUSED-DAG: remark: {{.*}}@only_microbatch copies 1 of 6 gradients into their buckets, because they are made transposed
// REFUSED-DAG: remark: {{.*}}@only_microbatch copies 1 of 6 gradients into their buckets, because something else reads them
// REFUSED-DAG: remark: {{.*}}@only_microbatch copies 1 of 6 gradients into their buckets, because aten.neg.default cannot write to given memory

// Dont: the pack rounds them.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=zero2 prefetch=0 reduce-dtype=bf16" -o %t/rounded.mlir
// RUN: FileCheck %s --check-prefix=ROUNDED --input-file=%t/rounded.mlir
// ROUNDED-LABEL: func.func @only_microbatch
// ROUNDED-NOT: in_place
// ROUNDED: fcdp.pack @bucket.u.unused({{.*}}tensor<{{.*}}xbf16>
// ROUNDED-NOT: in_place
// ROUNDED-LABEL: func.func @update

// Dont: what starts a sum is in the sum's memory; it may be in use before.
// RUN: fcdp-opt %t/step.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 micro-batches=2 accumulate=full" | FileCheck %s --check-prefix=SUM
// SUM-LABEL: func.func @first_microbatch
// SUM-NOT: in_place
// SUM-LABEL: func.func @next_microbatch

// The plan names the out-variant for the runtime; the pack copies the others.
// RUN: fcdp-opt %t/planned.mlir --convert-fcdp-to-llvm | mlir-translate --mlir-to-llvmir | llc -filetype=obj -o %t/planned.o
// RUN: %if fcdp-compile %{ fcdp-compile %t/planned.o --emit=plan-json | FileCheck %s --check-prefix=CALLS %}
// CALLS: "aten::mm","overload": "out","functional": "default","alias": "unknown",{{.*}}{"name": "out",
// CALLS: "aten::sum","overload": "IntList_out","functional": "dim_IntList","alias": "unknown",
// CALLS: "pack",{{.*}}"members": [ {"source": {{[0-9]+}},"planned": {{[0-9]+}}}, {"source": {{[0-9]+}},"planned": {{[0-9]+}}}, {"source": {{[0-9]+}},"planned": {{[0-9]+}}} ],

// A given choice wins. None but what can be in place may be given.
// RUN: %edit %t/planned.mlir --replace "in_place = [@mm, @bias]" "in_place = []" | fcdp-opt --fcdp-verify-planned --fcdp-verify-plan -o /dev/null
// RUN: %edit %t/planned.mlir --replace "in_place = [@mm, @bias]" "in_place = [@mm, @twice]" | not fcdp-opt --fcdp-verify-planned 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'fcdp.pack' op expected values in 'in_place' that a call with an out-variant makes and nothing else uses

// In a plan that was made for copies the proof finds that the bucket's memory is
// in use when a gradient is written to it, by the reduction of another one; and,
// where it is free, that something else writes there before the pack.
// RUN: fcdp-opt %t/dump/2-scheduled.mlir --fcdp-plan-memory -o %t/copies.mlir
// RUN: %edit %t/copies.mlir --line "pack @bucket.2(" --replace "} :" ", in_place = [@w2]} :" | not fcdp-opt --fcdp-verify-planned --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=BUSY
// BUSY: error: 'aten.call' op {{.*}}in @only_microbatch: writes bytes {{.*}} of the device arena on compute, not ordered with another access to them
// RUN: %edit %t/copies.mlir --repeat "pack @bucket.3(" \
// RUN:   --first --replace "{{%[0-9]+}} = fcdp.pack @bucket.3({{%[0-9]+}} as @w3)" "%%again = fcdp.pack @bucket.2(%%0 as @w2)" \
// RUN:   --insert-before "pack @bucket.3(" "fcdp.release %%again : tensor<4096xf32>" \
// RUN:   --line "pack @bucket.3(" --replace "} :" ", in_place = [@w3]} :" | not fcdp-opt --fcdp-verify-planned --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=AGAINST
// AGAINST: error: 'fcdp.pack' op for 'w3' of @bucket.3 in @only_microbatch: a gradient that was written in place at bytes {{.*}} is overwritten before the pack
// AGAINST: note: it is written here
// AGAINST: note: overwritten here

// RUN: %check-steps %t/step.mlir --meshes 2x2 --stages planned --strategies zero2 --random 0 | FileCheck %s --check-prefix=AGREE
// RUN: %python %S/../Inputs/products.py 4 4 > %t/small.mlir
// RUN: %check-steps %t/small.mlir --meshes 2x2 --micro-batches 2 --stages planned --strategies zero2 --random 0 | FileCheck %s --check-prefix=AGREE
// AGREE: {{^[1-9][0-9]* (runs agree|modules compiled)$}}

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @mm : tensor<4x4xf32> unit "u" trainable names ["mm"]
  fcdp.parameter @bias : tensor<4xf32> unit "u" trainable names ["bias"]
  fcdp.parameter @transposed : tensor<4x4xf32> unit "u" trainable names ["transposed"]
  fcdp.parameter @twice : tensor<4x4xf32> unit "u" trainable names ["twice"]
  fcdp.parameter @other : tensor<4x4xf32> unit "u" trainable names ["other"]
  fcdp.parameter @v : tensor<4x4xf32> unit "v" trainable names ["v"]
  fcdp.input @x : tensor<4x4xf32> name "x"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x4xf32>
    %v = fcdp.read_parameter @v : tensor<4x4xf32>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = aten.call "aten.t.default"(self = %0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = aten.call "aten.t.default"(self = %1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = aten.call "aten.sum.dim_IntList"(self = %x, dim = [0]) : (tensor<4x4xf32>) -> tensor<4xf32>
    %4 = aten.call "aten.view.default"(self = %3, size = [4]) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = aten.call "aten.mm.default"(self = %x, mat2 = %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %6 = aten.call "aten.t.default"(self = %5) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %7 = aten.call "aten.mm.default"(self = %x, mat2 = %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = aten.call "aten.sum.default"(self = %7) : (tensor<4x4xf32>) -> tensor<f32>
    %8 = aten.call "aten.neg.default"(self = %7) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %9 = aten.call "aten.mm.default"(self = %v, mat2 = %7) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %2 of @mm : tensor<4x4xf32>
    fcdp.gradient %4 of @bias : tensor<4xf32>
    fcdp.gradient %6 of @transposed : tensor<4x4xf32>
    fcdp.gradient %7 of @twice : tensor<4x4xf32>
    fcdp.gradient %8 of @other : tensor<4x4xf32>
    fcdp.gradient %9 of @v : tensor<4x4xf32>
    return
  }
}
