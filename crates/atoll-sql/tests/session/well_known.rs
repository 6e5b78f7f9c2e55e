//! The tables of well-known benchmarks, as their PostgreSQL versions define them.

use atoll_sql::SqlSession;

use super::{database, error, rows, tag};

const TPC_C: &str = "
create table warehouse (w_id integer not null, w_ytd decimal(12,2), w_tax decimal(4,4),
    w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20),
    w_state char(2), w_zip char(9));
create table district (d_w_id integer not null, d_id integer not null, d_ytd decimal(12,2),
    d_tax decimal(4,4), d_next_o_id integer, d_name varchar(10), d_street_1 varchar(20),
    d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9));
create table customer (c_w_id integer not null, c_d_id integer not null, c_id integer not null,
    c_discount decimal(4,4), c_credit char(2), c_last varchar(16), c_first varchar(16),
    c_credit_lim decimal(12,2), c_balance decimal(12,2), c_ytd_payment decimal(12,2),
    c_payment_cnt integer, c_delivery_cnt integer, c_street_1 varchar(20), c_street_2 varchar(20),
    c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp,
    c_middle char(2), c_data varchar(500));
create sequence hist_id_seq;
create table history (hist_id integer not null default nextval('hist_id_seq') primary key,
    h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer,
    h_date timestamp, h_amount decimal(6,2), h_data varchar(24));
create table oorder (o_w_id integer not null, o_d_id integer not null, o_id integer not null,
    o_c_id integer, o_carrier_id integer, o_ol_cnt integer, o_all_local integer,
    o_entry_d timestamp);
create table new_order (no_w_id integer not null, no_d_id integer not null,
    no_o_id integer not null);
create table order_line (ol_w_id integer not null, ol_d_id integer not null,
    ol_o_id integer not null, ol_number integer not null, ol_i_id integer not null,
    ol_delivery_d timestamp, ol_amount decimal(6,2), ol_supply_w_id integer, ol_quantity integer,
    ol_dist_info char(24));
create table item (i_id integer not null, i_name varchar(24), i_price decimal(5,2),
    i_data varchar(50), i_im_id integer);
create table stock (s_w_id integer not null, s_i_id integer not null, s_quantity integer,
    s_ytd integer, s_order_cnt integer, s_remote_cnt integer, s_data varchar(50),
    s_dist_01 char(24), s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24),
    s_dist_05 char(24), s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24),
    s_dist_09 char(24), s_dist_10 char(24));
alter table warehouse add constraint warehouse_pkey primary key (w_id);
alter table district add constraint district_pkey primary key (d_w_id, d_id);
alter table customer add constraint customer_pkey primary key (c_w_id, c_d_id, c_id);
create index customer_idx1 on customer (c_w_id, c_d_id, c_last, c_first);
alter table oorder add constraint oorder_pkey primary key (o_w_id, o_d_id, o_id);
create unique index oorder_idx1 on oorder (o_w_id, o_d_id, o_carrier_id, o_id);
alter table new_order add constraint new_order_pkey primary key (no_w_id, no_d_id, no_o_id);
alter table order_line add constraint order_line_pkey
    primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
alter table stock add constraint stock_pkey primary key (s_w_id, s_i_id);
alter table item add constraint item_pkey primary key (i_id);
alter table district add constraint d_warehouse_fkey
    foreign key (d_w_id) references warehouse (w_id);
alter table customer add constraint c_district_fkey
    foreign key (c_w_id, c_d_id) references district (d_w_id, d_id);
alter table history add constraint h_customer_fkey
    foreign key (h_c_w_id, h_c_d_id, h_c_id) references customer (c_w_id, c_d_id, c_id);
alter table oorder add constraint o_customer_fkey
    foreign key (o_w_id, o_d_id, o_c_id) references customer (c_w_id, c_d_id, c_id);
alter table order_line add constraint ol_oorder_fkey
    foreign key (ol_w_id, ol_d_id, ol_o_id) references oorder (o_w_id, o_d_id, o_id);
alter table stock add constraint s_item_fkey foreign key (s_i_id) references item (i_id);
insert into warehouse (w_id, w_tax, w_state) values (1, 0.1, 'CA');
insert into district (d_w_id, d_id, d_next_o_id) values (1, 1, 3001);
insert into customer (c_w_id, c_d_id, c_id, c_last) values (1, 1, 1, 'BARBARBAR');
insert into history (h_c_w_id, h_c_d_id, h_c_id, h_amount) values (1, 1, 1, 10.00)";

const TPC_H: &str = "
CREATE TABLE nation (n_nationkey INTEGER NOT NULL, n_name CHAR(25) NOT NULL,
    n_regionkey INTEGER NOT NULL, n_comment VARCHAR(152));
CREATE TABLE region (r_regionkey INTEGER NOT NULL, r_name CHAR(25) NOT NULL,
    r_comment VARCHAR(152));
CREATE TABLE part (p_partkey INTEGER NOT NULL, p_name VARCHAR(55) NOT NULL,
    p_mfgr CHAR(25) NOT NULL, p_brand CHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL,
    p_size INTEGER NOT NULL,
    p_container CHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL,
    p_comment VARCHAR(23) NOT NULL);
CREATE TABLE supplier (s_suppkey INTEGER NOT NULL, s_name CHAR(25) NOT NULL,
    s_address VARCHAR(40) NOT NULL, s_nationkey INTEGER NOT NULL, s_phone CHAR(15) NOT NULL,
    s_acctbal DECIMAL(15,2) NOT NULL, s_comment VARCHAR(101) NOT NULL);
CREATE TABLE partsupp (ps_partkey INTEGER NOT NULL, ps_suppkey INTEGER NOT NULL,
    ps_availqty INTEGER NOT NULL, ps_supplycost DECIMAL(15,2) NOT NULL,
    ps_comment VARCHAR(199) NOT NULL);
CREATE TABLE customer (c_custkey INTEGER NOT NULL, c_name VARCHAR(25) NOT NULL,
    c_address VARCHAR(40) NOT NULL, c_nationkey INTEGER NOT NULL, c_phone CHAR(15) NOT NULL,
    c_acctbal DECIMAL(15,2) NOT NULL, c_mktsegment CHAR(10) NOT NULL,
    c_comment VARCHAR(117) NOT NULL);
CREATE TABLE orders (o_orderkey INTEGER NOT NULL, o_custkey INTEGER NOT NULL,
    o_orderstatus CHAR(1) NOT NULL, o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL,
    o_orderpriority CHAR(15) NOT NULL, o_clerk CHAR(15) NOT NULL, o_shippriority INTEGER NOT NULL,
    o_comment VARCHAR(79) NOT NULL);
CREATE TABLE lineitem (l_orderkey INTEGER NOT NULL, l_partkey INTEGER NOT NULL,
    l_suppkey INTEGER NOT NULL, l_linenumber INTEGER NOT NULL, l_quantity DECIMAL(15,2) NOT NULL,
    l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL,
    l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL, l_linestatus CHAR(1) NOT NULL,
    l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL,
    l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, l_comment VARCHAR(44) NOT NULL);
ALTER TABLE region ADD PRIMARY KEY (r_regionkey);
ALTER TABLE nation ADD PRIMARY KEY (n_nationkey);
ALTER TABLE nation ADD CONSTRAINT nation_fk1 FOREIGN KEY (n_regionkey) REFERENCES region;
ALTER TABLE part ADD PRIMARY KEY (p_partkey);
ALTER TABLE supplier ADD PRIMARY KEY (s_suppkey);
ALTER TABLE supplier ADD FOREIGN KEY (s_nationkey) REFERENCES nation;
ALTER TABLE partsupp ADD PRIMARY KEY (ps_partkey, ps_suppkey);
ALTER TABLE customer ADD PRIMARY KEY (c_custkey);
ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber);
ALTER TABLE orders ADD PRIMARY KEY (o_orderkey);
ALTER TABLE partsupp ADD CONSTRAINT partsupp_fk1 FOREIGN KEY (ps_suppkey) REFERENCES supplier;
ALTER TABLE orders ADD FOREIGN KEY (o_custkey) REFERENCES customer;
ALTER TABLE lineitem ADD FOREIGN KEY (l_orderkey) REFERENCES orders;
ALTER TABLE lineitem ADD FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp;
INSERT INTO region VALUES (0, 'AFRICA', 'x');
INSERT INTO nation VALUES (0, 'ALGERIA', 0, NULL)";

const PGBENCH: &str = "
drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22));
create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84))
    with (fillfactor=100);
create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84))
    with (fillfactor=100);
create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100);
begin;
truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
insert into pgbench_branches(bid,bbalance) values(1,0);
insert into pgbench_tellers(tid,bid,tbalance) values (1,1,0);
insert into pgbench_accounts(aid,bid,abalance,filler) values (1,1,0,'');
commit;
alter table pgbench_branches add primary key (bid);
alter table pgbench_tellers add primary key (tid);
alter table pgbench_accounts add primary key (aid);
alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey foreign key (bid)
    references pgbench_branches;
alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey foreign key (bid)
    references pgbench_branches;
alter table pgbench_history add constraint pgbench_history_aid_fkey foreign key (aid)
    references pgbench_accounts";

const SYSBENCH: &str = "
CREATE TABLE sbtest1(
  id SERIAL,
  k INTEGER DEFAULT '0' NOT NULL,
  c CHAR(120) DEFAULT '' NOT NULL,
  pad CHAR(60) DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO sbtest1(k, c, pad) VALUES(501, '68487932199-96439406143', '67847967377'),
    (502, '13241531885-45658403807', '79667111492');
CREATE INDEX k_1 ON sbtest1(k)";

fn made(script: &str) -> SqlSession {
    let mut session = SqlSession::on_database(database());
    for outcome in session.execute_script(script) {
        outcome.unwrap_or_else(|error| panic!("{}", error.render(script)));
    }
    session
}

#[test]
fn the_tables_of_tpc_c_are_made() {
    let mut session = made(TPC_C);
    assert_eq!(rows(&mut session, "SELECT hist_id, h_amount FROM history"), ["1|10.00"]);
    let wrong = "INSERT INTO district (d_w_id, d_id) VALUES (2, 1)";
    assert_eq!(error(&mut session, wrong).sqlstate(), "23503");
}

#[test]
fn the_tables_of_tpc_h_are_made() {
    let mut session = made(TPC_H);
    let sql = "SELECT n_name, r_name FROM nation JOIN region ON n_regionkey = r_regionkey";
    let found = rows(&mut session, sql).concat();
    assert_eq!(found.split('|').map(str::trim).collect::<Vec<_>>(), ["ALGERIA", "AFRICA"]);
    assert_eq!(error(&mut session, "DELETE FROM region").sqlstate(), "23503");
}

#[test]
fn the_tables_of_pgbench_are_made() {
    let mut session = made(PGBENCH);
    // Four tables that it drops are not there.
    assert_eq!(session.take_notices().len(), 5);
    let sql =
        "UPDATE pgbench_accounts SET abalance = abalance + 5 WHERE aid = 1 RETURNING abalance";
    assert_eq!(rows(&mut session, sql), ["5"]);
    let wrong = "INSERT INTO pgbench_history (aid) VALUES (2)";
    assert_eq!(error(&mut session, wrong).sqlstate(), "23503");
}

#[test]
fn the_tables_of_sysbench_are_made() {
    let mut session = made(SYSBENCH);
    tag(&mut session, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1");
    let sql = "SELECT id, k, length(c) FROM sbtest1 WHERE id BETWEEN 1 AND 2 ORDER BY c";
    assert_eq!(rows(&mut session, sql), ["2|502|23", "1|502|23"]);
    assert_eq!(rows(&mut session, "SELECT sum(k) FROM sbtest1"), ["1004"]);
}
