# SPDX-License-Identifier: Apache-2.0
"""A Trainer of Transformers whose steps are compiled. It overrides documented methods, and patches nothing of it."""

import contextlib
import itertools
import math
import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast, convert_outputs_to_fp32, find_batch_size, gather_object
from torch import nn
from torch.utils.data import Sampler
from transformers import Trainer, TrainerCallback
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import EvalLoopOutput, get_last_checkpoint, has_length

import fcdp
from fcdp.call import replaced_forward
from fcdp.errors import StepError
from fcdp.integrations.lengths import Lengths, shapes_of
from fcdp.integrations.training_arguments import check_arguments, refuse, without_fsdp
from fcdp.loop.install import load_library
from fcdp.loop.job import find_launch
from fcdp.loop.optimizer import optimizer_options
from fcdp.modes import in_mode

# The folder of a checkpoint with the states of all ranks, and the one of a run in which it is written.
_STATES = "fcdp"
_ITEMS = "num_items_in_batch"
# A constant among the inputs of an evaluation. The mode of the model does not say it: `train` may be overridden.
_EVALUATION = "fcdp_evaluation"
# The Trainer's arguments decide these.
_OF_ARGUMENTS = "set what TrainingArguments have for it"
_OF_LENGTHS = "give CompiledTrainer lengths=[128, 256, ...] and pad={...}"
_OWN_OPTIONS = {
    **dict.fromkeys(("optimizer", "micro_batches", "loss_fn", "eval_inputs", "seed"), _OF_ARGUMENTS),
    **dict.fromkeys(("more_inputs", "pad"), _OF_LENGTHS),
}
# Batches of an evaluation that are in memory at the same time.
_EVALUATED_TOGETHER = 64
_ONE_SHAPE = (
    "all batches have one shape: give CompiledTrainer lengths=[128, 256, ...], to which rows are padded, or pad rows to one "
    "length (padding='max_length'); in place of DataCollatorWithFlattening, use fcdp.integrations.packing.PaddedFlattening; for "
    "the rows of a batch, set dataloader_drop_last=True"
)
# Why an evaluation of the loss is not compiled.
_PLAIN_EVALUATION = (
    "the step has no evaluation, so this runs in plain PyTorch on the processors: give CompiledTrainer an eval_dataset, and a "
    "train_dataset, with which it is compiled"
)


class CompiledTrainer(Trainer):
    """Takes the arguments of Trainer, and trains with a step of fcdp.compile.

    step_options: further arguments of fcdp.compile, such as {"strategy": "hsdp", "options": ["--master=f32"]}.
    lengths: the numbers of elements that rows may have, such as [128, 256, 512], for batches of several lengths: the
        step is exported and compiled for each, and runs in the smallest that the batches of all ranks fit into. For a
        model with an encoder and a decoder they are pairs, such as [(256, 64), (512, 128)].
    pad: the values with which inputs are padded up to a length, by name, such as {"weights": 0}. Tokens, labels, masks,
        types and positions are known (the pad token of `processing_class`, -100, 0, 0, 0). None: the input has no
        length.

    Forward pass, `compute_loss`, backward pass, clipping and update of all micro-batches are one compiled step, which
    the last `training_step` before an update runs. The data, the learning rate, logs, callbacks, evaluations and
    checkpoints are the Trainer's. Evaluations of the loss are compiled. Metrics and predictions need outputs, for which
    `model` runs in plain PyTorch with the step's values. Settings that a compiled step cannot honour raise StepError.
    `step` is the open step, or None.
    """

    def __init__(
        self,
        *args: Any,
        step_options: Mapping[str, Any] | None = None,
        lengths: Sequence[int | tuple[int, int]] = (),
        pad: Mapping[str, float | None] | None = None,
        **kwargs: Any,
    ):
        # Trainer's arguments begin with `model` and `args`.
        if len(args) > 1:
            args = (args[0], without_fsdp(args[1]), *args[2:])
        elif "args" in kwargs:
            kwargs["args"] = without_fsdp(kwargs["args"])
        super().__init__(*args, **kwargs)
        check_arguments(self.args)
        load_library()
        ranks = find_launch().num_ranks
        if ranks != self.args.world_size:
            text = f"expected {ranks} processes, as the launcher started, got {self.args.world_size}, which Accelerate knows of"
            raise StepError("misuse", f"{text}: start the script with torchrun, which sets RANK and WORLD_SIZE")
        # The Trainer's own hook cannot be traced.
        self.neftune_noise_alpha = None
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            refuse("accelerate's configuration", "FSDP or DeepSpeed", "start the script with torchrun")
        self._options = dict(step_options or {})
        for name in _OWN_OPTIONS:
            if name in self._options:
                refuse(f"step_options['{name}']", self._options[name], _OWN_OPTIONS[name])
        self._lengths = self._make_lengths(lengths, pad or {}) if lengths else None
        if pad and not lengths:
            raise StepError("misuse", f"pad: expected lengths=[...], up to which inputs are padded, beside {dict(pad)!r}")
        self.step: fcdp.Step | None = None
        self._optimizer: list[str] = []
        self._rates: list[float] = []
        self._micro_batches: list[dict[str, Any]] = []
        self._resumed: Path | None = None
        self._data_seed: int | None = None
        self._has_run_folder = False
        # The open step has these: shapes of its batches, the names of its frozen parameters, and whether `model` has
        # their values on all ranks.
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._eval_shapes: dict[str, tuple[int, ...]] = {}
        self._eval_rows: int | None = None
        self._frozen: set[str] = set()
        self._has_frozen = False
        self.add_callback(_CheckEpochs)

    # The methods that the Trainer's loop calls.

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        if resume_from_checkpoint is True:
            resume_from_checkpoint = get_last_checkpoint(self.args.output_dir) or True
        if resume_from_checkpoint or self.model_init is not None:
            self.close()
        self._resumed = Path(resume_from_checkpoint) if isinstance(resume_from_checkpoint, str) else None
        self._micro_batches = []
        done = super().train(resume_from_checkpoint, *args, **kwargs)
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            # The best values are in the model now.
            self.close()
        # Programs save or run the model itself after the training, for example `model.save_pretrained` of an adapter.
        self.update_model()
        return done

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """Makes the Trainer's optimizer, which has the learning rates of the schedule and makes no steps itself."""
        optimizer = super().create_optimizer(*args, **kwargs)
        if not self._optimizer:
            try:
                self._optimizer = optimizer_options(optimizer, self.model)
            except StepError as error:
                raise StepError(error.code, f"optim: {error}") from None
            self._rates = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
        # The Trainer does not wrap a model again that is wrapped.
        self.model_wrapped = _InLoop(self.model)
        return optimizer

    def get_train_dataloader(self) -> Any:
        if self._data_seed is None:
            return super().get_train_dataloader()
        # The open step has seeded the random state of each rank with a number of its own. The order of rows is common.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._data_seed)
            return super().get_train_dataloader()

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Sampler | None:
        sampler = super()._get_train_sampler(*args, **kwargs)
        if isinstance(sampler, LengthGroupedSampler):
            seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
            return _Common(sampler, lambda: seed + int(self.state.epoch or 0))
        return sampler

    def training_step(self, model: nn.Module, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Returns the loss of all micro-batches, for the last of them, and 0 for the others."""
        # Trainer.training_step does it, too: a model of from_pretrained is in evaluation mode before.
        self.model.train()
        self._micro_batches.append(_example(inputs, num_items_in_batch))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        batches, self._micro_batches = self._micro_batches, []
        if self.step is None:
            self._check_shapes(batches)
        step = self.step or self._compile(batches[0])
        step.learning_rate = self._rate()
        loss = step.run([self._lengths.fitted(batch) if self._lengths else _like(self._shapes, batch) for batch in batches])
        return loss.to(self.args.device, torch.float32)

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        loss_alone = self.args.prediction_loss_only if prediction_loss_only is None else prediction_loss_only
        if description == "Prediction" or not loss_alone or not self._can_evaluate():
            if description != "Prediction" and loss_alone and not self._needs_outputs() and self.args.process_index == 0:
                warnings.warn(f"evaluate: {_PLAIN_EVALUATION}", stacklevel=3)
            self.update_model()
            with replaced_forward(self.model, self._forward()):
                return super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        self.callback_handler.eval_dataloader = dataloader
        step = self.step or self._compile(self._train_example())
        state, sums, rows = self.accelerator.gradient_state, torch.zeros(2, dtype=torch.float64), 0
        batches: list[dict[str, Any]] = []
        counts: list[int] = []
        is_updated = False
        for inputs in dataloader:
            size = find_batch_size(inputs) or 1
            counted = size
            if state.end_of_dataloader and state.remainder > 0:
                # The rest repeats rows of the beginning.
                counted = max(0, min(size, state.remainder - self.args.process_index * size))
            rows += counted
            if size != self._eval_rows:
                # On one rank, the last batch has the rows that are left.
                if not is_updated:
                    self.update_model()
                is_updated = True
                sums += self._weighted([self._plain_loss(inputs)], [counted])
            else:
                batches.append(self._evaluated(inputs))
                counts.append(counted)
            if len(batches) == _EVALUATED_TOGETHER:
                sums += self._weighted(self._evaluate_batches(step, batches), counts)
                batches, counts = [], []
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        if batches:
            sums += self._weighted(self._evaluate_batches(step, batches), counts)
        sums = self.accelerator.reduce(sums)
        dataset = getattr(dataloader, "dataset", None)
        samples = len(dataset) if has_length(dataset) else rows * self.args.world_size
        if sums[1] == 0:
            raise StepError(
                "misuse",
                f"evaluate: expected {self.args.per_device_eval_batch_size} rows or more on each of {self.args.world_size} ranks, "
                f"got {samples} in all, which dataloader_drop_last drops: set per_device_eval_batch_size lower, or give more",
            )
        metrics = {f"{metric_key_prefix}_loss": (sums[0] / sums[1]).item()}
        return EvalLoopOutput(predictions=None, label_ids=None, metrics=metrics, num_samples=samples)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "grad_norm" in logs:
            del logs["grad_norm"]  # The norm of parameters without gradients.
            if self.step is not None and "gradient_norm" in self.step.figures:
                logs["grad_norm"] = self.step.figures["gradient_norm"]
        super().log(logs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        self._take_values(everywhere=False)
        super().save_model(output_dir, _internal_call)
        if self.step is not None and _internal_call and not self.args.save_only_model:
            self._save_states(Path(output_dir or self.args.output_dir))

    def update_model(self) -> None:
        """Collective. Gives `model` the values of the open step, on all ranks, for example to generate with it."""
        self._take_values(everywhere=True)

    def close(self) -> None:
        """Collective. Closes the step. `model` has the values of the last train, save_model or update_model."""
        if self.step is not None:
            self.step.close()
        self.step = None

    def end(self) -> None:
        self.close()
        super().end()

    # The step.

    def _compile(self, example: dict[str, Any]) -> fcdp.Step:
        """Collective. Opens the step on the values of the model, or on those of the checkpoint."""
        if not self._optimizer:
            self.create_optimizer()
        optimizer, *groups = self._optimizer
        clip = [f"--clip-norm={self.args.max_grad_norm}"] if self.args.max_grad_norm > 0 else []
        arguments = {**self._options, "options": [*groups, *clip, *self._options.get("options", ())]}
        if self._lengths:
            example, *arguments["more_inputs"] = self._lengths.examples(example)
            arguments["pad"] = self._lengths.pad if arguments["more_inputs"] else None
        self._shapes, self._eval_rows = shapes_of(example), None
        self._frozen = {name for name, value in self.model.named_parameters(remove_duplicate=False) if not value.requires_grad}
        # The step takes them from the model, unless it reads them from files.
        self._has_frozen = self._resumed is None and "weights" not in self._options
        if self.eval_dataset is not None and not self._needs_outputs():
            arguments["eval_inputs"], self._eval_rows = self._eval_example()
            self._eval_shapes = shapes_of(arguments["eval_inputs"])
        if self._data_seed is None:
            self._data_seed = torch.random.initial_seed()
        # An evaluation may be what comes first.
        with in_mode(self.model, training=True), self._loss_as_forward(), self._noise():
            step = fcdp.compile(
                self.model,
                example,
                optimizer=optimizer.removeprefix("--optimizer="),
                micro_batches=self.args.gradient_accumulation_steps,
                seed=self.args.seed,
                **arguments,
            )
        self._load_states(step)
        self.step = step
        return step

    @contextlib.contextmanager
    def _loss_as_forward(self) -> Iterator[None]:
        """Has the model return the Trainer's loss, until the context ends."""
        model = self.model
        forward = self._forward()
        # Micro-batches are averaged.
        factor = self.args.gradient_accumulation_steps

        def loss(**inputs: Any) -> torch.Tensor:
            items, is_evaluation = inputs.pop(_ITEMS, None), inputs.pop(_EVALUATION, False)
            with replaced_forward(model, forward):
                value = self.compute_loss(model, inputs, num_items_in_batch=items)
            return value if is_evaluation or not self._is_scaled(items) else value * factor

        with replaced_forward(model, loss):
            yield

    @contextlib.contextmanager
    def _noise(self) -> Iterator[None]:
        """Has the embedding of a model that is trained add the noise of NEFTune, until the context ends."""
        alpha = self.args.neftune_noise_alpha
        if alpha is None:
            yield
            return

        def add_noise(module: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
            if not module.training:
                return output
            most = alpha / math.sqrt(output.shape[1] * output.shape[2])
            return output + torch.empty_like(output).uniform_(-most, most)

        hook = self.model.get_input_embeddings().register_forward_hook(add_noise)
        try:
            yield
        finally:
            hook.remove()

    def _forward(self) -> Any:
        """Returns the model's forward under the Trainer's autocast."""
        forward = self.model.forward
        if not self.args.bf16:
            return forward
        return convert_outputs_to_fp32(torch.autocast("cpu", torch.bfloat16)(forward))

    def _make_lengths(self, lengths: Sequence[int | tuple[int, int]], pad: Mapping[str, float | None]) -> Lengths:
        config = getattr(self.model, "config", None)
        token = getattr(self.processing_class, "pad_token_id", None)
        if token is None:
            token = getattr(config, "pad_token_id", None) or 0
        main = getattr(self.model, "main_input_name", "input_ids")
        return Lengths(lengths, pad, token, main, bool(getattr(config, "is_encoder_decoder", False)))

    def _check_shapes(self, batches: Sequence[Mapping[str, Any]]) -> None:
        """Collective. Refuses batches that differ, or are too long, before anything is compiled.

        They are those of the first step, and one of the data's last rows.
        """
        first, *others = gather_object([shapes_of(batch) for batch in (*batches, *self._last_batch())])
        if self._lengths:
            self._lengths.examples(batches[0])
            for shapes in (first, *others):
                self._lengths.fit(shapes)
            return
        for shapes in others:
            _check_same(first, shapes)

    def _last_batch(self) -> list[Mapping[str, Any]]:
        """Returns a batch of the last rows, or none if rows are padded or the program has its own data loader."""
        is_own = type(self).get_train_dataloader is not CompiledTrainer.get_train_dataloader
        if self._lengths or is_own or not has_length(self.train_dataset):
            return []
        with _same_random_numbers():
            loader = self.get_train_dataloader()
            count = len(loader.dataset)
            rows = [loader.dataset[i] for i in range(max(0, count - self.args.train_batch_size), count)]
            try:
                return [loader.collate_fn(rows)]
            except Exception:  # The run may end before these rows, and names the fault if it does not.
                return []

    def _is_scaled(self, items: Any) -> bool:
        """Whether the loss is a part of that of all micro-batches, by the rule of Trainer.training_step."""
        given = getattr(self, "loss_is_scaled_for_ga", None)
        if given is not None:
            return given
        return (self.model_accepts_loss_kwargs and items is not None) or self.compute_loss_func is not None

    def _rate(self) -> float:
        groups = self.optimizer.param_groups
        rate, base = groups[0]["lr"], self._rates[0]
        factors = [(group["lr"] * base, rate * own) for group, own in zip(groups, self._rates)]
        if not all(math.isclose(one, other, rel_tol=1e-6) for one, other in factors):
            raise StepError("misuse", "lr_scheduler: expected one factor for the learning rates of all parameter groups")
        return float(rate)

    # Evaluations.

    def _evaluated(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        example = _example(inputs, self.get_batch_samples(iter([inputs]), 1, self.args.device)[1])
        return {**example, _EVALUATION: True}

    def _evaluate_batches(self, step: fcdp.Step, batches: list[dict[str, Any]]) -> list[float]:
        """Collective. Returns the losses of this rank's batches."""
        step.evaluate([self._lengths.longest(batch) if self._lengths else _like(self._eval_shapes, batch) for batch in batches])
        return step.evaluation_losses

    def _weighted(self, losses: list[float], counts: list[int]) -> torch.Tensor:
        """Returns the sum of the losses of rows, and how many they are."""
        values, weights = torch.tensor(losses, dtype=torch.float64), torch.tensor(counts, dtype=torch.float64)
        if self.args.logging_nan_inf_filter and values.isfinite().any():
            values, weights = values[values.isfinite()], weights[values.isfinite()]
        return torch.stack(((values * weights).sum(), weights.sum()))

    def _needs_outputs(self) -> bool:
        """Whether the Trainer's evaluations need more than the loss that a compiled evaluation returns."""
        is_own = type(self).prediction_step is not Trainer.prediction_step
        return is_own or self.compute_metrics is not None and not self.args.prediction_loss_only

    def _can_evaluate(self) -> bool:
        """Whether the step has an evaluation, or will have."""
        if self._needs_outputs():
            return False
        if self.step is None:
            return self.train_dataset is not None and self.eval_dataset is not None
        return self._eval_rows is not None

    def _plain_loss(self, inputs: Mapping[str, Any]) -> float:
        with replaced_forward(self.model, self._forward()), in_mode(self.model, training=False):
            return super().prediction_step(self.model, inputs, prediction_loss_only=True)[0].item()

    def _take_values(self, everywhere: bool) -> None:
        """Collective. Gives `model` on rank 0, or on all ranks, the values of the step, one by one."""
        if self.step is None:
            return
        own = dict(self.model.named_parameters(remove_duplicate=False))
        own.update(self.model.named_buffers(remove_duplicate=False))
        for names, value in self.step.each_value(but=self._frozen if self._has_frozen else ()):
            if everywhere and self.step.num_ranks > 1:
                value = torch.empty_like(own[names[0]], device="cpu").contiguous() if value is None else value.contiguous()
                broadcast(value.reshape(-1).view(torch.uint8))
            if value is not None:
                with torch.no_grad():
                    own[names[0]].copy_(value)
        self._has_frozen = self._has_frozen or everywhere

    def _train_example(self) -> dict[str, Any]:
        if self.train_dataset is None:
            raise StepError("misuse", "evaluate: expected a train_dataset, as steps and evaluations are compiled together")
        inputs = _first_rows(self.get_train_dataloader(), self.args.train_batch_size, True)
        items = self.get_batch_samples(iter([inputs]), 1, self.args.device)[1]
        return _example(inputs, items)

    def _eval_example(self) -> tuple[dict[str, Any], int]:
        """Returns a batch of the evaluation, and how many rows it has."""
        one = next(iter(self.eval_dataset)) if isinstance(self.eval_dataset, dict) else None
        inputs = _first_rows(self.get_eval_dataloader(one), self.args.eval_batch_size, self.args.world_size > 1)
        example = self._evaluated(inputs)
        return self._lengths.longest(example) if self._lengths else example, find_batch_size(inputs) or 1

    # Checkpoints.

    def _save_states(self, checkpoint: Path) -> None:
        """Collective. Puts the states of all ranks into a checkpoint's folder."""
        run = Path(self.args.output_dir) / _STATES
        if not self._has_run_folder:
            self.step.open_checkpoints(str(run))
            self._has_run_folder = True
        self.step.save()
        self.step.finish_save()
        if self.step.rank == 0:
            shutil.rmtree(checkpoint / _STATES, ignore_errors=True)
            os.replace(run / f"step-{self.step.num_steps:08d}", checkpoint / _STATES)

    def _load_states(self, step: fcdp.Step) -> None:
        """Collective. Goes on from the checkpoint that train() was given: one of CompiledTrainer, or of Trainer."""
        self._has_run_folder = False
        checkpoint, self._resumed = self._resumed, None
        if checkpoint is None:
            return
        if (checkpoint / _STATES).exists():
            step.resume(str(checkpoint / _STATES))
            return
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        states = {names[id(parameter)]: state for parameter, state in optimizer.state.items()}
        if not states and (checkpoint / "optimizer.pt").exists():
            step.fail(f"{checkpoint} has no folder '{_STATES}'")
            raise StepError("bad weights", f"{checkpoint}: expected a folder '{_STATES}': it was not saved whole")
        if states:
            step.load_optimizer_state_dict(states)
        optimizer.state.clear()


class _Common(Sampler):
    """The order of a sampler that draws from the common random state, on all ranks and after a resumption the same.

    An open step has seeded the random state of each rank with a number of its own.
    """

    def __init__(self, sampler: Sampler, seed: Callable[[], int]):
        self._sampler = sampler
        self._seed = seed

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed())
            return iter(list(self._sampler))


class _InLoop(nn.Module):
    """A stand-in for the model in the Trainer's loop, so that the loop neither wraps nor runs the model."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise StepError("misuse", "the Trainer's model does not run; its step is compiled")


class _CheckEpochs(TrainerCallback):
    """Refuses, before the first step, epochs whose last step would be smaller than the others."""

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any) -> None:
        if not has_length(train_dataloader):
            return
        batches, each = len(train_dataloader), args.gradient_accumulation_steps
        if state.max_steps < math.ceil(batches / each):
            return
        if batches % each:
            refuse(
                "gradient_accumulation_steps",
                each,
                f"choose a divisor of {batches}, the batches of an epoch, or max_steps below {math.ceil(batches / each)}",
            )
        rows = len(train_dataloader.dataset)
        if args.world_size == 1 and not args.dataloader_drop_last and rows % args.train_batch_size:
            refuse(
                "dataloader_drop_last",
                False,
                f"set it to True: the last of {rows} rows are less than per_device_train_batch_size={args.train_batch_size}",
            )


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Has the program draw the random numbers after it that it would draw without it."""
    others = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(others[0])
        np.random.set_state(others[1])


def _example(inputs: Mapping[str, Any], items: Any) -> dict[str, Any]:
    given = dict(inputs)
    if items is not None:
        given[_ITEMS] = torch.as_tensor(items, dtype=torch.float32).reshape(())
    return given


def _first_rows(loader: Any, rows: int, is_full: bool) -> Mapping[str, Any]:
    """Returns a batch of a data loader that is not begun. `is_full`: a short dataset is repeated."""
    dataset = loader.dataset
    if has_length(dataset):
        count = rows if is_full else min(rows, len(dataset))
        taken = [dataset[i % len(dataset)] for i in range(count)]
    else:
        taken = list(itertools.islice(iter(dataset), rows))
    with torch.random.fork_rng(devices=[]):
        return loader.collate_fn(taken)


def _like(shapes: Mapping[str, tuple[int, ...]], batch: dict[str, Any]) -> dict[str, Any]:
    """Returns a batch. Raises StepError if it has other shapes than the first one."""
    _check_same(shapes, shapes_of(batch))
    return batch


def _check_same(first: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    # The step names inputs that it lacks, or does not have.
    name = next((name for name in first if shapes.get(name, first[name]) != first[name]), None)
    if name is not None:
        text = f"'{name}': expected the shape of the first batch, {list(first[name])}, got {list(shapes[name])}; {_ONE_SHAPE}"
        raise StepError("input mismatch", text)
