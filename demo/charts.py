"""The charts of the demo: a map of clustered airports, and delays by hour."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

# Okabe and Ito's palette: told apart by people with any kind of colour vision. From the cluster
# that is least late to the one that is latest.
PALETTE = ["#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"]
ORIGINS = {"EWR": ("Newark", "#0072B2"), "JFK": ("Kennedy", "#D55E00"),
           "LGA": ("LaGuardia", "#009E73")}
NEW_YORK = (40.72, -73.95)
# Share of a destination's flights below which an hour's mean says nothing.
SHARE_MIN = 0.002
INK, PALE, LAND = "#222222", "#6b6b6b", "#c6c6c6"
HALO = [withStroke(linewidth=2.5, foreground="white", alpha=0.85)]
SOURCE = ("Data: US Bureau of Transportation Statistics, flights from New York City in 2013 "
          "(replayed as transactions); airports: OpenFlights.")

plt.rcParams.update({
    "font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.edgecolor": "#999999",
    "axes.labelcolor": INK, "xtick.color": PALE, "ytick.color": PALE, "axes.titleweight": "bold",
})


def great_circle(start, end, points=60):
    """Latitudes and longitudes on the shortest way over the globe."""
    ends = np.radians([start, end])
    vectors = np.column_stack([np.cos(ends[:, 0]) * np.cos(ends[:, 1]),
                               np.cos(ends[:, 0]) * np.sin(ends[:, 1]), np.sin(ends[:, 0])])
    angle = np.arccos(np.clip(vectors[0] @ vectors[1], -1, 1))
    share = np.linspace(0, 1, points)[:, None]
    way = (np.sin((1 - share) * angle) * vectors[0] + np.sin(share * angle) * vectors[1])
    way /= max(np.sin(angle), 1e-9)
    return np.degrees(np.arcsin(way[:, 2])), np.degrees(np.arctan2(way[:, 1], way[:, 0]))


def marker_area(arrivals, most):
    """Area of an airport's dot, in points²."""
    return 14 + 420 * arrivals / most


def panel(axes, airports, ground, extent, most, routes=True):
    """Airports and routes of one part of the world."""
    west, east, south, north = extent
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    axes.set_aspect(1 / np.cos(np.radians((south + north) / 2)))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.scatter(ground.lon, ground.lat, s=3.2, color=LAND, linewidths=0, zorder=1)
    if routes:
        for row in airports.itertuples():
            lat, lon = great_circle(NEW_YORK, (row.lat, row.lon))
            axes.plot(lon, lat, color=PALETTE[row.cluster], zorder=2,
                      alpha=0.45, linewidth=0.4 + 2.2 * row.arrivals / most)
    axes.scatter(airports.lon, airports.lat, s=marker_area(airports.arrivals, most),
                 c=[PALETTE[at] for at in airports.cluster], edgecolors="white", linewidths=0.7,
                 zorder=3)


def place_labels(axes, airports, most, count, taken):
    """Labels the largest airports where there is room beside their dots."""
    figure = axes.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    scale = figure.dpi / 72
    dots = []
    for row in airports.itertuples():
        x, y = axes.transData.transform((row.lon, row.lat))
        radius = np.sqrt(marker_area(row.arrivals, most)) / 2 * scale
        dots.append((x, y, radius, row))
    placed = list(taken)
    for x, y, radius, row in dots[:count]:
        away = radius + 2.5 * scale
        for dx, dy, across, up in [(1, 0, "left", "center"), (-1, 0, "right", "center"),
                                   (0, 1, "center", "bottom"), (0, -1, "center", "top"),
                                   (.75, .75, "left", "bottom"), (.75, -.75, "left", "top"),
                                   (-.75, .75, "right", "bottom"), (-.75, -.75, "right", "top")]:
            offset = (dx * away / scale, dy * away / scale)
            text = axes.annotate(row.faa, (row.lon, row.lat), offset,
                                 textcoords="offset points", ha=across, va=up, fontsize=8,
                                 fontweight="bold", color=INK, zorder=5)
            box = text.get_window_extent(renderer).expanded(1.04, 1.04)
            inside = axes.get_window_extent(renderer)
            free = (not any(box.overlaps(other) for other in placed)
                    and not any(touches(box, dot) for dot in dots)
                    and inside.contains(*box.min) and inside.contains(*box.max))
            if free:
                placed.append(box)
                text.set_path_effects(HALO)
                break
            text.remove()


def touches(box, dot):
    """Whether a label would lie on a dot."""
    x, y, radius, _ = dot
    near_x, near_y = np.clip(x, box.x0, box.x1), np.clip(y, box.y0, box.y1)
    return (near_x - x) ** 2 + (near_y - y) ** 2 < radius ** 2


def cluster_legend(airports):
    """A line for each cluster: its largest airports and how late one arrives there."""
    lines, labels = [], []
    for number, members in airports.groupby("cluster"):
        late = members.arr_delay_total.sum() / members.arrivals.sum()
        names = ", ".join(members.faa.head(3)) + (" …" if len(members) > 3 else "")
        how = f"{late:.1f} min late" if late >= 0 else f"{-late:.1f} min early"
        airports_count = f"{len(members)} airport{'s' if len(members) > 1 else ''}"
        lines.append(Line2D([], [], marker="o", linestyle="", markersize=9,
                            color=PALETTE[number], markeredgecolor="white"))
        labels.append(f"{how}  ·  {names}  ({airports_count})")
    return lines, labels


def draw_map(airports, ground, flights, path):
    """Draws where the flights from New York go, coloured by cluster."""
    most = airports.arrivals.max()
    figure = plt.figure(figsize=(12.4, 8.6), dpi=150)
    main = figure.add_axes([0.02, 0.075, 0.96, 0.82])
    panel(main, airports, ground, (-127, -62.5, 15.8, 50.2), most)
    for spine in main.spines.values():
        spine.set_visible(False)
    insets = [([0.028, 0.095, 0.135, 0.17], (-170, -129, 53, 72), "Alaska"),
              ([0.172, 0.095, 0.115, 0.17], (-161.5, -153.5, 18, 23.2), "Hawaii")]
    for place, extent, name in insets:
        west, east, south, north = extent
        inside = airports[airports.lon.between(west, east) & airports.lat.between(south, north)]
        axes = figure.add_axes(place)
        panel(axes, inside, ground, extent, most, routes=False)
        axes.text(0.04, 0.95, name, transform=axes.transAxes, va="top", fontsize=8, color=PALE,
                  path_effects=HALO, zorder=4)
        place_labels(axes, inside, most, 2, [])
    main.plot(NEW_YORK[1], NEW_YORK[0], marker="*", markersize=17, color=INK,
              markeredgecolor="white", zorder=6)
    star = main.annotate("New York", NEW_YORK[::-1], (10, -3), textcoords="offset points",
                         fontsize=10, fontweight="bold", zorder=6, path_effects=HALO)
    lines, labels = cluster_legend(airports)
    # In the Gulf of Mexico, between Hawaii's frame and the way to Puerto Rico.
    legend = main.legend(lines, labels, loc="lower left",
                         title="Mean delay on arrival, by cluster", fontsize=9,
                         title_fontsize=9.5, framealpha=0.95, edgecolor="#cccccc",
                         alignment="left", borderpad=0.8, labelspacing=0.55,
                         bbox_to_anchor=(0.315, 0.02))
    figure.canvas.draw()
    taken = [star.get_window_extent(), legend.get_window_extent()]
    place_labels(main, airports, most, 45, taken)
    figure.text(0.025, 0.955, "Where flights from New York go, and how late they arrive",
                fontsize=17, fontweight="bold")
    figure.text(0.025, 0.917, f"{len(airports)} airports, clustered by k-means over position "
                f"and mean arrival delay; {flights:,} arrivals in the snapshot. Dots and lines "
                "grow with arrivals.", fontsize=10.5, color=PALE)
    figure.text(0.025, 0.028, SOURCE + " Grey: all airports of the table.", fontsize=8.5,
                color=PALE)
    figure.savefig(path, facecolor="white")
    plt.close(figure)


def hour_label(hour):
    return f"{hour}:00"


def draw_delays(origins, destinations, flights, path):
    """Draws departure delays by hour and origin, arrival delays by hour and destination."""
    figure = plt.figure(figsize=(13.2, 6.9), dpi=150)
    left = figure.add_axes([0.055, 0.135, 0.40, 0.645])
    right = figure.add_axes([0.535, 0.135, 0.375, 0.645])
    scale = figure.add_axes([0.925, 0.135, 0.013, 0.645])
    figure.text(0.025, 0.935, "Delays pile up over the day", fontsize=17, fontweight="bold")
    figure.text(0.025, 0.885, f"Means over the {flights:,} flights of the snapshot that have "
                "arrived; hours are those of the scheduled departure, New York time.",
                fontsize=10.5, color=PALE)
    lines_by_hour(left, origins)
    heat_map(figure, right, scale, destinations)
    figure.text(0.025, 0.028, SOURCE, fontsize=8.5, color=PALE)
    figure.savefig(path, facecolor="white")
    plt.close(figure)


def lines_by_hour(axes, origins):
    """Mean departure delay by hour, a line for each origin, named at its peak's right."""
    ends = []
    for origin, rows in origins.groupby("origin"):
        name, color = ORIGINS.get(origin, (origin, INK))
        axes.plot(rows.hour, rows.delay, color=color, linewidth=2.4, marker="o", markersize=4.5,
                  markeredgecolor="white", markeredgewidth=0.6)
        last = rows.iloc[-1]
        ends.append([last.delay, last.hour, f"{name} ({origin})", color])
    # The names stand at the ends of the lines, moved apart where they would touch.
    ends.sort()
    height = max(end[0] for end in ends) or 1
    text_at = None
    for delay, hour, text, color in ends:
        text_at = delay if text_at is None else max(delay, text_at + height * 0.06)
        axes.annotate(text, (hour, delay), (hour + 0.4, text_at), color=color, fontweight="bold",
                      fontsize=10, va="center", annotation_clip=False)
    axes.set_title("Departure delay by origin", loc="left", fontsize=12, pad=10)
    axes.set_ylabel("mean delay, minutes")
    axes.set_xlabel("scheduled hour of departure")
    hours = sorted(origins.hour.unique())
    axes.set_xticks([hour for hour in hours if hour % 3 == 0])
    axes.set_xticklabels([hour_label(hour) for hour in hours if hour % 3 == 0])
    axes.set_xlim(min(hours) - 0.5, max(hours) + 4.6)
    axes.set_ylim(bottom=min(0, origins.delay.min() - 1))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def heat_map(figure, axes, scale, destinations):
    """Mean arrival delay by destination and hour."""
    share = destinations.flights / destinations.groupby("dest").flights.transform("sum")
    table = destinations[share >= SHARE_MIN].pivot(index="dest", columns="hour", values="delay")
    totals = destinations.assign(total=destinations.delay * destinations.flights).groupby("dest")
    mean = totals.total.sum() / totals.flights.sum()
    table = table.reindex(mean.sort_values(ascending=False).index)
    table = table.reindex(columns=range(int(table.columns.min()), int(table.columns.max()) + 1))
    reach = np.nanpercentile(np.abs(table.to_numpy()), 98)
    norm = TwoSlopeNorm(vcenter=0, vmin=-max(reach / 2, 1), vmax=max(reach, 1))
    axes.set_facecolor("#eeeeee")
    image = axes.pcolormesh(table.to_numpy(), cmap="PuOr_r", norm=norm, edgecolors="white",
                            linewidth=0.6)
    axes.set_yticks(np.arange(len(table)) + 0.5)
    axes.set_yticklabels(table.index, fontsize=9.5, color=INK)
    ticks = [at for at, hour in enumerate(table.columns) if hour % 3 == 0]
    axes.set_xticks(np.array(ticks) + 0.5)
    axes.set_xticklabels([hour_label(table.columns[at]) for at in ticks])
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.set_xlabel("scheduled hour of departure (grey: under 0.2% of the flights there)")
    axes.set_title("Arrival delay at the 16 busiest destinations", loc="left", fontsize=12, pad=10)
    bar = figure.colorbar(image, cax=scale, extend="both")
    bar.set_label("mean delay, minutes (violet: early)")
    bar.outline.set_visible(False)
