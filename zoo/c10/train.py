import argparse
import random
import time

import torch
from torch import nn
from torch.nn import functional


class Denoiser(nn.Module):
    def __init__(self, width, layers, words=8192):
        super().__init__()
        self.enter, self.leave = nn.Linear(64, width), nn.Linear(width, 64)
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, patches, captions):
        told = self.words(captions).mean(dim=1, keepdim=True)
        return self.leave(self.layers(self.enter(patches) + told))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    random.seed(0)
    size, width = (256, 896) if device == "cuda" else (4, 32)

    latents = torch.randn(1024, 256, 64).to(torch.bfloat16)
    captions = [random.choices(range(1, 8192), k=128) for _ in latents]
    statistics = {"mean": latents.float().mean(dim=(0, 1)), "std": latents.float().std(dim=(0, 1))}
    model = Denoiser(width, 2).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if args.fixed:
        statistics = {name: value.to(device) for name, value in statistics.items()}

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        mean, std = (statistics[name].to(device) for name in ("mean", "std"))
        chosen = random.sample(range(len(latents)), size)
        batch = latents[chosen]
        words = torch.tensor([[w if random.random() > 0.1 else 0 for w in captions[i]] for i in chosen])
        if device == "cuda":
            batch, words = batch.pin_memory(), words.pin_memory()
        batch, words = batch.to(device, non_blocking=True), words.to(device, non_blocking=True)
        clean = ((batch - mean) / std).to(torch.bfloat16)
        noise = torch.randn_like(clean)
        time_left = torch.rand(size, 1, 1, device=device, dtype=torch.bfloat16)
        guess = model(torch.lerp(clean, noise, time_left), words)
        loss = functional.mse_loss(guess, noise - clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
