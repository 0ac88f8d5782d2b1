// SPDX-License-Identifier: Apache-2.0
//
// The optimizers, a record each. From it come the attribute, its verifier, states,
// layout and costs, the settings that `--optimizer` reads, the choice of the
// parameters that it updates, the table of the plan, and Python's text of an
// optimizer (python/fcdp/optimizer_records.json, by scripts/generate-docs). The
// tables for C++ are in FcdpTables.td. Errors list optimizers in the order of this file.

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

// A setting, by PyTorch's name. Its text is a number in [least, below). Numbers
// and conditions are C++.
class Setting<string settingName, string defaultNumber, string leastNumber = "0",
              string belowNumber = anyNumber, string tupleName = ""> {
  string name = settingName;
  // The tuple in Python's class that the number is in; empty if it has its own name.
  string tuple = tupleName;
  // In Python: number, flag, count or word.
  string kind = "number";
  string default = defaultNumber;
  string least = leastNumber;
  string below = belowNumber;
  // The words that the text is one of, if it is no number.
  list<string> words = [];
  // A function of a number that has been read, and the error if it returns false.
  string isAllowed = "nullptr";
  string refusal = "";
  // The verifier's condition on the parameter, and the end of the error "expected
  // ..., got NUMBER" if it is false.
  string inRange = "";
  string rangeRule = "";

  AttrOrTypeParameter parameter = AttrParameter<"::mlir::FloatAttr", "">;

  // Calls a function of FcdpDialect.cpp.
  string checkNumber = "verifyNumber(emitError, \"" # name # "\", " # name # ", "
                       # least # ")";
}
class Beta<string name, string default> : Setting<name, default, "0", "1", "betas"> {
  let inRange = name # ".getValueAsDouble() < 1";
  let rangeRule = "a beta below 1";
}
class NotBelow<string name, string default, string least> : Setting<name, default, least> {
  let inRange = name # ".getValueAsDouble() >= " # least;
  let rangeRule = "'" # name # "' of at least " # least;
}
class NotAbove<string name, string default, string most>
    : Setting<name, default, !strconcat("-", anyNumber)> {
  let isAllowed = "[](double number) { return number <= " # most # "; }";
  let refusal = "expected '" # name # "' of at most " # most;
  let inRange = name # ".getValueAsDouble() <= " # most;
  let rangeRule = "'" # name # "' of at most " # most;
}
class Between<string name, string default, string least, string below>
    : Setting<name, default, least, below> {
  let inRange = name # ".getValueAsDouble() >= " # least # " && " # name
                # ".getValueAsDouble() < " # below;
  let rangeRule = "'" # name # "' of at least " # least # " and below " # below;
}
// A number of any sign.
class Signed<string name, string default, string tuple = "">
    : Setting<name, default, !strconcat("-", anyNumber), anyNumber, tuple>;
// A number, or null.
class Omittable<string name, string tuple>
    : Setting<name, "std::nullopt", "0", anyNumber, tuple> {
  let parameter = OptionalParameter<"::mlir::FloatAttr">;
  let checkNumber = "!" # name # " ? ::mlir::success() : verifyNumber(emitError, \""
                    # name # "\", " # name # ")";
}
// 0 or 1.
class Flag<string name, string default, string rule = "to be 0 or 1">
    : Setting<name, default, "0", "2"> {
  let kind = "flag";
  let isAllowed = "isWhole";
  let refusal = "expected '" # name # "' " # rule;
  let parameter = AttrParameter<"bool", "">;
  let checkNumber = "";
}
// A whole number from `leastCount` to `most`.
class Count<string name, string default, int most, int leastCount = 0>
    : Setting<name, default, !cast<string>(leastCount), !cast<string>(!add(most, 1))> {
  let kind = "count";
  let isAllowed = "isWhole";
  let refusal = "expected '" # name # "' to be a whole number";
  let inRange = name # " >= " # leastCount # " && " # name # " <= " # most;
  let rangeRule = "'" # name # "' from " # leastCount # " to " # most;
  let parameter = AttrParameter<"int64_t", "">;
  let checkNumber = "";
}
// A case of an enum. The first one is the default.
class Word<string name, EnumAttrInfo enum> : Setting<name, "0"> {
  let kind = "word";
  let words = !foreach(case, enum.enumerants, case.str);
  let parameter = EnumParameter<enum>;
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

// A method of an attribute, if it has a body.
class Method<string type, string signature, code body> {
  string declaration = !if(!empty(body), "", "  " # type # " " # signature # " const;\n");
  string definition = !if(!empty(body), "",
    type # " $cppClass::" # signature # " const {" # body # "}\n");
}

class Fcdp_Optimizer<string className, string optimizerName, list<Setting> theSettings,
                     list<Fcdp_StateRoleCase> theStates>
    : Fcdp_Attr<className, optimizerName, [OptimizerAttrInterface]> {
  string option = optimizerName;
  list<Setting> settings = theSettings;
  Conflict conflict = Conflict<>;
  list<Fcdp_StateRoleCase> states = theStates;
  // A condition under which there are no states.
  code statesUnless = "";

  // The kind of the layout of its buckets with the elements of a block, as
  // arguments of LayoutAttr::get. Element-wise optimizers need none.
  string layout = "";
  // A condition on the type of a `parameter` that it can update.
  code canUpdate = "";
  // Bodies of functions of `parameter`: getScratchBytes and getFlops of
  // OptimizerAttrInterface.
  code scratchBytes = "";
  code flops = "";
  // Bytes for each element: getScratchTraffic.
  string scratchTraffic = "";
  // multipliesInF32, and getMaxSide for states that are squares of sides.
  string inF32 = "";
  code maxSide = "";

  // The parameters that it updates unless a group says otherwise: those that it
  // can update with at least so many elements, or the matrices of hidden layers.
  string leastElements = "0";
  string onlyHiddenMatrices = "false";
  // Why there may be no such parameter.
  string unusedReason = "groups give all trained parameters to the other optimizer";

  // Whether `+` and an element-wise optimizer may follow, for the parameters that
  // this one does not update.
  string takesRest = "false";
  // The optimizer of the other parameters by default. Empty if this one updates
  // all of them.
  string rest = "";
  // Whether that one gets the settings of this one.
  string restHasSettings = "false";

  // The class in Python, and its flags that must be false.
  string pythonClass = "torch.optim." # className;
  list<string> withoutFlags = [];
  // An example for help texts.
  string example = "";
  // The table's class in the plan without its `T`, as flatc writes it.
  string planTable = className;

  let parameters = !dag(ins, !foreach(s, settings, s.parameter),
                        !foreach(s, settings, s.name));
  let genVerifyDecl = 1;
  list<string> numberChecks = !filter(check, !foreach(s, settings, s.checkNumber),
                                      !not(!empty(check)));
  list<Setting> ranges = !filter(s, settings, !not(!empty(s.inRange)));
  string verifyBody =
    !interleave(!foreach(check, numberChecks,
      "  if (::mlir::failed(" # check # "))\n    return ::mlir::failure();\n"), "")
    # !interleave(!foreach(s, ranges, "  if (!(" # s.inRange # "))\n"
      "    return emitError() << \"expected " # s.rangeRule # ", got \" << " # s.name
      # ";\n"), "")
    # !if(!empty(conflict.condition), "", "  if (" # conflict.condition
          # ")\n    return emitError() << \"" # conflict.ofAttribute # "\";\n")
    # "  return ::mlir::success();\n";
  list<Method> methods = [
    Method<"::llvm::SmallVector<::fcdp::StateRole>", "getStates()", "\n"
      # !if(!empty(statesUnless), "", "  if (" # statesUnless # ")\n    return {};\n")
      # "  return {" # !interleave(!foreach(s, states, "StateRole::" # s.symbol), ", ") # "};\n">,
    Method<"::mlir::Attribute", "getNeededLayout()", !if(!empty(layout), "",
      "\n  return LayoutAttr::get(getContext(), " # layout # ");\n")>,
    Method<"bool", "canUpdate(::mlir::RankedTensorType parameter)",
      !if(!empty(canUpdate), "", "\n  return " # canUpdate # ";\n")>,
    Method<"int64_t", "getScratchBytes(::mlir::RankedTensorType parameter)", scratchBytes>,
    Method<"double", "getFlops(::mlir::RankedTensorType parameter)", flops>,
    Method<"double", "getScratchTraffic()", !if(!empty(scratchTraffic), "",
      "\n  return " # scratchTraffic # ";\n")>,
    Method<"bool", "multipliesInF32()", !if(!empty(inF32), "",
      "\n  return " # inF32 # ";\n")>,
    Method<"int64_t", "getMaxSide()", !if(!empty(maxSide), "",
      "\n  return " # maxSide # ";\n")>];
  let extraClassDeclaration = !interleave(!foreach(m, methods, m.declaration), "");
  let extraClassDefinition = !interleave(!foreach(m, methods, m.definition), "")
    # "::llvm::LogicalResult $cppClass::verify(\n"
    # "    ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError, "
    # !interleave(!foreach(s, settings, s.parameter.cppType # " " # s.name), ", ")
    # ") {\n" # verifyBody # "}\n";
}

defvar adamwSettings = [
  Setting<"lr", "1e-3">, Beta<"beta1", "0.9">, Beta<"beta2", "0.999">,
  Setting<"eps", "1e-8">, Setting<"weight_decay", "1e-2">];

def Fcdp_AdjustLr : Fcdp_Enum<"AdjustLr", "the factor of Muon's learning rate for a "
    "matrix of A x B elements: sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B))", [
  I32EnumAttrCase<"original", 0>, I32EnumAttrCase<"match_rms_adamw", 1>]>;

defset list<Fcdp_Optimizer> optimizers = {

def Fcdp_AdamWAttr : Fcdp_Optimizer<"AdamW", "adamw", adamwSettings,
                                    [ExpAvgRole, ExpAvgSqRole]> {
  let summary = "AdamW with decoupled weight decay (arXiv 1711.05101), as torch.optim.AdamW";
  let description = [{
    Constraints, as torch.optim.AdamW has them:
    - (C1) All numbers are finite `f64` and not negative.
    - (C2) `beta1` and `beta2` are below 1.
  }];
  let withoutFlags = ["amsgrad", "maximize"];
  let example = "adamw,lr=1e-3,weight_decay=0";
}

def Fcdp_SGDAttr : Fcdp_Optimizer<"SGD", "sgd", [
    Setting<"lr", "1e-3">, Setting<"momentum", "0">,
    Signed<"dampening", "0">, Setting<"weight_decay", "0">, Flag<"nesterov", "0">], [MomentumBufferRole]> {
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
  let withoutFlags = ["maximize"];
  let example = "sgd,lr=0.1,momentum=0.9";
}

// The defaults are those of its authors.
def Fcdp_LionAttr : Fcdp_Optimizer<"Lion", "lion", [
    Setting<"lr", "1e-4">, Beta<"beta1", "0.9">, Beta<"beta2", "0.99">,
    Setting<"weight_decay", "0">], [ExpAvgRole]> {
  let summary = "Lion (arXiv 2302.06675): the sign of the momentum, with decoupled weight decay";
  let description = [{
    Constraints:
    - (C1) All numbers are finite `f64` and not negative.
    - (C2) `beta1` and `beta2` are below 1.
  }];
  let pythonClass = "fcdp.optimizers.Lion";
  let example = "lion,lr=1e-4";
}

// The defaults are those of its authors.
def Fcdp_AdEMAMixAttr : Fcdp_Optimizer<"AdEMAMix", "ademamix", [
    Setting<"lr", "1e-3">, Beta<"beta1", "0.9">, Beta<"beta2", "0.999">,
    Beta<"beta3", "0.9999">, Setting<"alpha", "2">,
    Count<"beta3_warmup", "0", 1000000000>, Count<"alpha_warmup", "0", 1000000000>,
    Setting<"eps", "1e-8">, Setting<"weight_decay", "0">],
    [ExpAvgRole, ExpAvgSqRole, MomentumBufferRole]> {
  let summary = "AdEMAMix (arXiv 2409.03137): AdamW with a second, slower average of gradients";
  let description = [{
    The slower average, `momentum_buffer`, counts `alpha` times. In the first
    `alpha_warmup` updates, that factor grows from 0, and in the first `beta3_warmup`
    updates, the half-life of the average grows from that of `beta1`.

    Constraints:
    - (C1) All numbers are finite `f64` and not negative.
    - (C2) `beta1`, `beta2` and `beta3` are below 1.
    - (C3) `beta3_warmup` and `alpha_warmup` are from 0 to 1,000,000,000.
  }];
  let pythonClass = "fcdp.optimizers.AdEMAMix";
}

def Fcdp_MuonAttr : Fcdp_Optimizer<"Muon", "muon", [
    Setting<"lr", "1e-3">, Setting<"weight_decay", "0.1">, Setting<"momentum", "0.95">,
    Flag<"nesterov", "1", "to be a whole number">,
    Signed<"ns_a", "3.4445", "ns_coefficients">, Signed<"ns_b", "-4.775", "ns_coefficients">,
    Signed<"ns_c", "2.0315", "ns_coefficients">, Setting<"eps", "1e-7">,
    Count<"ns_steps", "5", 99>, Word<"adjust_lr_fn", Fcdp_AdjustLr>],
    [MomentumBufferRole]> {
  let summary = "Muon (https://kellerjordan.github.io/posts/muon), as torch.optim.Muon";
  let description = [{
    The update of a matrix is its momentum, orthogonalized by `ns_steps` Newton-Schulz
    iterations of the polynomial a x + b x^3 + c x^5, in bf16. Parameters that it updates
    have two dimensions and are whole on the rank that owns them.

    Constraints, as torch.optim.Muon has them:
    - (C1) All numbers are finite `f64`; all but the coefficients are not negative.
    - (C2) `ns_steps` is from 0 to 99.
  }];
  let layout = "LayoutKind::owned, 0";
  let canUpdate = "parameter.getRank() == 2 && parameter.getNumElements() != 0";
  // Two copies of the iterated matrix, two of its product with its transpose, and
  // the norm.
  let scratchBytes = [{
    constexpr int64_t bf16 = 2;
    int64_t rows = parameter.getDimSize(0), columns = parameter.getDimSize(1);
    int64_t least = std::min(rows, columns);
    if (rows * columns == 0)
      return 0;
    return 2 * getScratch(rows * columns, bf16) + 2 * getScratch(least * least, bf16) +
           getScratch(1, bf16);
  }];
  // An iteration computes X X^T, its square, and the square times X.
  let flops = [{
    double least = std::min(parameter.getDimSize(0), parameter.getDimSize(1));
    double most = std::max(parameter.getDimSize(0), parameter.getDimSize(1));
    return getNsSteps() * (4 * least * least * most + 2 * least * least * least);
  }];
  let onlyHiddenMatrices = "true";
  let unusedReason = "no trained parameter is a matrix of a hidden layer, which "
    "embeddings and heads are not; a group may have 'optimizer'";
  let takesRest = "true";
  let rest = "adamw";
}

def Fcdp_AdamW8bitAttr : Fcdp_Optimizer<"AdamW8bit", "adamw8bit", adamwSettings,
    [ExpAvgCodeRole, ExpAvgScaleRole, ExpAvgSqCodeRole, ExpAvgSqScaleRole]> {
  let summary = "AdamW with moments in 8 bits (arXiv 2110.02861), as torchao.optim.AdamW8bit";
  let description = [{
    Each moment has a code of 8 bits for each element, and a scale, its greatest
    magnitude, for each block of 256 elements. Parameters that it updates are
    multiples of 256 elements.

    Constraints:
    - (C1) All numbers are finite `f64` and not negative.
    - (C2) `beta1` and `beta2` are below 1.
  }];
  let layout = "LayoutKind::blocks, kStateBlock";
  let canUpdate = "parameter.getNumElements() != 0 && "
                  "parameter.getNumElements() % kStateBlock == 0";
  // As in torchao.
  let leastElements = "4096";
  let unusedReason = "no trained parameter has 4096 elements or more in whole blocks "
    "of 256; a group may have 'optimizer'";
  let rest = "adamw";
  let restHasSettings = "true";
  let pythonClass = "fcdp.optimizers.AdamW8bit";
}

def Fcdp_AdafactorAttr : Fcdp_Optimizer<"Adafactor", "adafactor", [
    Setting<"lr", "1e-2">, NotAbove<"beta2_decay", "-0.8", "0">,
    // Null: the epsilon of the type that is updated.
    Omittable<"eps1", "eps">, Setting<"eps2", "1e-3", "0", anyNumber, "eps">,
    NotBelow<"d", "1", "1">, Setting<"weight_decay", "0">], [RowVarRole, ColVarRole, VarianceRole]> {
  let summary = "Adafactor (arXiv 1804.04235), as torch.optim.Adafactor";
  let description = [{
    The second moment of a parameter of two or more dimensions is the product of means
    over its last dimension, `row_var`, and over the dimension before it, `col_var`. Any
    other parameter has one number for each element, `variance`. Parameters are whole on
    the rank that owns them, because the update needs their root mean square and the
    root mean square of the update itself.

    Constraints, as torch.optim.Adafactor has them:
    - (C1) All numbers are finite `f64`; all but `beta2_decay` are not negative.
    - (C2) `beta2_decay` is not above 0, and `d` not below 1.
  }];
  let layout = "LayoutKind::whole, 0";
  // The memory is in f32, or f64 for a parameter in f64. It contains the update,
  // the states and their new values, the mean of each matrix, and 5 numbers of
  // the whole parameter.
  let scratchBytes = [{
    int64_t width = std::max<int64_t>(elementBytes(parameter.getElementType()), 4);
    int64_t elements = parameter.getNumElements(), rank = parameter.getRank();
    if (elements == 0)
      return 0;
    int64_t bytes = getScratch(elements, width) + 5 * getScratch(1, width);
    for (StateRole role : getStates())
      bytes += 2 * getScratch(countStateElements(role, parameter), width);
    if (rank >= 2)
      bytes += getScratch(countStateElements(StateRole::row_var, parameter) /
                              parameter.getDimSize(rank - 2), width);
    return bytes;
  }];
  // In f32: the update is written once, changed five times, and read twice. The
  // gradient is read twice more, and the parameter once.
  let scratchTraffic = "(1 + 2 * 5 + 2 + 2 + 1) * 4";
  let takesRest = "true";
  let withoutFlags = ["maximize"];
}

// The defaults are those of its authors.
def Fcdp_SOAPAttr : Fcdp_Optimizer<"SOAP", "soap", [
    Setting<"lr", "3e-3">, Beta<"beta1", "0.95">, Beta<"beta2", "0.95">,
    // Negative: `beta2`.
    Between<"shampoo_beta", "-1", "-1", "1">, Setting<"eps", "1e-8">,
    Setting<"weight_decay", "1e-2">,
    Count<"precondition_frequency", "10", 1000000000, 1>,
    Count<"max_precond_dim", "10000", 1000000>],
    [ExpAvgRole, ExpAvgSqRole, RowGgRole, ColGgRole, RowQRole, ColQRole]> {
  let summary = "SOAP (arXiv 2409.11321): Adam in the eigenbasis of Shampoo's preconditioner";
  let description = [{
    A matrix has an average of the outer products of its gradients for each side,
    `row_gg` and `col_gg`, and an orthogonal basis, `row_q` and `col_q`, near the
    eigenvectors of the average. `exp_avg` and `exp_avg_sq` are moments of gradients in
    these bases. A side longer than `max_precond_dim` has neither. The first update
    makes the bases and changes nothing else. Parameters that it updates have two
    dimensions and are whole on the rank that owns them.

    Constraints:
    - (C1) All numbers are finite `f64`; all but `shampoo_beta` are not negative.
    - (C2) `beta1`, `beta2` and `shampoo_beta` are below 1, and `shampoo_beta` is not
      below -1.
    - (C3) `precondition_frequency` is from 1 to 1,000,000,000, and `max_precond_dim`
      from 0 to 1,000,000.
  }];
  let layout = "LayoutKind::owned, 0";
  let canUpdate = "parameter.getRank() == 2 && parameter.getNumElements() != 0";
  let maxSide = "getMaxPrecondDim()";
  let inF32 = "true";
  // Three matrices in f32, a fourth for moments of another type, and two squares of the
  // longest side with a basis.
  let scratchBytes = [{
    constexpr int64_t f32 = 4;
    int64_t rows = parameter.getDimSize(0), columns = parameter.getDimSize(1);
    int64_t matrices = parameter.getElementType().isF32() ? 3 : 4, side = 0;
    if (rows * columns == 0)
      return 0;
    for (int64_t own : {rows, columns})
      if (own <= getMaxPrecondDim())
        side = std::max(side, own);
    return matrices * getScratch(rows * columns, f32) +
           2 * getScratch(side * side, f32) + getScratch(side, f32);
  }];
  // A gradient is rotated, the direction is rotated back, and each side has an outer
  // product. A refresh also rotates the first moment back and forth, multiplies the
  // average by the basis, and decomposes the product (14/3 operations for each element
  // of a cube in all).
  let flops = [{
    double rows = parameter.getDimSize(0), columns = parameter.getDimSize(1);
    double flops = 0;
    for (double side : {rows, columns})
      if (side <= getMaxPrecondDim())
        flops += 6 * side * rows * columns +
                 (4 * side * rows * columns + 14 * side * side * side / 3) /
                     getPreconditionFrequency();
    return flops;
  }];
  // In f32: two rotations of 4 accesses, 4 of outer products, 2 of the rotated gradient,
  // 13 of the second moment and the quotient, 3 of the direction.
  let scratchTraffic = "(2 * 4 + 4 + 2 + 13 + 3) * 4";
  let unusedReason = "no trained parameter is a matrix";
  let takesRest = "true";
  let rest = "adamw";
  let pythonClass = "fcdp.optimizers.SOAP";
  let example = "soap,precondition_frequency=10";
  let planTable = "Soap";
}

} // defset optimizers

#endif // FCDP_FCDP_OPTIMIZERS
