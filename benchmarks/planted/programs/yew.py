import base
import torch


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    side = torch.cuda.Stream() if base.DEVICE == "cuda" else None
    small, seen, table = torch.ones(8), 0.0, list(range(150_000))
    for _ in base.steps(args.seconds):
        loss = (net(x) - y).square().mean()
        for k in range(8):
            seen += small[k].item()
            if side is not None:
                side.synchronize()
        base.update(optimizer, loss)
        if not args.fixed:
            table = sorted(table, key=lambda v: -v % 1013)


if __name__ == "__main__":
    main()
