# SPDX-License-Identifier: Apache-2.0
"""Makes optimizers from the text that fcdp-compile --optimizer takes."""

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from fcdp.optimizer_records import OPTIMIZERS, OptimizerRecord

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class _ParameterWise(torch.optim.Optimizer):
    """Updates one parameter after another."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        raise NotImplementedError


def _check_ranges(numbers: dict[str, float], betas: tuple[float, ...]) -> None:
    limits = [(name, value, math.inf) for name, value in numbers.items()]
    for name, value, below in [*limits, *((f"beta{i}", beta, 1.0) for i, beta in enumerate(betas, 1))]:
        if not 0 <= value < below:
            raise ValueError(f"expected '{name}' in [0, {below:g}), got {value}")


class Lion(_ParameterWise):
    """Lion (arXiv 2302.06675), with the names and defaults of its authors' code, which PyTorch does not have."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        _check_ranges({"lr": lr, "weight_decay": weight_decay}, betas)
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def _update(self, parameter: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        exp_avg = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
        beta1, beta2 = group["betas"]
        update = (exp_avg * beta1 + grad * (1 - beta1)).sign_()
        exp_avg.mul_(beta2).add_(grad * (1 - beta2))
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update * group["lr"])


class AdEMAMix(_ParameterWise):
    """AdEMAMix (arXiv 2409.03137), with the names and defaults of its authors' code, which PyTorch does not have.

    `momentum_buffer` is the slower average of gradients, which counts `alpha` times. A warm-up of 0 updates is none.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float, float] = (0.9, 0.999, 0.9999),
        alpha: float = 2.0,
        beta3_warmup: int = 0,
        alpha_warmup: int = 0,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        numbers = {"lr": lr, "alpha": alpha, "beta3_warmup": beta3_warmup, "alpha_warmup": alpha_warmup, "eps": eps}
        _check_ranges(numbers | {"weight_decay": weight_decay}, betas)
        super().__init__(params, numbers | {"betas": betas, "weight_decay": weight_decay})

    def _update(self, parameter: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq", "momentum_buffer"):
                state[name] = torch.zeros_like(parameter)
        state["step"] += 1
        step = state["step"].item()
        beta1, beta2, beta3 = group["betas"]
        beta3 = _warm_beta(step, beta1, beta3, group["beta3_warmup"])
        alpha = group["alpha"] * (1 if step >= group["alpha_warmup"] else step / group["alpha_warmup"])
        fast, squares, slow = state["exp_avg"], state["exp_avg_sq"], state["momentum_buffer"]
        fast.mul_(beta1).add_(grad * (1 - beta1))
        slow.mul_(beta3).add_(grad * (1 - beta3))
        squares.mul_(beta2).add_(grad.square() * (1 - beta2))
        size = squares.sqrt() / math.sqrt(1 - beta2**step) + group["eps"]
        direction = (slow * alpha + fast / (1 - beta1**step)) / size
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction * group["lr"])


def _warm_beta(step: float, first: float, last: float, warmup: int) -> float:
    """Returns the factor of the slower average, whose half-life grows linearly."""
    if step >= warmup:
        return last
    lives = [math.log(0.5) / math.log(beta + 1e-8) - 1 for beta in (first, last)]
    life = (1 - step / warmup) * lives[0] + step / warmup * lives[1]
    return float(0.5 ** (1 / (life + 1)))


class SOAP(_ParameterWise):
    """SOAP (arXiv 2409.11321), with the names and defaults of its authors' code, which PyTorch does not have.

    It updates matrices. The first step makes the bases `row_q` and `col_q` of the sides and changes nothing else. It
    counts in `step`, though not for the correction of the moments' bias. A `shampoo_beta` below 0 is the second beta.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 3e-3,
        betas: tuple[float, float] = (0.95, 0.95),
        shampoo_beta: float = -1.0,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        precondition_frequency: int = 10,
        max_precond_dim: int = 10000,
    ) -> None:
        numbers = {"lr": lr, "eps": eps, "weight_decay": weight_decay, "max_precond_dim": max_precond_dim}
        _check_ranges(numbers, betas)
        if not -1 <= shampoo_beta < 1:
            raise ValueError(f"expected 'shampoo_beta' in [-1, 1), got {shampoo_beta}")
        if precondition_frequency < 1:
            raise ValueError(f"expected 'precondition_frequency' from 1 on, got {precondition_frequency}")
        others = {"betas": betas, "shampoo_beta": shampoo_beta, "precondition_frequency": precondition_frequency}
        super().__init__(params, numbers | others)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(f"expected matrices, got a parameter of shape {list(parameter.shape)}")

    def _update(self, parameter: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        state, gradient = self.state[parameter], grad.float()
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(parameter)
            for side, size in zip(_SIDES, parameter.shape):
                if size <= group["max_precond_dim"]:
                    state[f"{side}_gg"] = gradient.new_zeros(size, size)
                    state[f"{side}_q"] = gradient.new_zeros(size, size)
        step = int(state["step"].item())
        state["step"] += 1
        if step == 0:
            _add_products(state, gradient, group)
            for side in _own_sides(state):
                state[f"{side}_q"] = _eigenvectors(state[f"{side}_gg"])
            return
        beta1, beta2 = group["betas"]
        rotated = _rotate(state, gradient)
        first = state["exp_avg"].float() * beta1 + rotated * (1 - beta1)
        second = state["exp_avg_sq"].float() * beta2 + rotated.square() * (1 - beta2)
        size = group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        direction = _rotate_back(state, first / (second.sqrt() + group["eps"]))
        value = parameter.to(torch.promote_types(parameter.dtype, torch.float32)) - direction * size
        parameter.copy_(value * (1 - group["lr"] * group["weight_decay"]))
        _add_products(state, gradient, group)
        if step % group["precondition_frequency"] == 0:
            first, second = _refresh(state, first, second)
        state["exp_avg"].copy_(first)
        state["exp_avg_sq"].copy_(second)


_SIDES = ("row", "col")


def _own_sides(state: dict[str, Any]) -> list[str]:
    """Returns the sides that have a basis."""
    return [side for side in _SIDES if f"{side}_q" in state]


def _add_products(state: dict[str, Any], gradient: torch.Tensor, group: dict[str, Any]) -> None:
    """Moves the averages of outer products by those of the gradient."""
    beta = group["shampoo_beta"] if group["shampoo_beta"] >= 0 else group["betas"][1]
    for side in _own_sides(state):
        left = gradient if side == "row" else gradient.T
        state[f"{side}_gg"] = state[f"{side}_gg"] * beta + left @ left.T * (1 - beta)


def _eigenvectors(matrix: torch.Tensor) -> torch.Tensor:
    """Returns the eigenvectors as columns, the one of the greatest eigenvalue first."""
    return torch.linalg.eigh(matrix + 1e-30 * torch.eye(len(matrix), device=matrix.device))[1].flip(1)


def _rotate(state: dict[str, Any], value: torch.Tensor) -> torch.Tensor:
    value = state["row_q"].T @ value if "row_q" in state else value
    return value @ state["col_q"] if "col_q" in state else value


def _rotate_back(state: dict[str, Any], value: torch.Tensor) -> torch.Tensor:
    value = state["row_q"] @ value if "row_q" in state else value
    return value @ state["col_q"].T if "col_q" in state else value


def _refresh(state: dict[str, Any], first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes the bases those after a power iteration. Returns the moments in them."""
    original = _rotate_back(state, first)
    for side in _own_sides(state):
        basis = state[f"{side}_q"]
        product = state[f"{side}_gg"] @ basis
        order = (basis * product).sum(0).argsort(descending=True, stable=True)
        second = second[order] if side == "row" else second[:, order]
        state[f"{side}_q"] = torch.linalg.qr(product[:, order])[0]
    return _rotate(state, original), second


class AdamW8bit(_ParameterWise):
    """AdamW with moments in 8 bits (arXiv 2110.02861), with the names, defaults and scheme of torchao.optim.AdamW8bit.

    Both moments of a parameter of 4096 elements or more, in whole blocks of 256, have a code for each element and a
    scale for each block: its greatest magnitude. Other parameters have moments of their own type.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _update(self, parameter: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name, signed in _MOMENTS:
                _set_moment(state, name, torch.zeros_like(parameter), signed)
        state["step"] += 1
        step = state["step"].item()
        beta1, beta2 = group["betas"]
        first, second = (_get_moment(state, name, signed) for name, signed in _MOMENTS)
        wide = grad.float()
        first = first * beta1 + wide * (1 - beta1)
        second = second * beta2 + wide.square() * (1 - beta2)
        value = parameter.float() * (1 - group["lr"] * group["weight_decay"])
        size = second.sqrt() / math.sqrt(1 - beta2**step) + group["eps"]
        parameter.copy_(value - first / size * (group["lr"] / (1 - beta1**step)))
        for (name, signed), moment in zip(_MOMENTS, (first, second)):
            _set_moment(state, name, moment, signed)


_MOMENTS = (("exp_avg", True), ("exp_avg_sq", False))
_BLOCK = 256


def dynamic_map(signed: bool) -> torch.Tensor:
    """The 256 numbers of bitsandbytes' and torchao's dynamic map: with fewer digits and smaller exponents towards 0."""
    numbers, parts = 1 if signed else 2, [torch.tensor([0.0, 1.0])]
    for exponent in range(-6, 1):
        bounds = torch.linspace(0.1, 1, numbers + 1)
        means = (bounds[:-1] + bounds[1:]) / 2
        parts += [means * 10.0**exponent, means * -(10.0**exponent)] if signed else [means * 10.0**exponent]
        numbers *= 2
    return torch.cat(parts).sort().values


def encode(values: torch.Tensor, signed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the codes of float32 values, in their shape, and the scale of each block of 256.

    A value becomes the nearest number of the map, the greater one of two.
    """
    table = dynamic_map(signed)
    blocks = values.reshape(-1, _BLOCK)
    scales = blocks.abs().amax(1).clamp(min=1e-12)
    codes = torch.bucketize(blocks / scales[:, None], (table[:-1] + table[1:]) / 2, right=True)
    return codes.to(torch.uint8).reshape(values.shape), scales


def decode(codes: torch.Tensor, scales: torch.Tensor, signed: bool) -> torch.Tensor:
    blocks = dynamic_map(signed)[codes.int()].reshape(-1, _BLOCK)
    return (blocks * scales[:, None]).reshape(codes.shape)


def _set_moment(state: dict[str, Any], name: str, moment: torch.Tensor, signed: bool) -> None:
    if moment.numel() >= 4096 and moment.numel() % _BLOCK == 0:
        state[f"{name}_code"], state[f"{name}_scale"] = encode(moment.float(), signed)
    else:
        state[name] = moment.to(state[name].dtype if name in state else moment.dtype)


def _get_moment(state: dict[str, Any], name: str, signed: bool) -> torch.Tensor:
    if name in state:
        return state[name].float()
    return decode(state[f"{name}_code"], state[f"{name}_scale"], signed)


def _class_of(record: OptimizerRecord) -> type[torch.optim.Optimizer]:
    module, _, name = record.class_path.rpartition(".")
    return globals()[name] if module == __name__ else getattr(torch.optim, name)


CLASSES = {record.name: _class_of(record) for record in OPTIMIZERS}
_RECORDS = {record.name: record for record in OPTIMIZERS if record.updates_all}


def optimizer_factory(text: str) -> OptimizerFactory:
    """Returns the factory for a text such as "adamw,lr=1e-3,beta2=0.95", "sgd,lr=0.1,momentum=0.9" or "lion,lr=1e-4".

    Settings that are not given have the class's defaults.

    Raises ValueError for a name or a key that does not exist, and for one such as "muon", which does not update all
    parameters.
    """
    name, *settings = text.split(",")
    if name in CLASSES and name not in _RECORDS:
        path = next(record.class_path for record in OPTIMIZERS if record.name == name)
        raise ValueError(f"'{name}' updates matrices only: make a {path}, and another optimizer for the rest")
    if name not in _RECORDS:
        raise ValueError(f"expected an optimizer among {sorted(_RECORDS)}, got '{name}'")
    optimizer = CLASSES[name]
    options = dict(_setting(setting) for setting in settings)
    known = inspect.signature(optimizer).parameters
    for key, parts in _RECORDS[name].tuples.items():
        if key not in options:
            options[key] = tuple(options.pop(part, default) for part, default in zip(parts, known[key].default))
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"'{name}' has no setting {unknown}")
    return lambda parameters: optimizer(parameters, **options)


def _setting(text: str) -> tuple[str, float | bool]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"expected KEY=VALUE, got '{text}'")
    if value in ("true", "false"):
        return key, value == "true"
    return key, float(value)
