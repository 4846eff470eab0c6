-- Where the rows of a data set are while jobs work on them. Releases and their costs do not depend on it,
-- so it may change at any time.

CREATE OR REPLACE FUNCTION dp_int.check_placement(p_placement text, p_unit name, p_block_rows bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF coalesce(p_placement NOT IN ('auto', 'memory', 'database'), true) THEN
    RAISE EXCEPTION 'there is no placement %', coalesce('"' || dp_int.excerpt(p_placement) || '"', 'NULL')
      USING ERRCODE = '22023', HINT = 'auto: in the sidecar''s memory where they fit, else on its disk, else in the database; memory: in the sidecar''s memory or on its disk, never as sums; database: rows stay, and only sums of them leave the database. Nothing was changed.';
  ELSIF p_placement = 'database' AND p_unit IS NOT NULL THEN
    RAISE EXCEPTION 'rows of a table with a unit cannot stay in the database'
      USING ERRCODE = '22023', HINT = 'The rows of each person are brought together by the sidecar: choose placement auto or memory. Nothing was changed.';
  ELSIF p_placement = 'database' AND p_block_rows IS NOT NULL THEN
    RAISE EXCEPTION 'rows of blocks with a registered number of rows cannot stay in the database'
      USING ERRCODE = '22023', HINT = 'Of more rows than block_rows the sidecar draws a part: choose placement auto or memory, or register without block_rows. Nothing was changed.';
  END IF;
END $$;

-- Tells that no request is possible for a data set whose rows stay in the database and whose budget has
-- no delta: without a delta there is only dp_l1_regress, which pulls the rows.
CREATE OR REPLACE FUNCTION dp_int.tell_placement(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF d.placement = 'database' AND d.delta = 0 THEN
    RAISE NOTICE 'dpsidecar: nothing can be asked of data set "%" while its rows stay in the database: a budget without a delta serves dp_l1_regress alone, which takes the rows', d.name
      USING HINT = format('Let the rows leave, with SELECT dp_set_placement(%L, ''auto''), or register otherwise.', d.name);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_set_placement(dataset text, placement text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d dp_int.dataset := dp_int.dataset_of(dp_set_placement.dataset);
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.check_placement(dp_set_placement.placement, d.unit, d.block_rows);
  UPDATE dp_int.dataset n SET placement = dp_set_placement.placement WHERE n.id = d.id RETURNING * INTO d;
  PERFORM dp_int.tell_placement(d);
END $$;
COMMENT ON FUNCTION public.dp_set_placement IS
  'Says where the rows of a data set are while a job works on them: auto (in the sidecar''s memory where they fit, else on its disk, else in the database), memory (never as sums in the database) or database (rows never leave it). Holds for jobs from the next attempt on; answers, grants and budgets stay. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_set_placement TO dp_admin;
