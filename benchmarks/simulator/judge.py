# SPDX-License-Identifier: Apache-2.0
"""Predicts the runs of sources, and tells how far the predictions are from what was measured."""

import math
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Iterable

import footprint
from runs import Run, Source, predict
from simulation import Goal, Part, Simulator

WORKERS = 2
RATE, MEMORY = "tokens/s/GPU", "memory"
NINETIETH_OF_NORMAL = 1.2816


@dataclass
class Result:
    """A quantity of a run as published and as predicted."""

    source: str
    run: str
    quantity: str
    published: float
    predicted: float
    low: float | None = None
    """The range that holds the true value with a probability of 80 %, or None if the simulator gives none."""
    high: float | None = None
    scenarios: list[list[float]] = field(default_factory=list)
    """For each input of the cost model, one standard deviation slower and faster: the step's time, relative to its own.
    """
    unjudged: str = ""
    parts: dict[str, Any] = field(default_factory=dict)
    """Seconds by activity, or bytes by use."""

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1

    @property
    def in_range(self) -> bool | None:
        return None if self.low is None or self.high is None else self.low <= self.published <= self.high

    def get_range(self, model: float) -> tuple[float, float]:
        """Returns what the range of a rate is if the model's spread is `model` (docs/cluster.md)."""
        effects = [[math.log(ratio) for ratio in pair] for pair in self.scenarios]
        longer = math.hypot(model, *(max(0, *pair) for pair in effects))
        shorter = math.hypot(model, *(min(0, *pair) for pair in effects))
        return (self.predicted * math.exp(-NINETIETH_OF_NORMAL * longer),
                self.predicted * math.exp(NINETIETH_OF_NORMAL * shorter))  # fmt: skip

    def would_hold(self, model: float) -> bool:
        low, high = self.get_range(model)
        return low <= self.published <= high


@dataclass
class Verdict:
    """Whether a run fits, as published and as predicted."""

    source: str
    run: str
    published: bool
    needed: float
    """Bytes of a device, or of a node's host, that the run needs."""
    capacity: float
    """Bytes of it."""
    unused: float = 0
    """Bytes of `needed` that the allocator holds without use."""
    where: str = "device"
    """The memory of which this is the verdict: "device" or "host"."""

    @property
    def predicted(self) -> bool | None:
        """None if the run fits only with less of the allocator's unused memory, of which it frees what it can before it
        fails.
        """
        if self.needed <= self.capacity:
            return True
        return None if self.needed - self.unused <= self.capacity else False

    @property
    def margin(self) -> float:
        """By how much the bytes would have to change for another verdict, relative to the device."""
        needed = self.needed if self.predicted else self.needed - self.unused
        return abs(needed / self.capacity - 1)


@dataclass
class Judgement:
    results: list[Result] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Runs that fcdp-sim refuses, with its message."""

    def of(self, source: str) -> "Judgement":
        return Judgement([result for result in self.results if result.source == source],
                         [verdict for verdict in self.verdicts if verdict.source == source])  # fmt: skip


def judge(simulator: Simulator, sources: list[Source]) -> Judgement:
    """Predicts all runs, WORKERS at a time, and prints each as it is ready."""
    judgement = Judgement()
    runs = [(source.name, run) for source in sources for run in source.runs]
    with ThreadPoolExecutor(WORKERS) as pool:
        steps = pool.map(lambda item: try_predict(simulator, item[1]), runs)
        for index, ((name, run), step) in enumerate(zip(runs, steps), 1):
            if isinstance(step, str):
                judgement.failures.append(f"{name}: {run.name}: {step}")
                print(f"[{index}/{len(runs)}] {judgement.failures[-1]}", flush=True)
                continue
            compare(judgement, name, run, step)
            print(f"[{index}/{len(runs)}] {name}: {run.name}: {describe(judgement, name, run)}", flush=True)
    return judgement


def try_predict(simulator: Simulator, run: Run) -> dict[str, Any] | str:
    try:
        return predict(simulator, run)
    except RuntimeError as error:
        return str(error)


def compare(judgement: Judgement, source: str, run: Run, step: dict[str, Any]) -> None:
    """Adds the quantities of the run that were published."""
    if run.rate:
        rate = step["tokens"]["per_second"] / run.gpus
        low, high = (rate * step["seconds"] / step[key] if key in step else None for key in ("high", "low"))
        parts = {key: step[key] for key in ("seconds", "on_compute_stream", "exposed", "bubble", "busy")}
        scenarios = [[seconds / step["seconds"] for seconds in pair] for pair in step.get("scenarios", {}).values()]
        judgement.results.append(Result(source, run.name, RATE, run.rate, rate, low, high, scenarios, run.unjudged, parts))
    if run.memory:
        parts = footprint.count(run, step)
        judgement.results.append(Result(source, run.name, MEMORY, run.memory, sum(parts.values()), parts=parts))
    if run.has_fit is not None:
        parts = footprint.divide(run, step)
        capacity = float(run.cluster["device"]["memory"])
        judgement.verdicts.append(Verdict(source, run.name, run.has_fit, sum(parts.values()), capacity, parts["allocator"]))
    if run.fits_host is not None:
        needed = step["host_memory"]["bytes"] + run.kept_on_host
        judgement.verdicts.append(Verdict(source, run.name, run.fits_host, needed, run.host, where="host"))


def describe(judgement: Judgement, source: str, run: Run) -> str:
    texts = [f"{result.quantity} {result.published:,.6g}, predicted {result.predicted:,.6g} ({result.error:+.1%})"
             for result in judgement.results if (result.source, result.run) == (source, run.name)]  # fmt: skip
    texts += [f"{verdict.where} fits {verdict.published}, predicted {'maybe' if verdict.predicted is None else verdict.predicted}"
              for verdict in judgement.verdicts if (verdict.source, verdict.run) == (source, run.name)]  # fmt: skip
    return "; ".join(texts)


@dataclass
class Spread:
    """How far predictions of a quantity are from what was measured."""

    rows: int
    median: float
    """Median of the absolute relative errors."""
    ninetieth: float
    """90th percentile of them."""
    bias: float
    """Median of the signed relative errors."""
    covered: float | None
    """Share of the rows in their range, or None if no row has one."""


def spread(results: Iterable[Result]) -> Spread | None:
    """Returns None if there are no judged results."""
    judged = [result for result in results if not result.unjudged]
    if not judged:
        return None
    errors = sorted(abs(result.error) for result in judged)
    ranged = [result.in_range for result in judged if result.in_range is not None]
    return Spread(len(judged), statistics.median(errors), percentile(errors, 0.9), statistics.median(r.error for r in judged),
                  sum(ranged) / len(ranged) if ranged else None)  # fmt: skip


def find_factors(judgement: Judgement, names: list[str], quantity: str) -> dict[str, float]:
    """Returns for each source the factor by which a quantity of the others differs from its predictions.

    It is the median over the other sources of the median over their runs, so that a source with many runs counts once.
    A source's own runs are left out of its factor.
    """
    ratios = {}
    for name in names:
        errors = [result.published / result.predicted for result in judgement.of(name).results
                  if result.quantity == quantity and not result.unjudged]  # fmt: skip
        if errors:
            ratios[name] = statistics.median(errors)
    return {name: statistics.median([ratio for other, ratio in ratios.items() if other != name] or [1.0]) for name in ratios}


def correct(judgement: Judgement, factors: dict[str, float], quantity: str) -> list[Result]:
    """Returns the predictions of a quantity times the factors of their sources."""
    return [replace(result, predicted=factor * result.predicted,
                    low=None if result.low is None else factor * result.low,
                    high=None if result.high is None else factor * result.high)
            for result in judgement.results if result.quantity == quantity and (factor := factors.get(result.source))]  # fmt: skip


def calibrate(results: Iterable[Result]) -> float:
    """Returns the least spread of the model that puts 80 % of the runs into their ranges, each source counted once."""
    by_source: dict[str, list[Result]] = {}
    for result in results:
        if not result.unjudged and result.scenarios:
            by_source.setdefault(result.source, []).append(result)

    def covered(model: float) -> float:
        return statistics.mean(share_held(source, model) for source in by_source.values())

    return next((model for model in SPREADS if covered(model) >= COVERAGE), SPREADS[-1]) if by_source else SPREADS[0]


COVERAGE = 0.8
SPREADS = [percent / 100 for percent in range(1, 101)]


def share_held(results: list[Result], model: float) -> float:
    return sum(result.would_hold(model) for result in results) / len(results)


@dataclass
class Calibration:
    """How many rates of a source are in ranges whose model has the spread that the other sources ask for."""

    source: str
    model: float
    rows: int
    share: float


def calibrate_left_out(judgement: Judgement, names: list[str]) -> list[Calibration]:
    rates = [result for result in judgement.results if result.quantity == RATE and result.scenarios and not result.unjudged]
    found = []
    for name in names:
        own = [result for result in rates if result.source == name]
        if own:
            model = calibrate(result for result in rates if result.source != name)
            found.append(Calibration(name, model, len(own), share_held(own, model)))
    return found


def average_share(found: list[Calibration]) -> float:
    """Returns the share over the rows of all sources."""
    return sum(one.share * one.rows for one in found) / sum(one.rows for one in found)


def show_calibration(judgement: Judgement, names: list[str]) -> None:
    found = calibrate_left_out(judgement, names)
    if not found:
        return
    print(f"\nranges\n{'left out':<16} {'model':>7} {'rows':>4} {'in range':>8}")
    for one in found:
        print(f"{one.source:<16} {one.model:>7.2f} {one.rows:>4} {one.share:>8.0%}")
    print(f"{'all':<16} {'':>7} {sum(one.rows for one in found):>4} {average_share(found):>8.0%}")
    print(f"{'none left out':<16} {calibrate(judgement.results):>7.2f}, a fit")


def show_left_out(judgement: Judgement, names: list[str], quantity: str) -> None:
    """Prints the errors of a quantity of each source, corrected by what the others say."""
    factors = find_factors(judgement, names, quantity)
    results = correct(judgement, factors, quantity)
    print(f"\n{quantity}\n{'left out':<16} {'factor':>7} {'rows':>4} {'median':>7} {'90th':>7} {'bias':>7} {'in range':>8}")
    for name in [*factors, None]:
        found = spread(result for result in results if name in (None, result.source))
        if not found:
            continue
        covered = "-" if found.covered is None else f"{found.covered:.0%}"
        factor = f"{factors[name]:.3f}" if name else ""
        print(f"{name or 'all':<16} {factor:>7} {found.rows:>4} {found.median:>7.1%} {found.ninetieth:>7.1%} {found.bias:>+7.1%} "
              f"{covered:>8}")  # fmt: skip


def find_wrong(verdicts: Iterable[Verdict], fits: bool) -> list[Verdict]:
    """Returns the verdicts that are wrong and say `fits`."""
    return [verdict for verdict in verdicts if verdict.predicted is fits and verdict.published != fits]


def show_verdicts(judgement: Judgement, names: list[str]) -> None:
    """Prints how many runs fit, as published and as predicted, how many may fit, and each wrong verdict."""
    if not judgement.verdicts:
        return
    print(f"\n{'verdicts':<16} {'runs':>4} {'fit':>4} {'wrongly fits':>12} {'wrongly does not':>16} {'may fit':>7}")
    for name in [*names, None]:
        verdicts = (judgement.of(name) if name else judgement).verdicts
        if verdicts:
            print(f"{name or 'all':<16} {len(verdicts):>4} {sum(verdict.published for verdict in verdicts):>4} "
                  f"{len(find_wrong(verdicts, True)):>12} {len(find_wrong(verdicts, False)):>16} "
                  f"{sum(verdict.predicted is None for verdict in verdicts):>7}")  # fmt: skip
    for fits in (True, False):
        for wrong in find_wrong(judgement.verdicts, fits):
            print(f"{wrong.source}: {wrong.run}: {wrong.where} wrongly {'fits' if fits else 'does not fit'}, by {wrong.margin:.1%}")


def judge_memory(judgement: Judgement) -> Part:
    """Compares peaks and verdicts with the goals. Nothing is left out in turn, because no factor is applied."""
    part = Part("memory", "errors over all runs")
    found = spread(result for result in judgement.results if result.quantity == MEMORY)
    if found:
        part.goals.append(Goal(f"median error of {MEMORY} at most {MEDIAN:.0%}", f"{found.median:.1%}", found.median <= MEDIAN))
        part.goals.append(Goal(f"90th percentile of {MEMORY} at most {MEDIAN:.0%}", f"{found.ninetieth:.1%}",
                               found.ninetieth <= MEDIAN))  # fmt: skip
    if judgement.verdicts:
        wrong = [verdict for verdict in find_wrong(judgement.verdicts, True) if verdict.margin > BEYOND]
        part.goals.append(Goal(f"no run that wrongly fits by more than {BEYOND:.0%}", f"{len(wrong)}", not wrong))
    return part


BEYOND = 0.03
MEDIAN, NINETIETH, COVERED = 0.1, 0.25, (0.7, 0.9)


def judge_goals(judgement: Judgement, names: list[str]) -> Part:
    """Compares the errors over all sources, each left out in turn, with the goals."""
    part = Part("left-out sources", "errors over all runs")
    found = spread(correct(judgement, find_factors(judgement, names, RATE), RATE))
    if found:
        part.goals.append(Goal(f"median error of {RATE} at most {MEDIAN:.0%}", f"{found.median:.1%}", found.median <= MEDIAN))
        part.goals.append(Goal(f"90th percentile of {RATE} at most {NINETIETH:.0%}", f"{found.ninetieth:.1%}",
                               found.ninetieth <= NINETIETH))  # fmt: skip
    ranges = calibrate_left_out(judgement, names)
    if ranges:
        least, most = COVERED
        share = average_share(ranges)
        part.goals.append(Goal(f"{least:.0%} to {most:.0%} of {RATE} in their range", f"{share:.0%}", least <= share <= most))
    return part


def percentile(ordered: list[float], share: float) -> float:
    """Returns the element at `share` of ascending numbers, on the line between neighbours."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def show(judgement: Judgement, sources: list[Source]) -> None:
    """Prints the errors by source and over all, then what was left out."""
    print(f"\n{'source':<16} {'quantity':<13} {'rows':>4} {'median':>7} {'90th':>7} {'bias':>7} {'in range':>8}")
    for name in [source.name for source in sources] + [None]:
        part = judgement.of(name) if name else judgement
        for quantity in (RATE, MEMORY):
            found = spread(result for result in part.results if result.quantity == quantity)
            if found:
                covered = "-" if found.covered is None else f"{found.covered:.0%}"
                print(f"{name or 'all':<16} {quantity:<13} {found.rows:>4} {found.median:>7.1%} {found.ninetieth:>7.1%} "
                      f"{found.bias:>+7.1%} {covered:>8}")  # fmt: skip
    names = [source.name for source in sources]
    show_verdicts(judgement, names)
    show_left_out(judgement, names, RATE)
    show_calibration(judgement, names)
    print("\nto some extent a fit: `sustained` of the presets for H100 and A100 was chosen with such results in sight")
    for source in sources:
        for reason in source.left_out:
            print(f"{source.name}: left out: {reason}")
    for failure in judgement.failures:
        print(f"not predicted: {failure}")


def as_json(judgement: Judgement) -> dict[str, Any]:
    results = [{**asdict(result), "error": result.error} for result in judgement.results]
    return {"results": results, "verdicts": [{**asdict(verdict), "predicted": verdict.predicted} for verdict in judgement.verdicts], "failures": judgement.failures}
