// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_RETARGETPASSES
#define FCDP_TRANSFORMS_RETARGETPASSES

include "fcdp/Transforms/PassBase.td"

def RetargetPass : FcdpPass<"fcdp-retarget"> {
  let summary = "convert a step that was exported on a CPU to a step for CUDA";
  let description = [{
    Requires phase `imported`. With target `cuda`, calls that create tensors create them
    on CUDA. In common models, attention is the only computation for which PyTorch has a
    separate CPU operator, and the RMS norm is the only one for which it has an operator
    for CUDA alone. Attention becomes the flash kernel (f16 or bf16, no mask, head
    dimensions up to 256, and a GPU of compute capability 8.0 or newer, which is assumed
    if neither the option nor a cluster says otherwise), or the memory-efficient kernel
    (all other cases). For GPUs of compute capability 9.0 and 10.0, PyTorch prefers
    cuDNN's kernel to the flash kernel, and so does the pass if there are as many key
    heads as query heads, of dimensions up to 128. cuDNN's backward pass is not
    deterministic. The pass does what PyTorch's `scaled_dot_product_attention` does for
    these kernels: it pads head dimensions to multiples of 8, aligns the rows of a mask
    to multiples of 8 elements, and repeats key heads until there are as many as query
    heads. Results keep the shapes of the CPU operator, and also its order of dimensions
    in memory, since views may rely on it. The import recorded that order on the call as
    `fcdp.dim_order`; a result is copied if the kernel's order differs. Numbers differ
    only because the kernels sum in another order.

    The runtime's own attention by documents (`fcdp.packed_attention`) is for CPUs. In
    f16 or bf16 it becomes the flash kernel over sequences of several lengths
    (`_flash_attention_forward`), whose bounds are computed on the device, and shared by
    all layers. The number of sequences is fixed. If the shape of the bounds that make
    the documents is small enough, each document is a sequence. Otherwise each token may
    be a document. Documents of 128 tokens or more are then sequences, and shorter ones
    are computed by the memory-efficient kernel in blocks of 128 tokens, each with the
    keys of the block before it. The call becomes attention under the mask that keeps
    documents apart if a document's tokens may be apart or out of order, if the kernel
    does not fit (see above; head dimensions are not padded here), or if such rows are
    shorter than 512 tokens or no multiple of 128. The pass errs on the side of the mask:
    documents are in order only if a cumulative sum of flags or a search in a range
    computes them.

    An RMS norm is about 7 calls in an export from a CPU, and its backward pass about
    16. They become `_fused_rms_norm` and `_fused_rms_norm_backward`. The pass
    recognizes the calls of `nn.RMSNorm` and of Transformers' models by their
    computation: x * rsqrt(mean(x^2) + eps) over the last dimensions, in f32 or f64,
    times a weight. If the norm casts half precision to f32 and its result back, the
    kernel does this, and the casts are removed. The kernel rounds once, so it
    multiplies by the weight only if the product is not rounded before: the product of
    `LlamaRMSNorm` in bf16 remains a separate call. A norm that is computed in half
    precision does not change, and neither does a norm whose result is not in order in
    memory. If a backward pass differs from the one that PyTorch derives, it does not
    change either, and a remark says so.

    The statistics that layer norms and batch norms return are f32 on CUDA for input
    in half precision, and in the input's type on the CPU. The pass changes their
    types, and casts them for users other than the norm's backward pass.

    The pass writes `fcdp.target` on the module. A step that was exported on CUDA has
    this attribute from the import, and the pass only removes its device numbers,
    because each rank has one device, `cuda`. Without a target the step does not change.
    The pass refuses operators that PyTorch has for the CPU only, and attention in f64.
    Running it again changes nothing.

    Before:

    ```mlir
    %z = aten.call "aten.zeros.default"(size = [4], device = #aten.device<"cpu">) : () -> tensor<4xf32>
    %a:2 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(query = %q, key = %q, value = %q, is_causal = true) : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>)
    ```

    After `--fcdp-retarget=target=cuda`:

    ```mlir
    %z = aten.call "aten.zeros.default"(size = [4], device = #aten.device<"cuda">) : () -> tensor<4xf32>
    %a:5 = aten.call "aten._scaled_dot_product_flash_attention.default"(query = %q, key = %q, value = %q, ...is_causal = true) ...
    ```
  }];
  let options = [
    Target, ComputeCapability, ClusterFile,
    Option<"fuseNorms", "fuse-norms", "bool", "true",
           "puts CUDA's operators in place of RMS norms: 'false' leaves the operators "
           "of the export, to predict or measure the gain of fusing (default: true)">
  ];
}

#endif // FCDP_TRANSFORMS_RETARGETPASSES
