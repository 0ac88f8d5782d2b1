# SPDX-License-Identifier: Apache-2.0
import math

import pytest
import torch
import torch.nn.functional as F
from small_models import BatchNorm, Regression, Tiny

import fcdp
from fcdp.optimizers import SOAP, decode, dynamic_map, encode, optimizer_factory


def token_batches(steps, count):
    return [[tuple(torch.randint(12, (2, 6)) for _ in range(2)) for _ in range(count)] for _ in range(steps)]


@pytest.mark.parametrize(
    ("text", "make"),
    [
        # The attention's key bias has a gradient of rounding noise, which a small eps would blow up to full steps.
        (
            "adamw,lr=1e-2,beta2=0.9,eps=1e-3",
            lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.9, 0.9), eps=1e-3),
        ),
        ("sgd,lr=0.1,momentum=0.9,nesterov=true", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    ],
)
def test_reference_is_the_hand_written_loop(text, make):
    batches = token_batches(steps=3, count=4)
    torch.manual_seed(5)
    model = Tiny(tied=True)
    losses = fcdp.reference(model, batches, text, 3, world=2)

    torch.manual_seed(5)
    plain = Tiny(tied=True)
    optimizer = make(plain.parameters())
    for step, expected in enumerate(losses):
        optimizer.zero_grad()
        loss = sum(plain(*batch) for batch in batches[step]) / 4
        loss.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(expected, rel=1e-6)
    for trained, wanted in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(trained, wanted, rtol=1e-5, atol=1e-6)


def test_every_batch_counts():
    batches = token_batches(steps=1, count=4)
    losses = []
    for count in (3, 4):
        torch.manual_seed(5)
        losses += fcdp.reference(Tiny(), [batches[0][:count]], "sgd,lr=0.1", 1)
    assert losses[0] != losses[1]


def test_ranks_have_their_own_buffers_and_generators():
    x = [(torch.randn(5, 4),) for _ in range(4)]
    torch.manual_seed(5)
    model = BatchNorm()
    mean = fcdp.reference(model, [x[:2], x[2:]], "sgd,lr=0", 2, world=2, seed=7)

    alone = []
    for rank in range(2):
        torch.manual_seed(5)
        single = BatchNorm()
        alone.append(fcdp.reference(single, [[x[rank]], [x[2 + rank]]], "sgd,lr=0", 2, seed=7 + rank))
        if rank == 0:
            torch.testing.assert_close(model.norm.running_mean, single.norm.running_mean, rtol=0, atol=0)
    assert mean == pytest.approx([(a + b) / 2 for a, b in zip(*alone)])


def test_parameters_without_a_gradient_stay():
    model = Regression()
    spare = model.spare.weight.clone()
    batch = (torch.randn(5, 4), torch.randn(5, 3))
    fcdp.reference(model, [[batch]], "adamw,weight_decay=0.5", 1, loss_fn=F.mse_loss)
    assert torch.equal(model.spare.weight, spare)


def test_lion_is_that_of_the_paper():
    """Algorithm 2 of arXiv 2302.06675, in Python's floats."""
    lr, beta1, beta2, decay = 0.1, 0.8, 0.95, 0.3
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = optimizer_factory(f"lion,lr={lr},beta1={beta1},beta2={beta2},weight_decay={decay}")([parameter])
    values, moments = parameter.tolist(), [0.0] * 3
    # Signs change at once, only after the moment has changed, and not at all.
    for gradients in ([1.0, -1.0, 0.0], [-0.1, 3.0, 0.0], [-5.0, 3.0, 0.0]):
        parameter.grad = torch.tensor(gradients, dtype=torch.float64)
        optimizer.step()
        for i, gradient in enumerate(gradients):
            mixed = beta1 * moments[i] + (1 - beta1) * gradient
            sign = (mixed > 0) - (mixed < 0)
            values[i] -= lr * (sign + decay * values[i])
            moments[i] = beta2 * moments[i] + (1 - beta2) * gradient
        assert parameter.tolist() == pytest.approx(values, rel=1e-12)
        assert optimizer.state[parameter]["exp_avg"].tolist() == pytest.approx(moments, rel=1e-12)


def test_defaults_of_lion():
    (group,) = optimizer_factory("lion")([torch.nn.Parameter(torch.zeros(1))]).param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (1e-4, (0.9, 0.99), 0)


def test_ademamix_is_that_of_the_paper():
    """Algorithm 1 of arXiv 2409.03137 and the schedules of its section 3, in Python's floats."""
    lr, betas, alpha, eps, decay, warmup = 0.1, (0.8, 0.9, 0.99), 3.0, 0.01, 0.2, 4
    settings = f"lr={lr},beta1={betas[0]},beta2={betas[1]},beta3={betas[2]},alpha={alpha},eps={eps},weight_decay={decay}"
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = optimizer_factory(f"ademamix,{settings},alpha_warmup={warmup},beta3_warmup={warmup}")([parameter])
    values, fast, slow, squares = parameter.tolist(), [0.0] * 2, [0.0] * 2, [0.0] * 2
    for t, gradients in enumerate([[1.0, -1.0], [-0.5, 3.0], [0.0, 2.0], [-5.0, 0.1], [1.0, 1.0]], 1):
        parameter.grad = torch.tensor(gradients, dtype=torch.float64)
        optimizer.step()
        share = min(t / warmup, 1)
        # The half-life grows linearly. The authors' code counts one update less than the paper.
        lives = [math.log(0.5) / math.log(beta) - 1 for beta in (betas[0], betas[2])]
        beta3 = 0.5 ** (1 / ((1 - share) * lives[0] + share * lives[1] + 1))
        for i, g in enumerate(gradients):
            fast[i] = betas[0] * fast[i] + (1 - betas[0]) * g
            slow[i] = beta3 * slow[i] + (1 - beta3) * g
            squares[i] = betas[1] * squares[i] + (1 - betas[1]) * g * g
            moved = fast[i] / (1 - betas[0] ** t) + share * alpha * slow[i]
            size = math.sqrt(squares[i] / (1 - betas[1] ** t)) + eps
            values[i] -= lr * (moved / size + decay * values[i])
        assert parameter.tolist() == pytest.approx(values, rel=1e-5)
        assert optimizer.state[parameter]["momentum_buffer"].tolist() == pytest.approx(slow, rel=1e-5)


@pytest.mark.parametrize("most", [0, 3, 4])
def test_soap_is_that_of_the_paper(most):
    """Algorithm 3 of arXiv 2409.11321, with full eigenbases in each update. These are the iteration's bases, but for
    signs, since the products of all gradients have the same eigenvectors."""
    lr, betas, eps, decay = 0.1, (0.8, 0.9), 0.01, 0.2
    # The eigenvectors of both sides are these columns in each gradient.
    left, right = (torch.linalg.qr(torch.arange(n * n).reshape(n, n).cos())[0] for n in (3, 4))
    sizes = torch.tensor([[3.0, 2.0, 1.0], [-1.0, 1.5, 0.5], [2.0, -1.0, 0.25], [1.0, 1.0, 0.5]])
    parameter = torch.nn.Parameter(torch.ones(3, 4))
    optimizer = SOAP(
        [parameter], lr, betas, shampoo_beta=0.99, eps=eps, weight_decay=decay, precondition_frequency=1, max_precond_dim=most
    )
    value, mean, squared = parameter.detach().clone(), torch.zeros(3, 4), torch.zeros(3, 4)
    bases = [basis if len(basis) <= most else torch.eye(len(basis)) for basis in (left, right)]
    for step, size in enumerate(sizes):
        parameter.grad = left @ torch.eye(3, 4).mul(size[:, None]) @ right.T
        optimizer.step()
        if step:
            rotated = bases[0].T @ parameter.grad @ bases[1]
            mean = betas[0] * mean + (1 - betas[0]) * rotated
            squared = betas[1] * squared + (1 - betas[1]) * rotated**2
            correction = math.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step)
            value -= lr * correction * bases[0] @ (mean / (squared.sqrt() + eps)) @ bases[1].T
            value *= 1 - lr * decay
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-4, atol=1e-5)
    state = optimizer.state[parameter]
    assert state["step"] == 4 and ("col_q" in state) == (most == 4) and ("row_q" in state) == (most >= 3)


@pytest.mark.parametrize(
    "settings",
    [{"shampoo_beta": 1.0}, {"precondition_frequency": 0}, {"max_precond_dim": -1}, {"betas": (1.0, 0.9)}, {"eps": -1.0}],
)
def test_wrong_settings_of_soap_are_named(settings):
    with pytest.raises(ValueError, match=f"expected '{next(iter(settings)).replace('betas', 'beta1')}' "):
        SOAP([torch.nn.Parameter(torch.zeros(1, 1))], **settings)
    with pytest.raises(ValueError, match=r"expected matrices, got a parameter of shape \[1\]"):
        SOAP([torch.nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize("setting", ["beta3=1", "alpha=-1", "alpha_warmup=-1", "eps=nan"])
def test_wrong_settings_of_ademamix_are_named(setting):
    make = optimizer_factory(f"ademamix,{setting}")
    with pytest.raises(ValueError, match=f"expected '{setting.partition('=')[0]}' in "):
        make([torch.nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize("setting", ["lr=-1", "lr=nan", "beta1=1", "beta2=-0.5", "weight_decay=-1"])
def test_wrong_settings_of_lion_are_named(setting):
    make = optimizer_factory(f"lion,{setting}")
    with pytest.raises(ValueError, match=f"expected '{setting.partition('=')[0]}' in "):
        make([torch.nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize(
    ("text", "eps"), [("adafactor", (None, 1e-3)), ("adafactor,eps1=1e-7", (1e-7, 1e-3)), ("adafactor,eps2=0.5", (None, 0.5))]
)
def test_epsilons_of_adafactor(text, eps):
    (group,) = optimizer_factory(text)([torch.nn.Parameter(torch.zeros(1))]).param_groups
    assert group["eps"] == eps and group["beta2_decay"] == -0.8


@pytest.mark.parametrize("text", ["adagrad,lr=1", "sgd,beta1=0.9", "sgd,lr", "lion,eps=1", "muon", "soap"])
def test_unknown_optimizers(text):
    with pytest.raises(ValueError):
        optimizer_factory(text)


@pytest.mark.parametrize("signed", [True, False])
def test_the_map_of_8_bits_is_that_of_the_paper(signed):
    """2^i numbers below 10^(i - 6), in the middle of equal parts of [0.1, 1], of both signs or twice as many."""
    numbers = [0.0, 1.0]
    for i in range(7):
        count = (1 if signed else 2) << i
        magnitudes = [(0.1 + 0.9 * (k + 0.5) / count) * 10 ** (i - 6) for k in range(count)]
        numbers += magnitudes + ([-value for value in magnitudes] if signed else [])
    assert dynamic_map(signed).tolist() == pytest.approx(sorted(numbers), rel=1e-6)


@pytest.mark.parametrize("signed", [True, False])
def test_a_moment_of_8_bits_is_the_nearest_number(signed):
    torch.manual_seed(3)
    values = torch.randn(4, 512) * torch.randn(4, 512).mul(4).exp()
    values = values if signed else values.abs()
    codes, scales = encode(values, signed)
    table, blocks = dynamic_map(signed), values.reshape(-1, 256)
    assert torch.equal(scales, blocks.abs().amax(1))
    scaled = blocks / scales[:, None]
    least = (scaled[..., None] - table).abs().amin(-1)
    torch.testing.assert_close((scaled - table[codes.int()].reshape(-1, 256)).abs(), least, rtol=0, atol=1e-7)
    # Encoded again, the same, unless a block's greatest is negative: there is 1, but no -1.
    blocks[:, 0] = scales
    codes, scales = encode(values, signed)
    decoded = decode(codes, scales, signed)
    assert all(torch.equal(*pair) for pair in zip(encode(decoded, signed), (codes, scales)))


def test_adamw_in_8_bits_is_adamw_with_moments_that_are_rounded():
    torch.manual_seed(3)
    large, small = (torch.nn.Parameter(torch.randn(size)) for size in (4096, 4095))
    twins = [torch.nn.Parameter(value.detach().clone()) for value in (large, small)]
    settings = "lr=1e-2,beta1=0.8,beta2=0.9,eps=1e-3,weight_decay=0.5"
    ours, plain = optimizer_factory(f"adamw8bit,{settings}")([large, small]), optimizer_factory(f"adamw,{settings}")(twins)
    for _ in range(3):
        for value, twin in zip((large, small), twins):
            value.grad = torch.randn(value.shape)
            twin.grad = value.grad.clone()
        ours.step()
        plain.step()
        # The states that the next step begins with.
        for name, signed in (("exp_avg", True), ("exp_avg_sq", False)):
            state = plain.state[twins[0]]
            state[name].copy_(decode(*encode(state[name], signed), signed))
            torch.testing.assert_close(ours.state[small][name], plain.state[twins[1]][name])
        torch.testing.assert_close(large, twins[0], rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(small, twins[1])
    assert "exp_avg" not in ours.state[large] and ours.state[large]["exp_avg_code"].dtype == torch.uint8
