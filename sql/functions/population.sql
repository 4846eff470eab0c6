-- The account of the people whom a relation shows: relations are known by their OIDs and by all names that
-- they ever had (docs/decisions/06-account-of-relations.md).

-- In a copy of a database: binds registrations and the accounts' relations to the relations of the same
-- name here, or to OID 0 where no relation has any of the names: then it is gone.
CREATE OR REPLACE FUNCTION dp_int.rebind_relations() RETURNS void
LANGUAGE plpgsql VOLATILE SET quote_all_identifiers = off AS $$
DECLARE
  known dp_int.account_relation[];
BEGIN
  WITH named AS MATERIALIZED (
    SELECT r.*, c.oid
      FROM dp_int.account_relation r
      LEFT JOIN dp_int.named_relations() c ON c.name = r.relation AND NOT EXISTS (  -- a registered relation has taken the name over
        SELECT FROM dp_int.dataset d
         WHERE d.unregistered_at IS NULL AND d.relid <> r.relid AND format('%I.%I', d.schema_name, d.relation_name) = r.relation))
  SELECT array_agg(ROW(n.account, coalesce(n.oid, o.oid, 0), n.relation, n.current, n.child)::dp_int.account_relation) INTO known
    FROM named n
    LEFT JOIN LATERAL (  -- by another name of the same relation
      SELECT max(o.oid::bigint)::oid AS oid FROM named o WHERE o.account = n.account AND o.relid = n.relid AND n.relid <> 0) AS o ON true;
  DELETE FROM dp_int.account_relation;
  INSERT INTO dp_int.account_relation
  SELECT k.account, k.relid, k.relation, bool_or(k.current), bool_and(k.child) FROM unnest(known) k GROUP BY k.account, k.relid, k.relation;
  UPDATE dp_int.dataset d
     SET relid = coalesce((SELECT c.oid FROM dp_int.named_relations() c WHERE c.name = format('%I.%I', d.schema_name, d.relation_name)), 0);
  UPDATE dp_int.dataset d SET unit_number = dp_int.source_number(d.relid, d.unit),
         person = CASE WHEN d.person LIKE '% 0' THEN split_part(dp_int.person_of(d.relid, d.unit), ' ', 1) || ' 0' ELSE dp_int.person_of(d.relid, d.unit) END
   WHERE d.unit IS NOT NULL;  -- a restored dump renumbers relations and columns, and may lack a key
  UPDATE dp_int.dataset d SET block_number = coalesce(dp_int.source_number(d.relid, d.block), 0) WHERE d.block IS NOT NULL;
  UPDATE dp_int.dataset d SET definition = dp_int.definition(d.relid), foreign_parts = dp_int.foreign_parts(d.relid) WHERE d.definition IS NOT NULL;
END $$;

CREATE OR REPLACE FUNCTION dp_int.named_relations() RETURNS TABLE(oid oid, name text)
LANGUAGE sql STABLE SET quote_all_identifiers = off AS $$
  SELECT c.oid, format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
$$;

-- Records the current names of known relations, so that each stays known by all names that it ever had,
-- even when it is dropped and created again.
CREATE OR REPLACE FUNCTION dp_int.follow_renames() RETURNS void
LANGUAGE sql VOLATILE AS $$
  INSERT INTO dp_int.account_relation (account, relid, relation, child)
  SELECT r.account, r.relid, c.name, bool_and(r.child)
    FROM dp_int.account_relation r
    JOIN dp_int.named_relations() c ON c.oid = r.relid
   WHERE r.current
   GROUP BY r.account, r.relid, c.name
  ON CONFLICT DO NOTHING
$$;

-- The relations of a relation's population, each with the account that knows it by its OID, else by its
-- name; NULL where no account does. child: a partition or child; noted: known under this OID and name;
-- own: read, not only referred to by the unit.
CREATE OR REPLACE FUNCTION dp_int.known_relations(p_relid oid, p_unit name) RETURNS TABLE(relid oid, relation text, child boolean, account bigint, noted boolean, own boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH base AS MATERIALIZED (
    SELECT b.relid, b.relation, b.own, b.relid <> p_relid AND EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = b.relid) AS child
      FROM dp_int.population(p_relid, p_unit) b),
  by_oid AS MATERIALIZED (
    SELECT b.relid, r.account, bool_or(r.relation = b.relation) AS noted
      FROM base b
      JOIN dp_int.account_relation r ON r.current AND r.relid = b.relid
     GROUP BY b.relid, r.account)
  SELECT b.relid, b.relation, b.child, o.account, o.noted, b.own
    FROM base b
    JOIN by_oid o ON o.relid = b.relid
  UNION
  SELECT b.relid, b.relation, b.child, r.account, false, b.own
    FROM base b
    LEFT JOIN dp_int.account_relation r ON r.current AND r.relation = b.relation
   WHERE b.relid NOT IN (SELECT o.relid FROM by_oid o);
END $$;

-- The account that the option account gives: its number, or the name of a data set, also of one that was
-- unregistered. Raises where data sets of that name have, or had, different accounts. An account to which nothing
-- was ever charged counts only while a data set has it.
CREATE OR REPLACE FUNCTION dp_int.named_account(p_account jsonb) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  dataset CONSTANT text := p_account #>> '{}';
  found bigint[];
BEGIN
  IF jsonb_typeof(p_account) = 'number' THEN
    SELECT array_agg(a.id) INTO found FROM dp_int.account a WHERE a.id = p_account::numeric;
    IF found IS NULL THEN
      RAISE EXCEPTION 'there is no account %', p_account USING ERRCODE = '22023', HINT = 'dp.ledger shows the number of each account, and its data sets. Without quotes it is a number, and with quotes the name of a data set.';
    END IF;
    RETURN found[1];
  END IF;
  SELECT array_agg(DISTINCT d.account ORDER BY d.account) INTO found FROM dp_int.dataset d WHERE d.name = dataset AND NOT dp_int.unused(d.account);
  IF cardinality(found) > 1 THEN
    RAISE EXCEPTION 'the name "%" is that of % accounts', dataset, CASE cardinality(found) WHEN 2 THEN 'two' ELSE cardinality(found)::text END
      USING ERRCODE = '22023',
            HINT = format('Give the number of the account in place of the name, as in options {"account": %s}: %s. dp.ledger shows what was spent of each.', found[1],
                          (SELECT string_agg(format('%s is of %s, registered %s', a.id, r.relations, r.at), '; ' ORDER BY a.id)
                             FROM dp_int.account a,
                                  LATERAL (SELECT string_agg(DISTINCT format('%I.%I', d.schema_name, d.relation_name), ', ') AS relations, to_char(min(d.registered_at), 'YYYY-MM-DD HH24:MI TZ') AS at
                                             FROM dp_int.dataset d WHERE d.account = a.id AND d.name = dataset) AS r
                            WHERE a.id = ANY (found)));
  END IF;
  RETURN coalesce(found[1], (SELECT d.account FROM dp_int.dataset d WHERE d.name = dataset ORDER BY d.id DESC LIMIT 1), (dp_int.dataset_of(dataset)).account);
END $$;

-- Was nothing ever charged to an account, and does no data set have it? Nothing can be charged to it then, and
-- its people may be given to another.
CREATE OR REPLACE FUNCTION dp_int.unused(p_account bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN NOT dp_int.charged(p_account) AND NOT EXISTS (SELECT FROM dp_int.dataset d WHERE d.account = p_account AND d.unregistered_at IS NULL);
END $$;

-- The one account of these relations, NULL when no account knows them. Where the steward names one, unused ones
-- do not count.
CREATE OR REPLACE FUNCTION dp_int.account_of(p_relid oid, p_options jsonb, p_unit name) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  named CONSTANT bigint := CASE WHEN p_options ? 'account' THEN dp_int.named_account(p_options -> 'account') END;
  found bigint[];
  idle text;  -- data sets of other accounts to which nothing was charged
BEGIN
  SELECT array_agg(DISTINCT known.account) INTO found
    FROM (SELECT k.account FROM dp_int.known_relations(p_relid, p_unit) k WHERE k.account IS NOT NULL AND (named IS NULL OR NOT dp_int.unused(k.account))
          UNION ALL
          SELECT named WHERE named IS NOT NULL) AS known;
  IF cardinality(found) > 1 THEN
    SELECT string_agg(format('"%s"', d.name), ' and ' ORDER BY d.id) INTO idle
      FROM dp_int.dataset d WHERE d.account = ANY (found) AND d.account <> named AND d.unregistered_at IS NULL AND NOT dp_int.charged(d.account);
    RAISE EXCEPTION 'the relations below % belong to different accounts', p_relid::regclass
      USING ERRCODE = '22023', HINT = coalesce('Nothing was charged for ' || idle || ': an account that was never charged is left for the one that is named, once its data sets are unregistered. Call dp_unregister first.',
        'One registration cannot show the people of two accounts. Register the tables one by one; where a unit refers to a table, that one first.');
  END IF;
  RETURN found[1];
END $$;

-- Relations of charged accounts that are gone: their OID does not exist or was declared to be a new population's,
-- and none of their names belongs to a relation that the account knows. Their people may return in a relation
-- under another name. Partitions do not count, because they come and go with their table.
CREATE OR REPLACE FUNCTION dp_int.gone_relations() RETURNS TABLE(account bigint, relation text)
LANGUAGE sql STABLE AS $$
  SELECT r.account, CASE WHEN EXISTS (SELECT FROM dp_int.named_relations() n WHERE n.name = r.relation) THEN 'an earlier ' ELSE '' END || r.relation
    FROM dp_int.account_relation r
   WHERE NOT r.child
     AND NOT EXISTS (SELECT FROM dp_int.account_relation o JOIN pg_catalog.pg_class c ON c.oid = o.relid WHERE o.account = r.account AND o.relid = r.relid AND o.current)
     AND NOT EXISTS (
       SELECT FROM dp_int.account_relation s
         JOIN dp_int.account_relation o ON o.account = s.account AND o.relation = s.relation AND o.current
         JOIN pg_catalog.pg_class c ON c.oid = o.relid
        WHERE s.account = r.account AND s.relid = r.relid AND (s.relid <> 0 OR s.relation = r.relation))
     AND dp_int.charged(r.account)
$$;

-- The first few names of a list for people, and how many more there are.
CREATE OR REPLACE FUNCTION dp_int.first_few(p_names text[], p_few int DEFAULT 5) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_to_string(p_names[:p_few], ', ') || CASE WHEN cardinality(p_names) > p_few THEN format(' and %s more', cardinality(p_names) - p_few) ELSE '' END
$$;

-- Raises where a relation may hold people of an existing account although the steward has not stated
-- whose people it holds. Where a function reads the data, the tables beside it do not determine whose
-- data it reads, even if they are known.
-- p_account: the account that its relations have, NULL where none knows them. A view of a
-- charged account that shows other tables now may show them because its people moved there.
CREATE OR REPLACE FUNCTION dp_int.refuse_strangers(p_relid oid, p_unit name, p_account bigint) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  reason CONSTANT text := dp_int.why_unknown(p_relid);
  former dp_int.dataset;
  gone text;
  names text;
BEGIN
  SELECT d.* INTO former
    FROM dp_int.dataset d
    JOIN pg_catalog.pg_class c ON c.oid = p_relid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE (d.relid = p_relid OR d.schema_name = n.nspname AND d.relation_name = c.relname) AND (d.account = p_account OR dp_int.charged(d.account))
   ORDER BY d.account IS NOT DISTINCT FROM p_account DESC, d.id DESC LIMIT 1;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION '% is refused: it is not known whose rows it has: %', p_relid::regclass, reason
      USING ERRCODE = '22023', HINT = 'If a data set of the same people is registered, name it with options {"account": "name"}. Otherwise state with {"new_population": "why"} that these are other people; the ledger records the statement.';
  ELSIF former.account <> coalesce(p_account, 0) THEN
    RAISE EXCEPTION '% is refused: it showed the people of data set "%", for which budget was spent, and reads other relations now', p_relid::regclass, former.name
      USING ERRCODE = '22023',
            HINT = CASE WHEN p_account IS NULL
              THEN format('If it shows the same people, name their account with options {"account": %s}. Otherwise state with {"new_population": "why"} that these are other people; the ledger records the statement.', former.account)
              ELSE format('What it reads now belongs to account %1$s: if it shows the people of that account, say so with options {"account": %1$s}.', p_account) END;
  ELSIF EXISTS (SELECT FROM dp_int.known_relations(p_relid, p_unit) k WHERE k.account IS NULL AND NOT k.child) THEN
    SELECT dp_int.first_few(array_agg(DISTINCT g.relation)), dp_int.first_few(array_agg(DISTINCT format('"%s" (account %s)', d.name, d.account)) FILTER (WHERE d.id IS NOT NULL)) INTO gone, names
      FROM dp_int.gone_relations() g
      LEFT JOIN dp_int.dataset d ON d.account = g.account;
    IF gone IS NOT NULL THEN
      RAISE EXCEPTION '% is refused: it may hold the people of %, which is gone and for which budget was spent', p_relid::regclass, gone
        USING ERRCODE = '22023',
              HINT = format('If it shows people of %s, name that data set, or the account by its number, with options {"account": ...}. If the table that is gone was created again under its name, register that one first. Otherwise state with {"new_population": "why"} that these are other people; the ledger records the statement.', names);
    END IF;
  END IF;
END $$;
