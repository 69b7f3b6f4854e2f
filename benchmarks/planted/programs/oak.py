import tempfile
from pathlib import Path

import base
import torch


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    extra = torch.zeros(1 << 26)
    with tempfile.TemporaryDirectory() as folder:
        for i in base.steps(args.seconds):
            loss = (net(x) - y).square().mean()
            base.update(optimizer, loss)
            if i % 50 == 49 and not args.fixed:
                torch.save((net.state_dict(), extra), Path(folder) / "last.pt")


if __name__ == "__main__":
    main()
