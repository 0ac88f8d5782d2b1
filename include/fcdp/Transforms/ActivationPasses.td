// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_ACTIVATIONPASSES
#define FCDP_TRANSFORMS_ACTIVATIONPASSES

include "fcdp/Transforms/PassBase.td"

def DecideActivationsPass : FcdpPass<"fcdp-decide-activations"> {
  let summary = "choose the values of the forward pass that wait for the backward pass in host memory";
  let description = [{
    Requires phase `sharded`, with gathers and reductions in their final order. The pass
    writes `fcdp.on_host` on calls: the numbers of the results that are copied to host
    memory after they are made, and back before the backward pass reads them. A call
    that already has the attribute keeps it; an empty one keeps all results on the
    device.

    - `device`: nothing is chosen.
    - `host`: all values are chosen whose copies are expected to be hidden by the
      compute between, and which are so large that the copy's latency is at most half of
      its time. Earlier values are chosen first, because they leave the device for longest.
    - `auto`: as few of these values are chosen as are needed for the step to fit
      `device-memory`, or the cluster's memory. If all of them are not enough, values follow
      for which compute waits, the shortest time for each byte first.

    Values that are views, that may be memory of an operand, that are computed from
    parameters alone, or that anything but a call reads after the forward pass stay on
    the device. So do inputs and parameters. Times are those of `cluster`; without one,
    those of A100 GPUs.

    Before:

    ```mlir
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %y = aten.call "aten.mm.default"(self = %p, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = aten.call "aten.sum.default"(self = %y) : (tensor<512x512xf32>) -> tensor<f32>
    fcdp.loss %s : tensor<f32>
    %d = aten.call "aten.mm.default"(self = %w, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %g = aten.call "aten.mm.default"(self = %p, mat2 = %d) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    ```

    After `--fcdp-decide-activations="activations=host cluster=cpu"`:

    ```mlir
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.on_host = array<i64: 0>} : ...
    ```
  }];
  let options = [Activations, ClusterFile, ProfileFile, DeviceMemory];
}

def StoreActivationsPass : FcdpPass<"fcdp-store-activations"> {
  let summary = "copy chosen values of the forward pass to host memory and back";
  let description = [{
    Requires phase `sharded`, with gathers and reductions in their final order. A result
    that `fcdp.on_host` chooses is stored after its call (`fcdp.store_value`), dropped
    after its last use in the forward pass, where the copy is expected to be complete
    (`fcdp.drop_value`), and loaded as late as it is expected to be there for its first
    use in the backward pass (`fcdp.load_value`). The backward pass reads what is
    loaded. Views that the forward pass makes of the value are made again from it. A
    value that no operation runs without stays on the device. A choice by hand may cost
    time; a value that cannot be stored is an error.

    Before:

    ```mlir
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.on_host = array<i64: 0>} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %y = aten.call "aten.mm.default"(self = %p, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = aten.call "aten.sum.default"(self = %y) : (tensor<512x512xf32>) -> tensor<f32>
    fcdp.loss %s : tensor<f32>
    %d = aten.call "aten.mm.default"(self = %w, mat2 = %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %g = aten.call "aten.mm.default"(self = %p, mat2 = %d) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    ```

    After `--fcdp-store-activations=cluster=cpu`:

    ```mlir
    %p = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.on_host = array<i64: 0>} : ...
    %stored = fcdp.store_value %p : tensor<512x512xf32>
    %y = aten.call "aten.mm.default"(self = %p, mat2 = %w) ...
    ...
    fcdp.drop_value %p stored %stored : tensor<512x512xf32>
    ...
    %again = fcdp.load_value %stored : tensor<512x512xf32>
    ...
    %g = aten.call "aten.mm.default"(self = %again, mat2 = %d) ...
    ```
  }];
  let options = [ClusterFile, ProfileFile];
}

#endif // FCDP_TRANSFORMS_ACTIVATIONPASSES
