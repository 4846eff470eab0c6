BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION dp_int.grant_of, dp_int.proven, dp_int.zcdp_cap, dp_int.exact, dp_int.zcdp_rho, dp_int.zcdp_epsilon, dp_int.zcdp_epsilon_at;
DROP TABLE dp_int.caller_total, dp_int.dataset_grant, dp_int.dataset, dp_int.account_relation, dp_int.account;
COMMIT;
