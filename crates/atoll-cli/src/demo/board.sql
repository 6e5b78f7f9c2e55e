-- The five tables of the demo. The columns are those of the files (demo/data/README.md), and
-- beside them: the state of a flight, and the running totals of airports and airlines.

CREATE TABLE airports (
    faa text PRIMARY KEY,
    name text NOT NULL,
    lat double precision NOT NULL,
    lon double precision NOT NULL,
    alt integer NOT NULL,
    tz smallint NOT NULL,
    dst text NOT NULL,
    tzone text,
    -- Over the flights that have arrived: as their origin ...
    departures bigint NOT NULL,
    dep_delay_total bigint NOT NULL,
    -- ... and as their destination.
    arrivals bigint NOT NULL,
    arr_delay_total bigint NOT NULL
);

CREATE TABLE airlines (
    carrier text PRIMARY KEY,
    name text NOT NULL,
    -- Over the flights that have arrived.
    flights_arrived bigint NOT NULL,
    arr_delay_total bigint NOT NULL,
    distance_total bigint NOT NULL
);

CREATE TABLE planes (
    tailnum text PRIMARY KEY,
    year smallint,
    type text NOT NULL,
    manufacturer text NOT NULL,
    model text NOT NULL,
    engines smallint NOT NULL,
    seats smallint NOT NULL,
    speed smallint,
    engine text NOT NULL
);

CREATE TABLE weather (
    origin text NOT NULL,
    year smallint NOT NULL,
    month smallint NOT NULL,
    day smallint NOT NULL,
    hour smallint NOT NULL,
    temp double precision,
    dewp double precision,
    humid double precision,
    wind_dir smallint,
    wind_speed double precision,
    wind_gust double precision,
    precip double precision NOT NULL,
    pressure double precision,
    visib double precision NOT NULL,
    time_hour timestamp NOT NULL,
    PRIMARY KEY (origin, time_hour)
);

CREATE TABLE flights (
    id bigint PRIMARY KEY,
    year smallint NOT NULL,
    month smallint NOT NULL,
    day smallint NOT NULL,
    dep_time smallint,
    sched_dep_time smallint NOT NULL,
    dep_delay smallint,
    arr_time smallint,
    sched_arr_time smallint NOT NULL,
    arr_delay smallint,
    carrier text NOT NULL,
    flight smallint NOT NULL,
    tailnum text,
    origin text NOT NULL,
    dest text NOT NULL,
    air_time smallint,
    distance smallint NOT NULL,
    hour smallint NOT NULL,
    minute smallint NOT NULL,
    time_hour timestamp NOT NULL,
    -- scheduled, then departed and arrived or diverted; or cancelled
    status text NOT NULL
);
