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

-- Says that nothing can be asked of a data set whose rows stay in the database: a unit and block_rows take rows,
-- and without a delta there is dp_l1_regress alone, which does too.
CREATE OR REPLACE FUNCTION dp_int.tell_placement(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  why CONSTANT text := CASE WHEN d.unit IS NOT NULL THEN 'with a unit the rows of each person are brought together'
                            WHEN d.block_rows IS NOT NULL THEN 'where block_rows is registered, a part of the rows is drawn'
                            WHEN d.delta = 0 THEN 'a budget without a delta serves dp_l1_regress alone, which takes the rows' END;
BEGIN
  IF d.placement = 'database' AND why IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: nothing can be asked of data set "%" while its rows stay in the database: %', d.name, why
      USING HINT = format('Let the rows leave, with SELECT dp_set_placement(%L, ''auto''), or register otherwise.', d.name);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_set_placement(dataset text, placement text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d dp_int.dataset := dp_int.dataset_of(dp_set_placement.dataset);
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.check_placement(dp_set_placement.placement);
  UPDATE dp_int.dataset n SET placement = dp_set_placement.placement WHERE n.id = d.id RETURNING * INTO d;
  PERFORM dp_int.tell_placement(d);
END $$;
COMMENT ON FUNCTION public.dp_set_placement IS
  'Says where the rows of a data set are while a job works on them: auto (in the sidecar''s memory where they fit, else on its disk, else in the database), memory (never as sums in the database) or database (rows never leave it). Holds for jobs from the next attempt on; answers, grants and budgets stay. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_set_placement TO dp_admin;
