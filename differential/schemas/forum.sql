-- A forum: domains, arrays, JSON, intervals, and conditions as PostgreSQL writes them again.
CREATE SCHEMA forum;
CREATE DOMAIN forum.nick AS varchar(20) CHECK (VALUE ~ '^[a-z]+$');
CREATE DOMAIN forum.stars AS smallint DEFAULT 3 NOT NULL CONSTRAINT one_to_five CHECK (VALUE BETWEEN 1 AND 5);
COMMENT ON DOMAIN forum.stars IS 'how it is liked';
CREATE TYPE forum.state AS ENUM ('new', 'open', 'closed');
CREATE TABLE forum.members (
    nick forum.nick PRIMARY KEY,
    email text NOT NULL CHECK (email LIKE '%@%' AND length(email) < 100),
    role varchar(10) DEFAULT 'reader' NOT NULL CHECK (role IN ('reader', 'writer', 'owner')),
    settings jsonb DEFAULT '{}' NOT NULL,
    born date CHECK (born > '1900-01-01' AND born < '2100-01-01'),
    joined timestamptz DEFAULT now() NOT NULL,
    patience interval DEFAULT '1 day' NOT NULL
);
CREATE TABLE forum.threads (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    title text NOT NULL,
    state forum.state DEFAULT 'new' NOT NULL,
    tags text[] DEFAULT '{}' NOT NULL CHECK (cardinality(tags) <= 4),
    votes integer[],
    score numeric(6,2) CHECK (score BETWEEN -100 AND 100),
    price double precision CHECK (price >= 0 AND price <= 1e6),
    starter forum.nick REFERENCES forum.members ON UPDATE CASCADE ON DELETE SET NULL,
    raw json,
    CHECK (state <> 'closed' OR score IS NOT NULL),
    CHECK (title <> ANY (ARRAY['', ' ']))
);
CREATE TABLE forum.ratings (
    thread bigint NOT NULL REFERENCES forum.threads DEFERRABLE,
    member forum.nick NOT NULL REFERENCES forum.members,
    stars forum.stars,
    PRIMARY KEY (thread, member)
);
CREATE INDEX open_threads ON forum.threads (state, score);
CREATE VIEW forum.best AS
    SELECT t.title, avg(r.stars) AS stars FROM forum.threads t JOIN forum.ratings r ON r.thread = t.id
    WHERE t.state <> 'closed' GROUP BY t.title;
INSERT INTO forum.members (nick, email, settings, born, joined, patience) VALUES
    ('ann', 'a@b', '{"b": [1, null], "a": "é"}', '2000-02-29', '2024-01-01 10:00:00+02', '1 mon 2 days 03:04:05.5'),
    ('bob', '@', '[]', NULL, '2024-01-01', '-1 days');
INSERT INTO forum.threads (title, state, tags, votes, score, price, starter, raw) VALUES
    ('first', 'open', '{a,"b c","\"\\",NULL}', '{1,NULL,-3}', -99.5, 0.1, 'ann', '{"a" : 1}'),
    ('second', 'new', '{}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO forum.ratings VALUES (1, 'ann', 5), (1, 'bob', DEFAULT);
