"""The second process of the demo: attaches to the live database and finds clusters of airports.

It takes a snapshot, queries it, runs k-means over arrays that are the owner's memory, adds the
clusters to a database of its own that is built on the snapshot, and publishes that for the next
process. Until it is told to end it takes a snapshot each second and checks it.
"""

import time

import talk

try:
    import atolldb
    import numpy as np
    import pyarrow  # noqa: F401 (loaded now rather than while something is measured)
    from sklearn.cluster import KMeans
except ImportError as error:
    talk.tell("missing", text=str(error))
    raise SystemExit(0) from None

CLUSTERS = 6
# How much a minute of delay counts against a degree on the map when airports are compared.
DELAY_WEIGHT = 1.2
TABLES = ["airports", "airlines", "planes", "weather", "flights"]
BY_AIRPORT_AND_HOUR = """
    SELECT origin, hour, count(*) AS flights, avg(dep_delay)::double precision AS delay
    FROM flights WHERE status = 'arrived'
    GROUP BY origin, hour HAVING count(*) >= 100 ORDER BY origin, hour
"""


def clusters(snapshot):
    """Groups the airports that are served by where they lie and how late one arrives there."""
    airports = snapshot["airports"]
    lat, lon, arrivals, delay_total = (
        airports[name].to_numpy() for name in ("lat", "lon", "arrivals", "arr_delay_total"))
    served = np.flatnonzero(arrivals > 0)
    lat, lon, weight = lat[served], lon[served], arrivals[served]
    delay = delay_total[served] / weight
    # A degree of longitude is shorter than one of latitude. Alaska and Hawaii are moved to the
    # west coast: far from all others, each would be a cluster of its own.
    place = np.column_stack([np.maximum(lon, -125) * np.cos(np.radians(38)), np.clip(lat, 25, 50)])
    features = np.column_stack([place, delay * DELAY_WEIGHT])
    # Airports count by their flights, but a hub must not be a cluster of its own.
    model = KMeans(n_clusters=CLUSTERS, n_init=10, random_state=2013)
    labels = model.fit_predict(features, sample_weight=np.sqrt(weight))
    # Number 0 is the cluster that is least late.
    late = [np.average(delay[labels == at], weights=weight[labels == at])
            for at in range(CLUSTERS)]
    rank = np.argsort(np.argsort(late))
    codes = np.asarray(airports["faa"].to_arrow().to_pylist(), dtype=object)[served]
    return {
        "faa": list(codes),
        "cluster": rank[labels].astype(np.int16),
        "arrivals": np.ascontiguousarray(weight),
        "mean_arr_delay": delay,
    }


def main():
    options = talk.arguments(__doc__, "--publish")
    talk.tell("ready")
    if talk.heard() != "go":
        return
    connection = atolldb.attach(options.database, options.runtime_dir)

    talk.tell("doing", text="first snapshot")
    snapshot = talk.take(connection, options.database, first=True)
    shared, _ = talk.shared_and_copied(snapshot)
    talk.tell("found", text=f"snapshot of {snapshot['flights'].num_rows:,} flights in "
              f"{snapshot.attach_ns / 1e6:,.2f} ms; the columns looked at share {shared:,} bytes")
    talk.tell("doing", text="reading all of it")
    first_read = talk.fingerprint(snapshot, TABLES)

    talk.tell("doing", text="delays by airport and hour")
    begin = time.perf_counter()
    hours = snapshot.sql(BY_AIRPORT_AND_HOUR).fetchall()
    took = time.perf_counter() - begin
    origin, hour, _, delay = max(hours, key=lambda row: row[3])
    talk.tell("found", text=f"delays by airport and hour in {took * 1e3:,.0f} ms: worst from "
              f"{origin} at {hour}:00, {delay:.0f} minutes late on average")

    talk.tell("doing", text="k-means")
    begin = time.perf_counter()
    found = clusters(snapshot)
    took = time.perf_counter() - begin
    derived = snapshot.derive()
    derived.create_table("clusters", found, primary_key=["faa"])
    derived.publish(options.publish, options.runtime_dir)
    talk.tell("found", text=f"k-means over {len(found['faa'])} airports in {took * 1e3:,.0f} ms: "
              f"{CLUSTERS} clusters")
    talk.tell("published", name=options.publish)

    talk.tell("doing", text="a snapshot each second")
    while talk.heard(timeout=1.0) != "end":
        talk.take(connection, options.database, first=False).release()

    talk.tell("doing", text="reading all of the first snapshot again")
    again = talk.fingerprint(snapshot, TABLES)
    talk.check("two reads of one snapshot are identical, all columns",
               first_read == again, f"{first_read}, then {again}")
    hours_again = snapshot.sql(BY_AIRPORT_AND_HOUR).fetchall()
    talk.check("a query of one snapshot gives the same twice", hours == hours_again)
    talk.check_totals(snapshot)
    now = talk.take(connection, options.database, first=False)
    before, after = (int(each["airports"]["arrivals"].to_numpy().sum()) for each in (snapshot, now))
    talk.check("the live database moved on while its snapshot stood still",
               after > before and now.epoch > snapshot.epoch, f"{before}, then {after} arrivals")
    talk.tell("found", text=f"the snapshot still has {before:,} arrivals, the live database "
              f"{after:,}")
    talk.tell("done")


main()
