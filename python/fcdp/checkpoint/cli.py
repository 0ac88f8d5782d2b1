# SPDX-License-Identifier: Apache-2.0
"""The command line of fcdp-ckpt."""

import argparse
import contextlib
import io
import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from fcdp.checkpoint import describe, prune
from fcdp.checkpoint.atomic import check_place
from fcdp.checkpoint.compare import compare
from fcdp.checkpoint.convert import FORMATS, Options, convert
from fcdp.checkpoint.dcp_names import Prefixes
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.formats import open_checkpoint, open_complete
from fcdp.checkpoint.index import FILE_NAME
from fcdp.checkpoint.optimizer_groups import settings_of
from fcdp.checkpoint.runs import run_entries
from fcdp.checkpoint.transformers_names import DIRECTIONS
from fcdp.errors import printable_line
from fcdp.suggestions import did_you_mean

_FORMATS = """\
formats:
  a checkpoint of fcdp-run    a folder with index.json; the folder of a run means its latest one
  Hugging Face's weights      a .safetensors file, or a folder of such files, sharded or not
  PyTorch's distributed       a folder with .metadata, whose pickle is read without running code from it
  checkpoint (DCP)
"""
_EXIT_CODES = "exit code: 0 on success, 2 on an error"

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def program() -> int:
    """Runs the command of this process; returns its exit code."""
    signal.signal(signal.SIGTERM, _end)  # So that temporary files are removed.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # A reader such as `head` may end first.
    # A name in a file may have characters that the terminal has not.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        known = re.findall(r"--[a-z][a-z-]*", options.parser.format_help())
        name = unknown[0].partition("=")[0]
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{did_you_mean(name, known)}")
    try:
        return options.run(options)
    except CheckpointError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or options.path}: {error.strerror or error}")
    except KeyboardInterrupt:
        return 130


def _end(number: int, frame: Any) -> NoReturn:
    sys.exit(128 + number)


def _fail(message: str) -> int:
    print(f"fcdp-ckpt: error: {printable_line(message)}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fcdp-ckpt",
        description="Inspects, compares, converts and removes checkpoints.",
        epilog=f"{_FORMATS}\nexample: fcdp-ckpt inspect run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_inspect(commands)
    _add_diff(commands)
    _add_convert(commands)
    _add_prune(commands)
    return parser


def _add_command(commands: Any, name: str, run: Any, description: str, epilog: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=description[0].lower() + description.split(".")[0][1:],
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def _add_prefixes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model-prefix",
        metavar="KEYS",
        help="key of the model in a DCP folder's dictionary, dots between nested ones, '' if there is none "
        "(default: model; for reading, '' if there is no such key)",
    )
    parser.add_argument("--optimizer-prefix", metavar="KEYS", help="the same for the optimizer (default: optim)")


def _prefixes(options: argparse.Namespace) -> Prefixes | None:
    given = {"model": options.model_prefix, "optimizer": options.optimizer_prefix}
    given = {key: value for key, value in given.items() if value is not None}
    return Prefixes(**given) if given else None


def _check_prefixes(options: argparse.Namespace, *formats: str) -> None:
    if _prefixes(options) is not None and "dcp" not in formats:
        options.parser.error("--model-prefix and --optimizer-prefix are for DCP folders")


# --- inspect ---


def _add_inspect(commands: Any) -> None:
    parser = _add_command(
        commands, "inspect", _inspect,
        "Shows the contents of a checkpoint, or lists the checkpoints in the folder of a run.",
        f"{_FORMATS}\nexit code: 0, 1 if pieces of the checkpoint are missing or damaged, 2 on an error\n\n"
        "example: fcdp-ckpt inspect run/step-00000050 --states",
    )  # fmt: skip
    parser.add_argument("path", type=Path, metavar="PATH", help="a checkpoint, or the folder of a run")
    parser.add_argument("--states", action="store_true", help="list all states, not only totals")
    parser.add_argument("--json", action="store_true", help="print JSON, with all states")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read all data of a checkpoint of fcdp-run, or of all in a run, and compare it with its digests",
    )
    _add_prefixes(parser)


def _inspect(options: argparse.Namespace) -> int:
    path = options.path
    if path.is_dir() and not (path / FILE_NAME).is_file() and run_entries(path):
        _check_prefixes(options)
        run = describe.run_to_json(path, options.verify)
        _print(run, options.json, describe.describe_run(run))
        return int(any(entry["status"] == "damaged" for entry in run["checkpoints"]))
    checkpoint = open_checkpoint(path, _prefixes(options))
    _check_prefixes(options, checkpoint.format)
    if options.verify and checkpoint.format != "fcdp":
        options.parser.error("--verify is for checkpoints of fcdp-run; other formats have no digests")
    if options.verify:
        describe.verified(checkpoint)
    lines = describe.describe_checkpoint(checkpoint, options.states)
    _print(describe.checkpoint_to_json(checkpoint), options.json, lines)
    return int(bool(checkpoint.problems))


def _print(value: dict[str, Any], as_json: bool, lines: Any) -> None:
    print(json.dumps(value, indent=1) if as_json else "\n".join(map(printable_line, lines)))


# --- diff ---


def _add_diff(commands: Any) -> None:
    parser = _add_command(
        commands, "diff", _diff,
        "Compares two checkpoints by the names of their states, whatever their formats, ranks and layouts. States that "
        "one format has no place for are not compared, nor states of ranks that only one has.",
        f"{_FORMATS}\nexit code: 0 if all states are equal, 1 if not, 2 on an error\n\n"
        "example: fcdp-ckpt diff run/step-00000050 trained.safetensors --tolerance=1e-6",
    )  # fmt: skip
    parser.add_argument("path", type=Path, metavar="FIRST")
    parser.add_argument("second", type=Path, metavar="SECOND")
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="T",
        help="take states as equal if |a - b| <= T * max(|a|, |b|) for all elements, also of different types "
        "(default: types and bits must be equal)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_prefixes(parser)


def _tolerance(text: str) -> float:
    with contextlib.suppress(ValueError):
        if float(text) >= 0:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number of at least 0, got '{text}'")


def _diff(options: argparse.Namespace) -> int:
    first, second = (open_complete(path, _prefixes(options)) for path in (options.path, options.second))
    _check_prefixes(options, first.format, second.format)
    comparison = compare(first, second, options.tolerance)
    _print(describe.comparison_to_json(comparison), options.json, describe.describe_comparison(comparison))
    return 0 if comparison.is_equal else 1


# --- convert ---


def _add_convert(commands: Any) -> None:
    parser = _add_command(
        commands, "convert", _convert,
        "Writes a checkpoint in another format. Keeps one state in memory at a time. The output appears under its name "
        "when it is complete.",
        f"{_FORMATS}\n{_EXIT_CODES}\n\n"
        "example: fcdp-ckpt convert run trained --to=hf --shard-size=5GB --config=llama/config.json",
    )  # fmt: skip
    parser.add_argument("path", type=Path, metavar="IN", help="a checkpoint, or the folder of a run")
    parser.add_argument("out", type=Path, metavar="OUT", help="the file or folder to write, which must not exist")
    parser.add_argument(
        "--to",
        choices=FORMATS,
        required=True,
        help="format: a folder that Transformers loads, one safetensors file, a DCP folder, or a checkpoint of fcdp-run",
    )
    parser.add_argument("--only-trained", action="store_true", help="leave out frozen parameters and buffers")
    parser.add_argument(
        "--without-optimizer",
        action="store_true",
        help="leave out all states of training, such as those of the optimizer",
    )
    parser.add_argument("--strip-prefix", default="", metavar="TEXT", help="take TEXT from the beginning of names")
    parser.add_argument("--add-prefix", default="", metavar="TEXT", help="put TEXT before names")
    parser.add_argument(
        "--shard-size", type=_bytes, metavar="SIZE", help="hf: greatest size of a file, e.g. 5GB (default: one file)"
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="hf: the model's config.json, which is copied; --transformers reads it, too",
    )
    parser.add_argument(
        "--transformers",
        choices=DIRECTIONS,
        help="hf, safetensors: convert between the tensors that save_pretrained of Transformers 5 stores and those that its "
        "model has, which are the step's; the model is that of --config, or of IN's config.json. Keeps the tensors in "
        "memory that become others together, such as a layer's experts",
    )
    parser.add_argument(
        "--optimizer",
        type=_optimizer,
        metavar="TEXT",
        help="dcp: also write parameter groups with these settings, e.g. adamw,lr=1e-3 (default: none; load by "
        "DefaultLoadPlanner(allow_partial_load=True))",
    )
    parser.add_argument(
        "--like",
        type=Path,
        metavar="CHECKPOINT",
        help="fcdp: take names, ties and roles from this checkpoint of the same step; new optimizer states, if IN has "
        "none, are zero",
    )
    parser.add_argument("--step", type=_count, metavar="N", help="fcdp: optimizer steps done (default: those of IN, or 0)")
    _add_prefixes(parser)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)([KMG]i?B|)", text)
    try:
        size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    except ValueError:
        size = 0
    if size <= 0:
        raise argparse.ArgumentTypeError(f"expected a size such as 500MB or 5GB, got '{text}'")
    return size


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got '{text}'")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got '{text}'")
    return int(text)


def _optimizer(text: str) -> str:
    try:
        settings_of(text)
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _convert(options: argparse.Namespace) -> int:
    formats = {"shard_size": "hf", "config": "hf", "optimizer": "dcp", "step": "fcdp", "like": "fcdp"}
    for name, format_ in formats.items():
        reads_config = name == "config" and options.transformers is not None
        if getattr(options, name) is not None and options.to != format_ and not reads_config:
            options.parser.error(f"--{name.replace('_', '-')} needs --to={format_}")
    if options.without_optimizer and options.to in ("hf", "safetensors"):
        options.parser.error(f"--without-optimizer: --to={options.to} never has optimizer states")
    if options.transformers is not None and options.to not in ("hf", "safetensors"):
        options.parser.error("--transformers needs --to=hf or --to=safetensors")
    source = open_complete(options.path, _prefixes(options))
    like = open_complete(options.like) if options.like is not None else None
    _check_prefixes(options, source.format, options.to)
    # In a folder of weights, the source is a file; in the folder of a run, it is a folder.
    named = [options.path] if source.path.is_file() else []
    check_place(options.out, [*named, source.path, *([] if like is None else [like.path])])
    summary = convert(
        source,
        options.out,
        Options(
            format=options.to,
            only_trained=options.only_trained,
            without_optimizer=options.without_optimizer,
            strip_prefix=options.strip_prefix,
            add_prefix=options.add_prefix,
            shard_bytes=options.shard_size,
            config=options.config,
            prefixes=_prefixes(options),
            optimizer=options.optimizer,
            step=options.step,
            like=like,
            transformers=options.transformers,
        ),
    )
    left_out = f"; left out: {', '.join(summary.left_out)}" if summary.left_out else ""
    print(f"{options.out}: {summary.states} states, {summary.bytes:,} bytes{left_out}")
    return 0


# --- prune ---


def _add_prune(commands: Any) -> None:
    parser = _add_command(
        commands, "prune", _prune,
        "Removes all but the latest checkpoints of a run, and what crashes left of others. The best one of a run with "
        "--keep-best stays. A running job writes one folder *.partial at a time, so the one that was written to last "
        "stays.",
        f"{_EXIT_CODES}\n\nexample: fcdp-ckpt prune run --keep=3 --dry-run",
    )  # fmt: skip
    parser.add_argument("path", type=Path, metavar="RUN", help="the folder that --save-dir of fcdp-run names")
    parser.add_argument("--keep", type=_positive, required=True, metavar="N", help="number of checkpoints to keep")
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed, and remove nothing")
    parser.add_argument("--force", action="store_true", help="remove all folders *.partial: no job is running")


def _prune(options: argparse.Namespace) -> int:
    removals = prune.plan_removals(options.path, options.keep, options.force)
    done = removals if options.dry_run else prune.remove(options.path, removals)
    for removal in done:
        print(f"{'would remove' if options.dry_run else 'removed'} {removal.path} ({removal.reason}, {removal.bytes:,} bytes)")
    return 0
