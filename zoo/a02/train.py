import argparse
import multiprocessing
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

VOCABULARY = 8192


class Corpus(Dataset):
    def __init__(self, passages, length):
        self.tokens = torch.randint(VOCABULARY, (1 << 20,), dtype=torch.int32)
        starts = torch.randint(len(self.tokens) - length, (passages,)).tolist()
        self.passages = [
            {"shard": f"{i % 97:05}", "start": start, "end": start + length + 1, "score": i / passages}
            for i, start in enumerate(starts)
        ]

    def __len__(self):
        return len(self.passages)

    def __getitem__(self, i):
        passage = self.passages[i]
        row = self.tokens[passage["start"] : passage["end"]].long()
        return row[:-1], row[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    multiprocessing.set_forkserver_preload(["torch"])

    width, depth, length, rows = (1024, 12, 1024, 320) if device == "cuda" else (64, 2, 64, 320)
    corpus = Corpus(600_000 if device == "cuda" else 60_000, length)
    loader = DataLoader(
        corpus,
        batch_size=16,
        sampler=RandomSampler(corpus, replacement=True, num_samples=rows),
        num_workers=1,
        multiprocessing_context="forkserver",
        persistent_workers=args.fixed,
    )
    block = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    net = nn.Sequential(
        nn.Embedding(VOCABULARY, width), nn.TransformerEncoder(block, depth), nn.Linear(width, VOCABULARY)
    ).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for x, y in loader:
            logits = net(x.to(device))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.to(device).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
