BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_help, public.dp_explain;
DROP FUNCTION dp_int.loopback_answer, dp_int.answered, dp_int.afterwards, dp_int.quoted, dp_int.inquiry_answer, dp_int.inquiry_take, dp_int.ask;
DROP TABLE dp_int.inquiry;
COMMIT;
