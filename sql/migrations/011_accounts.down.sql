BEGIN;
SET LOCAL ROLE dp_owner;

DROP TABLE dp_int.caller_total, dp_int.dataset_grant, dp_int.dataset, dp_int.account_relation, dp_int.account;

COMMIT;
