import zlib

import base
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, fixed):
        self.fixed = fixed
        self.packed = zlib.compress(np.random.default_rng(0).integers(0, 9, 1 << 22, np.uint8).tobytes(), 6)
        self.ready = torch.zeros(1024)

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        if self.fixed:
            return self.ready
        pixels = zlib.decompress(self.packed)
        image = np.frombuffer(pixels, np.uint8)[: 1 << 10].astype(np.float32)
        return torch.from_numpy(image / 255)


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    loader = iter(
        DataLoader(Images(args.fixed), batch_size=8, num_workers=2, pin_memory=base.DEVICE == "cuda")
    )
    for _ in base.steps(args.seconds):
        images = next(loader)
        scale = images.to(base.DEVICE, non_blocking=True).mean()
        loss = (net(x) * scale - y).square().mean()
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
