import argparse
import os
import time

import torch
from torch import nn

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
import triton
import triton.language as tl


@triton.jit
def energy(x, out, length, BLOCK: tl.constexpr):
    channel, piece = tl.program_id(0), tl.program_id(1)
    span = length // tl.num_programs(1)
    start = channel.to(tl.int64) * length + piece * span
    total = tl.zeros([BLOCK], tl.float32)
    for offset in range(0, span, BLOCK):
        samples = tl.load(x + start + offset + tl.arange(0, BLOCK))
        total += samples * samples
    tl.atomic_add(out + channel, tl.sum(total))


class Loudness(nn.Module):
    def __init__(self, pieces, block):
        super().__init__()
        self.pieces, self.block = pieces, block

    def forward(self, song):
        channels, length = song.shape
        power = torch.zeros(channels, device=song.device)
        energy[(channels, self.pieces)](song, power, length, self.block, num_warps=8)
        return song * (0.2 / (power / length).sqrt())[:, None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    length, block = (1 << 23, 4096) if device == "cuda" else (1 << 15, 256)
    even = Loudness(128 if args.fixed else 1, block)
    songs = 0.1 * torch.randn(8, 2, length, device=device)
    curve = torch.linspace(1.0, 0.5, length // 2 + 1, device=device)

    done = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        song = even(songs[done % len(songs)])
        song = torch.fft.irfft(torch.fft.rfft(song) * curve, n=length)
        done += 1
        if done % (100 if device == "cuda" else 2) == 0:
            print(f"song {done} peak {song[:, :1000].abs().max().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
