# SPDX-License-Identifier: Apache-2.0
"""Reads modules in MLIR's generic form, as far as fcdp's dialects need it."""

import functools
import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<symbol>@(?:"[^"]*"|[\w.$-]+))
    | (?P<type>(?:tensor|array)<[^<>]*>|!fcdp\.shard<tensor<[^<>]*>>|!fcdp\.token)
    | (?P<attr>\#[\w.]+)
    | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))
    | (?P<value>%[\w]+(?:\#\d+)?)
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<punct>->|[<>(){}\[\],:=^])
    )""",
    re.VERBOSE,
)


@dataclass
class Op:
    name: str
    results: list
    operands: list
    attrs: dict
    operand_types: list = field(default_factory=list)
    result_types: list = field(default_factory=list)
    body: list = None
    arguments: list = field(default_factory=list)
    kernel: object = None  # what runs it, made at its first run

    def result(self):
        return self.results[0]


class Parser:
    def __init__(self, text):
        text = re.sub(r"//[^\n]*", "", text).rstrip()
        self.tokens = []
        place = 0
        while place < len(text):
            match = TOKEN.match(text, place)
            if not match:
                raise SyntaxError(f"cannot read {text[place:place + 60]!r}")
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            place = match.end()
        self.at = 0

    def peek(self):
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text):
        if self.peek() != text:
            return False
        self.at += 1
        return True

    def expect(self, text):
        if not self.accept(text):
            raise SyntaxError(f"expected {text!r}, got {self.peek()!r}")

    def attribute(self):
        kind, text = self.next()
        if kind == "string":
            value = text[1:-1]
        elif kind == "symbol":
            value = text[1:].strip('"')
        elif kind == "number":
            value = float(text) if re.search(r"[.eE]", text[1:]) and "x" not in text else int(text, 0)
            if self.accept(":"):
                self.next()
        elif kind == "attr":
            value = self.dialect_attribute(text)
        elif text == "[":
            value = []
            while not self.accept("]"):
                value.append(self.attribute())
                self.accept(",")
        elif text == "(":  # a function type
            while not self.accept(")"):
                self.next()
            self.expect("->")
            self.types()
            value = "function"
        elif text == "{":
            value = self.dictionary("}")
        elif text in ("true", "false"):
            value = text == "true"
        else:  # a type or a word
            value = text
        return value

    def dialect_attribute(self, name):
        """`#fcdp<axis node>` gives "node", `#fcdp.buffer<...>` a dictionary."""
        if self.peek() != "<":
            return name
        self.expect("<")
        positional, named = [], {}
        while not self.accept(">"):
            if self.tokens[self.at][0] == "word" and self.tokens[self.at + 1][1] == "=":
                key = self.next()[1]
                self.expect("=")
                named[key] = self.attribute()
            elif self.accept("<"):  # `#fcdp<layout ragged<16>>`
                positional[-1] = (positional[-1], self.attribute())
                self.expect(">")
            else:
                positional.append(self.attribute())
            self.accept(",")
        if named:
            return named
        if name in ("#aten.operand", "#aten.operands"):
            return (name, *positional)
        return positional[-1] if name != "#fcdp.member" else tuple(positional)

    def dictionary(self, end):
        attrs = {}
        while not self.accept(end):
            key = self.next()[1]
            attrs[key.strip('"')] = self.attribute() if self.accept("=") else True
            self.accept(",")
        return attrs

    def types(self):
        if not self.accept("("):
            return [self.next()[1]]
        types = []
        while not self.accept(")"):
            types.append(self.next()[1])
            self.accept(",")
        return types

    def op(self):
        names, count = [], 1
        while self.tokens[self.at][0] == "value":
            names.append(self.next()[1])
            if self.accept(":"):
                count = int(self.next()[1])
            self.accept(",")
        if names:
            self.expect("=")
            if count > 1:
                names = [f"{names[0]}#{i}" for i in range(count)]
        op = Op(self.next()[1][1:-1], names, [], {})
        self.expect("(")
        while not self.accept(")"):
            op.operands.append(self.next()[1])
            self.accept(",")
        if self.accept("<"):
            self.expect("{")
            op.attrs.update(self.dictionary("}"))
            self.expect(">")
        if self.accept("("):
            self.expect("{")
            if self.accept("^"):
                op.arguments = self.arguments()
            op.body = self.block("}")
            self.expect(")")
        if self.accept("{"):
            op.attrs.update(self.dictionary("}"))
        self.expect(":")
        op.operand_types = self.types()
        self.expect("->")
        op.result_types = self.types()
        return op

    def arguments(self):
        """`bb0(%a: type, %b: type):`"""
        names = []
        self.next()
        self.expect("(")
        while not self.accept(")"):
            names.append(self.next()[1])
            self.expect(":")
            self.types()
            self.accept(",")
        self.expect(":")
        return names

    def block(self, end):
        ops = []
        while self.peek() is not None and not (end and self.accept(end)):
            ops.append(self.op())
        return ops


class Module:
    """Symbols by kind and name, and functions as lists of operations."""

    def __init__(self, text):
        module = Parser(text).block(None)[0]
        self.attrs = module.attrs
        self.functions, self.symbols = {}, {}
        # The tokens that each function takes, with their events, if they have any.
        self.arguments = {}
        for op in module.body:
            if op.name == "func.func":
                self.functions[op.attrs["sym_name"]] = op.body
                given = op.attrs.get("arg_attrs", [{}] * len(op.arguments))
                self.arguments[op.attrs["sym_name"]] = [
                    (name, attrs.get("fcdp.event")) for name, attrs in zip(op.arguments, given)]
            else:
                self.symbols.setdefault(op.name.split(".")[1], {})[op.attrs["sym_name"]] = op.attrs
        self.phase = self.attrs["fcdp.phase"]

    def of(self, kind):
        return self.symbols.get(kind, {})


@functools.cache
def shape_of(type_text):
    """Dimensions and element type of `tensor<2x4xf32>` or a shard of it."""
    inner = re.search(r"tensor<([^<>]*)>", type_text).group(1).split("x")
    return tuple(int(d) for d in inner[:-1]), inner[-1]
