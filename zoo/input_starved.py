"""
ResNet-50 training in bf16, channels last, fed by too few loader processes that decode JPEGs.

Limit: the loader. The GPU waits for it most of the time.
Fix: --workers 14 (as many as there are cores to spare), or decoding on the GPU.
"""

from __future__ import annotations

import argparse
import io

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--workers", type=int, default=4)
    return p


def main() -> None:
    args = parser().parse_args()
    import numpy as np
    import torch
    import torchvision
    from PIL import Image

    def jpeg(seed: int) -> bytes:
        """A photo-like picture: smooth shapes with some noise, 640x480."""
        rng = np.random.default_rng(seed)
        small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(small.resize((640, 480), Image.Resampling.BICUBIC), dtype=np.int16)
        picture = np.clip(smooth + rng.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
        out = io.BytesIO()
        Image.fromarray(picture).save(out, "JPEG", quality=90)
        return out.getvalue()

    class Photos(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __init__(self, files: list[bytes], side: int) -> None:
            self.files, self.side = files, side

        def __len__(self) -> int:
            return 1 << 22

        def __getitem__(self, index: int) -> tuple[object, int]:
            picture = Image.open(io.BytesIO(self.files[index % len(self.files)])).convert("RGB")
            rng = np.random.default_rng(index)
            left, top = int(rng.integers(0, 160)), int(rng.integers(0, 120))
            picture = picture.resize(
                (self.side, self.side), Image.Resampling.BICUBIC, (left, top, left + 480, top + 360)
            )
            if rng.random() < 0.5:
                picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            return torch.from_numpy(np.array(picture).transpose(2, 0, 1).copy()), index % 1000

    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    # fmt: off
    loader = torch.utils.data.DataLoader(
        Photos([jpeg(i) for i in range(16)], args.image), batch_size=args.batch, num_workers=args.workers,
        pin_memory=args.device == "cuda", persistent_workers=args.workers > 0,
    )
    # fmt: on
    batches = iter(loader)
    model = torchvision.models.resnet50(weights=None)
    model = model.to(args.device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        pixels, labels = next(batches)
        images = pixels.to(args.device, non_blocking=True).float().div_(255)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = labels.to(args.device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    loop.run(step, args=args, counts={"images": args.batch, "workers": args.workers})


if __name__ == "__main__":
    main()
