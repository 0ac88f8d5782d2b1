// SPDX-License-Identifier: Apache-2.0
//
// The optimizers, a record each. From it come the attribute, its verifier and its
// states, the settings that `--optimizer` reads, and the table of the plan. The
// tables for C++ are in FcdpTables.td.

#ifndef FCDP_FCDP_OPTIMIZERS
#define FCDP_FCDP_OPTIMIZERS

// Included by FcdpAttrs.td, which has the classes of attributes.

// `weight_decay` as `weightDecay`, and as `WeightDecay`.
class CamelCase<string snake> {
  // !cond evaluates all of its branches, so there is a character before each.
  string padded = "x" # snake;
  string lower = !foldl("", !range(!size(snake)), done, i, done # !cond(
    !eq(!substr(snake, i, 1), "_"): "",
    !eq(!substr(padded, i, 1), "_"): !toupper(!substr(snake, i, 1)),
    true: !substr(snake, i, 1)));
  string upper = !toupper(!substr(lower, 0, 1)) # !substr(lower, 1);
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

defvar anyNumber = "std::numeric_limits<double>::infinity()";

// A setting, by PyTorch's name. Its text is a number in [least, below). The
// numbers are C++.
class Setting<string settingName, string defaultNumber, string leastNumber = "0",
              string belowNumber = anyNumber> {
  string name = settingName;
  string default = defaultNumber;
  string least = leastNumber;
  string below = belowNumber;
  // Completes the error "expected 'NAME' ..." about a number that is not whole.
  string wholeRule = "";
  // The verifier's error about a number that is not in range: "expected ...".
  string rangeRule = "";

  AttrOrTypeParameter parameter = AttrParameter<"::mlir::FloatAttr", "">;

  // Calls of functions in FcdpDialect.cpp.
  string checkNumber = "verifyNumber(emitError, \"" # name # "\", " # name # ", "
                       # least # ")";
  string checkRange = !if(!empty(rangeRule), "", "verifyRange(emitError, " # name # ", "
                          # least # ", " # below # ", \"" # rangeRule # "\")");
  // A `Setting` of SettingSpec.h.
  string row = "{\"" # name # "\", " # default # ", " # least # ", " # below # ", {}, \""
               # wholeRule # "\"}";
}
// A decay of a mean.
class Beta<string name, string default> : Setting<name, default, "0", "1"> {
  let rangeRule = "a beta below 1";
}
// 0 or 1.
class Flag<string name, string default> : Setting<name, default, "0", "2"> {
  let wholeRule = "to be 0 or 1";
  let parameter = AttrParameter<"bool", "">;
  let checkNumber = "";
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

// Settings that exclude each other: a condition in C++ about the parameters of
// the attribute, and the errors of the verifier and of `--optimizer`.
class Conflict<code theCondition = "", string verifierText = "", string optionText = ""> {
  code condition = theCondition;
  string ofAttribute = verifierText;
  string ofOption = optionText;
}

class Fcdp_Optimizer<string className, string optimizerName, list<Setting> theSettings,
                     list<string> theStates>
    : Fcdp_Attr<className, optimizerName, [OptimizerAttrInterface]> {
  string option = optimizerName;
  list<Setting> settings = theSettings;
  list<string> states = theStates;
  // Without any of its states if this C++ is true.
  code statesUnless = "";
  Conflict conflict = Conflict<>;
  // The table's class in the plan without its `T`, as flatc writes it.
  string planTable = className;

  let parameters = !dag(ins, !foreach(s, settings, s.parameter),
                        !foreach(s, settings, s.name));
  let genVerifyDecl = 1;
  string signature = !interleave(
    !foreach(s, settings, s.parameter.cppType # " " # s.name), ", ");
  list<string> checks = !filter(check, !listconcat(
    !foreach(s, settings, s.checkNumber), !foreach(s, settings, s.checkRange)),
    !not(!empty(check)));
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::fcdp::StateRole> getStates() const;
  }];
  let extraClassDefinition =
    "::llvm::SmallVector<::fcdp::StateRole> $cppClass::getStates() const {\n"
    # !if(!empty(statesUnless), "", "  if (" # statesUnless # ")\n    return {};\n")
    # "  return {" # !interleave(!foreach(s, states, "StateRole::" # s), ", ") # "};\n}\n"
    # "::llvm::LogicalResult $cppClass::verify(\n"
    # "    ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError, "
    # signature # ") {\n"
    # !interleave(!foreach(check, checks, "  if (::mlir::failed(" # check
                           # "))\n    return ::mlir::failure();\n"), "")
    # !if(!empty(conflict.condition), "", "  if (" # conflict.condition
          # ")\n    return emitError() << \"" # conflict.ofAttribute # "\";\n")
    # "  return ::mlir::success();\n}\n";
}

defset list<Fcdp_Optimizer> optimizers = {

def Fcdp_AdamWAttr : Fcdp_Optimizer<"AdamW", "adamw", [
    Setting<"lr", "1e-3">, Beta<"beta1", "0.9">, Beta<"beta2", "0.999">,
    Setting<"eps", "1e-8">, Setting<"weight_decay", "1e-2">],
    ["exp_avg", "exp_avg_sq"]> {
  let summary = "AdamW with decoupled weight decay (arXiv 1711.05101), as torch.optim.AdamW";
  let description = [{
    Constraints, as torch.optim.AdamW has them:
    - (C1) All numbers are finite `f64` and not negative.
    - (C2) `beta1` and `beta2` are below 1.
  }];
}

def Fcdp_SGDAttr : Fcdp_Optimizer<"SGD", "sgd", [
    Setting<"lr", "1e-3">, Setting<"momentum", "0">,
    Setting<"dampening", "0", !strconcat("-", anyNumber)>, Setting<"weight_decay", "0">,
    Flag<"nesterov", "0">], ["momentum_buffer"]> {
  let summary = "stochastic gradient descent, as torch.optim.SGD";
  let description = [{
    Constraints, as torch.optim.SGD has them:
    - (C1) All numbers are finite `f64`; all but `dampening` are not negative.
    - (C2) `nesterov` needs `momentum` and no `dampening`.
  }];
  let statesUnless = "getMomentum().getValueAsDouble() == 0";
  let conflict = Conflict<[{nesterov && (momentum.getValueAsDouble() == 0 ||
                                         dampening.getValueAsDouble() != 0)}],
                          "'nesterov' needs momentum and no dampening",
                          "'nesterov' needs a momentum and no dampening">;
  let planTable = "Sgd";
}

// The defaults are those of its authors.
def Fcdp_LionAttr : Fcdp_Optimizer<"Lion", "lion", [
    Setting<"lr", "1e-4">, Beta<"beta1", "0.9">, Beta<"beta2", "0.99">,
    Setting<"weight_decay", "0">], ["exp_avg"]> {
  let summary = "Lion (arXiv 2302.06675): the sign of the momentum, with decoupled weight decay";
  let description = [{
    Constraints:
    - (C1) All numbers are finite `f64` and not negative.
    - (C2) `beta1` and `beta2` are below 1.
  }];
}

} // defset optimizers

#endif // FCDP_FCDP_OPTIMIZERS
