"""The univariate model in numpy: the reference model of the compiled one, whose stages experiments may change."""
