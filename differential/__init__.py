"""Atoll's SQL against PostgreSQL's: what is generated must fare the same in both.

Run `make differential`, or `python -m differential --help` at the top of the repository.

Queries (`--statements`):

1. `tables` makes a few small tables by seed, with the same INSERT statements for every database.
2. `expressions` and `statements` make typed statements over them as trees.
3. `databases` runs a statement in PostgreSQL (the oracle), Atoll, and DuckDB (an opinion).
4. `compare` decides whether two answers agree; `deliberate` knows the differences on purpose.
5. `minimise` shrinks the tree and the tables of a statement while the difference stays.
6. `kept` writes and reads `kept.txt`: differences of the past with PostgreSQL's answers.

Changes and transactions (`--transactions`):

1. `schemas` makes tables with keys and indexes of every kind, `changes` the statements, of `pieces`
   that know how they become smaller, and `definitions` those that alter the tables.
2. `stories` puts them into transactions, plays them in both databases and shrinks what differs;
   `errors` has the classes of errors.

Sessions beside each other (`--interleavings`):

1. `sessions` performs a schedule, and says which steps wait.
2. `interleavings` makes schedules at READ COMMITTED and compares them with PostgreSQL.
3. `serial` makes schedules of serializable transactions, and looks for an order of them.
4. `scenarios` has an anomaly each, for every scheme and level; `python/tests/test_anomalies.py`.

`runner` does all that in several processes and prints a report.
"""
