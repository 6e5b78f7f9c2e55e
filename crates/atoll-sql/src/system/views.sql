-- The views of `pg_catalog` and `information_schema`, each behind a line with its name.

-- pg_catalog.pg_tables
SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner,
       CAST(NULL AS text) AS tablespace, c.relhasindex AS hasindexes, c.relhasrules AS hasrules,
       c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'

-- pg_catalog.pg_views
SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
       pg_get_viewdef(c.oid) AS definition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v'

-- pg_catalog.pg_matviews
SELECT n.nspname AS schemaname, c.relname AS matviewname, pg_get_userbyid(c.relowner) AS matviewowner,
       CAST(NULL AS text) AS tablespace, c.relhasindex AS hasindexes,
       c.relispopulated AS ispopulated, pg_get_viewdef(c.oid) AS definition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'm'

-- pg_catalog.pg_indexes
SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname,
       CAST(NULL AS text) AS tablespace, pg_get_indexdef(i.oid) AS indexdef
FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace

-- pg_catalog.pg_user
SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
       rolreplication AS userepl, rolbypassrls AS usebypassrls, rolpassword AS passwd,
       rolvaliduntil AS valuntil, rolconfig AS useconfig
FROM pg_roles WHERE rolcanlogin

-- pg_catalog.pg_group
SELECT rolname AS groname, oid AS grosysid FROM pg_roles WHERE NOT rolcanlogin

-- pg_catalog.pg_stat_all_tables
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname,
       CAST(NULL AS bigint) AS seq_scan, CAST(NULL AS bigint) AS seq_tup_read,
       CAST(NULL AS bigint) AS idx_scan, CAST(NULL AS bigint) AS idx_tup_fetch,
       CAST(NULL AS bigint) AS n_tup_ins, CAST(NULL AS bigint) AS n_tup_upd,
       CAST(NULL AS bigint) AS n_tup_del, CAST(NULL AS bigint) AS n_tup_hot_upd,
       CAST(c.reltuples AS bigint) AS n_live_tup, CAST(NULL AS bigint) AS n_dead_tup,
       CAST(NULL AS bigint) AS n_mod_since_analyze, CAST(NULL AS bigint) AS n_ins_since_vacuum,
       CAST(NULL AS timestamptz) AS last_vacuum, CAST(NULL AS timestamptz) AS last_autovacuum,
       CAST(NULL AS timestamptz) AS last_analyze, CAST(NULL AS timestamptz) AS last_autoanalyze,
       CAST(NULL AS bigint) AS vacuum_count, CAST(NULL AS bigint) AS autovacuum_count,
       CAST(NULL AS bigint) AS analyze_count, CAST(NULL AS bigint) AS autoanalyze_count
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'

-- pg_catalog.pg_stat_user_tables
SELECT * FROM pg_stat_all_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')

-- pg_catalog.pg_stat_all_indexes
SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname,
       i.relname AS indexrelname, CAST(NULL AS bigint) AS idx_scan,
       CAST(NULL AS bigint) AS idx_tup_read, CAST(NULL AS bigint) AS idx_tup_fetch
FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace

-- pg_catalog.pg_stat_user_indexes
SELECT * FROM pg_stat_all_indexes WHERE schemaname NOT IN ('pg_catalog', 'information_schema')

-- information_schema.information_schema_catalog_name
SELECT current_database() AS catalog_name

-- information_schema.schemata
SELECT current_database() AS catalog_name, n.nspname AS schema_name,
       pg_get_userbyid(n.nspowner) AS schema_owner,
       CAST(NULL AS text) AS default_character_set_catalog,
       CAST(NULL AS text) AS default_character_set_schema,
       CAST(NULL AS text) AS default_character_set_name, CAST(NULL AS text) AS sql_path
FROM pg_namespace n

-- information_schema.tables
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
       CAST(NULL AS text) AS self_referencing_column_name,
       CAST(NULL AS text) AS reference_generation,
       CAST(NULL AS text) AS user_defined_type_catalog,
       CAST(NULL AS text) AS user_defined_type_schema,
       CAST(NULL AS text) AS user_defined_type_name,
       CASE c.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_insertable_into,
       'NO' AS is_typed, CAST(NULL AS text) AS commit_action
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v')

-- information_schema.views
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       pg_get_viewdef(c.oid) AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
       'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
       'NO' AS is_trigger_insertable_into
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v'

-- information_schema.columns
SELECT current_database() AS table_catalog, a.nspname AS table_schema, a.relname AS table_name,
       a.attname AS column_name, CAST(a.attnum AS integer) AS ordinal_position,
       CASE WHEN a.attgenerated = '' THEN a.adbin END AS column_default,
       CASE WHEN a.attnotnull OR a.typnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
       CASE WHEN b.typelem <> 0 AND b.typcategory = 'A' THEN 'ARRAY'
            WHEN b.typnamespace = 11 THEN format_type(b.oid, NULL)
            ELSE 'USER-DEFINED' END AS data_type,
       CASE WHEN b.typname IN ('varchar', 'bpchar') AND a.modifier > 4 THEN a.modifier - 4
            END AS character_maximum_length,
       CASE WHEN b.typname IN ('varchar', 'bpchar') AND a.modifier > 4 THEN (a.modifier - 4) * 4
            WHEN b.typname IN ('text', 'varchar') THEN 1073741824
            END AS character_octet_length,
       CASE b.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64
            WHEN 'float4' THEN 24 WHEN 'float8' THEN 53
            WHEN 'numeric' THEN CASE WHEN a.modifier > 4 THEN (a.modifier - 4) / 65536 END
            END AS numeric_precision,
       CASE WHEN b.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2
            WHEN b.typname = 'numeric' THEN 10 END AS numeric_precision_radix,
       CASE WHEN b.typname IN ('int2', 'int4', 'int8') THEN 0
            WHEN b.typname = 'numeric' AND a.modifier > 4 THEN (a.modifier - 4) % 65536
            END AS numeric_scale,
       CASE WHEN b.typname = 'date' THEN 0
            WHEN b.typname IN ('time', 'timestamp', 'timestamptz', 'interval') THEN 6
            END AS datetime_precision,
       CAST(NULL AS text) AS interval_type, CAST(NULL AS integer) AS interval_precision,
       CAST(NULL AS text) AS character_set_catalog, CAST(NULL AS text) AS character_set_schema,
       CAST(NULL AS text) AS character_set_name, CAST(NULL AS text) AS collation_catalog,
       CAST(NULL AS text) AS collation_schema, CAST(NULL AS text) AS collation_name,
       CASE WHEN a.typtype = 'd' THEN current_database() END AS domain_catalog,
       CASE WHEN a.typtype = 'd' THEN a.typschema END AS domain_schema,
       CASE WHEN a.typtype = 'd' THEN a.typname END AS domain_name,
       current_database() AS udt_catalog, bn.nspname AS udt_schema, b.typname AS udt_name,
       CAST(NULL AS text) AS scope_catalog, CAST(NULL AS text) AS scope_schema,
       CAST(NULL AS text) AS scope_name, CAST(NULL AS integer) AS maximum_cardinality,
       CAST(a.attnum AS text) AS dtd_identifier, 'NO' AS is_self_referencing,
       CASE WHEN a.attidentity IN ('a', 'd') THEN 'YES' ELSE 'NO' END AS is_identity,
       CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END
            AS identity_generation,
       CAST(s.seqstart AS text) AS identity_start, CAST(s.seqincrement AS text)
            AS identity_increment, CAST(s.seqmax AS text) AS identity_maximum,
       CAST(s.seqmin AS text) AS identity_minimum,
       CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS identity_cycle,
       CASE WHEN a.attgenerated = '' THEN 'NEVER' ELSE 'ALWAYS' END AS is_generated,
       CASE WHEN a.attgenerated <> '' THEN a.adbin END AS generation_expression,
       CASE a.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_updatable
FROM (SELECT n.nspname, c.relname, c.relkind, a.attrelid, a.attname, a.attnum, a.attnotnull,
             a.attidentity, a.attgenerated, d.adbin, t.typtype, t.typnotnull, t.typname,
             tn.nspname AS typschema,
             CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS base,
             CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END AS modifier
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
           JOIN pg_namespace tn ON tn.oid = t.typnamespace
           LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      WHERE c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped) a
     JOIN pg_type b ON b.oid = a.base JOIN pg_namespace bn ON bn.oid = b.typnamespace
     LEFT JOIN (SELECT p.refobjid, p.refobjsubid, q.seqstart, q.seqincrement, q.seqmax, q.seqmin,
                       q.seqcycle
                FROM pg_depend p JOIN pg_sequence q ON q.seqrelid = p.objid
                WHERE p.deptype = 'i') s
               ON s.refobjid = a.attrelid AND s.refobjsubid = CAST(a.attnum AS integer)

-- information_schema.table_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       o.conname AS constraint_name, current_database() AS table_catalog,
       cn.nspname AS table_schema, c.relname AS table_name,
       CASE o.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE'
            WHEN 'f' THEN 'FOREIGN KEY' ELSE 'CHECK' END AS constraint_type,
       CASE WHEN o.condeferrable THEN 'YES' ELSE 'NO' END AS is_deferrable,
       CASE WHEN o.condeferred THEN 'YES' ELSE 'NO' END AS initially_deferred,
       'YES' AS enforced,
       CASE WHEN x.indnullsnotdistinct THEN 'NO' WHEN o.contype = 'u' THEN 'YES' END
            AS nulls_distinct
FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
     JOIN pg_namespace n ON n.oid = o.connamespace JOIN pg_namespace cn ON cn.oid = c.relnamespace
     LEFT JOIN pg_index x ON o.contype = 'u' AND x.indexrelid = o.conindid
UNION ALL
SELECT current_database(), n.nspname,
       concat(CAST(n.oid AS text), '_', CAST(c.oid AS text), '_', CAST(a.attnum AS text),
              '_not_null'),
       current_database(), n.nspname, c.relname, 'CHECK', 'NO', 'NO', 'YES', CAST(NULL AS text)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnotnull AND c.relkind = 'r' AND a.attnum > 0

-- information_schema.check_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       o.conname AS constraint_name, substr(pg_get_constraintdef(o.oid), 7) AS check_clause
FROM pg_constraint o JOIN pg_namespace n ON n.oid = o.connamespace WHERE o.contype = 'c'
UNION ALL
SELECT current_database(), n.nspname,
       concat(CAST(n.oid AS text), '_', CAST(c.oid AS text), '_', CAST(a.attnum AS text),
              '_not_null'),
       concat(a.attname, ' IS NOT NULL')
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnotnull AND c.relkind = 'r' AND a.attnum > 0

-- information_schema.key_column_usage
SELECT current_database() AS constraint_catalog, cn.nspname AS constraint_schema,
       o.conname AS constraint_name, current_database() AS table_catalog,
       n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
       array_position(o.conkey, a.attnum) AS ordinal_position,
       CASE WHEN o.contype = 'f'
            THEN array_position(x.indkey, o.confkey[array_position(o.conkey, a.attnum)])
            END AS position_in_unique_constraint
FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_namespace cn ON cn.oid = o.connamespace
     JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = ANY (o.conkey)
     LEFT JOIN pg_index x ON x.indexrelid = o.conindid
WHERE o.contype IN ('p', 'u', 'f')

-- information_schema.referential_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       o.conname AS constraint_name, current_database() AS unique_constraint_catalog,
       pn.nspname AS unique_constraint_schema, p.conname AS unique_constraint_name,
       CASE o.confmatchtype WHEN 'f' THEN 'FULL' ELSE 'NONE' END AS match_option,
       CASE o.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
            WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT' ELSE 'NO ACTION' END
            AS update_rule,
       CASE o.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
            WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT' ELSE 'NO ACTION' END
            AS delete_rule
FROM pg_constraint o JOIN pg_namespace n ON n.oid = o.connamespace
     LEFT JOIN pg_constraint p ON p.conrelid = o.confrelid AND p.conindid = o.conindid
                                  AND p.contype IN ('p', 'u')
     LEFT JOIN pg_namespace pn ON pn.oid = p.connamespace
WHERE o.contype = 'f'

-- information_schema.constraint_column_usage
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       a.attname AS column_name, current_database() AS constraint_catalog,
       k.conschema AS constraint_schema, k.conname AS constraint_name
FROM (SELECT o.conname, cn.nspname AS conschema,
             CASE o.contype WHEN 'f' THEN o.confrelid ELSE o.conrelid END AS relid,
             unnest(CASE o.contype WHEN 'f' THEN o.confkey ELSE o.conkey END) AS attnum
      FROM pg_constraint o JOIN pg_namespace cn ON cn.oid = o.connamespace
      WHERE o.conrelid <> 0) k
     JOIN pg_class c ON c.oid = k.relid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum

-- information_schema.constraint_table_usage
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       current_database() AS constraint_catalog, cn.nspname AS constraint_schema,
       o.conname AS constraint_name
FROM pg_constraint o JOIN pg_namespace cn ON cn.oid = o.connamespace
     JOIN pg_class c ON c.oid = CASE o.contype WHEN 'f' THEN o.confrelid ELSE o.conrelid END
     JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE o.contype IN ('f', 'p', 'u')

-- information_schema.sequences
SELECT current_database() AS sequence_catalog, n.nspname AS sequence_schema,
       c.relname AS sequence_name, format_type(s.seqtypid, NULL) AS data_type,
       CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 ELSE 64 END AS numeric_precision,
       2 AS numeric_precision_radix, 0 AS numeric_scale, CAST(s.seqstart AS text) AS start_value,
       CAST(s.seqmin AS text) AS minimum_value, CAST(s.seqmax AS text) AS maximum_value,
       CAST(s.seqincrement AS text) AS increment,
       CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE s.seqrelid NOT IN (SELECT objid FROM pg_depend WHERE deptype = 'i')

-- information_schema.domains
SELECT current_database() AS domain_catalog, n.nspname AS domain_schema, t.typname AS domain_name,
       CASE WHEN b.typelem <> 0 AND b.typcategory = 'A' THEN 'ARRAY'
            WHEN b.typnamespace = 11 THEN format_type(b.oid, NULL) ELSE 'USER-DEFINED' END
            AS data_type,
       CASE WHEN b.typname IN ('varchar', 'bpchar') AND t.typtypmod > 4 THEN t.typtypmod - 4
            END AS character_maximum_length,
       t.typdefault AS domain_default, current_database() AS udt_catalog,
       bn.nspname AS udt_schema, b.typname AS udt_name
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_type b ON b.oid = t.typbasetype
     JOIN pg_namespace bn ON bn.oid = b.typnamespace
WHERE t.typtype = 'd'

-- information_schema.domain_constraints
SELECT current_database() AS constraint_catalog, cn.nspname AS constraint_schema,
       o.conname AS constraint_name, current_database() AS domain_catalog,
       n.nspname AS domain_schema, t.typname AS domain_name, 'NO' AS is_deferrable,
       'NO' AS initially_deferred
FROM pg_constraint o JOIN pg_type t ON t.oid = o.contypid
     JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_namespace cn ON cn.oid = o.connamespace

-- information_schema.column_domain_usage
SELECT current_database() AS domain_catalog, tn.nspname AS domain_schema, t.typname AS domain_name,
       current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       a.attname AS column_name
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
     JOIN pg_namespace tn ON tn.oid = t.typnamespace JOIN pg_class c ON c.oid = a.attrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.typtype = 'd' AND c.relkind IN ('r', 'v')

-- information_schema.enabled_roles
SELECT rolname AS role_name FROM pg_roles

-- information_schema.character_sets
SELECT CAST(NULL AS text) AS character_set_catalog, CAST(NULL AS text) AS character_set_schema,
       'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
       current_database() AS default_collate_catalog, 'pg_catalog' AS default_collate_schema,
       'C' AS default_collate_name
