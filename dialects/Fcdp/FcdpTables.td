// SPDX-License-Identifier: Apache-2.0
//
// The tables of the records in FcdpOptimizers.td and FcdpStateRoles.td for C++.

include "dialects/Fcdp/FcdpAttrs.td"
include "llvm/TableGen/SearchableTable.td"

// A row for each optimizer. TableGen sorts the rows of a table by their first
// field, which is the optimizer's place in FcdpOptimizers.td.
class OptimizerRow<Fcdp_Optimizer of, int theIndex> {
  bits<8> index = theIndex;
  Fcdp_Optimizer optimizer = of;
  string name = of.option;
  string attr = of.cppClassName;
  string named = !interleave(
    !foreach(k, !range(of.settings),
             "[[maybe_unused]] " # of.settings[k].parameter.cppType # " "
             # of.settings[k].name # " = readAs<" # of.settings[k].parameter.cppType
             # ">(numbers[" # k # "]);"), " ");

  // The optimizer's settings with their defaults, as `Setting` of SettingSpec.h.
  string settings = "[]() -> SmallVector<Setting> { return {" # !interleave(
    !foreach(s, of.settings, "{\"" # s.name # "\", " # s.default # ", " # s.least # ", "
      # s.below # ", {" # !interleave(!foreach(word, s.words, "\"" # word # "\""), ", ")
      # "}, " # s.isAllowed # ", \"" # s.refusal # "\"}"), ", ") # "}; }";
  // Makes the attribute from a number for each setting.
  string make = "[](MLIRContext *context, ArrayRef<FloatAttr> numbers) -> Attribute { return "
    # attr # "::get(context, " # !interleave(
      !foreach(k, !range(of.settings),
               "readAs<" # of.settings[k].parameter.cppType # ">(numbers[" # k # "])"), ", ")
    # "); }";
  // Returns whether settings exclude each other, and the error that says so.
  string isConflict = !if(!empty(of.conflict.condition),
    "[](ArrayRef<FloatAttr>) { return false; }",
    "[](ArrayRef<FloatAttr> numbers) { " # named # " return "
    # of.conflict.condition # "; }");
  string conflict = of.conflict.ofOption;

  string needsLayout = !if(!empty(of.layout), "false", "true");
  string leastElements = of.leastElements;
  string onlyHiddenMatrices = of.onlyHiddenMatrices;
  string unusedReason = of.unusedReason;
  string takesRest = of.takesRest;
  string rest = of.rest;
  string restHasSettings = of.restHasSettings;

  // Fills the optimizer's table in the plan.
  string fill = "[](Attribute optimizer, plan::OptimizerUnion &out) { auto from = cast<"
    # attr # ">(optimizer); plan::" # of.planTable # "T table; " # !interleave(
      !foreach(s, of.settings, "setField(table." # CamelCase<s.name>.lower # ", from.get"
               # CamelCase<s.name>.upper # "());"), " ")
    # " out.Set(std::move(table)); }";
}
foreach i = !range(optimizers) in
  def OptimizerRow # i : OptimizerRow<optimizers[i], i>;

def OptimizerTable : GenericTable {
  let FilterClass = "OptimizerRow";
  let CppTypeName = "OptimizerKind";
  let Fields = ["index", "name", "settings", "make", "isConflict", "conflict",
                "needsLayout", "leastElements", "onlyHiddenMatrices", "unusedReason",
                "takesRest", "rest", "restHasSettings"];
  string TypeOf_settings = "code";
  string TypeOf_make = "code";
  string TypeOf_isConflict = "code";
  string TypeOf_needsLayout = "code";
  string TypeOf_leastElements = "code";
  string TypeOf_onlyHiddenMatrices = "code";
  string TypeOf_takesRest = "code";
  string TypeOf_restHasSettings = "code";
}

def OptimizerPlanTable : GenericTable {
  let FilterClass = "OptimizerRow";
  let CppTypeName = "OptimizerPlanRow";
  let Fields = ["index", "name", "fill"];
  string TypeOf_fill = "code";
}

def StateRoleTable : GenericTable {
  let FilterClass = "Fcdp_StateRoleCase";
  let CppTypeName = "StateRoleRecord";
  let Fields = ["index", "kind", "type", "scope", "shape", "arena", "isInPlan",
                "isOfGradients"];
  string TypeOf_kind = "code";
  string TypeOf_type = "code";
  string TypeOf_scope = "code";
  string TypeOf_shape = "code";
  string TypeOf_arena = "code";
}
