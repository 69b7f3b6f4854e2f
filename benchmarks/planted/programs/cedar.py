import base


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    kept = []
    for _ in base.steps(args.seconds):
        out = net(x)
        loss = (out - y).square().mean()
        base.update(optimizer, loss)
        kept = kept[-9:]
        if args.fixed:
            kept.append(out[:64].detach())
        else:
            kept.append(out[:64].detach().cpu())


if __name__ == "__main__":
    main()
