"""The univariate model: how improbable is a window of a metric, given the series' own past?"""
