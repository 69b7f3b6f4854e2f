"""
ResNet-50 training in bf16 autocast on data that already lies on the GPU.

Limit in NCHW: conversions between layouts and slow kernels; the tensor cores wait.
Fix: --channels-last, for the model and the input. Then device memory is the limit (batch norm, ReLU).
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--channels-last", action="store_true", help="the fix")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch
    import torchvision

    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    model = torchvision.models.resnet50(weights=None).to(args.device, memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(args.batch, 3, args.image, args.image, device=args.device)
    images = images.contiguous(memory_format=layout)
    labels = torch.randint(1000, (args.batch,), device=args.device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    loop.run(step, args=args, counts={"images": args.batch}, warmup=5)


if __name__ == "__main__":
    main()
