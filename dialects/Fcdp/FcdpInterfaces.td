// SPDX-License-Identifier: Apache-2.0
// The interfaces by which passes ask an operation without knowing its type.
#ifndef FCDP_FCDP_INTERFACES
#define FCDP_FCDP_INTERFACES

include "mlir/IR/Interfaces.td"

class Fcdp_OpInterface<string name, list<Interface> bases = []>
    : OpInterface<name, bases> {
  let cppNamespace = "::fcdp";
}

def OptimizerAttrInterface : AttrInterface<"OptimizerAttrInterface"> {
  let cppNamespace = "::fcdp";
  let description = [{
    An optimizer, which updates a rank's shard of parameters.
  }];
  let methods = [
    InterfaceMethod<"Returns the learning rate.", "::mlir::FloatAttr", "getLr">,
    InterfaceMethod<"Returns the weight decay.", "::mlir::FloatAttr", "getWeightDecay">,
    InterfaceMethod<[{
        Returns the states that the optimizer keeps of a bucket.
      }], "::llvm::SmallVector<::fcdp::StateRole>", "getStates">,
    InterfaceMethod<"Returns the name by which options call it.", "::llvm::StringRef",
      "getName", (ins), [{ return ConcreteAttr::getMnemonic(); }]>,
    InterfaceMethod<[{
        Returns the layout of the buckets that it updates, or null if any will do.
        Beside one that needs a layout there may be another one.
      }], "::mlir::Attribute", "getNeededLayout", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Returns whether it can update a parameter of this type.",
      "bool", "canUpdate", (ins "::mlir::RankedTensorType":$parameter), [{}],
      [{ return true; }]>,
    InterfaceMethod<[{
        Returns the bytes that the update of a parameter takes for its own results,
        besides the gradient in the type of the parameter.
      }], "int64_t", "getScratchBytes", (ins "::mlir::RankedTensorType":$parameter),
      [{}], [{ return 0; }]>,
    InterfaceMethod<[{
        Returns the bytes of memory traffic of its own results for each element of a
        parameter.
      }], "double", "getScratchTraffic", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<[{
        Returns the floating-point operations of products of matrices in the update
        of a parameter. Other work costs memory traffic alone.
      }], "double", "getFlops", (ins "::mlir::RankedTensorType":$parameter),
      [{}], [{ return 0; }]>,
    InterfaceMethod<"Returns whether these products are in f32, and not in bf16.",
      "bool", "multipliesInF32", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
        Returns the longest side of a matrix for which there are states that are
        squares of sides.
      }], "int64_t", "getMaxSide", (ins), [{}], [{ return 0; }]>,
  ];
}

def StreamedOpInterface : Fcdp_OpInterface<"StreamedOpInterface"> {
  let description = [{
    An operation that is issued on a stream. An operation without the attribute `stream`
    runs on `compute`.
  }];
  let methods = [
    InterfaceMethod<"Returns the attribute `stream`, or null.",
      "::fcdp::StreamAttr", "getStreamAttr">,
    InterfaceMethod<"Sets the attribute `stream`.",
      "void", "setStreamAttr", (ins "::fcdp::StreamAttr":$stream)>,
    InterfaceMethod<[{
        Returns the stream that the schedule issues the operation on. The
        default is the stream that the operation names.
      }], "::fcdp::Stream", "chooseStream", (ins), [{}], [{
        ::fcdp::StreamAttr stream = $_op.getStreamAttr();
        return stream ? stream.getValue() : ::fcdp::Stream::compute;
      }]>,
  ];
}

def BufferedOpInterface : Fcdp_OpInterface<"BufferedOpInterface"> {
  let description = [{
    An operation whose one result has a place in the device arena, which the
    plan gives it as `buffer`. The result is released once, or it lives in the
    memory of the state that `into` names. The operation may also need scratch
    memory, which the plan gives it as `scratch`. The verifier checks that both
    places, where given, are device memory of the right size.
  }];
  let methods = [
    InterfaceMethod<"Returns the place of the result, or null before planning.",
      "::fcdp::BufferAttr", "getBufferAttr">,
    InterfaceMethod<"Sets the place of the result.",
      "void", "setBufferAttr", (ins "::fcdp::BufferAttr":$buffer)>,
    InterfaceMethod<[{
        Returns the bytes of scratch memory that the operation needs, if it needs
        any. It is in use for as long as the memory of the first operand or, if
        that has no memory of its own, of the result.
      }], "std::optional<int64_t>", "getScratchBytes", (ins), [{}], [{
        return std::nullopt;
      }]>,
    InterfaceMethod<"Returns the place of the scratch memory, or null.",
      "::fcdp::BufferAttr", "getScratchAttr", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Sets the place of the scratch memory.",
      "void", "setScratchAttr", (ins "::fcdp::BufferAttr":$scratch), [{}], [{
        llvm_unreachable("the operation needs no scratch memory");
      }]>,
    InterfaceMethod<"Returns the state whose memory the result is, or null.",
      "::mlir::FlatSymbolRefAttr", "getIntoAttr", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Sets the state whose memory the result is.",
      "void", "setIntoAttr", (ins "::mlir::FlatSymbolRefAttr":$state), [{}], [{
        llvm_unreachable("the result is never the memory of a state");
      }]>,
  ];
  let verify = [{
    return ::fcdp::verifyPlaces(::llvm::cast<::fcdp::BufferedOpInterface>($_op));
  }];
}

def StorageOpInterface : Fcdp_OpInterface<"StorageOpInterface"> {
  let description = [{
    An operation that works on the storage of a parameter: on its bucket, on one
    of the bucket's states or, before there are buckets, on the parameter.
  }];
  let methods = [
    InterfaceMethod<"Returns the parameter, bucket or state that it names.",
      "::mlir::FlatSymbolRefAttr", "getStorageAttr">,
  ];
}

def UpdateOpInterface : Fcdp_OpInterface<"UpdateOpInterface"> {
  let description = [{
    An operation that updates the shard of a parameter or a bucket, or a piece of it.
  }];
  let methods = [
    InterfaceMethod<"Returns the parameter or bucket.",
      "::mlir::FlatSymbolRefAttr", "getTargetAttr">,
    InterfaceMethod<"Returns the factor on gradients.", "::llvm::APFloat", "getScale">,
    InterfaceMethod<"Returns the optimizer.", "::mlir::Attribute", "getOptimizer">,
    InterfaceMethod<"Returns the first element of the piece; null for a whole shard.",
      "::mlir::IntegerAttr", "getBeginAttr">,
    InterfaceMethod<"Returns the end of the piece; null for a whole shard.",
      "::mlir::IntegerAttr", "getEndAttr">,
  ];
  let extraSharedClassDeclaration = [{
    bool isOfPiece() { return $_op.getBeginAttr() != nullptr; }
    ::fcdp::OptimizerAttrInterface getSettings() {
      return ::llvm::cast<::fcdp::OptimizerAttrInterface>($_op.getOptimizer());
    }
  }];
}

def CollectiveOpInterface : Fcdp_OpInterface<"CollectiveOpInterface",
    [StreamedOpInterface, BufferedOpInterface, StorageOpInterface]> {
  let description = [{
    A collective over axes of the mesh. Each rank contributes its input and gets a
    result, as the collective's kind says. The interface verifies the symbols, the axes,
    the types and the sizes, in `verifySymbolUses`, so an operation has none of its own:
    it verifies what is particular to it in `verifyOwnSymbolUses`.
  }];
  let methods = [
    InterfaceMethod<"Returns what ranks do with the inputs of the others.",
      "::fcdp::CollectiveKind", "getKind">,
    InterfaceMethod<"Returns this rank's contribution.",
      "::mlir::Value", "getInput">,
    InterfaceMethod<"Returns what this rank gets.", "::mlir::Value", "getResult">,
    InterfaceMethod<"Returns the parameter or bucket that it serves.",
      "::mlir::FlatSymbolRefAttr", "getSourceAttr">,
    InterfaceMethod<"Returns the mesh.", "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"Returns the axes, outermost first.", "::mlir::ArrayAttr", "getAxes">,
    InterfaceMethod<"Returns whether the input is a gradient, not a parameter's copy.",
      "bool", "isOfGradient">,
    InterfaceMethod<"Returns the form in which it sends values.", "::fcdp::Wire", "getWire">,
    InterfaceMethod<"Returns the state that its code reads or writes, or null.",
      "::mlir::FlatSymbolRefAttr", "getMessageStateAttr">,
    InterfaceMethod<[{
        Verifies the constraints that other collectives do not have. The symbols and
        the axes are verified before, the types and sizes after.
      }], "::llvm::LogicalResult", "verifyOwnSymbolUses",
      (ins "::mlir::SymbolTableCollection &":$symbols), [{}], [{
        return ::mlir::success();
      }]>,
  ];
  let extraSharedClassDeclaration = [{
    bool isGather() {
      return $_op.getKind() == ::fcdp::CollectiveKind::allGather;
    }
    bool isReduction() {
      return $_op.getKind() == ::fcdp::CollectiveKind::reduceScatter;
    }
    /// Returns whether it is over `axis`, possibly among others.
    bool isOverAxis(::fcdp::Axis axis) {
      return ::fcdp::isOver($_op.getAxes(), axis);
    }
    /// Returns whether it sends coded messages, which are at most as long as
    /// their capacity instead of the payload.
    bool isCoded() { return $_op.getWire() != ::fcdp::Wire::raw; }
    /// Returns whether the result is the input, as over one rank without coding.
    bool hasItsInput() {
      return $_op.getInput().getType() == $_op.getResult().getType() &&
             $_op.getWire() == ::fcdp::Wire::raw;
    }
  }];
  let extraTraitClassDeclaration = [{
    ::llvm::LogicalResult
    verifySymbolUses(::mlir::SymbolTableCollection &symbols) {
      return ::fcdp::verifyCollective(
          ::llvm::cast<::fcdp::CollectiveOpInterface>($_op.getOperation()),
          symbols);
    }
  }];
  let extraClassDeclaration = [{
    /// Returns the payload: the bytes that a rank sends to each other rank along
    /// the axes. Requires flat tensors.
    int64_t getPartBytes();
    /// Returns the most bytes that a rank sends to each other rank along the
    /// axes: the payload, or the capacity of a coded message.
    int64_t getMostSentBytes();
  }];
}

def FetchOpInterface : Fcdp_OpInterface<"FetchOpInterface"> {
  let description = [{
    An operation of a fetch, which brings a parameter's copy to its use. A
    prefetch moves all operations of a fetch ahead.
  }];
  let methods = [
    InterfaceMethod<[{
        Returns whether the result is a copy, or a slice of one, that is
        gathered or loaded. Otherwise the operation prepares for that.
      }], "bool", "bringsCopy", (ins), [{}], [{ return false; }]>,
  ];
}

#endif // FCDP_FCDP_INTERFACES
