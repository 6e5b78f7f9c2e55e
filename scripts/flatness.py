#!/usr/bin/env python3
"""Draws the throughput of a long run, second by second, from the JSON of `atoll bench`.

usage: flatness.py RUN.json OUT.svg
"""

import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("flatness.py needs matplotlib: run it with .venv/bin/python, which `make setup` makes")

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 (the back end is chosen before)


def main(run_path: str, out_path: str) -> None:
    try:
        with open(run_path, encoding="utf-8") as file:
            run = json.load(file)
        series = [value / 1e3 for value in run["throughput_series_txn_s"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{run_path} is no JSON of `atoll bench ycsb --json`: {error!r}")
    window = 15
    spans = [series[max(0, at - window + 1) : at + 1] for at in range(len(series))]
    means = [sum(span) / len(span) for span in spans]
    figure, axes = plt.subplots(figsize=(9, 3))
    axes.plot(series, color="#b8c4d6", linewidth=0.7, label="each second")
    axes.plot(means, color="#1f4e9c", linewidth=1.6, label=f"mean of {window} s")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, len(series))
    axes.set_xlabel("seconds")
    axes.set_ylabel("thousand txn/s")
    axes.set_title(f"{run['config']['scheme']}, {run['threads']} threads", loc="left", fontsize=10)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(out_path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
