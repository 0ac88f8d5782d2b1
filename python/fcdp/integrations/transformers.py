# SPDX-License-Identifier: Apache-2.0
"""A Trainer of Transformers whose steps are compiled. It overrides documented methods, and patches nothing of it."""

import contextlib
import itertools
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import convert_outputs_to_fp32, find_batch_size
from torch import nn
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import EvalLoopOutput, get_last_checkpoint, has_length

import fcdp
from fcdp.call import replaced_forward
from fcdp.errors import StepError
from fcdp.integrations.training_arguments import check_arguments, refuse
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
_OWN_OPTIONS = ("optimizer", "micro_batches", "loss_fn", "eval_inputs", "seed")
# Batches of an evaluation that are in memory at the same time.
_EVALUATED_TOGETHER = 64


class CompiledTrainer(Trainer):
    """Takes the arguments of Trainer, and trains with a step of fcdp.compile.

    step_options: further arguments of fcdp.compile, such as {"strategy": "hsdp", "options": ["--master=f32"]}.

    Forward pass, `compute_loss`, backward pass, clipping and update of all micro-batches are one compiled step, which
    the last `training_step` before an update runs. The data, the learning rate, logs, callbacks, evaluations and
    checkpoints are the Trainer's. Settings that a compiled step cannot honour raise StepError. `step` is the open step,
    or None.
    """

    def __init__(self, *args: Any, step_options: Mapping[str, Any] | None = None, **kwargs: Any):
        for name in ("compute_metrics", "preprocess_logits_for_metrics"):
            if kwargs.get(name) is not None:
                refuse(name, kwargs[name], "leave it out: a compiled evaluation returns the loss alone")
        super().__init__(*args, **kwargs)
        check_arguments(self.args)
        load_library()
        ranks = find_launch().num_ranks
        if ranks != self.args.world_size:
            text = f"expected {ranks} processes, as the launcher started, got {self.args.world_size}, which Accelerate knows of"
            raise StepError("misuse", f"{text}: start the script with torchrun, which sets RANK and WORLD_SIZE")
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            refuse("accelerate's configuration", "FSDP or DeepSpeed", "start the script with torchrun")
        self._options = dict(step_options or {})
        for name in _OWN_OPTIONS:
            if name in self._options:
                refuse(f"step_options['{name}']", self._options[name], "set what TrainingArguments have for it")
        self.step: fcdp.Step | None = None
        self._optimizer: list[str] = []
        self._rates: list[float] = []
        self._micro_batches: list[dict[str, Any]] = []
        self._resumed: Path | None = None
        self._data_seed: int | None = None
        self._has_run_folder = False
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

    def training_step(self, model: nn.Module, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Returns the loss of all micro-batches, for the last of them, and 0 for the others."""
        # Trainer.training_step does it, too: a model of from_pretrained is in evaluation mode before.
        self.model.train()
        self._micro_batches.append(_example(inputs, num_items_in_batch))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        batches, self._micro_batches = self._micro_batches, []
        step = self.step or self._compile(batches[0])
        step.learning_rate = self._rate()
        try:
            loss = step.run(batches)
        except StepError as error:
            raise _with_hint(error) from None
        return loss.to(self.args.device, torch.float32)

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        if description == "Prediction":
            raise StepError("misuse", "predict: a compiled step returns the loss alone; save the model, and use Trainer")
        self.callback_handler.eval_dataloader = dataloader
        state, sums, rows = self.accelerator.gradient_state, torch.zeros(2, dtype=torch.float64), 0
        batches: list[dict[str, Any]] = []
        counts: list[int] = []
        for inputs in dataloader:
            batches.append(self._evaluated(inputs))
            counts.append(find_batch_size(inputs) or 1)
            if state.end_of_dataloader and state.remainder > 0:
                # The rest repeats rows of the beginning.
                counts[-1] = max(0, min(counts[-1], state.remainder - self.args.process_index * counts[-1]))
            rows += counts[-1]
            if len(batches) == _EVALUATED_TOGETHER:
                sums += self._evaluate_batches(batches, counts)
                batches, counts = [], []
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        if batches:
            sums += self._evaluate_batches(batches, counts)
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

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        raise StepError("misuse", "prediction_step: a compiled step returns the loss of an evaluation alone")

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "grad_norm" in logs:
            del logs["grad_norm"]  # The norm of parameters without gradients.
            if self.step is not None and "gradient_norm" in self.step.figures:
                logs["grad_norm"] = self.step.figures["gradient_norm"]
        super().log(logs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        if self.step is not None:
            values = self.step.state_dict()
            if self.step.rank == 0:
                self.model.load_state_dict(values)
        super().save_model(output_dir, _internal_call)
        if self.step is not None and _internal_call and not self.args.save_only_model:
            self._save_states(Path(output_dir or self.args.output_dir))

    def close(self) -> None:
        """Collective. Closes the step. `model` has the values that it had, or that were saved or loaded, since."""
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
        if self.eval_dataset is not None:
            arguments["eval_inputs"] = self._eval_example()
        if self._data_seed is None:
            self._data_seed = torch.random.initial_seed()
        # An evaluation may be what comes first.
        with in_mode(self.model, training=True), self._loss_as_forward():
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
        forward = model.forward
        if self.args.bf16:
            forward = convert_outputs_to_fp32(torch.autocast("cpu", torch.bfloat16)(forward))
        # Micro-batches are averaged.
        factor = self.args.gradient_accumulation_steps

        def loss(**inputs: Any) -> torch.Tensor:
            items, is_evaluation = inputs.pop(_ITEMS, None), inputs.pop(_EVALUATION, False)
            with replaced_forward(model, forward):
                value = self.compute_loss(model, inputs, num_items_in_batch=items)
            return value if is_evaluation or not self._is_scaled(items) else value * factor

        with replaced_forward(model, loss):
            yield

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

    def _evaluate_batches(self, batches: list[dict[str, Any]], counts: list[int]) -> torch.Tensor:
        """Collective. Returns the sum of the losses of this rank's rows, and how many they are."""
        step = self.step or self._compile(self._train_example())
        try:
            step.evaluate(batches)
        except StepError as error:
            raise _with_hint(error) from None
        losses, weights = torch.tensor(step.evaluation_losses), torch.tensor(counts, dtype=torch.float64)
        if self.args.logging_nan_inf_filter and losses.isfinite().any():
            losses, weights = losses[losses.isfinite()], weights[losses.isfinite()]
        return torch.stack(((losses * weights).sum(), weights.sum()))

    def _train_example(self) -> dict[str, Any]:
        if self.train_dataset is None:
            raise StepError("misuse", "evaluate: expected a train_dataset, as steps and evaluations are compiled together")
        inputs = _first_rows(self.get_train_dataloader(), self.args.train_batch_size, True)
        items = self.get_batch_samples(iter([inputs]), 1, self.args.device)[1]
        return _example(inputs, items)

    def _eval_example(self) -> dict[str, Any]:
        one = next(iter(self.eval_dataset)) if isinstance(self.eval_dataset, dict) else None
        inputs = _first_rows(self.get_eval_dataloader(one), self.args.eval_batch_size, self.args.world_size > 1)
        return self._evaluated(inputs)

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


def _with_hint(error: StepError) -> StepError:
    if error.code != "input mismatch":
        return error
    hint = "all batches have one shape: pad rows to one length (padding='max_length'), and set dataloader_drop_last=True"
    hint += "; in place of DataCollatorWithFlattening, use fcdp.integrations.packing.PaddedFlattening"
    return StepError(error.code, f"{error}; {hint}")
