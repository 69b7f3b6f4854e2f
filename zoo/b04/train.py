import argparse
import time
from threading import Thread

import torch
from torch import nn

VOCABULARY = 8192


class Upload:
    def __init__(self, rate):
        self.rate, self.sent = rate, 0

    def write(self, part):
        time.sleep(len(part) / self.rate)
        self.sent += len(part)
        return len(part)

    def flush(self):
        pass


def save(state, rate=9e8):
    torch.save(state, Upload(rate))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    width, depth, shape = (1024, 12, (16, 512)) if device == "cuda" else (128, 2, (4, 64))
    every = 40 if device == "cuda" else 20
    block = nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True, norm_first=True)
    net = nn.Sequential(
        nn.Embedding(VOCABULARY, width), nn.TransformerEncoder(block, depth), nn.Linear(width, VOCABULARY)
    ).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    tokens = torch.randint(VOCABULARY, shape, device=device)
    copies = {name: torch.empty_like(value, device="cpu") for name, value in net.state_dict().items()}
    if device == "cuda":
        copies = {name: value.pin_memory() for name, value in copies.items()}

    step, writer = 0, None
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % every == 0:
            if args.fixed:
                if writer:
                    writer.join()
                for name, value in net.state_dict().items():
                    copies[name].copy_(value, non_blocking=True)
                loss.item()
                writer = Thread(target=save, args=(copies,))
                writer.start()
            else:
                save(net.state_dict())


if __name__ == "__main__":
    main()
