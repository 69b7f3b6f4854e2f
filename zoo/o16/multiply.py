import argparse
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    if args.fixed:
        torch.backends.cudnn.benchmark = True

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 8192 if device == "cuda" else 128
    left = torch.randn(n, n, device=device).to(torch.bfloat16)
    right = [torch.randn(n, n, device=device).to(torch.bfloat16) for _ in range(4)]
    product = torch.empty_like(left)

    step = 0
    last = time.monotonic()
    end = last + args.seconds
    while time.monotonic() < end:
        torch.mm(left, right[step % len(right)], out=product)
        step += 1
        if step % 200 == 0:
            corner = product[0, 0].item()
            now = time.monotonic()
            rate = 200 * 2e-12 * n**3 / (now - last)
            print(f"step {step} corner {corner:.1f} tflops {rate:.0f}", flush=True)
            last = now


if __name__ == "__main__":
    main()
