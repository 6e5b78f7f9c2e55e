"""The third process of the demo: draws what the analyst found.

It attaches to the analyst's database, which shows the clusters beside the tables of the very
snapshot that they were computed from, joins both, and draws a map and a chart of delays.
"""

import pathlib

import talk

try:
    import atolldb
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot  # noqa: F401 (loaded now rather than while something is measured)
    import pyarrow  # noqa: F401

    import charts
except ImportError as error:
    talk.tell("missing", text=str(error))
    raise SystemExit(0) from None

AIRPORTS = """
    SELECT a.faa, a.name, a.lat, a.lon, a.arrivals, a.arr_delay_total, c.cluster,
           c.arrivals AS clustered_arrivals
    FROM clusters c JOIN airports a ON a.faa = c.faa
    ORDER BY a.arrivals DESC
"""
GROUND = "SELECT lat, lon FROM airports"
FLIGHTS = "SELECT count(*) FROM flights WHERE status = 'arrived'"
BY_ORIGIN_AND_HOUR = """
    SELECT origin, hour, count(*) AS flights, avg(dep_delay)::double precision AS delay
    FROM flights WHERE status = 'arrived'
    GROUP BY origin, hour HAVING count(*) >= 100 ORDER BY origin, hour
"""
BY_DEST_AND_HOUR = """
    SELECT dest, hour, count(*) AS flights, avg(arr_delay)::double precision AS delay
    FROM flights WHERE status = 'arrived' AND dest IN (
        SELECT faa FROM airports ORDER BY arrivals DESC LIMIT 16)
    GROUP BY dest, hour
"""


def main():
    options = talk.arguments(__doc__, "--out")
    talk.tell("ready")
    if talk.heard() != "go":
        return
    out = pathlib.Path(options.out)
    connection = atolldb.attach(options.database, options.runtime_dir)
    talk.tell("doing", text="taking a snapshot")
    snapshot = talk.take(connection, options.database, first=True)

    talk.tell("doing", text="joining clusters and airports")
    airports = snapshot.sql(AIRPORTS).to_pandas()
    # The live totals have moved on since; only the same snapshot has the same numbers.
    talk.check("the clusters and the airports are of the same snapshot",
               len(airports) > 0 and (airports.arrivals == airports.clustered_arrivals).all(),
               f"{(airports.arrivals != airports.clustered_arrivals).sum()} airports differ")
    flights = snapshot.sql(FLIGHTS).fetchall()[0][0]

    talk.tell("doing", text="drawing the map")
    charts.draw_map(airports, snapshot.sql(GROUND).to_pandas(), flights, out / "map.png")
    talk.tell("doing", text="drawing the delays")
    charts.draw_delays(snapshot.sql(BY_ORIGIN_AND_HOUR).to_pandas(),
                       snapshot.sql(BY_DEST_AND_HOUR).to_pandas(), flights, out / "delays.png")
    talk.tell("found", text=f"drew {out / 'map.png'} and {out / 'delays.png'}")
    talk.tell("done")


main()
