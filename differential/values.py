"""Values worth trying, of each type, as the text that every database reads in quotes."""

import uuid

INTEGERS = {
    "int2": "0 1 2 3 5 7 10 100 -1 -2 -7 127 128 255 1000 -32768 -32767 32767 181 182",
    "int4": "0 1 2 3 5 7 10 100 -1 -2 -7 1000 32767 32768 -32769 46340 46341 65536 -2147483648 "
    "-2147483647 2147483647 2147483646 16777217 1000000",
    "int8": "0 1 2 3 5 7 10 100 -1 -2 -7 1000 2147483647 2147483648 -2147483649 3037000499 "
    "3037000500 4294967296 9007199254740993 9223372036854775807 -9223372036854775808 "
    "-9223372036854775807 1000000000000",
}
FLOATS = {
    "float4": "0 -0 1 -1 2 3 0.5 1.5 2.5 -2.5 0.1 0.2 0.7 100 1e10 16777216 16777217 3.4028235e38 "
    "-3.4028235e38 1.1754944e-38 1e-45 32767.5 2147483648 9.223372e18 1e-5 123456 1234567 "
    "NaN Infinity -Infinity",
    "float8": "0 -0 1 -1 2 3 0.5 1.5 2.5 -2.5 3.5 0.1 0.2 0.3 0.285 1.005 100 1e10 1e15 1e16 1e22 "
    "1e-4 1e-5 1e-7 1e300 -1e300 1.7976931348623157e308 -1.7976931348623157e308 "
    "2.2250738585072014e-308 5e-324 9007199254740993 9223372036854775807 -9223372036854775808 "
    "2147483647.5 32767.49 -32768.5 123456789.123 3.4028235e38 1e39 1e-46 NaN Infinity -Infinity",
}
#: Of numeric(9, 2), numeric(38, 10), numeric(38, 0) by their digits behind the point.
DECIMALS = {
    2: "0 0.01 -0.01 1 1.50 2.50 -2.50 0.05 3 7.25 100 9999999.99 -9999999.99 0.5 32767.5 1.25",
    10: "0 0.0000000001 -0.0000000001 1 1.5 2.5 -2.5 0.05 100 12345.6789 0.3333333333 0.5 "
    "9223372036854775807.5 2147483647.5 9999999999999999999999999999.9999999999 "
    "-9999999999999999999999999999.9999999999 1000000000000000000 3",
    0: "0 1 2 3 -1 -2 7 100 32768 2147483648 9223372036854775807 9223372036854775808 "
    "-9223372036854775809 100000000000000000000 12345678901234567890 "
    "99999999999999999999999999999999999999 -99999999999999999999999999999999999999",
}
DATES = (
    "1970-01-01 0001-01-01 9999-12-31 2000-02-29 1900-02-28 1582-10-15 1582-10-04 2024-01-31 "
    "2023-12-31 1969-12-31 2038-01-19 1677-09-21 2262-04-12 2020-01-01 2020-01-02 1999-12-31 "
    "0004-02-29 0099-03-01"
).split()
TIMES = (
    "00:00:00 12:00:00 23:59:59 23:59:59.999999 00:00:00.000001 05:17:00.5 10:20:30.123 00:00:01"
).split()
TIMESTAMPS = [f"{day} {TIMES[at % len(TIMES)]}" for at, day in enumerate(DATES)] + [
    f"{day} 00:00:00" for day in DATES[:6]
]
ZONES = ("", "", "+00", "Z", "+02", "-05:30", "+0545", " UTC")
CLOCKS = [*TIMES, "24:00:00", "12:00", "00:00", "06:30:15.25"]
UUIDS = [
    "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    "{a0eebc999c0b4ef8bb6d6bb9bd380a12}", "7fffffff-0000-0000-0000-000000000000",
    "80000000-0000-0000-0000-000000000000",
]  # fmt: skip
#: What may stand for one or not.
CLOCK_TEXTS = [
    "10:00", "24:00", "24:00:01", "25:00", "10:60", "10:20:60", "x", "", "1:30 PM", "13:00 PM",
    "040506", "2020-01-01 10:20", " 10:20 ", "10:20:30.5",
]  # fmt: skip
UUID_TEXTS = [*UUIDS, "x", "", "a0eebc99", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g"]
TEXTS = [
    "", "a", "A", "b", "B", "ab", "abc", "abcd", " a", "a ", "é", "ß", "日本", "😀", "%", "_",
    "a_b", "a%b", "\\", "'", "1", "2.5", "true", "NULL", "zzzz", "Zz", "twelve bytes",
    "more than twelve bytes", "more than twelve bytez", "a\tb", "~", "0",
]  # fmt: skip
#: What may stand for a number or not.
NUMBER_TEXTS = [
    "1", " 42 ", "-7", "2.5", "1e3", "0", "NaN", "abc", "", "32768", "99999999999", "+5", ".5",
    "5.", "Infinity", "-inf", "1e400", "-0", "2147483647.5", "0.5", "1.5", "--1", "1 2", "1e-3",
    "123456789012345678901234567890", "007",
]  # fmt: skip
#: What may stand for a boolean or not.
BOOL_TEXTS = [
    "t", "true", "TRUE", "tr", "f", "false", "fals", "y", "yes", "n", "no", "on", "off", "of", "o",
    "1", "0", " true ", "2", "", "maybe", "T", "nO",
]  # fmt: skip
DATE_TEXTS = ["2020-02-30", "2020-13-01", "2020-01-32", "", "x", "2020-1-5", " 2020-01-05 "]
TIMESTAMP_TEXTS = [
    "2020-01-01", "2020-01-01 10:00", "2020-01-01T10:00:00", "2020-01-01 10:00:00.5",
    "2020-01-01 25:00:00", "2020-01-01 10:61", "x", "2020-02-30 00:00:00", " 2020-01-01 01:02:03 ",
]  # fmt: skip
BYTES = ["", "00", "ff", "00ff", "61", "616263", "6162", "7f", "80", "00112233445566778899aabbcc"]
INTERVALS = [
    "1 day", "-1 day", "30 days", "1 month", "-1 month", "1 year", "3 hours", "90 minutes",
    "1 second", "0.5 seconds", "1 mon 2 days", "-1 years 3 days", "1 day 02:03:04", "13 months",
    "0 days", "400 days",
]  # fmt: skip
LIKES = ["a%", "%a", "_", "%", "a_b", "a\\_b", "%b%", "", "é%", "\\\\", "A%", "%ab_", "__"]


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def random_text(rng, type_, scale=2):
    """The text of a value of a type; usually one that is worth trying, otherwise any."""
    known = rng.random() < 0.75
    if type_ in INTEGERS:
        if known:
            return rng.choice(INTEGERS[type_].split())
        bits = rng.randrange(1, {"int2": 15, "int4": 31, "int8": 63}[type_] + 1)
        return str(rng.choice((1, -1)) * rng.getrandbits(bits))
    if type_ in FLOATS:
        if known:
            return rng.choice(FLOATS[type_].split())
        if rng.random() < 0.5:
            return str(rng.randrange(-2000, 2000) / 16)
        exponent = rng.randrange(-300, 300) if type_ == "float8" else rng.randrange(-30, 30)
        return f"{rng.choice(('', '-'))}{rng.uniform(1, 10):.{rng.randrange(1, 17)}f}e{exponent}"
    if type_ == "numeric":
        if known:
            return rng.choice(DECIMALS[scale].split())
        digits = rng.getrandbits(rng.randrange(1, 29 if scale == 2 else 110))
        sign = rng.choice(("", "-"))
        return f"{sign}{digits // 10**scale}" + (f".{digits % 10**scale:0{scale}}" * (scale > 0))
    if type_ == "bool":
        return rng.choice(("true", "false"))
    if type_ == "date":
        return rng.choice(DATES) if known else random_day(rng)
    if type_ == "timestamp":
        if known:
            return rng.choice(TIMESTAMPS)
        micros = rng.choice(("", ".5", f".{rng.randrange(10**6):06}"))
        clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
        return f"{random_day(rng)} {clock}{micros}"
    if type_ == "timestamptz":
        return random_text(rng, "timestamp") + rng.choice(ZONES)
    if type_ == "time":
        if known:
            return rng.choice(CLOCKS)
        return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    if type_ == "uuid":
        return rng.choice(UUIDS) if known else str(uuid.UUID(int=rng.getrandbits(128)))
    if type_ == "text":
        if known:
            return rng.choice(TEXTS)
        return "".join(rng.choice("abABé %_0") for _ in range(rng.randrange(1, 20)))
    return "\\x" + (rng.choice(BYTES) if known else rng.randbytes(rng.randrange(1, 20)).hex())


def random_day(rng):
    year = rng.choice((rng.randrange(1, 10000), rng.randrange(1960, 2040)))
    return f"{year:04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
