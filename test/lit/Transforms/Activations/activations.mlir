// Values of the forward pass wait for the backward pass in host memory.
// RUN: split-file %s %t

// A value that the backward pass reads itself, and as a view that the forward pass made, is stored as
// soon as it is made. It is dropped after its last use in the forward pass and the copy. The view is made
// again where it is read. The small value stays on the device.
// RUN: fcdp-opt %t/step.mlir --fcdp-decide-activations="activations=host cluster=cpu" -o %t/decided.mlir
// RUN: FileCheck %s --input-file=%t/decided.mlir --check-prefix=CHOICE
// CHOICE: module attributes {fcdp.activations = "host"
// CHOICE-NOT: on_host
// CHOICE: "aten.mm.default"{{.*}} {fcdp.on_host = array<i64: 0>}
// CHOICE-NOT: on_host
// RUN: fcdp-opt %t/decided.mlir --fcdp-store-activations=cluster=cpu -o %t/stored.mlir
// RUN: FileCheck %s --input-file=%t/stored.mlir --check-prefix=STORED
// STORED-LABEL: func.func @only_microbatch
// STORED: %[[P:.*]] = aten.call "aten.mm.default"{{.*}}on_host
// STORED-NEXT: %[[S:.*]] = fcdp.store_value %[[P]] : tensor<512x512xf32>
// STORED-NEXT: aten.call "aten.mm.default"(self = %[[P]]
// STORED: fcdp.drop_value %[[P]] stored %[[S]] : tensor<512x512xf32>
// STORED: fcdp.loss
// STORED: %[[L:.*]] = fcdp.load_value %[[S]] : tensor<512x512xf32>
// STORED: %[[T:.*]] = aten.call "aten.t.default"(self = %[[L]])
// STORED-NEXT: aten.call "aten.mm.default"(self = %[[T]]
// STORED: aten.call "aten.mul.Tensor"(self = %{{.*}}, other = %[[L]])
// STORED-NOT: fcdp.store_value

// Twice is once, and neither CSE nor canonicalization changes the copies.
// RUN: fcdp-opt %t/stored.mlir --fcdp-decide-activations="activations=host cluster=cpu" --fcdp-store-activations=cluster=cpu | diff %t/stored.mlir -
// RUN: fcdp-opt %t/stored.mlir --canonicalize --cse | FileCheck %s --check-prefix=STORED

// By default nothing changes.
// RUN: fcdp-opt %t/step.mlir -o %t/same.mlir
// RUN: fcdp-opt %t/step.mlir --fcdp-decide-activations --fcdp-store-activations | diff %t/same.mlir -

// A choice that is given counts, with each mode.
// RUN: %edit %t/step.mlir --first --replace "mat2 = %%w) :" "mat2 = %%w) {fcdp.on_host = array<i64>} :" > %t/given.mlir
// RUN: fcdp-opt %t/given.mlir --fcdp-decide-activations="activations=host cluster=cpu" --fcdp-store-activations=cluster=cpu | FileCheck %s --check-prefix=KEPT
// KEPT-NOT: fcdp.store_value

// If the copies cannot be hidden, 'host' stores nothing, and says so.
// DEFINE: %{decide} = fcdp-opt %t/step.mlir --remarks-filter="fcdp-decide-activations" --remark-format=emitRemark -o /dev/null
// RUN: %edit %fcdp_src_root/cluster/cpu.yaml --replace "3.5e9" "1e6" > %t/slow.yaml
// RUN: %{decide} --fcdp-decide-activations="activations=host cluster=%t/slow.yaml" 2>&1 | FileCheck %s --check-prefix=SLOW
// SLOW: remark: {{.*}}activations host: all values stay on the device
// RUN: %{decide} --fcdp-decide-activations="activations=host cluster=cpu" 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: remark: {{.*}}activations host: 1 of 2 values, 1.05 MB, are in host memory between the forward and the backward pass; compute waits 0 ns for their copies

// Choices by hand that cannot be carried out are errors: a view, a value that the backward pass does not read, one of
// the backward pass, and one that another operation than a call reads there.
// DEFINE: %{refuse} = not fcdp-opt --fcdp-store-activations=cluster=cpu
// RUN: %edit %t/step.mlir --replace "(self = %%p) :" "(self = %%p) {fcdp.on_host = array<i64: 0>} :" | %{refuse} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: %edit %t/step.mlir --replace "(self = %%q) :" "(self = %%q) {fcdp.on_host = array<i64: 0>} :" | %{refuse} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: %edit %t/step.mlir --replace "(self = %%d, other = %%p) :" "(self = %%d, other = %%p) {fcdp.on_host = array<i64: 0>} :" | %{refuse} 2>&1 | FileCheck %s --check-prefix=REFUSED
// REFUSED: error: 'aten.call' op result 0 cannot be in host memory: expected new memory that only calls read after the forward pass, and that they do read
// RUN: not fcdp-opt %t/step.mlir --fcdp-decide-activations=activations=disk 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: error: activations: expected 'device', 'host' or 'auto', got 'disk'
// RUN: not fcdp-opt %t/step.mlir --fcdp-decide-activations="activations=host cluster=%t/none.yaml" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// CLUSTER: error: cluster: {{.*}}none.yaml

//--- step.mlir
module attributes {fcdp.phase = #fcdp.phase<sharded>, fcdp.micro_batches = 1 : i64} {
  fcdp.mesh @world(node = 1, local = 1)
  fcdp.input @x : tensor<512x512xf32> name "x"
  fcdp.input @w : tensor<512x512xf32> name "w"
  fcdp.buffer @out : tensor<512x512xf32> name "out" persistent mutable
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<512x512xf32>
    %w = fcdp.read_input @w : tensor<512x512xf32>
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %t = aten.call "aten.t.default"(self = %p) : (tensor<512x512xf32>) -> tensor<512x512xf32>
    %q = aten.call "aten.mm.default"(self = %p, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %r = aten.call "aten.mm.default"(self = %q, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %small = aten.call "aten.sum.dim_IntList"(self = %r, dim = [0]) : (tensor<512x512xf32>) -> tensor<512xf32>
    %s = aten.call "aten.sum.default"(self = %q) : (tensor<512x512xf32>) -> tensor<f32>
    fcdp.loss %s : tensor<f32>
    %a = aten.call "aten.mm.default"(self = %w, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %b = aten.call "aten.mm.default"(self = %a, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %c = aten.call "aten.mul.Tensor"(self = %b, other = %small) : (tensor<512x512xf32>, tensor<512xf32>) -> tensor<512x512xf32>
    %d = aten.call "aten.mm.default"(self = %t, mat2 = %c) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %e = aten.call "aten.mul.Tensor"(self = %d, other = %p) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    fcdp.write_buffer %e to @out : tensor<512x512xf32>
    return
  }
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} {
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
    return
  }
}
