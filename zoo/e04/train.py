import argparse
import math
import random
import time

import numpy as np
import torch
from torch import nn


class Cart:
    def __init__(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]

    def step(self, action):
        state, done = physics(*self.state, action, math)
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)] if done else state
        return self.state


class Carts:
    def __init__(self, count):
        self.state = np.random.uniform(-0.05, 0.05, (4, count))

    def step(self, actions):
        state, done = physics(*self.state, actions, np)
        self.state = np.where(done, np.random.uniform(-0.05, 0.05, self.state.shape), state)
        return self.state.T


def physics(x, speed, angle, spin, action, lib):
    cosine, sine = lib.cos(angle), lib.sin(angle)
    push = (20.0 * action - 10.0 + 0.05 * spin * spin * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
    pull = push - 0.05 * turn * cosine / 1.1
    state = [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * spin, spin + 0.02 * turn]
    return state, (abs(state[0]) > 2.4) | (abs(state[2]) > 0.21)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    count, width, horizon = (2048, 2048, 32) if device == "cuda" else (128, 64, 32)
    carts, all_carts = [Cart() for _ in range(count)], Carts(count)
    hidden = [nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()]
    policy = nn.Sequential(*hidden, nn.Linear(width, 2)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)
    state, steps = torch.zeros(count, 4), 0

    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        states, actions = [], []
        for _ in range(horizon):
            states.append(state.to(device))
            with torch.no_grad():
                actions.append(torch.distributions.Categorical(logits=policy(states[-1])).sample())
            chosen = actions[-1].tolist()
            if args.fixed:
                after = all_carts.step(np.array(chosen))
            else:
                after = np.array([cart.step(action) for cart, action in zip(carts, chosen, strict=True)])
            state = torch.tensor(after, dtype=torch.float32)
        seen = torch.cat(states)
        log_p = torch.log_softmax(policy(seen), -1).gather(1, torch.cat(actions)[:, None])[:, 0]
        loss = (log_p * seen[:, 2].abs()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += horizon * count
        print(f"step {steps} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
