"""Figures that others published on the same files, from the collections' README; thresholds chosen on the labels."""

from __future__ import annotations

NAB = {
    "ARTime": {"standard": 67.8, "reward_low_FP_rate": 57.8, "reward_low_FN_rate": 73.7, "split": 62.1},
    "Numenta HTM": {"standard": 66.6, "reward_low_FP_rate": 60.8, "reward_low_FN_rate": 71.1, "split": 64.5},
    "CAD OSE": {"standard": 62.2, "reward_low_FP_rate": 57.1, "reward_low_FN_rate": 66.3, "split": 61.0},
    "Random Cut Forest": {"standard": 49.5, "reward_low_FP_rate": 38.2, "reward_low_FN_rate": 56.0, "split": 42.9},
}
CURVES = {  # thresholds fixed beforehand, but those of the last column
    "3 sigma of a rolling day": {
        "f1": 0.414,
        "precision": 0.858,
        "recall": 0.272,
        "false_per_week": 0.14,
        "best_pa7_f1": 0.672,
    },
    "seasonal naive": {"f1": 0.488, "precision": 0.440, "recall": 0.548, "false_per_week": 2.18, "best_pa7_f1": 0.780},
}
SMD = {
    "sum of z squared": {"auc_pr": 0.427, "best_f1": 0.462, "vus_pr": 0.452},
    "PCA residual, 90 %": {"auc_pr": 0.445, "best_f1": 0.508, "vus_pr": 0.458},
}
ASD = {
    "sum of z squared": {"auc_pr": 0.143, "best_f1": 0.252, "vus_pr": 0.145},
    "PCA residual, 90 %": {"auc_pr": 0.157, "best_f1": 0.236, "vus_pr": 0.218},
}
CHANGES = {
    "binseg, default": {"f1": 0.760, "covering": 0.742},
    "amoc, default": {"f1": 0.744, "covering": 0.767},
    "saying nothing": {"f1": 0.711, "covering": 0.627},
    "bocpd, default": {"f1": 0.668, "covering": 0.646},
}
LOGS = {
    "Drain, settings for each system": {"ga": 0.848, "fga": 0.746},
    "Drain, one setting, masks": {"ga": 0.710, "fga": 0.721},
}
INCIDENTS = {  # rules fixed beforehand
    "processor above 50 % in any pod": {"found": 3, "in_time": 3, "first": 3, "far_per_day": 9.0, "per_stop": 0.06},
    "lines with error, exception or fail": {
        "found": 7,
        "in_time": 7,
        "first": 0,
        "far_per_day": 27.0,
        "per_stop": 0.25,
    },
    "all lines stop": {"found": 16, "in_time": 0, "first": 0, "far_per_day": 0.0, "per_stop": 1.0},
    "random": {"found": 7, "in_time": 5, "first": 0, "far_per_day": 36.0, "per_stop": 0.44},
}
PUBLISHED = {"nab": NAB, "wsd": CURVES, "smd": SMD, "asd": ASD, "tcpd": CHANGES, "logs": LOGS, "nezha": INCIDENTS}
