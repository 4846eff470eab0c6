BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION dp_int.counted, dp_int.uncounted, dp_int.job_park, dp_int.pause, dp_int.job_hand_back, dp_int.job_fail, dp_int.job_publish, dp_int.job_read,
  dp_int.job_charge, dp_int.dataset_recheck, dp_int.job_recheck, dp_int.job_beat, dp_int.job_claim, dp_int.job_pulled, dp_int.facts, dp_int.complete_job, dp_int.drop_job, dp_int.unwanted, dp_int.refund_job,
  dp_int.own_job, dp_int.worker_bye, dp_int.worker_beat;
COMMIT;
