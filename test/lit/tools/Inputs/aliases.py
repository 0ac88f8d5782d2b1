"""Writes MLIR texts with aliases, each of which names the one before."""


def chain(count: int, first: str, form: str) -> str:
    sign = first[0]
    lines = [first] + [f"{sign}a{i} = {form.format(f'{sign}a{i - 1}')}\n" for i in range(1, count)]
    return "".join(lines) + f"module attributes {{fcdp.x = {sign}a{count - 1}}} {{}}\n"


def write(name: str, text: str) -> None:
    with open(f"{name}.mlir", "w") as file:
        file.write(text)


write("deep", chain(30000, "#a0 = 1\n", "[{}]"))
write("types", chain(30000, "!a0 = i32\n", "tuple<{}>"))
write("places", chain(30000, '#a0 = loc("a")\n', 'loc("b"({}))').rsplit("module", 1)[0] + "module {} loc(#a29999)\n")
write("large", chain(60, "#a0 = 1\n", "[{0}, {0}]"))
write("word", "module attributes {\n  fcdp.x = tensor<" + "1x" * 200000 + "i32>} {}\n")
unit = '#a0 = loc("unit":1:1)\n#a1 = loc("block"(#a0))\n'
write("good", unit + "".join(f"module @m{i} {{}} loc(#a1)\n" for i in range(5000)))
