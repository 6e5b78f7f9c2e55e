-- A web shop: schemas, identities, serials, generated columns, conditions, actions, views, comments.
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'what is sold, and to whom';
CREATE TABLE shop.customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email varchar(100) NOT NULL UNIQUE,
    name text NOT NULL,
    joined timestamptz DEFAULT '2024-02-29 12:00:00+01' NOT NULL,
    discount numeric(4,2) DEFAULT 0 NOT NULL,
    CONSTRAINT sensible_discount CHECK (discount >= 0 AND discount <= 100)
);
CREATE TABLE shop.products (
    sku char(8) PRIMARY KEY,
    title text NOT NULL,
    price numeric(10,2) NOT NULL CHECK (price > 0),
    stock integer DEFAULT 0 NOT NULL,
    weight double precision,
    picture bytea,
    tag uuid
);
CREATE TABLE shop.orders (
    id serial PRIMARY KEY,
    customer bigint NOT NULL REFERENCES shop.customers ON DELETE CASCADE,
    placed timestamp NOT NULL,
    paid boolean DEFAULT false NOT NULL,
    note text
);
CREATE TABLE shop.lines (
    "order" integer NOT NULL REFERENCES shop.orders ON DELETE CASCADE ON UPDATE CASCADE,
    pos smallint NOT NULL,
    sku char(8) NOT NULL REFERENCES shop.products,
    amount integer NOT NULL CHECK (amount > 0),
    price numeric(10,2) NOT NULL,
    total numeric(14,2) GENERATED ALWAYS AS (price * amount) STORED,
    PRIMARY KEY ("order", pos)
);
CREATE INDEX orders_by_customer ON shop.orders (customer, placed);
CREATE VIEW shop.totals AS
    SELECT l."order", sum(l.total) AS total FROM shop.lines l GROUP BY l."order";
CREATE VIEW open_orders AS
    SELECT o.id, c.name, t.total FROM shop.orders o
    JOIN shop.customers c ON c.id = o.customer JOIN shop.totals t ON t."order" = o.id
    WHERE NOT o.paid;
COMMENT ON TABLE shop.lines IS 'what an order
has';
COMMENT ON COLUMN shop.products.sku IS 'it''s on the box';
COMMENT ON VIEW open_orders IS 'to be paid';
COMMENT ON CONSTRAINT sensible_discount ON shop.customers IS 'nothing is free';
INSERT INTO shop.customers (email, name) VALUES ('ann@example.org', 'Ann'), ('bob@example.org', 'Bób');
INSERT INTO shop.products VALUES
    ('A1', 'tab	and \ backslash', 9.99, 3, 0.1, '\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
    ('B2', '\N', 1.50, 0, 'NaN', NULL, NULL),
    ('C3', '', 100.00, 7, '-Infinity', '', NULL);
INSERT INTO shop.orders (customer, placed, note) VALUES
    (1, '2024-03-01 10:00:00.25', NULL), (2, '2024-03-02 00:00:00', 'line
break');
INSERT INTO shop.lines VALUES (1, 1, 'A1', 2, 9.99), (1, 2, 'B2', 1, 1.50), (2, 1, 'C3', 1, 95.00);
