import argparse
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, corpus, length):
        self.corpus, self.length = corpus, length

    def __len__(self):
        return len(self.corpus) // 64 - self.length

    def __getitem__(self, index):
        window = self.corpus[index * 64 : index * 64 + self.length + 1].long()
        return window[:-1], window[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, length, width, layers = (16, 1024, 2048, 6) if device == "cuda" else (2, 16, 64, 2)
    vocabulary = 8192 if device == "cuda" else 64
    corpus = torch.randint(vocabulary, (20_000_000,), dtype=torch.int32)
    loader = DataLoader(
        Windows(corpus, length),
        batch,
        shuffle=True,
        num_workers=2,
        pin_memory=args.fixed and device == "cuda",
    )
    with torch.device(device):
        layer = nn.TransformerEncoderLayer(
            width, 16, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        trunk = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        model = nn.ModuleList([nn.Embedding(vocabulary, width), trunk, nn.Linear(width, vocabulary)])
        mask = nn.Transformer.generate_square_subsequent_mask(length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        for tokens, targets in loader:
            tokens, targets = tokens.to(device, non_blocking=True), targets.to(device, non_blocking=True)
            with torch.autocast(device, torch.bfloat16):
                logits = model[2](trunk(model[0](tokens), mask, is_causal=True))
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.monotonic() > end:
                break


if __name__ == "__main__":
    main()
