// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TRANSFORMS_RETARGETPASSES
#define FCDP_TRANSFORMS_RETARGETPASSES

include "fcdp/Transforms/PassBase.td"

def RetargetPass : FcdpPass<"fcdp-retarget"> {
  let summary = "make a step that was exported on a CPU one for CUDA";
  let description = [{
    Requires phase `imported`. With target `cuda`, calls that create tensors create
    them on CUDA. Attention is the one operator of common models for which PyTorch
    has a CPU operator of its own, and the RMS norm the one for which it has an
    operator for CUDA alone. Attention becomes the flash kernel (f16 or bf16, no mask,
    head dimensions up to 256, and a GPU of compute capability 8.0 or newer, which is
    assumed if neither the option nor a cluster says otherwise), or the memory-efficient
    kernel (all other cases). For GPUs of compute capability 9.0 and 10.0, for which
    PyTorch prefers it, it is cuDNN's kernel instead of the flash kernel if there are as
    many key heads as query heads, of dimensions up to 128. cuDNN's backward pass is not
    deterministic. The pass does what PyTorch's `scaled_dot_product_attention` does for these
    kernels: it pads head dimensions to multiples of 8, aligns the rows of a mask to
    multiples of 8 elements, and repeats key heads until there are as many as query
    heads. Results keep the shapes of the CPU operator, and also its order of dimensions
    in memory, since views may rely on it. The import recorded that order on the call as
    `fcdp.dim_order`; a result is copied if the kernel's order differs. Numbers differ
    as far as the kernels sum in another order.

    An RMS norm is about 7 calls in an export from a CPU, and its backward pass about
    16. They become `_fused_rms_norm` and `_fused_rms_norm_backward`. The pass knows the
    calls of `nn.RMSNorm` and of Transformers' models by what they compute: x * rsqrt(mean(x^2) + eps)
    over the last dimensions, in f32 or f64, times a weight. If the norm casts half
    precision to f32 and its result back, the kernel does, and the casts go. The
    kernel rounds once, so it multiplies by the weight only if the product is not
    rounded before: that of `LlamaRMSNorm` in bf16 stays a call of its own. A norm that
    is computed in half precision stays as it is, and so does one whose result is not
    in order in memory. Of a backward pass that is not what PyTorch derives, a remark
    says that it stays.

    The statistics that layer norms and batch norms return are f32 on CUDA for input
    in half precision, and in the input's type on the CPU. The pass changes their
    types, and casts them for users other than the norm's backward pass.

    The pass writes `fcdp.target` on the module. A step that was exported on CUDA has
    this attribute from the import, and only loses its device numbers, because each
    rank has one device, `cuda`. Without a target the step stays as it is. The pass
    refuses operators that PyTorch has for the CPU only, and attention in f64. Running
    it again changes nothing.

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
           "of the export, to predict or measure what fusing is worth (default: true)">
  ];
}

#endif // FCDP_TRANSFORMS_RETARGETPASSES
