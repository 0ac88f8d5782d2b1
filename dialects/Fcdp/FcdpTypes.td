// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_TYPES
#define FCDP_FCDP_TYPES

include "dialects/Fcdp/FcdpDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"

def Fcdp_ShardType : TypeDef<Fcdp_Dialect, "Shard"> {
  let mnemonic = "shard";
  let summary = "a rank's part of a tensor, before its layout is fixed";
  let description = "Holds the type of the whole tensor: `!fcdp.shard<tensor<8x4xf32>>`.";
  let parameters = (ins "::mlir::RankedTensorType":$whole);
  let assemblyFormat = "`<` $whole `>`";
}

def Fcdp_TokenType : TypeDef<Fcdp_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "work issued on a stream, to wait for";
}

/// Before bucketing a shard is abstract, afterwards a flat tensor.
def Fcdp_AnyShard : AnyTypeOf<[Fcdp_ShardType, 1DTensorOf<[AnyFloat]>],
                              "a shard or a flat tensor">;
def Fcdp_Flat : 1DTensorOf<[AnyFloat]>;
def Fcdp_Whole : AnyTypeOf<[AnyRankedTensor], "a whole tensor">;

#endif // FCDP_FCDP_TYPES
