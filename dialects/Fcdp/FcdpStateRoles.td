// SPDX-License-Identifier: Apache-2.0
//
// The roles of buckets' states, a record each, from which come the enum and its
// table for C++ (StateRoles.h).

#ifndef FCDP_FCDP_STATE_ROLES
#define FCDP_FCDP_STATE_ROLES

// Included by FcdpAttrs.td, which has the classes of enums.

// The rules are cases of the enums in runtime/core/StateRules.h.
class Fcdp_StateRoleCase<string name, int number, string stateKind, string typeRule,
                         string scopeRule, string shapeRule = "element",
                         string arenaName = "device">
    : I32EnumAttrCase<name, number> {
  bits<8> index = number;
  string kind = "StateKind::" # stateKind;
  string type = "StateType::" # typeRule;
  string scope = "StateScope::" # scopeRule;
  string shape = "StateShape::" # shapeRule;
  string arena = !if(!empty(arenaName), "std::nullopt", "Arena::" # arenaName);
  // Whether the plan lists the state.
  bit isInPlan = 1;
  // Whether checkpoints have the state.
  bit isSaved = 1;
  // Whether the state belongs to gradients. All others belong to parameters,
  // copies of them, or their updates.
  bit isOfGradients = 0;
}
// A state that the optimizer updates: its own for each parameter, or a master.
class OptimizerState<string name, int number, string shape = "element",
                     string type = "optimizer">
    : Fcdp_StateRoleCase<name, number, "optimizer", type, "shard", shape>;
class SumState<string name, int number, string scope, string arena = "device">
    : Fcdp_StateRoleCase<name, number, "sum", "f32", scope, "element", arena> {
  let isSaved = 0;
  let isOfGradients = 1;
}
// A copy in a tier, which has its arena (Tiers.h), or in an arena.
class CopyState<string name, int number, string scope, string arena = "">
    : Fcdp_StateRoleCase<name, number, "copy", "wire", scope, "element", arena> {
  let isSaved = 0;
}
// A state of outer steps. Its bucket is sharded within a node.
class OuterState<string name, int number>
    : Fcdp_StateRoleCase<name, number, "outer", "f32", "shard", "element", "host">;

defset list<Fcdp_StateRoleCase> stateRoles = {
def ShardRole : Fcdp_StateRoleCase<"shard", 0, "parameters", "storage", "shard">;
def GradRole : SumState<"grad", 1, "shard">;
def ExpAvgRole : OptimizerState<"exp_avg", 2>;
def ExpAvgSqRole : OptimizerState<"exp_avg_sq", 3>;
def MomentumBufferRole : OptimizerState<"momentum_buffer", 4>;
def CacheRole : CopyState<"cache", 5, "slice">;
// A node slice, or the whole, which the type of the state says.
def ResidentRole : CopyState<"resident", 6, "slice">;
def NodeGradRole : SumState<"node_grad", 7, "slice">;
def FullGradRole : SumState<"full_grad", 8, "whole">;
def HostGradRole : SumState<"host_grad", 9, "slice", "host">;
// A place for some of the time, which gathers name.
def PrefetchedRole : CopyState<"prefetched", 10, "whole", "device"> { let isInPlan = 0; }
def MasterRole : OptimizerState<"master", 11>;
def ExpAvgCodeRole : OptimizerState<"exp_avg_code", 12, "element", "u8">;
def ExpAvgScaleRole : OptimizerState<"exp_avg_scale", 13, "block", "f32">;
def ExpAvgSqCodeRole : OptimizerState<"exp_avg_sq_code", 14, "element", "u8">;
def ExpAvgSqScaleRole : OptimizerState<"exp_avg_sq_scale", 15, "block", "f32">;
def RowVarRole : OptimizerState<"row_var", 16, "rowMean">;
def ColVarRole : OptimizerState<"col_var", 17, "columnMean">;
def VarianceRole : OptimizerState<"variance", 18, "withoutMeans">;
def ResidualRole : Fcdp_StateRoleCase<"residual", 19, "other", "f32", "slice",
                                      "element", "host"> {
  let isOfGradients = 1;
}
def OuterRole : OuterState<"outer", 20>;
def OuterMomentumRole : OuterState<"outer_momentum", 21>;
def RowGgRole : OptimizerState<"row_gg", 22, "rowSquare", "f32">;
def ColGgRole : OptimizerState<"col_gg", 23, "columnSquare", "f32">;
def RowQRole : OptimizerState<"row_q", 24, "rowSquare", "f32">;
def ColQRole : OptimizerState<"col_q", 25, "columnSquare", "f32">;
}

#endif // FCDP_FCDP_STATE_ROLES
