BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_last_release, public.dp_cancel, public.dp_result, public.dp_status, public.dp_submit, public.dp_huber_regress, public.dp_logistic_regress,
  public.dp_linear_regress, public.dp_l1_regress;
DROP PROCEDURE public.dp_run;
DROP FUNCTION dp.commit_refusal, dp.time_left;
DROP FUNCTION dp_int.my_job, dp_int.with_arguments, dp_int.call, dp_int.call_sidecar, dp_int.loopback_wait, dp_int.loopback_open;
COMMIT;
