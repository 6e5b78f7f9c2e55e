"""Atoll's SQL against PostgreSQL's: generated statements whose answers must be the same.

Run `make differential`, or `python -m differential --help` at the top of the repository.

1. `tables` makes a few small tables by seed, with the same INSERT statements for every database.
2. `expressions` and `statements` make typed statements over them as trees.
3. `databases` runs a statement in PostgreSQL (the oracle), Atoll, and DuckDB (an opinion).
4. `compare` decides whether two answers agree; `deliberate` knows the differences on purpose.
5. `minimise` shrinks the tree and the tables of a statement while the difference stays.
6. `kept` writes and reads `kept.txt`: differences of the past with PostgreSQL's answers.
7. `runner` does all that in several processes and prints a report.
"""
