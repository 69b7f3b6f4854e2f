import base
import torch


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    rows = torch.zeros(1 << 25 if base.DEVICE == "cuda" else 1 << 20)
    kept = rows.to(base.DEVICE)
    for _ in base.steps(args.seconds):
        batch = kept if args.fixed else rows.to(base.DEVICE)
        loss = (net(x) + batch[0] - y).square().mean()
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
