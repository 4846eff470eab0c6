-- Where the rows of a data set are while jobs work on them. What is released and what it costs
-- does not depend on it, so it may change at any time.

CREATE OR REPLACE FUNCTION dp_int.check_placement(p_placement text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF coalesce(p_placement NOT IN ('auto', 'memory', 'database'), true) THEN
    RAISE EXCEPTION 'there is no placement %', coalesce('"' || dp_int.excerpt(p_placement) || '"', 'NULL')
      USING ERRCODE = '22023', HINT = 'auto: in the sidecar''s memory where they fit, else on its disk, else in the database; memory: in the sidecar''s memory or on its disk, never as sums; database: rows stay, and only sums of them leave the database. Nothing was changed.';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_set_placement(dataset text, placement text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d dp_int.dataset := dp_int.dataset_of(dp_set_placement.dataset);
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.check_placement(dp_set_placement.placement);
  UPDATE dp_int.dataset n SET placement = dp_set_placement.placement WHERE n.id = d.id;
END $$;
COMMENT ON FUNCTION public.dp_set_placement IS
  'Says where the rows of a data set are while a job works on them: auto (in the sidecar''s memory where they fit, else on its disk, else in the database), memory (never as sums in the database) or database (rows never leave it). Holds for jobs from the next attempt on; answers, grants and budgets stay. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_set_placement TO dp_admin;
