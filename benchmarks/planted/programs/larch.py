import base


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    for _ in base.steps(args.seconds):
        error = (net(x) - y).square().mean(1)
        mask = error > 1.0
        if args.fixed:
            loss = (error * mask).sum() / mask.sum()
        else:
            loss = error[mask].mean()
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
