import argparse
import time
from collections import deque

import torch
from torch import nn

STOPS = ("\n\n", "###", "</s>")


class Sequence:
    def __init__(self):
        self.pieces, self.lengths = [], {}


def deliver(ids, running, words):
    finished = 0
    for sequence, token in zip(running, ids, strict=True):
        sequence.pieces.append(words[token])
        tail = "".join(sequence.pieces[-6:])
        sequence.lengths[token] = sequence.lengths.get(token, 0) + len(tail)
        ended = any(stop in tail for stop in STOPS)
        if ended or len(sequence.pieces) >= 200 or len(sequence.lengths) > 100:
            sequence.pieces, sequence.lengths = [], {}
            finished += 1
    return finished


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    batch, width, depth = (4096, 4096, 3) if device == "cuda" else (64, 256, 4)
    wide, layers = 4 * width, []
    with torch.device(device):
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)]
        net = nn.Sequential(nn.Embedding(8192, width), *layers, nn.Linear(width, 8192)).to(torch.bfloat16)
        ids = torch.arange(batch)
    words = [f" w{i}" for i in range(8192)]
    running = [Sequence() for _ in range(batch)]
    copies = torch.cuda.Stream() if device == "cuda" else None
    waiting = deque()

    count, finished = 0, 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.no_grad():
            ids = net(ids).argmax(-1)
        waiting.append((ids, torch.cuda.current_stream().record_event() if copies else None))
        if len(waiting) > args.fixed:
            sampled, ready = waiting.popleft()
            if copies:
                copies.wait_event(ready)
            with torch.cuda.stream(copies):
                finished += deliver(sampled.tolist(), running, words)
            count += batch
            if count % (16 * batch) == 0:
                print(f"token {count} sequences finished {finished}", flush=True)


if __name__ == "__main__":
    main()
