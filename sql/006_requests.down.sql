BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION dp_int.fetch, dp_int.coefficients, dp_int.finish_job, dp_int.cancel, dp_int.watch, dp_int.enqueue, dp_int.insert_job,
  dp_int.kept_release, dp_int.prepare, dp_int.check_penalty, dp_int.check_options, dp_int.check_groups;
DROP TYPE dp_int.request;
DELETE FROM dp_int.option;
DELETE FROM dp_int.model;
COMMIT;
