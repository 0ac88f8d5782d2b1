# SPDX-License-Identifier: Apache-2.0
"""Causal attention over rows of several documents, document by document, as an operator that compiled steps have, too.

The runtime has a kernel of its own for it (runtime/operators/PackedAttention.cpp). This module runs it in eager PyTorch
and in the check of an export, and gives its shapes and its gradient to traces.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("fcdp", "FRAGMENT")
_ARGUMENTS = "Tensor query, Tensor key, Tensor value"
_DOCUMENTS = "Tensor documents, Tensor? positions=None, *, float? scale=None"
_library.define(f"packed_attention({_ARGUMENTS}, {_DOCUMENTS}) -> (Tensor output, Tensor logsumexp)")
_library.define(
    f"packed_attention_backward(Tensor grad_out, {_ARGUMENTS}, Tensor out, Tensor logsumexp, {_DOCUMENTS}) "
    "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"
)

OPERATOR = torch.ops.fcdp.packed_attention.default
BACKWARD = torch.ops.fcdp.packed_attention_backward.default
_aten = torch.ops.aten


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    documents: Tensor,
    positions: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Returns attention [batch, heads, tokens, depth] in which a token sees its document up to itself, on the CPU.

    query, key, value: have one depth. Key and value may have fewer heads, which divide the number of the query's.
    documents: integers [batch, tokens], equal for two tokens of a row if they are of one document.
    positions: integers [batch, tokens]; a token sees tokens of its document whose positions are not greater than its
    own. By default these are the places in the row.
    scale: what scores are multiplied by; by default 1 over the square root of the depth.

    Documents whose tokens are next to each other, with growing positions, take the time of their own squares. For a row
    with others the whole square is computed, under a mask.
    """
    return OPERATOR(query, key, value, documents, positions, scale=scale)[0]


def _spans(documents: Tensor, positions: Tensor | None) -> list[tuple[int, int]] | None:
    """Returns the places of a row's documents, or None if that is not what tokens see."""
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[1:] = documents[1:] != documents[:-1]
    if torch.unique(documents).numel() != int(starts.sum()):
        return None
    if positions is not None and not bool((starts[1:] | (positions[1:] > positions[:-1])).all()):
        return None
    bounds = [*starts.nonzero().flatten().tolist(), documents.numel()]
    return list(zip(bounds, bounds[1:]))


def _mask(documents: Tensor, positions: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Returns what is added to the scores of a row, [1, 1, tokens, tokens]."""
    order = torch.arange(documents.numel()) if positions is None else positions
    seen = (documents[:, None] == documents[None, :]) & (order[None, :] <= order[:, None])
    return torch.zeros(1, 1, *seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))


def _parts(documents: Tensor, positions: Tensor | None, dtype: torch.dtype) -> Iterator[tuple[int, slice, dict[str, Any]]]:
    """Yields the row and the places of each part of a batch, and how attention is called for it."""
    for row in range(documents.shape[0]):
        own = None if positions is None else positions[row]
        spans = _spans(documents[row], own)
        if spans is None:
            yield row, slice(None), {"attn_mask": _mask(documents[row], own, dtype)}
        for begin, end in spans or ():
            yield row, slice(begin, end), {"is_causal": True}


def _forward(
    query: Tensor, key: Tensor, value: Tensor, documents: Tensor, positions: Tensor | None = None, *, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    out, sums = _empty_results(query, key, value, documents, positions, scale=scale)
    for row, part, how in _parts(documents, positions, query.dtype):
        given = (tensor[row : row + 1, :, part] for tensor in (query, key, value))
        found = _aten._scaled_dot_product_flash_attention_for_cpu(*given, scale=scale, **how)
        out[row, :, part], sums[row, :, part] = found[0][0], found[1][0]
    return out, sums


def _backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    documents: Tensor,
    positions: Tensor | None = None,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    gradients = tuple(_token_major(tensor) for tensor in (query, key, value))
    for row, part, how in _parts(documents, positions, query.dtype):
        given = [tensor[row : row + 1, :, part] for tensor in (grad_out, query, key, value, out, logsumexp)]
        causal = how.pop("is_causal", False)
        found = _aten._scaled_dot_product_flash_attention_for_cpu_backward(*given, 0.0, causal, scale=scale, **how)
        for gradient, own in zip(gradients, found):
            gradient[row, :, part] = own[0]
    return gradients


def _token_major(like: Tensor) -> Tensor:
    """Returns empty memory for [batch, heads, tokens, depth], token by token, as the CPU's attention has it."""
    return torch.empty_like(like.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)


def _empty_results(
    query: Tensor, key: Tensor, value: Tensor, documents: Tensor, positions: Tensor | None = None, *, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    _check(query, key, value, documents, positions)
    batch, heads, tokens, _ = query.shape
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
    # As the CPU's attention under a mask has it, which the operator takes the place of.
    return torch.empty_like(query), query.new_empty((batch, tokens, heads), dtype=dtype).transpose(1, 2)


def _check(query: Tensor, key: Tensor, value: Tensor, documents: Tensor, positions: Tensor | None) -> None:
    shapes = [tuple(tensor.shape) for tensor in (query, key, value)]
    if query.dim() != 4 or key.shape != value.shape or key.dim() != 4 or not _fits(query, key):
        raise ValueError(f"packed_attention: expected query, key and value [batch, heads, tokens, depth], got {shapes}")
    for name, tensor in (("documents", documents), ("positions", positions)):
        if tensor is None:
            continue
        if tuple(tensor.shape) != (query.shape[0], query.shape[2]) or tensor.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"packed_attention: expected {name} to be int64 or int32 of shape {[query.shape[0], query.shape[2]]}, got "
                f"{tensor.dtype} of shape {list(tensor.shape)}"
            )


def _fits(query: Tensor, key: Tensor) -> bool:
    (batch, heads, tokens, depth), (rows, groups, keys, deep) = query.shape, key.shape
    return (batch, tokens, depth) == (rows, keys, deep) and groups > 0 and heads % groups == 0


def _save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    query, key, value, documents, positions = inputs
    ctx.save_for_backward(query, key, value, *output, documents, *(() if positions is None else (positions,)))
    ctx.scale = keyword_only_inputs["scale"]
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad_out: Tensor, _: Any) -> tuple[Any, ...]:
    return (*BACKWARD(grad_out, *ctx.saved_tensors, scale=ctx.scale), None, None)


def _cast(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Does under torch.autocast what that does for PyTorch's own attention."""
    dtype = torch.get_autocast_dtype("cpu")
    cast = [tensor if tensor.dtype is torch.float64 else tensor.to(dtype) for tensor in (query, key, value)]
    with torch.autocast("cpu", enabled=False):
        return OPERATOR(*cast, *args, **kwargs)


_library.impl("packed_attention", _forward, "CPU")
_library.impl("packed_attention_backward", _backward, "CPU")
_library.impl("packed_attention", _cast, "AutocastCPU")
torch.library.register_fake("fcdp::packed_attention", _empty_results, lib=_library)
torch.library.register_fake(
    "fcdp::packed_attention_backward", lambda grad, *args, **kwargs: tuple(map(_token_major, args[:3])), lib=_library
)
torch.library.register_autograd("fcdp::packed_attention", _differentiate, setup_context=_save, lib=_library)
