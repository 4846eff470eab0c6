BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_revoke, public.dp_grant, public.dp_unregister, public.dp_set_budget, public.dp_register;
DROP FUNCTION dp_int.describe_budget, dp_int.keep_account, dp_int.charged, dp_int.recheck_dataset, dp_int.new_partitions, dp_int.check_register_options, dp_int.account_of, dp_int.check_relation, dp_int.domain_base, dp_int.check_columns,
  dp_int.positive_cap, dp_int.check_accounting, dp_int.check_budget, dp_int.dataset_of, dp_int.why_not_total, dp_int.relation_tree, dp_int.base_relations;
COMMIT;
