BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION dp_int.fetch, dp_int.coefficients, dp_int.finish_job, dp_int.cancel, dp_int.watch, dp_int.enqueue, dp_int.insert_job,
  dp_int.kept_release, dp_int.prepare, dp_int.check_options;
DROP TYPE dp_int.request;
DELETE FROM dp_int.option WHERE model = 'l1';
COMMIT;
