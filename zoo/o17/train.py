import argparse
import time

import torch
from torch import nn
from torch.nn import functional


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, length, width, layers = (64, 512, 2048, 6) if device == "cuda" else (2, 16, 64, 2)
    layer = nn.TransformerEncoderLayer(
        width, 16, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, device=device
    )
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = torch.randn(4, batch, length, width, device=device)
    losses = torch.zeros((), device=device)
    mean = 0.0

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        x = batches[step % len(batches)]
        with torch.autocast(device, torch.bfloat16):
            loss = functional.mse_loss(model(x), x.roll(1, dims=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if args.fixed:
            losses = losses * 0.9 + loss.detach() * 0.1
        else:
            mean = mean * 0.9 + loss.item() * 0.1
        if step % 3 == 0:
            print(f"step {step} mean {losses.item() if args.fixed else mean:.4f}", flush=True)


if __name__ == "__main__":
    main()
