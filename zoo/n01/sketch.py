import argparse
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 8192 if device == "cuda" else 128
    matrix = torch.randn(n, n, device=device).to(torch.bfloat16)
    pieces = 2 if args.fixed else 1
    streams = [torch.cuda.Stream() if args.fixed and device == "cuda" else None for _ in range(pieces)]
    probes = [torch.randn(n, n, device=device).to(torch.bfloat16).chunk(pieces, dim=1) for _ in range(4)]
    probes = [[piece.contiguous() for piece in probe] for probe in probes]
    images = [torch.empty_like(piece) for piece in probes[0]]
    if device == "cuda":
        torch.cuda.synchronize()

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        for stream, probe, image in zip(streams, probes[step % len(probes)], images, strict=True):
            with torch.cuda.stream(stream):
                torch.mm(matrix, probe, out=image)
        step += 1
        if step % 200 == 0:
            corners = []
            for stream, image in zip(streams, images, strict=True):
                with torch.cuda.stream(stream):
                    corners.append(image[0, 0].item())
            print(f"step {step} corner {corners[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
