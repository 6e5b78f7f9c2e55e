"""What PostgreSQL has of what SQLAlchemy's tests leave open to each dialect."""

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

#: Names of requirements that PostgreSQL meets and that are closed unless a dialect says so.
MET = """
aggregate_order_by array_type autocommit boolean_col_expressions check_constraint_reflection
column_collation_reflection comment_reflection comment_reflection_full_unicode
computed_columns_default_persisted computed_columns_reflect_persisted computed_columns_stored
constraint_comment_reflection create_or_replace_view create_table_as cross_schema_fk_reflection
ctes ctes_on_dml ctes_with_update_delete ctes_with_values date_historic datetime_historic
datetime_timezone default_schema_name_switch deferrable_fks delete_from except_
expression_server_defaults fetch_expression fetch_first fetch_no_order_by
fetch_offset_with_options fetch_ties fk_constraint_option_reflection_ondelete_noaction
fk_constraint_option_reflection_ondelete_restrict
fk_constraint_option_reflection_onupdate_restrict float_or_double_precision_behaves_generically
foreign_key_constraint_name_reflection foreign_key_constraint_option_reflection_ondelete
foreign_key_constraint_option_reflection_onupdate identity_columns identity_columns_standard
implicit_default_schema index_ddl_if_exists index_reflects_included_columns
indexes_with_expressions infinity_floats inline_check_constraint_reflection intersect
isolation_level json_deserializer_binary json_type
mod_operator_as_percent_sign nullsordering percent_schema_names
precision_numerics_enotation_small precision_numerics_many_significant_digits
precision_numerics_retains_significant_digits reflect_indexes_with_expressions
reflect_table_options reflect_tables_no_columns reflects_pk_names regexp_match regexp_replace
savepoints schema_create_delete server_defaults supports_bitwise_and supports_bitwise_not
supports_bitwise_or supports_bitwise_shift supports_bitwise_xor supports_distinct_on
table_ddl_if_exists table_value_constructor time_timezone timestamp_microseconds tuple_in
unicode_ddl unique_constraints_reflect_as_index update_from uuid_data_type views
window_functions window_range window_range_numeric
""".split()


class Requirements(SuiteRequirements):
    def get_order_by_collation(self, _):
        return "POSIX"

    def get_isolation_levels(self, _):
        levels = ["READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
        return {"default": "READ COMMITTED", "supported": ["AUTOCOMMIT", *levels]}

    @property
    def temp_table_reflection(self):
        # Where there are no temporary tables or materialized views, most tests of reflection could
        # not start: checks of psycopg try both, and the suite goes without them.
        return exclusions.closed()

    @property
    def computed_columns(self):
        # Before PostgreSQL 18, one whose sort is not said is stored, with a warning.
        return exclusions.warns_if("postgresql < 18", ".*STORED.*", False)


for name in MET:
    assert hasattr(SuiteRequirements, name), name
    setattr(Requirements, name, property(lambda _: exclusions.open()))
