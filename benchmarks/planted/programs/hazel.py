import base
import torch


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    for _ in base.steps(args.seconds):
        error = (net(x) - y).square().mean(1)
        if args.fixed:
            hard = error.topk(len(error) // 2).indices
        else:
            hard = torch.nonzero(error > 1.0)
        loss = error[hard.view(-1)].mean()
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
