"""What a run found: counts, and differences grouped by what they have in common."""

import re
from collections import defaultdict


def skeleton(sql):
    """A statement without the values of its literals, to find its like."""
    sql = re.sub(r"'(?:[^']|'')*'", "'…'", sql)
    sql = re.sub(r"\b\d[\d.]*(e[+-]?\d+)?\b", "0", sql)
    return re.sub(r"\bAS [abc]\b|\b(t[123])\b", "t", sql)


def grouped(findings):
    """Findings with the same signature and skeleton together; the largest groups first."""
    groups = defaultdict(list)
    for finding in findings:
        groups[finding.signature, skeleton(finding.sql)].append(finding)
    for group in groups.values():
        group.sort(key=lambda f: len(f.sql))
    by_signature = defaultdict(int)
    for (signature, _), group in groups.items():
        by_signature[signature] += len(group)
    order = sorted(
        groups.items(),
        key=lambda item: (
            -by_signature[item[0][0]], item[0][0], -len(item[1]), len(item[1][0].sql)
        ),  # fmt: skip
    )
    return [group for _, group in order]


def show(options, counts, groups, pairs, seconds):
    total = sum(counts.values())
    print(f"{total:,} statements and schedules of seed {options.seed} in {seconds:.0f} s")
    for name, count in sorted(counts.items(), key=lambda item: (item[0][:9], -item[1])):
        print(f"  {count:8,}  {name}")
    for group in groups[:40]:
        first = group[0]
        print(f"\n{len(group)} × {first.signature}")
        print(_text(first))
    if len(groups) > 40:
        print(f"\n… {len(groups) - 40} more groups; --findings FILE writes all")


def _text(finding):
    lines = [*finding.setup, finding.sql]
    names = ("postgres", "PostgreSQL"), ("atoll", "Atoll"), ("duckdb", "DuckDB")
    answers = [(name, getattr(finding, field)) for field, name in names]
    lines += [f"-- {name}: {answer}" for name, answer in answers if answer]
    return "\n".join("  " + line[:600] for whole in lines for line in whole.splitlines())


def markdown(options, counts, groups, pairs):
    """The findings as a document."""
    lines = [f"# Differences of seed {options.seed}", "", "| count | what |", "|---|---|"]
    lines += [f"| {count:,} | {name} |" for name, count in counts.most_common()]
    signature = None
    for group in groups:
        first = group[0]
        if first.signature != signature:
            signature, told = first.signature, 0
            lines += ["", f"## {signature}"]
        told += 1
        if told > 5 and not signature.startswith(("values", "rows", "process")):
            continue
        lines += ["", f"{len(group)} × (batch {first.batch})", "```sql"]
        lines += [line[:2000] for line in (*first.setup, first.sql)]
        lines += [
            f"-- {name}: {answer}" for name, answer in (
                ("PostgreSQL", first.postgres), ("Atoll", first.atoll), ("DuckDB", first.duckdb)
            ) if answer
        ]  # fmt: skip
        lines.append("```")
    lines += ["", "## Both fail, for reasons that sound different", ""]
    for (theirs, ours), (sql, message, other) in sorted(pairs.items()):
        lines += [f"- {theirs} / {ours}: `{sql[:300]}`", f"  - PostgreSQL: {message}"]
        lines += [f"  - Atoll: {other.splitlines()[0][:200]}"]
    return "\n".join(lines) + "\n"


def show_kept(checked):
    """What became of kept statements; gives the exit status."""
    total = wrong = 0
    for entry, what in checked:
        total += 1
        if what:
            wrong += 1
            print(f"{what}:\n{entry.text()}")
    print(f"{total} kept statements, {wrong} differ")
    return 1 if wrong else 0
