# SPDX-License-Identifier: Apache-2.0
"""Refuses settings of Transformers' TrainingArguments that a compiled step cannot honour."""

import copy
import dataclasses
import warnings
from typing import Any

from fcdp.errors import StepError

# Transformers' own loop honours these, or the compiled step does.
_HONOURED = frozenset(
    """
    output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate lr_scheduler_type
    lr_scheduler_kwargs warmup_steps optim optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon
    optim_target_modules gradient_accumulation_steps average_tokens_across_devices max_grad_norm
    label_smoothing_factor bf16 tf32 activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing
    gradient_checkpointing_kwargs neftune_noise_alpha logging_strategy logging_steps logging_first_step log_on_each_node
    logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica disable_tqdm report_to run_name
    project trackio_space_id trackio_bucket_id trackio_static_space_id eval_strategy eval_steps eval_delay
    per_device_eval_batch_size prediction_loss_only eval_on_start save_only_model save_strategy save_steps
    save_total_limit push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision
    load_best_model_at_end metric_for_best_model greater_is_better ignore_data_skip
    restore_callback_states_from_checkpoint full_determinism seed data_seed accelerator_config dataloader_drop_last
    dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor
    dataloader_multiprocessing_context dataloader_in_order remove_unused_columns label_names length_column_name
    eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics batch_eval_metrics
    ddp_backend ddp_timeout skip_memory_metrics use_cache do_train do_eval do_predict resume_from_checkpoint local_rank
    """.split()
)

# Seq2SeqTrainingArguments have these. The model itself generates, with the step's values.
_GENERATION = ("predict_with_generate", "generation_max_length", "generation_num_beams", "generation_config")

# These tune work of PyTorch that a compiled step does not have.
_WITHOUT_EFFECT = ("ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_static_graph", "torch_empty_cache_steps")

_STRATEGY = "leave it out, and choose how states are sharded by step_options={'strategy': ...}"
_COMPILED = "leave it out: the step is compiled already"

# The advice for each refused argument. Their defaults, and values that are false, are accepted.
_REFUSED = {
    "fp16": "use bf16=True, or a model in float16 with step_options={'options': ['--loss-scale=on', '--master=f32']}",
    "fp16_full_eval": "leave it out: evaluations have the types of steps",
    "bf16_full_eval": "leave it out: evaluations have the types of steps",
    "torch_compile": _COMPILED,
    "torch_compile_backend": _COMPILED,
    "torch_compile_mode": _COMPILED,
    "use_liger_kernel": "leave it out: its kernels are no operators of PyTorch",
    "liger_kernel_config": "leave it out: its kernels are no operators of PyTorch",
    "auto_find_batch_size": "set per_device_train_batch_size; step_options={'options': ['--device-memory=...']} says at "
    "once whether it fits",
    "enable_jit_checkpoint": "set save_steps: a signal reaches the ranks at different steps",
    "save_on_each_node": "let output_dir be a folder that all nodes share",
    "parallelism_config": _STRATEGY,
    "deepspeed": _STRATEGY,
    "ddp_broadcast_buffers": "leave it out: each rank has its own buffers, and rank 0's are saved",
    "debug": "leave it out: modules do not run in a compiled step",
}

# Arguments with some values that are honoured.
_PARTLY = ("use_cpu", "train_sampling_strategy", "fsdp", "fsdp_config")

# Keys of `fsdp_config` that ask for more than a way to shard.
_FSDP_REFUSED = {
    "cpu_offload": "leave it out: states stay on the device, and step_options={'strategy': 'fcdp'} keeps gathered parameters in "
    "host memory",
    "xla": "leave it out: a step runs on processors and on GPUs",
}


def without_fsdp(args: Any) -> Any:
    """Returns arguments without FSDP, whose work the compiled step does: a copy, or `args` if they do not ask for it.

    Checkpointing of FSDP's units becomes gradient checkpointing. How FSDP wraps modules and when it frees gathered
    parameters is not taken over: the plan of the step decides that. Warns so on rank 0. Raises StepError for what a
    compiled step cannot do.
    """
    if not getattr(args, "fsdp", None):
        return args
    config = args.fsdp_config or {}
    for key, advice in _FSDP_REFUSED.items():
        if config.get(key):
            refuse("fsdp_config", f"{key}={config[key]!r}", advice)
    if args.process_index == 0:
        warnings.warn("fsdp: FSDP is not used; the compiled step shards states as step_options={'strategy': ...} says", stacklevel=3)
    made = copy.copy(args)
    made.fsdp, made.fsdp_config, made.fsdp_plugin_args = None, None, None
    if config.get("activation_checkpointing"):
        # Transformers 5 has two names for it, and its trainer reads the newer one.
        made.activation_checkpointing = made.gradient_checkpointing = True
    return made


def check_arguments(args: Any) -> None:
    """Raises StepError that names settings that cannot be honoured, and what to use instead.

    Warns on rank 0 of those that have no effect.
    """
    idle = [name for name in _WITHOUT_EFFECT if getattr(args, name, None)]
    if idle and args.process_index == 0:
        warnings.warn(f"{', '.join(idle)}: no effect on a compiled step", stacklevel=3)
    refused = []
    for field in dataclasses.fields(args):
        value = getattr(args, field.name)
        if field.name in (*_HONOURED, *_PARTLY, *_GENERATION, *_WITHOUT_EFFECT) or _is_default(field, value):
            continue
        advice = _REFUSED.get(field.name, "leave it out: this version of fcdp does not know it")
        refused.append(_refusal(field.name, value, advice))
    if refused:
        raise StepError("misuse", "; ".join(refused))
    if args.device.type != "cpu":
        refuse("use_cpu", args.use_cpu, "set it to True: the step places its memory on the GPU itself")
    if args.train_sampling_strategy == "batch_rebalance":
        refuse("train_sampling_strategy", "batch_rebalance", "use 'group_by_length': all micro-batches have the same number of rows")
    if not args.accelerator_config.even_batches:
        refuse("accelerator_config", "even_batches=False", "leave it out: all ranks have as many batches")
    if (args.activation_checkpointing_kwargs or {}).get("offload"):
        refuse("activation_checkpointing_kwargs", "offload=True", "leave it out: activations stay on the device")
    if (args.activation_checkpointing_kwargs or {}).get("use_reentrant"):
        refuse("activation_checkpointing_kwargs", "use_reentrant=True", "set use_reentrant=False")


def refuse(name: str, value: Any, advice: str) -> None:
    """Raises StepError for an argument of the Trainer, or of its TrainingArguments."""
    raise StepError("misuse", _refusal(name, value, advice))


def _refusal(name: str, value: Any, advice: str) -> str:
    return f"{name}: a compiled step cannot honour {value!r}; {advice}"


def _is_default(field: "dataclasses.Field[Any]", value: Any) -> bool:
    # None becomes an empty list or dict in some of them.
    return not value and field.default is not True or value == field.default
