# SPDX-License-Identifier: Apache-2.0
"""Implements fcdp.compile."""

import itertools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fcdp.call import Call, LossFn, make_call
from fcdp.errors import StepError
from fcdp.loop.arguments import Arguments, describe_call
from fcdp.loop.cache import default_cache, place, read_step
from fcdp.loop.history import PROFILED_STEPS, StepWatch
from fcdp.loop.install import load_library
from fcdp.loop.job import Job, find_launch
from fcdp.loop.library import call
from fcdp.loop.optimizer import expect_steps, optimizer_options
from fcdp.loop.planning import plan_for
from fcdp.loop.step import Step, require_none_open
from fcdp.loop.weights import WeightPaths, find_files, load_files
from fcdp.suggestions import did_you_mean, with_suggestions
from fcdp.turns import one_at_a_time

if TYPE_CHECKING:
    from fcdp.loop.build import Built

_numbers = itertools.count()


@with_suggestions
@one_at_a_time()
def compile(
    model: nn.Module,
    example_inputs: Any,
    *,
    optimizer: str | torch.optim.Optimizer | Sequence[torch.optim.Optimizer] = "adamw",
    strategy: str | None = None,
    cluster: str | os.PathLike[str] | None = None,
    profile: str | os.PathLike[str] | None = None,
    micro_batches: int = 1,
    loss_fn: LossFn | None = None,
    eval_inputs: Any = None,
    more_inputs: Sequence[Any] = (),
    pad: Mapping[str, float] | None = None,
    options: Sequence[str] = (),
    weights: WeightPaths | Mapping[str, WeightPaths] | None = None,
    check: bool = True,
    cache: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    timeout: float | None = None,
    on_nonfinite: str = "stop",
    loss_scale: str | None = None,
    loss_weight: str | None = None,
    full_masks: Collection[str] = (),
    autocast: torch.dtype | None = None,
    network_interface: str = "",
    cuda_graphs: bool = False,
    deterministic: bool = False,
    reductions_by: str = "fcdp",
    state_path: str | os.PathLike[str] = "",
) -> Step:
    """Compiles a training step of `model` for the ranks that torchrun, mpirun or srun started, and opens it on each.

    Collective: all ranks call it with the same arguments. Rank 0 exports and compiles; the others get the result.

    example_inputs and loss_fn: one micro-batch and its loss, as fcdp.export takes them.
    eval_inputs: one batch of one rank for `step.evaluate`, whose shapes may differ. The model is evaluated in the mode
        of model.eval(), with the same loss_fn.
    more_inputs: further example inputs, each with greater shapes than the one before, for a step of several shapes:
        each step runs in the smallest shape into which the tensors of all ranks fit (docs/batches.md).
    pad: the values of elements with which tensors are padded up to that shape, by the input's name; 0 by default.
    optimizer: as fcdp-compile --optimizer takes it ("adamw,lr=1e-3"), or an AdamW, SGD or Adafactor of torch.optim, or
        Lion, AdEMAMix or AdamW8bit of fcdp.optimizers, over the model's parameters, or a torch.optim.Muon or
        fcdp.optimizers.SOAP over its matrices (or an Adafactor over some parameters) and another one over the rest,
        [muon, adamw]. Their settings and parameter groups are copied; their own step() is never called.
    strategy: where gathered parameters are kept, as fcdp-compile --strategy takes it: "fcdp", "zero3", "hsdp" and
        others. By default "auto", which plans the fastest step for the job's machines and links (docs/strategies.md). A
        job of one rank has no choice to make. The first job on some machines measures them, which takes 9 to 11 s
        on CPUs and up to 60 on GPUs; the results are kept in the cache. Two lines on rank 0's standard error name the
        choice. The variable FCDP_STRATEGY names a strategy for programs that do not.
    cluster: a description of the job's machines, for "auto" and in place of that measurement: a file (docs/cluster.md)
        or the name of a preset; by default FCDP_CLUSTER, if it is set.
    profile: a file for the times of this step's operations (docs/profile.md). If it is not there, steps 2 to 6 are
        timed and rank 0 writes it; if it is, the step is planned with its times in place of estimates. Without it, a
        step that "auto" plans does so with a file in the cache, and later jobs take it if they are faster with it.
    options: more options of fcdp-compile, such as "--clip-norm=1" or "--master=f32".
    weights: files or folders with the parameters' values, as fcdp-run --weights takes them. For a model of several
        models, a dict gives them by module: {"policy": FOLDER, "reference": FOLDER}. Folders of Transformers whose
        tensors are not the model's are converted, and need as much space in the cache until they are read.
        Warnings say which values are read from where, and which are converted. By default the values are the model's
        own, which must be equal on all ranks (use the same seed); a model of fcdp.empty_weights() has none.
    check: compare the step with eager PyTorch before it is compiled for the first time, as fcdp.export does.
    cache: a folder for compiled steps (by default FCDP_CACHE, or ~/.cache/fcdp). A step whose exported graph and
        options are the same is not compiled again.
    seed: rank r draws random numbers (dropout) from seed + r.
    threads: the number of threads of operators (by default the machine's cores divided by the ranks on it).
    timeout: how long to wait for other ranks, in seconds (by default 60 to meet, and 300 in a collective).
    on_nonfinite: what happens to a step whose loss or gradients are infinite or NaN: "stop" raises StepError, "skip"
        makes no update, "continue" makes it.
    loss_scale: how the loss is scaled, as fcdp-run --loss-scale takes it
        ("init=65536,growth=2,backoff=0.5,interval=2000" or "1024"), with options=["--loss-scale=on"]. By default as
        torch.amp.GradScaler does, or as the checkpoint says.
    loss_weight: the input whose sum is the weight of a micro-batch's loss, such as "attention_mask", as fcdp-compile
        --loss-weight takes it: losses, gradients and evaluations are weighted means. By default all micro-batches count
        alike.
    full_masks: inputs that are all ones in every micro-batch and evaluation, such as "attention_mask", as fcdp.export
        takes them. Attention needs no mask then, and a batch in which one has another element raises StepError.
    autocast: with torch.bfloat16, forward pass and loss run under torch.autocast with this type, in evaluations, too.
    deterministic: operators give the same bits in each run on the same device, as with fcdp-run --deterministic. This
        applies while the step runs; the process's own torch.use_deterministic_algorithms does not change.
    reductions_by: the library that sums gradients over GPUs: "fcdp", or "nccl" for NCCL's own reductions, whose bits
        depend on the machine.
    state_path: folders on local disks, "DIR[,DIR]", for optimizer states in files, which options=["--states=file"] asks
        for.

    Warns if a part of the model that is trained has dropout or batch norm in evaluation mode, of parameters that the
    loss of the example inputs does not depend on, and of updates that are too small for the type of parameters without
    masters.

    `model` is not changed and not needed any more. Raises ExportError and StepError.
    """
    require_none_open()
    _check_options(options)

    def call_of(inputs: Any) -> Call:
        return make_call(model, inputs, loss_fn, full_masks, autocast)

    example = call_of(example_inputs)
    _check_names(example, loss_weight, pad or {})
    files = None if weights is None else find_files(model, weights)
    load_library()
    job = Job(find_launch(), next(_numbers))
    examples = [example, *(call_of(inputs) for inputs in more_inputs)]
    evaluation = None if eval_inputs is None else call_of(eval_inputs)
    folder = Path(cache) if cache is not None else default_cache()
    # Steps of several shapes take several times, and timed steps are not launched as graphs.
    keeps_history = not more_inputs and not cuda_graphs
    planning = plan_for(job, model, strategy, cluster, options, folder, threads, network_interface)
    arguments = [
        f"--nodes={job.launch.nodes}",
        f"--ranks-per-node={job.launch.ranks_per_node}",
        f"--micro-batches={micro_batches}",
        *optimizer_options(optimizer, model),
        *([f"--loss-weight={loss_weight}"] if loss_weight is not None else []),
        # cuDNN's attention is not deterministic, and a measured GPU may choose it.
        *(["--compute-capability=8.0"] if deterministic and planning.is_measured else []),
        *options,
    ]
    built: list["Built"] = []

    def make() -> Path:
        # Loads PyTorch's tracing, which takes seconds, on rank 0 only.
        from fcdp.loop.build import build

        times = None if profile is None else Path(profile)
        made = build(model, example, arguments, folder, check, evaluation, examples[1:], planning, times, keeps_history)
        built.append(made)
        return made.path

    path = _on_all_machines(job, folder, make)
    is_profiled = job.first_makes("profile", lambda: b"no" if built[0].profile is None else b"yes") == b"yes"
    session = call(
        torch.classes.fcdp.Session,
        str(path),
        job.number,
        timeout,
        network_interface,
        threads,
        seed,
        cuda_graphs,
        on_nonfinite,
        loss_scale,
        {name: float(value) for name, value in (pad or {}).items()},
        deterministic,
        reductions_by,
        job.serves_store,
        PROFILED_STEPS if is_profiled else 0,
        os.fspath(state_path),
        {
            "optimizer": " ".join(optimizer_options(optimizer, model)),
            "strategy": planning.strategy,
            "micro_batches": str(micro_batches),
            "options": " ".join(options),
            "loss_weight": str(loss_weight),
            "full_masks": ", ".join(sorted(full_masks)),
            "autocast": str(autocast),
            "example_inputs": describe_call(example),
            "eval_inputs": "none" if evaluation is None else describe_call(evaluation),
            "more_inputs": "; ".join(describe_call(shape) for shape in examples[1:]),
            "weights": "those of the model" if weights is None else "files",
            "seed": str(seed),
            "cuda_graphs": str(cuda_graphs),
        },
    )
    job.forget()  # All ranks have it, or they could not have met.
    evaluated = None if evaluation is None else Arguments(evaluation, micro_batches=1)
    arguments_of_step = Arguments(examples[-1], micro_batches, may_be_smaller=len(examples) > 1)
    watch = StepWatch(built[0].profile, built[0].history, path.name) if built else None
    step = Step(session, arguments_of_step, job, evaluated, watch)
    expect_steps(optimizer)
    if files is None:
        step.load_model(model)
    else:
        load_files(step, model, files, job, folder)
    step.warn_of_lost_updates()
    return step


def _check_options(options: Sequence[str]) -> None:
    if isinstance(options, str):
        raise StepError("misuse", f"options: expected a list of texts, such as [{options!r}], got the text {options!r}")
    if any(option.startswith("--frozen") and option != "--frozen=off" for option in options):
        raise StepError(
            "misuse",
            "options: expected no '--frozen' for a model whose weights are set from its tensors, as a packed base has no "
            "such tensors; compile with fcdp-compile and train with fcdp-run",
        )


def _check_names(example: Call, loss_weight: str | None, pad: Mapping[str, float]) -> None:
    """Raises StepError if an argument names an input that the example does not have."""
    given = [("loss_weight", loss_weight)] if loss_weight is not None else []
    for argument, name in [*given, *(("pad", name) for name in pad)]:
        # The tensors of an input that is a container have its name, "_" and more.
        if not any(name == known or name.startswith(f"{known}_") for known in example.names):
            inputs = ", ".join(f"'{known}'" for known in example.names)
            suggestion = did_you_mean(name, example.names)
            raise StepError("misuse", f"{argument}: expected the name of an input among {inputs}; got '{name}'{suggestion}")


def _on_all_machines(job: Job, cache: Path, make: Callable[[], Path]) -> Path:
    """Collective. Returns the path, on this machine, of the file that `make` makes on rank 0."""
    made: list[Path] = []

    def name() -> bytes:
        made.append(make())
        return made[0].name.encode()

    path = cache / job.first_makes("name", name).decode()
    content = job.first_makes("object", lambda: made[0].read_bytes())
    if made:
        return made[0]
    return path if read_step(path) == content else place(path, content)
