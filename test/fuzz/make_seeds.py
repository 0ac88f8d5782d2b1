# SPDX-License-Identifier: Apache-2.0
"""Makes seeds of archives: make_seeds.py FOLDER ARCHIVE...

Leaves out what the importer does not read, and weights where a seed would have more than 40,000 bytes.
"""

import json
import sys
import zipfile
from pathlib import Path

LIMIT = 40_000


def strip(model):
    graph = model["graph_module"]["graph"]
    for node in graph["nodes"]:
        node["metadata"] = {key: value for key, value in node["metadata"].items() if key == "custom"}
        del node["is_hop_single_tensor_return"]
    for meta in graph["tensor_values"].values():
        for key in ("strides", "storage_offset", "requires_grad", "device"):
            del meta[key]
    graph["inputs"], graph["outputs"] = [], []
    model["graph_module"]["module_call_graph"] = []
    return model


def make_seed(source, target):
    with zipfile.ZipFile(source) as file:
        entries = {name.partition("/")[2]: file.read(name) for name in file.namelist()}
    seed = {name: data for name, data in entries.items() if not name.startswith(("data/sample_inputs", ".data"))}
    model = json.loads(seed["models/model.json"])
    seed["models/model.json"] = json.dumps(strip(model), separators=(",", ":")).encode()
    if sum(map(len, seed.values())) > LIMIT - 4_000:
        seed = {name: data for name, data in seed.items() if not name.startswith("data/weights/weight")}
    with zipfile.ZipFile(target, "w") as file:
        for name, data in seed.items():
            file.writestr(zipfile.ZipInfo(f"step/{name}"), data)
    size = target.stat().st_size
    print(target, size, "too large" if size > LIMIT else "")


for archive in sys.argv[2:]:
    make_seed(Path(archive), Path(sys.argv[1]) / Path(archive).name)
