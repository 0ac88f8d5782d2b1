// SPDX-License-Identifier: Apache-2.0
//
// Generates the C++ struct and the table of PipelineOptions.td.

include "fcdp/Transforms/PipelineOptions.td"
include "llvm/TableGen/SearchableTable.td"

// mlir-tblgen makes a struct from the options of a pass: `struct PipelineOptions`
// from these. There is no such pass; `--fcdp-pipeline` is a list of passes.
def Pipeline : Pass<"fcdp-pipeline", "::mlir::ModuleOp"> {
  let options = !instances<PipelineOption>();
}

// `enum OptionId`, and a row of the type PipelineOption for each option.
def OptionId : GenericEnum {
  let FilterClass = "PipelineOption";
}
def PipelineOptionTable : GenericTable {
  let FilterClass = "PipelineOption";
  let Fields = ["id", "argument", "placeholderText", "description", "read",
                "isRepeatable"];
  string TypeOf_id = "code";
  string TypeOf_read = "code";
}

// A function for each option, which copies it to the options of a pass that takes
// it.
def TakenOptionTable : GenericTable {
  let FilterClass = "PipelineOption";
  let CppTypeName = "TakeOption";
  let Fields = ["take"];
  string TypeOf_take = "code";
}
