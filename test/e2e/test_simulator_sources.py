# SPDX-License-Identifier: Apache-2.0
"""benchmarks/simulator: what its sources read, that a Llama's step is that of an export, and how errors are counted."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "simulator"))

import crossentropy  # noqa: E402
import footprint  # noqa: E402
import judge  # noqa: E402
import runs  # noqa: E402
import shapes  # noqa: E402
import validate  # noqa: E402
from fused_blocks import LigerLlama, PackedLlama, add_liger, pack  # noqa: E402
from judge import MEMORY, RATE, Result  # noqa: E402
from llama import Llama  # noqa: E402
from sources import deepcompile, foundry, internevo, llamafactory, llmq, nanotron, vectorlm, zeropp  # noqa: E402
from steps import BATCH, SEQUENCE, Steps, count_parameters, export, reshape  # noqa: E402
from simulation import Simulator  # noqa: E402
from test_simulator_validation import TOOLS, without_places  # noqa: E402


def tiny(**options) -> Llama:
    return Llama("tiny", 64, 4, 2, 96, 512, **options)


@pytest.mark.parametrize("options", [
    {"key_heads": 2, "bias": True, "tied": True},
    {"fused": True, "dtype": torch.bfloat16, "lora": 4, "adapted": "q v", "head_width": 32},
])  # fmt: skip
def test_reshaped_is_as_exported(options):
    exported = export(tiny(**options), 3, 128, TOOLS)
    reshaped = reshape(export(tiny(**options), BATCH, SEQUENCE, TOOLS), 3, 128)
    assert without_places(reshaped) == without_places(exported)


@pytest.mark.parametrize("name", validate.SOURCES)
def test_published_runs_are_in_the_repository(name: str) -> None:
    assert validate.load(name, validate.TABLES, re.compile("")).runs
    named = re.findall(r"^\| `(\w+\.csv)` ", (validate.TABLES / "README.md").read_text(), re.M)
    assert sorted(named) == sorted(file.name for file in validate.TABLES.glob("*.csv"))


@pytest.mark.parametrize("kind", [PackedLlama, LigerLlama])
def test_steps_in_parts_are_reshaped_as_exported(kind, tmp_path):
    """The loss is in 2 parts of the batch and 4 of each sequence."""
    shape = kind(**{**vars(tiny(key_heads=2, bias=True, fused=True, dtype=torch.bfloat16)), "chunks": (2, 4)})
    Steps(tmp_path, TOOLS).write(shape, 4, 64, tmp_path / "step.mlir")
    text = (tmp_path / "step.mlir").read_text()
    assert without_places(text) == without_places(export(shape, 4, 64, TOOLS))
    assert "tensor<32x512xbf16>" in text and "tensor<256x512xbf16>" not in text
    with pytest.raises(ValueError, match=r"expected a batch and a sequence that \(2, 4\) divide, got 3 and 64"):
        Steps(tmp_path, TOOLS).write(shape, 3, 64, tmp_path / "step.mlir")


@pytest.mark.parametrize("compute", [lambda *given: crossentropy.chunked_loss(*given, 3), crossentropy.fused_loss])
def test_fused_losses_are_the_cross_entropy(compute):
    torch.manual_seed(0)
    x, weight = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((4, 6, 8), (11, 8)))
    labels = torch.randint(0, 11, (4, 6))
    expected = torch.nn.functional.cross_entropy((x @ weight.t()).flatten(0, 1), labels.flatten())
    found = compute(x, weight, labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    # A loss that is scaled has scaled gradients.
    for ours, theirs in zip(torch.autograd.grad(3 * found, (x, weight)), torch.autograd.grad(3 * expected, (x, weight))):
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def test_packed_blocks_keep_what_llmq_allocates(tmp_path):
    """Per token and block, in bfloat16: 5 of the width, query, key and value, and 3 of the inner width
    (llama_run_state.cpp).

    In float32: the sum of exponentials of each head. The norms keep two numbers each; llmq keeps one.
    """
    kept = []
    for layers in (2, 6):
        shape = pack(Llama("tiny", 64, 4, layers, 96, 512, key_heads=2, bias=True, fused=True, dtype=torch.bfloat16), 1)
        step = Simulator(TOOLS, Steps(tmp_path / str(layers), TOOLS), tmp_path).run(shape, 4, 256, runs.preset("h100"), "--strategy=ddp",
                         "--nodes=1", "--ranks-per-node=2")  # fmt: skip
        kept.append(step["device_memory"]["in_use"]["activations"])
        (tmp_path / "tiny-packed-loss1-4-256.mlir").unlink()
    of_token = 2 * (5 * 64 + 8 * 16 + 3 * 96) + 4 * 4 + 2 * 2 * 2
    assert (kept[1] - kept[0]) / 4 / (4 * 256) == pytest.approx(of_token, rel=0.01)


@pytest.mark.parametrize("name, parameters", [
    # Billions of parameters, as in the models' configurations and papers
    ("llama2-7b", 6.738), ("llama2-13b", 13.016), ("llama2-70b", 68.977), ("llama3-8b", 8.030), ("llama3-70b", 70.554),
    ("mistral-7b", 7.242), ("gemma-2b", 2.506), ("qwen2.5-0.5b", 0.494), ("qwen2.5-1.5b", 1.544), ("qwen2.5-3b", 3.086),
    ("qwen2.5-7b", 7.616), ("qwen2.5-14b", 14.770), ("qwen2.5-32b", 32.764),
])  # fmt: skip
def test_models_have_the_published_number_of_parameters(name, parameters):
    assert count_parameters(shapes.llama(name)) / 1e9 == pytest.approx(parameters, abs=0.001)


def test_each_shape_has_an_export_of_its_own():
    given = [{}, {"dtype": torch.bfloat16}, {"fused": True}, {"lora": 8}, {"lora": 8, "adapted": "q v"}, {"loss": torch.bfloat16}]
    names = {shapes.llama("llama2-7b", **options).name for options in given}
    assert len(names) == len(given)
    mixtures = [{}, {"loads": (1, 1)}, {"loads": (2, 1)}, {"lora": 8}]
    assert len({shapes.mixtral("mixtral-8x7b", **options).name for options in mixtures}) == len(mixtures)


def test_nanotron_is_read_with_its_network(tmp_path):
    (tmp_path / "ultrascale_h100_busbw_256mb.csv").write_text(
        "collective,nodes,gpus,gb_s\nall_reduce,2,16,400\nall_gather,2,16,160\nreduce_scatter,2,16,150\n"
    )
    columns = "model,nodes,gpus,micro_batch,grad_accum,zero,seq,tok_s_per_gpu,gpu_mem_gb,ran"
    rows = ["1B,2,16,2,8,0,4096,38840,35.0,1", "1B,2,16,1,16,1,4096,37610,36.7,1", "1B,2,16,1,16,1,4096,,,0"]
    (tmp_path / "ultrascale_h100_dp_only.csv").write_text("\n".join([columns, *rows]))
    source = nanotron.load(tmp_path)
    replicated, sharded = source.runs
    assert source.left_out == ["1 runs that crashed or had too little memory: the source does not say which"]
    assert (replicated.batch, replicated.micro_batches, replicated.gpus) == (2, 8, 16)
    assert (replicated.rate, replicated.memory, replicated.counted) == (38840, 35 * 2**30, "allocated")
    assert [run.kept / count_parameters(run.shape) for run in source.runs] == [2 - 4, 2]
    assert "--strategy=ddp" in replicated.options and "--strategy=zero1" in sharded.options
    tables = [run.cluster["collectives"]["world"] for run in source.runs]
    assert tables[0] == {"all_gather": [[2**28, 2, 400e9]], "reduce_scatter": [[2**28, 2, 400e9]]}
    assert tables[1] == {"all_gather": [[2**28, 2, 160e9]], "reduce_scatter": [[2**28, 2, 150e9]]}


def test_llmq_leaves_out_what_no_plan_has(tmp_path):
    columns = "gpu,gpus,model,matmul_dtype,seq,micro_batch,grad_accum_implied,agg_tok_s_reported,flags"
    rows = ["H100,8,Qwen2.5-7B,bf16,1024,8,8,112000,--lmhead-chunks=2 --attn-bwd-chunks=2",
            "H100,8,Qwen2.5-7B,bf16,1024,8,8,112000,--lmhead-chunks=2 --offload-opt-m",
            "H100,8,Qwen2.5-7B,e4m3,1024,8,8,112000,", "Unknown,8,Qwen2.5-7B,bf16,1024,8,8,112000,"]  # fmt: skip
    (tmp_path / "llmq_native.csv").write_text("\n".join([columns, *rows]))
    source = llmq.load(tmp_path)
    (run,) = source.runs
    assert (run.rate, run.micro_batches, run.shape.chunks, run.shape.divided) == (14000, 8, (2, 1), (2, 1))
    assert run.kept == pytest.approx((2 - 4.5) * count_parameters(run.shape))
    assert run.in_place == {"aten._softmax.default": 8 / 2 * 1024 * 152064 * 2}
    assert run.cluster["local_sums"] == {"by": "product", "bytes": 2}
    assert [reason.split()[0] for reason in source.left_out] == ["1", "1", "1"]


def test_llmq_ran_the_attention_of_cudnn():
    plain, found = (cluster["device"]["attention"] for cluster in (runs.preset("h100"), llmq.describe_kernels("H100")))
    assert [keys for keys, _ in found["backward"]] == list(llmq.KEYS) == [keys for keys, _ in plain["backward"]]
    assert found["forward"][1] == [1024, pytest.approx(410 / 989, rel=1e-3)]
    assert found["backward"][1][1] / plain["backward"][1][1] == pytest.approx(408 / 260)
    assert llmq.describe_kernels("RTX4090")["device"] == runs.preset("rtx4090")["device"]


def test_llama_factory_has_rates_on_devices_and_verdicts_on_hosts(tmp_path):
    columns = "gpu,gpus,model,engine,seq,micro_batch,grad_accum,step_s,agg_tok_s,host_ram_gb,fits"
    rows = ["RTX4090,4,Qwen2.5-0.5B,none,1024,128,4,4.27,122784,,1",
            "RTX4090,1,Qwen2.5-3B,deepspeed_zero2_offload,1024,48,11,99.24,5448,,1",
            "RTX4090,1,Qwen2.5-7B,deepspeed_zero3_offload,1024,32,16,207.79,2523,,1",
            "RTX4090,4,Qwen2.5-32B,deepspeed_zero3_offload,1024,,,,,465.26,0"]  # fmt: skip
    (tmp_path / "llamafactory_4090.csv").write_text("\n".join([columns, *rows]))
    source = llamafactory.load(tmp_path)
    plain, alone, failed = source.runs
    assert [reason.split()[0] for reason in source.left_out] == ["2", "1"]
    assert (plain.rate, plain.has_fit, plain.fits_host, plain.shape.chunks) == (30696, True, None, (128, 1))
    assert plain.kept == (2 * 2 - 2 * 4) * count_parameters(plain.shape)
    assert (alone.rate, alone.has_fit, alone.fits_host) == (None, True, None)
    assert alone.kept == pytest.approx(2e9 - 6 * count_parameters(alone.shape))
    assert (failed.batch, failed.has_fit, failed.fits_host, failed.host) == (4, None, False, 500e9)
    assert failed.kept_on_host == 20 * count_parameters(failed.shape) > failed.host


def test_liger_chooses_chunks_by_vocabulary_and_width():
    """152,064 of 5,120 and 151,936 of 1,536: 30 and 99 chunks, of the next power of two of tokens."""
    large, small = (add_liger(shapes.llama(name), *sizes).chunks
                    for name, sizes in (("qwen2.5-14b", (20, 1024)), ("qwen2.5-1.5b", (32, 1024))))  # fmt: skip
    assert (large, small) == ((20, 1), (32, 2))  # of 1,024 and 512 tokens


@pytest.mark.parametrize("kept, fits", [(4e9, True), (6e9, False)])
def test_hosts_have_verdicts_of_their_own(kept, fits, capsys):
    run = make_run(fits_host=True, host=5e9, kept_on_host=kept)
    judgement = judge.Judgement()
    judge.compare(judgement, "source", run, {**STEP, "host_memory": {"bytes": 0}})
    (verdict,) = judgement.verdicts
    assert (verdict.where, verdict.predicted, verdict.needed) == ("host", fits, kept)
    judge.show_verdicts(judgement, ["source"])
    assert ("source: a run: host wrongly does not fit, by 20.0%" in capsys.readouterr().out) != fits


def test_network_replaces_what_the_preset_says():
    tables = {"all_gather": [[1e6, 1, 1e9]]}
    cluster = {
        "inter": {"bandwidth": 1e9, "latency": 1e-5, "sharing": "switch", "ranks_per_switch": 2},
        "collectives": {"world": tables, "local": tables},
    }
    assert runs.with_network(cluster, 5e9, "node") == {
        "inter": {"bandwidth": 5e9, "latency": 1e-5, "sharing": "node"},
        "collectives": {"local": tables},
    }


def test_llm_foundry_ran_a_loss_in_one_kernel():
    """Its backward pass has the logits and their gradient. PyTorch's has one more."""
    whole = "tensor<2x8x512xbf16>"
    text = export(replace(foundry.MODELS["125m"], name="tiny", width=64, heads=2, layers=1, vocabulary=512), 2, 8, TOOLS)
    assert "aten.logsumexp" in text and "nll_loss" not in text and f"-> {whole}" in text


def test_llm_foundry_ran_the_attention_of_its_time():
    curves = foundry.describe_attention("a100_80gb")
    assert curves["forward"][2] == [2048, pytest.approx(1.4 * 0.22)]
    assert curves["backward"][2] == [2048, pytest.approx(0.9 * 0.22)]
    # Forward and backward together, of which the backward pass has 2.5 times the operations
    assert 3.5 / (1 / 1.4 + 2.5 / 0.9) == pytest.approx(1, abs=0.01)


def result(published: float, predicted: float, **options) -> Result:
    return Result("source", "run", RATE, published, predicted, **options)


def test_errors_are_of_judged_rows_only():
    rows = [result(100, 110), result(100, 80), result(100, 130, unjudged="its batch is not known"), result(100, 100)]
    found = judge.spread(rows)
    assert (found.rows, found.median, found.bias) == (3, pytest.approx(0.1), pytest.approx(0))
    assert found.ninetieth == pytest.approx(0.18)
    assert found.covered is None
    assert judge.spread(rows[2:3]) is None


def test_ranges_hold_what_lies_between_their_ends():
    rows = [result(100, 110, low=100, high=120), result(100, 110, low=101, high=120), result(100, 90, low=80, high=99)]
    assert judge.spread(rows).covered == pytest.approx(1 / 3)


def test_a_range_is_that_of_inputs_and_model():
    row = result(100, 110, scenarios=[[1.05, 0.96], [1.02, 1.0]])
    assert not row.would_hold(0.02)  # 1.2816 * hypot(0.02, ln 1.05, ln 1.02) = 0.0717, and ln 1.1 = 0.0953
    assert row.would_hold(0.06)
    faster = result(110, 100, scenarios=[[1.5, 1.0]])  # no input makes the step shorter
    assert not faster.would_hold(0.07) and faster.would_hold(0.08)


def test_ranges_are_calibrated_by_the_other_sources():
    def row(source, published):
        return Result(source, "run", RATE, published, 100, scenarios=[[1.0, 1.0]])

    # ln 1.05 / 1.2816 = 0.038, ln 1.2 / 1.2816 = 0.142, ln 1.4 / 1.2816 = 0.263
    judgement = judge.Judgement([row("a", 105), row("a", 105), row("b", 120), row("c", 140), row("c", 105)])
    found = judge.calibrate_left_out(judgement, ["a", "b", "c"])
    assert [(one.source, one.model, one.share) for one in found] == [("a", 0.27, 1.0), ("b", 0.27, 1.0), ("c", 0.15, 0.5)]
    assert judge.average_share(found) == pytest.approx(0.8)
    assert judge.calibrate(judgement.results) == 0.15  # a and b whole and half of c are five of six


def test_runs_are_predicted_and_compared(tmp_path):
    simulator = Simulator(TOOLS, Steps(tmp_path, TOOLS), tmp_path)
    where = (tiny(), 2, 64, 1, 2, runs.preset("h100"), "eager")
    known = runs.Run("a run", *where, ("--strategy=zero3",), rate=1.0, memory=1e6, fits=True)
    refused = runs.Run("another", *where, ("--strategy=none",), rate=1.0)
    found = judge.judge(simulator, [runs.Source("source", [known, refused])])
    rate, peak = found.results
    assert (rate.quantity, peak.quantity) == (RATE, MEMORY)
    assert rate.predicted == pytest.approx(2 * 64 / rate.parts["seconds"])
    assert sum(peak.parts.values()) == pytest.approx(peak.predicted) and list(peak.parts) == ["planned", *footprint.PARTS[1:4]]
    assert [(verdict.published, verdict.predicted) for verdict in found.verdicts] == [(True, True)]
    assert found.verdicts[0].needed > peak.predicted and found.verdicts[0].capacity == 84.9e9
    assert rate.scenarios and rate.get_range(0.11) == pytest.approx((rate.low, rate.high))  # Spread.h has 0.11
    assert len(found.failures) == 1 and found.failures[0].startswith("source: another: fcdp-sim of tiny: ")


def make_run(program: str = "eager", flags: tuple[str, ...] = ("--strategy=zero3",), lora: int = 0, **options) -> runs.Run:
    return runs.Run("a run", tiny(lora=lora), 2, 64, 1, 2, runs.preset("h100"), program, flags, **options)


STEP = {"device_memory": {"bytes": 800, "reserved": {"context": 5, "communicators": 20, "workspace": 10, "allocator": 0}}}


@pytest.mark.parametrize("run, bytes_counted", [
    (make_run(counted="allocated"), 800 + 10),
    (make_run(counted="reserved"), 810 / 0.85),
    (make_run(counted="device"), 810 / 0.85 + 25),
    (make_run(counted="allocated", kept=-100), 700 + 10),
    (make_run(counted="allocated", kept=7, updating=900), 900 + 10),
    (make_run(counted="allocated", updating=700), 800 + 10),
    (make_run("graphs", counted="reserved"), 800 + 10),  # an engine that does not use PyTorch's allocator
])  # fmt: skip
def test_memory_is_what_a_source_counts(run, bytes_counted):
    assert sum(footprint.count(run, STEP).values()) == pytest.approx(bytes_counted)


@pytest.mark.parametrize("operation, planned", [("aten._softmax.default", 700), ("aten.mm.default", 800)])
def test_results_in_place_count_where_most_is_in_use(operation, planned):
    step = {"device_memory": {**STEP["device_memory"], "at": {"operation": operation}}}
    run = make_run(in_place={"aten._softmax.default": 100}, counted="allocated")
    assert sum(footprint.count(run, step).values()) == planned + 10


def test_one_rank_has_no_communicators():
    step = {"device_memory": {"bytes": 800, "reserved": {"context": 5, "workspace": 10}}}
    assert footprint.divide(make_run(), step)["communicators"] == 0


@pytest.mark.parametrize("run, fragments", [
    (make_run(), True),
    (make_run(flags=("--strategy=zero1",)), False),
    (make_run(flags=("--strategy=ddp", "--remat=none")), False),
    (make_run(flags=("--strategy=ddp", "--remat=unit")), True),
    (make_run(flags=("--strategy=ddp",), lora=8), True),
    (make_run("graphs"), False),
])  # fmt: skip
def test_sharding_recomputation_and_adaptation_fragment_memory(run, fragments):
    assert footprint.fragments(run) == fragments


def verdict(published: bool, needed: float) -> judge.Verdict:
    return judge.Verdict("source", f"needs {needed}", published, needed, 100)


def test_wrong_verdicts_are_counted_by_their_side_and_margin(capsys):
    near, far, misfit = verdict(False, 98), verdict(False, 90), verdict(True, 105)
    right = [verdict(True, 90), verdict(False, 120)]
    assert judge.find_wrong([near, far, misfit, *right], True) == [near, far]
    assert judge.find_wrong([near, far, misfit, *right], False) == [misfit]
    for verdicts, holds in (([near, misfit, *right], True), ([far, misfit, *right], False)):
        part = judge.judge_memory(judge.Judgement(verdicts=verdicts))
        assert [goal.holds for goal in part.goals] == [holds]
    judge.show_verdicts(judge.Judgement(verdicts=[far, misfit, *right]), ["source"])
    output = capsys.readouterr().out
    assert "needs 90: device wrongly fits, by 10.0%" in output and "needs 105: device wrongly does not fit, by 5.0%" in output


def test_a_verdict_is_open_if_the_allocator_decides():
    """Neither answer is wrong, and the goal asks for neither."""
    tight = [judge.Verdict("source", "tight", published, 110, 100, 15) for published in (True, False)]
    too_large = judge.Verdict("source", "too large", True, 130, 100, 15)
    assert [verdict.predicted for verdict in [*tight, too_large]] == [None, None, False]
    assert judge.find_wrong([*tight, too_large], True) == [] and judge.find_wrong([*tight, too_large], False) == [too_large]
    assert too_large.margin == pytest.approx(0.15)


def test_peaks_have_goals():
    peaks = [Result("source", f"{i}", MEMORY, 100, 100 + i) for i in (1, 2, 30)]
    assert [goal.holds for goal in judge.judge_memory(judge.Judgement(peaks)).goals] == [True, False]


def test_vectorlm_fits_before_its_first_update(tmp_path):
    columns = "model,gpu,gpus,sharding,mode,micro_batch,grad_accum,agg_tok_s_short_seq,fits"
    rows = ["Llama-2-13b,A40,2,FULL_SHARD,full,8,4,,0", "Llama-2-7b,A40,1,FULL_SHARD,full,8,4,47.6,1", "opt-350m,T4,1,FULL_SHARD,lora r8,8,4,571.471,1",
            "Llama-2-13b,T4,4,FULL_SHARD,lora r8,8,4,,0", "gemma-2b,T4,8,FULL_SHARD,lora r8,8,4,897.81,1", "Mixtral-8x7B,A100-SXM4-80GB,2,FULL_SHARD,full,8,4,275.459,1"]  # fmt: skip
    (tmp_path / "vectorlm_fit_a100_a40_t4.csv").write_text("\n".join([columns, *rows]))
    source = vectorlm.load(tmp_path)
    whole, alone, tiny_adapted, adapted, tied, mixture = source.runs
    assert source.left_out == []
    assert (whole.has_fit, tiny_adapted.has_fit, whole.rate) == (False, True, None)
    assert (whole.gpus, whole.shape.lora, tiny_adapted.shape.lora) == (2, 0, 8)
    assert "--optimizer=sgd" in whole.options
    assert "--wrap=module" in whole.options and "--wrap=unit" in adapted.options
    assert whole.kept == 0  # between two ranks, half of 4 bytes are as many as 2
    assert alone.kept == pytest.approx(-2 * 6.738e9, rel=1e-3)
    # Adapters leave the root gathered: the embedding, the head and the norm, or one matrix if they are tied.
    assert tiny_adapted.kept == 0
    assert adapted.kept == 2 * (2 * 32000 + 1) * 5120
    assert tied.kept == 2 * (256000 + 1) * 2048


def test_vectorlm_feeds_tokens_that_choose_the_same_experts(tmp_path):
    columns = "model,gpu,gpus,sharding,mode,micro_batch,grad_accum,agg_tok_s_short_seq,fits"
    rows = [f"Mixtral-8x7B,A40,4,FULL_SHARD,{mode},8,4,,0" for mode in ("full", "lora r8")]
    (tmp_path / "vectorlm_fit_a100_a40_t4.csv").write_text("\n".join([columns, *rows]))
    whole, adapted = vectorlm.load(tmp_path).runs
    assert whole.shape.loads == adapted.shape.loads == (1, 1)
    # Two of eight experts have gradients: 12.9 of 46.7 billion parameters.
    assert whole.kept == pytest.approx((2 - 4 / 4) * 12.880e9, rel=1e-4)
    assert (adapted.shape.lora, adapted.shape.adapted) == (8, "q v")


def test_internevo_accumulates_in_bfloat16_and_has_peaks_of_fsdp(tmp_path):
    columns = "table,model,gpu,gpus,nodes,gpus_per_node,network,tp,zero1_group(-1=world),packed,act_ckpt,seq,micro_batch,micro_num,tok_s_per_gpu,tflops_per_gpu"
    rate = "throughput,InternLM-7B,A100-SXM4-80GB,16,2,8,4x100Gb RoCE,1,{},0,{},2048,2,{},3842,"
    rates = [rate.format(-1, 0, 4), rate.format(8, 0, 4), rate.format(8, 1, 1)]
    (tmp_path / "internevo_7b_a100_roce.csv").write_text("\n".join([columns, *rates]))
    columns = "model,gpu,gpus,zero1_group,tp,pp,fsdp,micro_batch,micro_num,act_ckpt,gpu_memory_gb"
    rows = ["7B,A800-80GB,3,-1,1,3,False,1,4,1,75", "20B,A800-80GB,16,-1,1,1,True,1,4,1,40"]
    (tmp_path / "internevo_memory_a800.csv").write_text("\n".join([columns, *rows]))
    *accumulating, peak = internevo.load(tmp_path).runs
    assert [run.kept / count_parameters(run.shape) for run in accumulating] == [-2.25, -2.5, 0]
    assert (peak.nodes, peak.ranks, peak.memory, peak.counted, peak.has_fit) == (2, 8, 40e9, "device", True)
    assert peak.updating == pytest.approx(24 * 20e9 / 16, rel=0.02)


def test_deepcompile_is_shown_but_not_judged(tmp_path):
    columns = "model,gpu,gpus,micro_batch,seq,system,tok_s_per_gpu_chart_reading"
    (tmp_path / "deepcompile_h100.csv").write_text(f"{columns}\nLlama-3-70B,H100,32,1,512,ZeRO3,225")
    assert [run.unjudged for run in deepcompile.load(tmp_path).runs] == ["the network between its nodes is not published"]


def test_zeropp_has_the_parameters_and_rates_of_its_baselines(tmp_path):
    columns = "model,gpu,gpus,nodes,gpus_per_node,node_gbps,tokens_per_gpu,system,tflops_per_gpu"
    rows = "18B,V100-32GB,384,24,16,400,2048,ZeRO-3,40\n18B,V100-32GB,384,24,16,400,2048,ZeRO++,53"
    (tmp_path / "zeropp_v100.csv").write_text(f"{columns}\n{rows}")
    source = zeropp.load(tmp_path)
    (run,) = source.runs
    assert source.left_out[0].startswith("1 runs of ZeRO++") and run.unjudged
    assert (run.nodes, run.ranks, run.batch * run.sequence) == (24, 16, 2048)
    assert run.cluster["inter"]["bandwidth"] == pytest.approx(48e9)
    # 40 TFLOPs of 8 operations for a parameter and token.
    assert run.rate == pytest.approx(277.8, rel=1e-3)
    for name, shape in zeropp.MODELS.items():
        assert count_parameters(shape) == pytest.approx(1e9 * float(name.removesuffix("B")), rel=0.03), name


def test_a_source_says_nothing_of_itself():
    judgement = judge.Judgement([
        *(Result("a", f"{i}", RATE, 110, 100) for i in range(5)),
        Result("b", "0", RATE, 90, 100),
        Result("c", "0", RATE, 80, 100, low=70, high=130),
        Result("c", "1", MEMORY, 5, 100),
    ])  # fmt: skip
    factors = judge.find_factors(judgement, ["a", "b", "c"], RATE)
    assert factors == pytest.approx({"a": 0.85, "b": 0.95, "c": 1.0})
    corrected = judge.correct(judgement, factors, RATE)
    assert [result.predicted for result in corrected] == pytest.approx([85] * 5 + [95, 100])
    assert (corrected[-1].low, corrected[-1].high) == (70, 130)
    assert judge.find_factors(judge.Judgement(judgement.results[:5]), ["a"], RATE) == {"a": 1.0}
