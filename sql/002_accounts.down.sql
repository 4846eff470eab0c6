BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION dp_int.grant_of, dp_int.exact, dp_int.proven, dp_int.cap, dp_int.recommended_order, dp_int.zcdp_rho, dp_int.order_for_epsilon,
  dp_int.order_for_rho, dp_int.renyi_surplus, dp_int.renyi_orders, dp_int.conversion_delta, dp_int.reserve;
DROP TABLE dp_int.caller_total, dp_int.dataset_grant, dp_int.dataset, dp_int.account_relation, dp_int.account;
COMMIT;
