// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_ATEN_OPS
#define FCDP_ATEN_OPS

include "dialects/Aten/AtenDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Aten_CallOp : Op<Aten_Dialect, "call",
    [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "call an ATen operator";
  let description = [{
    Calls the functional operator `callee`, of ATen or the runtime's own (`fcdp`),
    spelled `NAMESPACE.OP.OVERLOAD` as in PyTorch, with arguments by the names of
    its schema. Arguments that
    equal their default may be omitted. An argument is an operand, a list of
    operands (`none` for an absent tensor) or a literal: an integer, a float,
    `true` or `false`, a string, a list of these, `none`, a data type (`f32`),
    `#aten.device`, `#aten.layout` or `#aten.memory_format`.

    Results are in the order of the schema's returns, with tensor lists
    flattened. `undefined` lists the flattened positions of returns that are
    undefined tensors, for example a bias gradient that is not computed. They
    have no result.

    Example:
    ```mlir
    %0 = aten.call "aten.addmm.default"(self = %bias, mat1 = %x, mat2 = %w, beta = 1)
        : (tensor<8xf32>, tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %1 = aten.call "aten.cat.default"(tensors = [%0, %0], dim = -1)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    ```

    Constraints:
    - (C1) `callee` has the form `NAMESPACE.OP.OVERLOAD`.
    - (C2) Every argument has a name, and names are unique.
    - (C3) Arguments use all operands, in order, each once; a list of operands is
      not empty (`[]` is a list of literals).
    - (C4) A literal is of one of the kinds above; an integer is an `i64`, a
      float an `f64`, and a data type is one of integers, floats or complex numbers.
    - (C5) `undefined` is strictly ascending, and within the number of returns.
    - (C6) No tensor has more than 2^48 bytes.
    - (C7) The shape of the first result follows from the shapes of the operands, for
      the operators in the table of `ResultShapes.cpp`: elementwise operators, views,
      reductions, products of matrices, and operators with a size as argument.
    - (C8) A call of `fcdp.chunked_loss.default` or `fcdp.chunked_distillation.default`
      has the arguments and returns that follow.
    - (C9) A call of `fcdp.unpack_nf4.default` or `fcdp.unpack_int8.default` has the
      arguments and the result that follow.

    `fcdp.chunked_loss.default` multiplies `hidden` [rows, features] by the transposed
    `weight` [vocabulary, features], adds `bias` if there is one, applies `steps`, and
    computes the cross entropy of the result with `labels`, in chunks of at most `rows`
    rows, a multiple of 16 or all rows. It computes the gradients that `output_mask` names (of hidden, weight and bias) at the
    same time, from the gradient of the loss. So logits are never in memory as a whole.

    - `steps` is a string of the words `div`, `mul`, `tanh` and `cast` (to f32), the last
      two at most once. `factors` has a float for each `div` and `mul`.
    - `reduction` and `ignore_index` are those of `aten.nll_loss_forward`. `gradient` is
      a vector of rows if `reduction` is 0, and one number otherwise. If `ignore_index` is
      `none`, for a loss of each row, all labels count, as in `aten.gather`.
    - `sums = true` asks for the sum of each row's log-probabilities, for label
      smoothing. `sum_gradient` is the gradient of these sums.
    - The gradient of a weight in bf16 or f16 is a sum in f32 over chunks, which is part
      of the workspace. With `block`, a multiple of 64, it is computed from all rows by
      blocks of so many classes instead, with their logits computed again. `steps` must
      have a `cast`, and all rows of a block have at most the logits of a chunk.
    - Returns are the loss, the weight of all labels, these sums, the gradients of
      hidden, weight and bias ([1, vocabulary]), and the workspace, which nothing may
      use: a tensor of `workspace` bytes for one chunk, so that the plan has its memory.

    `fcdp.chunked_distillation.default` also compares these logits with a teacher's:
    those that are given as `teacher` [rows, vocabulary], or the product of hidden states
    `teacher` with the transposed `teacher_weight`, plus `teacher_bias`. `labels` may be
    `none`, and so are the first two returns then. There are no blocks.

    - The first `common` of `steps` are applied once, `student_steps` after them, and
      `teacher_steps` to the teacher's logits, with factors of the same names.
    - With p the softmax of the teacher's logits and q the student's, `terms` of each
      class are `kl` (p log p - p log q), `log` (the same from log p, as exp(log p)
      (log p - log q)) or `cross` (p log q). In `kl_exp` and `cross_exp`, p is the
      exponential of a log-softmax. With `skip_infinite`, `cross` leaves out classes of
      infinite logits.
    - The last return is their sum, or a vector of those of rows with `by_row`.
      `teacher_gradient` is what the gradient of log q is a multiple of, beside p.

    `fcdp.kernel.NAME` is a kernel that the compiler writes, `fcdp.kernel @kernel.NAME`.
    Its one argument is the list `operands`.

    `fcdp.unpack_nf4.default` and `fcdp.unpack_int8.default` compute the matrix of `size`
    in `dtype` (f32, bf16 or f16) from its bytes `packed` (ui8). The layout is in
    `runtime/core/PackedLayout.h`: blocks of a scale in f32 and codes of 4 bits, for 64
    values, or of 8 bits, for a row.
  }];
  let arguments = (ins StrAttr:$callee, Variadic<AnyRankedTensor>:$operands,
                       StrArrayAttr:$argNames, ArrayAttr:$args,
                       OptionalAttr<DenseI64ArrayAttr>:$undefined);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $callee `` custom<CallArguments>($operands, $argNames, $args)
    attr-dict `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The literal or operand given for the argument `name`, or null.
    ::mlir::Attribute getArgument(::llvm::StringRef name);
    /// Returns whether it may draw random numbers.
    bool drawsRandomNumbers();
    /// Returns whether a CUDA graph may contain the call: its operator is in
    /// the table, draws no random numbers, has no random state among its
    /// results, reads none, and does not read a value from the device.
    bool isReplayable();
    /// Returns whether the operator does not read the operands given for the
    /// argument `name`: the random state of attention's backward pass without
    /// dropout.
    bool leavesUnread(::llvm::StringRef name);
  }];
}

#endif // FCDP_ATEN_OPS
