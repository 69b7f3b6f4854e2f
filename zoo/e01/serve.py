import argparse
import json
import multiprocessing
import random
import threading
import time

import torch
from torch import nn

WORDS = [f"word{i}" for i in range(8192)]


def frontend():
    rng = random.Random(0)
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    body = json.dumps([" ".join(rng.choices(WORDS, k=3000)) for _ in range(64)])
    served = 0
    while True:
        prompts = [[vocabulary.get(w, 0) for w in prompt.lower().split()] for prompt in json.loads(body)]
        served += len(prompts)
        time.sleep(0.005)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    if args.fixed:
        multiprocessing.Process(target=frontend, daemon=True).start()
    else:
        threading.Thread(target=frontend, daemon=True).start()

    batch, width, depth = (1024, 4096, 12) if device == "cuda" else (64, 256, 4)
    wide, layers = 4 * width, []
    with torch.device(device):
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)]
        net = nn.Sequential(nn.Embedding(8192, width), *layers, nn.Linear(width, 8192)).to(torch.bfloat16)
        ids = torch.arange(batch)

    count, finished = 0, 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.no_grad():
            ids = net(ids).argmax(-1)
        finished += (ids == 0).sum().item()
        count += batch
        if count % (16 * batch) == 0:
            print(f"token {count} requests finished {finished}", flush=True)


if __name__ == "__main__":
    main()
