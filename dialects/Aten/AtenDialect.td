// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_ATEN_DIALECT
#define FCDP_ATEN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"

def Aten_Dialect : Dialect {
  let name = "aten";
  let cppNamespace = "::fcdp::aten";
  let summary = "the imported computation: calls of ATen operators";
  let description = [{
    The generic operation `aten.call` represents any functional ATen operator,
    with arguments by name. The properties of operators (whether the result
    aliases an operand, whether they draw random numbers, what determines their
    time) are in one table, `OpTable`. An operator that is not in the table may
    alias every operand, uses the random state, and takes the time to read its
    operands and write its results.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Aten_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Aten_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Aten_Layout : I32EnumAttr<"Layout", "the layout of a tensor", [
  I32EnumAttrCase<"strided", 0>]> {
  let cppNamespace = "::fcdp::aten";
  let genSpecializedAttr = 0;
}
def Aten_MemoryFormat : I32EnumAttr<"MemoryFormat", "the order of a tensor's dimensions in memory", [
  I32EnumAttrCase<"contiguous", 0>, I32EnumAttrCase<"preserve", 1>,
  I32EnumAttrCase<"channels_last", 2>, I32EnumAttrCase<"channels_last_3d", 3>]> {
  let cppNamespace = "::fcdp::aten";
  let genSpecializedAttr = 0;
}
def Aten_LayoutAttr : EnumAttr<Aten_Dialect, Aten_Layout, "layout"> {
  let assemblyFormat = "`<` $value `>`";
}
def Aten_MemoryFormatAttr : EnumAttr<Aten_Dialect, Aten_MemoryFormat, "memory_format"> {
  let assemblyFormat = "`<` $value `>`";
}
def Aten_DeviceAttr : Aten_Attr<"Device", "device"> {
  let summary = "a device argument, as `#aten.device<\"cpu\">`";
  let parameters = (ins StringRefParameter<"`cpu`, or `cuda:0`">:$name);
  let assemblyFormat = "`<` $name `>`";
}
def Aten_OperandAttr : Aten_Attr<"Operand", "operand"> {
  let summary = "an argument that is the operand of that index";
  let parameters = (ins "unsigned":$index);
  let assemblyFormat = "`<` $index `>`";
}
def Aten_OperandListAttr : Aten_Attr<"OperandList", "operands"> {
  let summary = "an argument that is a list of tensors: operand indices, -1 for an absent tensor";
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$indices);
  let assemblyFormat = "`<` `[` (`]`) : ($indices^ `]`)? `>`";
}

#endif // FCDP_ATEN_DIALECT
