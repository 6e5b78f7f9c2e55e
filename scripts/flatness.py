#!/usr/bin/env python3
"""Draws throughput and memory of long runs, from the JSON of `atoll bench`.

usage: flatness.py RUN.json... OUT.svg
"""

import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("flatness.py needs matplotlib: run it with .venv/bin/python, which `make setup` makes")

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt  # noqa: E402 (the back end is chosen before)

STEP = 5
STRONG, INK = "#1f4e9c", "#444444"


def read(path: str) -> tuple[str, list[float], list[float]]:
    """Scheme, thousand transactions and MiB of each second."""
    try:
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        rates = [value / 1e3 for value in run["throughput_series_txn_s"]]
        memory = [value / 2**20 for value in run["resident_series_bytes"]]
        if not rates or len(rates) != len(memory):
            raise ValueError("it is shorter than a second")
        return run["config"]["scheme"], rates, memory
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{path} is no JSON of a run of `atoll bench --json`: {error!r}")


def thin(series: list[float]) -> tuple[list[int], list[float]]:
    """Means of a few seconds each, with the middle of each: a plot shows no more."""
    begins = range(0, len(series), STEP)
    spans = [series[begin : begin + STEP] for begin in begins]
    return [begin + STEP // 2 for begin in begins], [sum(span) / len(span) for span in spans]


def tidy(axes, series: list[float]) -> None:
    axes.set_xlim(0, len(series))
    axes.set_ylim(0, max(thin(series)[1]) * 1.15)
    axes.tick_params(labelsize=7, colors=INK)
    axes.locator_params(axis="y", nbins=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main(runs: list[str], out_path: str) -> None:
    figure, rows = plt.subplots(
        len(runs), 2, figsize=(9, 0.6 + 1.05 * len(runs)), squeeze=False, sharex=True
    )
    for (scheme, rates, memory), (left, right) in zip(map(read, runs), rows):
        left.plot(*thin(rates), color=STRONG, linewidth=1.1)
        right.plot(*thin(memory), color=STRONG, linewidth=1.3)
        tidy(left, rates)
        tidy(right, memory)
        left.set_ylabel(scheme, rotation=0, ha="right", va="center", fontsize=8, color=INK)
    rows[0][0].set_title(f"thousand txn/s, means of {STEP} s", loc="left", fontsize=9)
    rows[0][1].set_title("memory of the process, MiB", loc="left", fontsize=9)
    for axes in rows[-1]:
        axes.set_xlabel("seconds", fontsize=8)
    figure.tight_layout(h_pad=0.4)
    figure.savefig(out_path)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1:-1], sys.argv[-1])
