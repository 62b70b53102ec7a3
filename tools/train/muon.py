"""Muon: momentum made nearly orthogonal (K. Jordan, 2024); for weight matrices only."""

import torch


def orthogonal(g, rounds=5):
    """Quintic Newton-Schulz: roughly the nearest semi-orthogonal matrix. g [n][rows][cols]."""
    x = g.mT if g.shape[1] > g.shape[2] else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(rounds):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.mT if g.shape[1] > g.shape[2] else x


class Muon(torch.optim.Optimizer):
    """Matrices of one shape are stepped together."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        by_shape = {}
        for p in params:
            by_shape.setdefault(tuple(p.shape), []).append(p)
        groups = [{"params": ps} for ps in by_shape.values()]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params, m = group["params"], group["momentum"]
            grad = torch.stack([p.grad for p in params])
            state = self.state[params[0]]
            if "velocity" not in state:
                state["velocity"] = torch.zeros_like(grad)
            velocity = state["velocity"].lerp_(grad, 1 - m)
            update = orthogonal(grad.lerp(velocity, m))
            scale = max(1.0, grad.shape[1] / grad.shape[2]) ** 0.5
            for p, u in zip(params, update):
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(u, alpha=-group["lr"] * scale)
