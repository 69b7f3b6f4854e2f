"""The Report: every number computed once (`build`), then rendered as words, tables, JSON or a plot."""
