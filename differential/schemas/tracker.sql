-- An issue tracker: sequences of its own, keys of several columns, deferred checks, no keys.
CREATE SCHEMA "Tracker";
CREATE SEQUENCE "Tracker".tickets START WITH 100 INCREMENT BY 10 MAXVALUE 100000 CYCLE;
CREATE TABLE "Tracker".people (
    login varchar(20) PRIMARY KEY,
    born date,
    boss varchar(20),
    CONSTRAINT of_boss FOREIGN KEY (boss) REFERENCES "Tracker".people DEFERRABLE INITIALLY DEFERRED
);
CREATE TABLE "Tracker"."Issues" (
    project text NOT NULL,
    number integer DEFAULT nextval('"Tracker".tickets') NOT NULL,
    state varchar(10) DEFAULT 'open' NOT NULL,
    owner varchar(20) REFERENCES "Tracker".people ON DELETE SET NULL,
    opened time,
    points numeric(5,1),
    PRIMARY KEY (project, number),
    UNIQUE (owner, points)
);
CREATE TABLE "Tracker".history (project text, number integer, what text, seconds real,
    FOREIGN KEY (project, number) REFERENCES "Tracker"."Issues" MATCH FULL);
CREATE INDEX "By what" ON "Tracker".history (what);
CREATE VIEW "Tracker"."Open" AS SELECT project, number FROM "Tracker"."Issues" WHERE state = 'open';
INSERT INTO "Tracker".people VALUES ('ann', '1999-12-31', NULL), ('bob', NULL, 'ann');
INSERT INTO "Tracker"."Issues" (project, owner, opened, points) VALUES
    ('a', 'ann', '12:34:56.789', 1.5), ('b', 'bob', NULL, NULL);
INSERT INTO "Tracker".history VALUES
    ('a', 100, 'same', 0.5), ('a', 100, 'same', 0.5), (NULL, NULL, 'none', NULL);
CREATE TYPE "Tracker".size AS ENUM ('small', 'it''s large', '');
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE "Tracker".sized (s "Tracker".size DEFAULT 'small' PRIMARY KEY, m mood DEFAULT 'ok'::mood);
INSERT INTO "Tracker".sized VALUES ('', NULL), ('it''s large', 'sad');
