-- The views for users. Analysts see the data sets granted to them and their own jobs; stewards see every
-- data set and the ledger. Views call no function of dpsidecar but dp.caller, which everybody may execute: readers
-- of a view need the right to execute what it calls, and could then call it themselves.

CREATE OR REPLACE VIEW dp.datasets WITH (security_barrier) AS
  SELECT d.name AS dataset, format('%I.%I', d.schema_name, d.relation_name) AS relation, d.target::text AS target, d.features::text[] AS features,
         d.scales, d.row_count, a.accounting, d.options, d.registered_at, a.renyi_order::float8 AS renyi_order, d.labels,
         CASE WHEN a.delta > 0 THEN least((SELECT max(m.delta) FROM dp_int.model m), d.default_delta::float8) END AS default_delta,
         d.categories, d.unit::text AS unit, d.max_rows, d.persons,
         d.block::text AS block, a.block_width, a.block_origin, d.block_rows, coalesce(d.block_is_fixed, d.block_fixed_by) AS block_is_fixed,
         CASE WHEN d.unit IS NULL THEN 'every row' WHEN d.block IS NULL OR d.options ? 'one_block_a_person' THEN 'all rows of a person' ELSE 'all rows that a person has in one block' END AS protects,
         d.placement, d.distribution
    FROM dp_int.dataset d
    JOIN dp_int.account a ON a.id = d.account
   WHERE d.unregistered_at IS NULL
     AND (pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR d.id IN (SELECT dataset FROM dp_int.my_grant));
COMMENT ON VIEW dp.datasets IS 'What may be asked: columns, public scales, labels and levels of categories, public row count (of persons where there is a unit; NULL until a sidecar has counted), accounting (and its Renyi order, if it has one), the delta of a request that gives none, and where there is a budget for every block of time: by which column, and how long each is; where rows are while a job works on them, and how they are distributed over nodes (NULL: on one).';

CREATE OR REPLACE VIEW dp.budget WITH (security_barrier) AS
  SELECT d.name AS dataset,
         least(a.epsilon, d.epsilon)::float8 AS epsilon_total,
         (ceil(round(a.proven_epsilon * u.per, 6)) / u.per)::float8 AS epsilon_spent,
         -- 0 also where dp_int.is_closed says so, with blocks of one of them.
         CASE WHEN a.accounting <> 'pure' AND a.rest > 0
                   AND (a.cap <= 0 OR a.block_width IS NULL AND a.spent_epsilon = 0 AND a.spent > least(a.cap, d.cap)
                        OR a.block_width IS NOT NULL AND EXISTS (SELECT FROM dp_int.account_block b WHERE b.account = a.id AND b.rest > 0 AND b.spent_epsilon = 0 AND b.spent > least(a.cap, d.cap))) THEN 0
              ELSE (floor(round(greatest(least(a.epsilon, d.epsilon) - a.proven_epsilon, 0) * u.per, 6)) / u.per)::float8 END AS epsilon_remaining,
         a.delta::float8 AS delta_total,
         a.spends AS entries,
         g.epsilon::float8 AS my_epsilon_total,
         (ceil(round(coalesce(t.proven_epsilon, 0) * u.per, 6)) / u.per)::float8 AS my_epsilon_spent,
         CASE WHEN g.epsilon IS NULL THEN NULL
              WHEN a.accounting <> 'pure' AND t.rest > 0 AND (g.cap <= 0 OR t.spent_epsilon = 0 AND t.spent > g.cap) THEN 0
              ELSE (floor(round(greatest(g.epsilon - coalesce(t.proven_epsilon, 0), 0) * u.per, 6)) / u.per)::float8 END AS my_epsilon_remaining
    FROM dp_int.dataset d
    JOIN dp_int.account a ON a.id = d.account
    JOIN dp_int.rounding u ON u.dataset = d.id
    LEFT JOIN dp_int.my_grant g ON g.dataset = d.id
    LEFT JOIN dp_int.caller_total t ON t.account = a.id AND t.principal = (SELECT me.principal FROM dp_int.me)
   WHERE d.unregistered_at IS NULL
     AND (pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR g.dataset IS NOT NULL);
COMMENT ON VIEW dp.budget IS
  'One row a data set: the least epsilon whose filters would have admitted what is spent, and what is left, for the people in it, whatever name they were asked under, where it is a budget for every block that of the fullest one; entries: charges and refunds; my_*: the caller''s own, with a limit of NULL where there is none.';

CREATE OR REPLACE VIEW dp.grants WITH (security_barrier) AS
  SELECT d.name AS dataset, r.rolname::text AS grantee, g.epsilon::float8 AS epsilon, (ceil(round(coalesce(t.proven_epsilon, 0) * u.per, 6)) / u.per)::float8 AS epsilon_spent
    FROM dp_int.dataset_grant g
    JOIN dp_int.dataset d ON d.id = g.dataset
    JOIN dp_int.rounding u ON u.dataset = d.id
    JOIN dp_int.principal p ON p.id = g.principal AND p.cluster = (SELECT system_identifier FROM pg_control_system())
    JOIN pg_catalog.pg_roles r ON r.oid = p.role
    LEFT JOIN dp_int.caller_total t ON t.account = d.account AND t.principal = g.principal
   WHERE d.unregistered_at IS NULL
   ORDER BY d.name, r.rolname;
COMMENT ON VIEW dp.grants IS
  'To whom registered data sets are granted, with the personal limit, NULL where there is none, and what the role has spent of the people in the data set, under whatever name; each member of a group spends of its own. For dp_admin.';

CREATE OR REPLACE VIEW dp.jobs WITH (security_barrier) AS
  SELECT j.id, j.model, j.dataset, j.eps, j.delta, j.status,
         CASE WHEN j.stage = 'queued' AND p.ahead > 0 THEN format('queued behind %s', p.ahead) ELSE j.stage END AS stage,
         j.sqlstate, j.error, j.created_at, j.finished_at, j.hint, j.release, j.expected_at, j.caller, j.request
    FROM dp_int.status j
    LEFT JOIN dp_int.place p ON p.job = j.id
   WHERE j.principal = (SELECT me.principal FROM dp_int.me) OR pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE');
COMMENT ON VIEW dp.jobs IS 'The caller''s own jobs; for stewards everybody''s.';

CREATE OR REPLACE VIEW dp.releases WITH (security_barrier) AS
  SELECT r.id, r.job, r.model, r.method, d.name AS dataset, r.eps, r.delta, r.released_at, r.caller::text AS caller, r.parameters, r.read_at, r.rows,
         CASE WHEN j.request ? 'over' THEN daterange((j.request #>> '{over,0}')::date, (j.request #>> '{over,1}')::date) END AS over,
         j.request -> 'where_level' AS where_level, r.huber_delta, j.request ->> 'target' AS target,
         CASE jsonb_typeof(j.request -> 'features') WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(j.request -> 'features')) END AS features
    FROM dp_int.release r
    JOIN dp_int.dataset d ON d.id = r.dataset
    JOIN dp_int.job j ON j.id = r.job
   WHERE pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR r.dataset IN (SELECT dataset FROM dp_int.my_grant);
COMMENT ON VIEW dp.releases IS 'What has been released on the data sets granted to the caller, under which public parameters.';

CREATE OR REPLACE VIEW dp.coefficients WITH (security_barrier) AS
  SELECT c.release, c.term, c.coef, c.coef - c.band AS noise_low, c.coef + c.band AS noise_high,
         c.std_err, c.ci_low, c.ci_high, c.p_value, c.df, CASE WHEN c.ci_low IS NULL THEN coalesce(c.why_null, r.why_null) END AS why_null,
         c.grp, c.share
    FROM dp_int.coefficient c
    JOIN dp_int.release r ON r.id = c.release
   WHERE pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR r.dataset IN (SELECT dataset FROM dp_int.my_grant)
   ORDER BY c.release, c.position;
COMMENT ON VIEW dp.coefficients IS 'Coefficients of releases, in the table''s units.';

CREATE OR REPLACE VIEW dp.scores WITH (security_barrier) AS
  SELECT (r.parameters ->> 'release')::uuid AS release, m.metric, m.value, m.ci_low, m.ci_high, m.why_null, r.eps, r.delta, r.released_at AS scored_at, r.id AS score
    FROM dp_int.metric m
    JOIN dp_int.release r ON r.id = m.release
   WHERE pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR r.dataset IN (SELECT dataset FROM dp_int.my_grant)
   ORDER BY r.released_at, m.release, m.position;
COMMENT ON VIEW dp.scores IS 'How well releases predict: what dp_score has returned so far.';

CREATE OR REPLACE VIEW dp.descriptions WITH (security_barrier) AS
  SELECT r.id AS release, d.name AS dataset, f.column_name, f.statistic, f.value, f.ci_low, f.ci_high, f.why_null, r.eps, r.delta, r.released_at AS described_at, j.request -> 'where_level' AS where_level
    FROM dp_int.column_statistic f
    JOIN dp_int.release r ON r.id = f.release
    JOIN dp_int.job j ON j.id = r.job
    JOIN dp_int.dataset d ON d.id = r.dataset
   WHERE pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR r.dataset IN (SELECT dataset FROM dp_int.my_grant)
   ORDER BY r.released_at, f.release, f.position;
COMMENT ON VIEW dp.descriptions IS 'What columns hold: what dp_describe has returned so far.';

CREATE OR REPLACE VIEW dp.suggested_scales WITH (security_barrier) AS
  SELECT r.id AS release, d.name AS dataset, s.column_name, s.scale AS suggested_scale, s.center AS suggested_center, s.note, r.eps, r.delta, r.released_at AS suggested_at
    FROM dp_int.suggested_scale s
    JOIN dp_int.release r ON r.id = s.release
    JOIN dp_int.dataset d ON d.id = r.dataset
   WHERE pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR r.dataset IN (SELECT dataset FROM dp_int.my_grant)
   ORDER BY r.released_at, s.release, s.position;
COMMENT ON VIEW dp.suggested_scales IS 'Scales that were read from the rows: what dp_scales has returned so far.';

CREATE OR REPLACE VIEW dp.moments WITH (security_barrier) AS
  SELECT r.id AS release, d.name AS dataset,
         CASE WHEN j.request ? 'over' THEN daterange((j.request -> 'over' ->> 0)::date, (j.request -> 'over' ->> 1)::date) END AS over,
         m.terms, m.sums, m.noise, m.bound AS row_length, (r.parameters ->> 'rows')::bigint AS rows, j.request -> 'scales' AS scales, r.eps, r.delta, r.released_at, m.lost AS lost_weight, m.lost_noise AS lost_weight_noise
    FROM dp_int.second_moments m
    JOIN dp_int.release r ON r.id = m.release
    JOIN dp_int.job j ON j.id = r.job
    JOIN dp_int.dataset d ON d.id = r.dataset
   WHERE pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR r.dataset IN (SELECT dataset FROM dp_int.my_grant);
COMMENT ON VIEW dp.moments IS 'Second moments: what dp_moments has returned so far, and what dp_linear_from_moments fits from.';

CREATE OR REPLACE VIEW dp.ledger WITH (security_barrier) AS
  SELECT l.id, l.at, l.account, l.seq, l.kind, l.dataset, l.caller::text AS caller, l.job, l.event,
         l.epsilon::float8 AS epsilon, l.rho::float8 AS rho, l.renyi, l.renyi_grid, l.delta::float8 AS delta, l.arithmetic, l.refunds,
         encode(l.previous, 'hex') AS previous, encode(l.hash, 'hex') AS hash, l.blocks
    FROM dp_int.ledger l
   ORDER BY l.id;
COMMENT ON VIEW dp.ledger IS 'Every charge, refund and change of a budget; one hash chain an account. For dp_admin.';
GRANT SELECT ON dp.datasets, dp.budget, dp.jobs, dp.releases, dp.coefficients, dp.scores, dp.descriptions, dp.suggested_scales, dp.moments TO dp_analyst, dp_admin;
GRANT SELECT ON dp.ledger, dp.grants TO dp_admin;
COMMENT ON COLUMN dp.datasets.dataset IS 'The registered name';
COMMENT ON COLUMN dp.datasets.relation IS 'The table or view, with its schema';
COMMENT ON COLUMN dp.datasets.target IS 'The target of a request that names none';
COMMENT ON COLUMN dp.datasets.features IS 'The features of a request that names none; any registered column may be named as target or feature';
COMMENT ON COLUMN dp.datasets.scales IS 'By column, its public magnitude, or {"center", "scale"}; of a column that is not named the default methods find a scale, for a part of a request''s budget, or take it as 1';
COMMENT ON COLUMN dp.datasets.row_count IS 'The public number of rows, or of persons where there is a unit; NULL until a sidecar has counted, and where there are blocks: each window has a number of its own';
COMMENT ON COLUMN dp.datasets.accounting IS 'How costs add up: pure, zcdp or rdp';
COMMENT ON COLUMN dp.datasets.options IS 'As registered';
COMMENT ON COLUMN dp.datasets.registered_at IS 'When it was registered';
COMMENT ON COLUMN dp.datasets.renyi_order IS 'The order at which rdp accounting adds up divergences; NULL for other accounting';
COMMENT ON COLUMN dp.datasets.labels IS 'By column, the two values that are its labels, the negative one first';
COMMENT ON COLUMN dp.datasets.default_delta IS 'The delta of a request that gives none; NULL: there is none to give';
COMMENT ON COLUMN dp.datasets.categories IS 'By column, its levels; the first is the reference';
COMMENT ON COLUMN dp.datasets.unit IS 'The column that tells persons apart; NULL: one row is one person';
COMMENT ON COLUMN dp.datasets.max_rows IS 'How many rows of a person take part, at most; NULL without a unit';
COMMENT ON COLUMN dp.datasets.persons IS 'How many persons were registered in place of counted, with blocks of each block; NULL: they are counted, or there is no unit';
COMMENT ON COLUMN dp.datasets.block IS 'The column whose day, in UTC, says in which block of time a row is; NULL: there are no blocks';
COMMENT ON COLUMN dp.datasets.block_width IS 'How long a block is: whole days or whole months';
COMMENT ON COLUMN dp.datasets.block_origin IS 'The first day of the first block, in UTC';
COMMENT ON COLUMN dp.datasets.block_rows IS 'How many rows of each block were registered in place of counted; NULL: they are counted';
COMMENT ON COLUMN dp.datasets.block_is_fixed IS 'Why rows stay in their blocks: by the word of the steward, or as the database found';
COMMENT ON COLUMN dp.datasets.protects IS 'Whose replacement the budget bounds: every row, all rows of a person, or all rows that a person has in one block';
COMMENT ON COLUMN dp.datasets.placement IS 'Where rows are while a job works on them: auto, memory or database';
COMMENT ON COLUMN dp.datasets.distribution IS 'How rows were distributed over nodes at registration; NULL: one snapshot shows them all';
COMMENT ON COLUMN dp.budget.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.budget.epsilon_total IS 'The budget that all who ask share; with blocks, that of each block';
COMMENT ON COLUMN dp.budget.epsilon_spent IS 'The least epsilon that would have admitted what was charged, with blocks in the fullest of them; rounded upward to six decimals, of a budget below 1 to six digits';
COMMENT ON COLUMN dp.budget.epsilon_remaining IS 'What is left of epsilon_total, rounded downward in the same way; 0 where nothing of it can be asked for';
COMMENT ON COLUMN dp.budget.delta_total IS 'The delta of the budget; 0: it has none';
COMMENT ON COLUMN dp.budget.entries IS 'The number of charges and refunds';
COMMENT ON COLUMN dp.budget.my_epsilon_total IS 'The caller''s own limit; NULL: none';
COMMENT ON COLUMN dp.budget.my_epsilon_spent IS 'What the caller has spent on the people in the data set, rounded upward as epsilon_spent';
COMMENT ON COLUMN dp.budget.my_epsilon_remaining IS 'What is left of my_epsilon_total, rounded downward; NULL where there is no limit';
COMMENT ON COLUMN dp.grants.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.grants.grantee IS 'The role, by its name now; of a group all members may ask';
COMMENT ON COLUMN dp.grants.epsilon IS 'The personal limit, of each member of a group; NULL: none';
COMMENT ON COLUMN dp.grants.epsilon_spent IS 'What the role itself has spent on the people in the data set, under whatever name; rounded upward to six decimals, of a budget below 1 to six digits';
COMMENT ON COLUMN dp.jobs.id IS 'The job, as dp_submit and dp_run return it';
COMMENT ON COLUMN dp.jobs.model IS 'l1, linear, huber, logistic or poisson; score, describe, scales or moments';
COMMENT ON COLUMN dp.jobs.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.jobs.eps IS 'The epsilon that was asked for';
COMMENT ON COLUMN dp.jobs.delta IS 'The delta that was asked for, or chosen where none was';
COMMENT ON COLUMN dp.jobs.status IS 'queued, running, done, failed, canceled or abandoned';
COMMENT ON COLUMN dp.jobs.stage IS
  'Where the job stands. charged, running: its budget is spent, and it reads and fits. charged, waiting to read: its budget is spent, once; its table could not be read, and it is tried again by itself. charged, out of time: its budget is spent, once; it is tried again when the same is asked again.';
COMMENT ON COLUMN dp.jobs.sqlstate IS 'The SQLSTATE of error; NULL: there is none, or the job only waits to be charged';
COMMENT ON COLUMN dp.jobs.error IS 'Why it failed or was canceled, cannot be read now, or waits to be charged';
COMMENT ON COLUMN dp.jobs.created_at IS 'When it was asked for';
COMMENT ON COLUMN dp.jobs.finished_at IS 'When it ended; NULL: it has not';
COMMENT ON COLUMN dp.jobs.hint IS 'What to do about error, and whether budget was spent';
COMMENT ON COLUMN dp.jobs.release IS 'Its result, as in dp.releases; NULL until it is done';
COMMENT ON COLUMN dp.jobs.expected_at IS 'When it may be done, from public facts, while it is charged and runs; else NULL';
COMMENT ON COLUMN dp.jobs.caller IS 'Who asked, by the name of then';
COMMENT ON COLUMN dp.jobs.request IS 'What was asked: model, eps, delta, columns, their scales and options';
COMMENT ON COLUMN dp.releases.id IS 'The release; see dp.coefficients, dp_coef, dp_predict';
COMMENT ON COLUMN dp.releases.job IS 'The job that it is the result of';
COMMENT ON COLUMN dp.releases.model IS 'l1, linear, huber, logistic or poisson; score for the metrics of another release, see dp.scores; describe, scales and moments, see dp.descriptions, dp.suggested_scales and dp.moments';
COMMENT ON COLUMN dp.releases.method IS 'The algorithm that ran';
COMMENT ON COLUMN dp.releases.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.releases.eps IS 'The epsilon that was asked for';
COMMENT ON COLUMN dp.releases.delta IS 'The delta that was asked for';
COMMENT ON COLUMN dp.releases.released_at IS 'When it was published; the rows are those of read_at';
COMMENT ON COLUMN dp.releases.caller IS 'Who asked first';
COMMENT ON COLUMN dp.releases.parameters IS 'The public parameters it was made with, as a JSON object';
COMMENT ON COLUMN dp.releases.read_at IS 'As of when the rows were read; NULL for releases from before this was noted';
COMMENT ON COLUMN dp.releases.over IS 'The window of time whose rows were read, where there are blocks';
COMMENT ON COLUMN dp.releases.where_level IS 'The levels whose rows it is about; NULL: all';
COMMENT ON COLUMN dp.releases.huber_delta IS 'The delta of Huber''s loss that coefficients and intervals are about, in target scales, of groups the least: the one asked for, in parameters, or a smaller one, and where the target has no registered scale one in units of the target itself; NULL for other models and methods, and for releases from before this was noted';
COMMENT ON COLUMN dp.releases.target IS 'The target that was asked for; of a score that of the scored release';
COMMENT ON COLUMN dp.releases.features IS 'The features that were asked for, in their order; of a score those of the scored release';
COMMENT ON COLUMN dp.releases.rows IS 'The public number of rows, or of persons, that it was made for: counted, or registered in place of that; NULL for releases from before this was noted';
COMMENT ON COLUMN dp.scores.release IS 'The release that was scored, as in dp.coefficients';
COMMENT ON COLUMN dp.scores.metric IS 'r2, mean_absolute_error, root_mean_squared_error, log_loss, accuracy, brier_score, deviance_explained or mean_deviance';
COMMENT ON COLUMN dp.scores.value IS 'The metric, over the rows in which nothing is missing; errors in the target''s units; NULL: see why_null';
COMMENT ON COLUMN dp.scores.ci_low IS 'Lower end of a 95 % confidence interval, of sampling and noise; NULL: see why_null';
COMMENT ON COLUMN dp.scores.ci_high IS 'Its upper end';
COMMENT ON COLUMN dp.scores.why_null IS 'Why there is no value or no interval; NULL where there are both';
COMMENT ON COLUMN dp.scores.eps IS 'The epsilon that was asked for';
COMMENT ON COLUMN dp.scores.delta IS 'The delta that was asked for, or chosen where none was';
COMMENT ON COLUMN dp.scores.scored_at IS 'When it was published; the rows are those of shortly before';
COMMENT ON COLUMN dp.scores.score IS 'The release that the score itself is, as in dp.releases';
COMMENT ON COLUMN dp.coefficients.release IS 'The release, as in dp.releases';
COMMENT ON COLUMN dp.coefficients.term IS '(intercept), the feature''s column, or column=level for a level of a category but its first';
COMMENT ON COLUMN dp.coefficients.coef IS 'The coefficient, in the target''s units per unit of the feature; log-odds per unit for a logistic release';
COMMENT ON COLUMN dp.coefficients.noise_low IS 'Without its noise the same fit would have given at least this, in 95 of 100 runs and whatever the data; NULL: not known';
COMMENT ON COLUMN dp.coefficients.noise_high IS 'The same, at most this';
COMMENT ON COLUMN dp.coefficients.std_err IS 'Standard error: the sampling of rows and the noise together; NULL: see why_null';
COMMENT ON COLUMN dp.coefficients.ci_low IS 'Lower end of a 95 % confidence interval, which allows for bias and need not be centred at coef; NULL: see why_null';
COMMENT ON COLUMN dp.coefficients.ci_high IS 'Its upper end';
COMMENT ON COLUMN dp.coefficients.p_value IS 'Two-sided, of the middle of the interval over std_err, by the t distribution, at the least favourable bias that the interval allows for; NULL: see why_null';
COMMENT ON COLUMN dp.coefficients.df IS 'Degrees of freedom of std_err, for a t distribution; NULL: see why_null';
COMMENT ON COLUMN dp.coefficients.why_null IS 'Why there is no interval; NULL where there is one';
COMMENT ON COLUMN dp.coefficients.grp IS 'The group whose fit it belongs to, a level of the category that was named with by; empty where none was';
COMMENT ON COLUMN dp.coefficients.share IS 'The share of rows that the group was taken to have, with noise; NULL where there are no groups';
COMMENT ON COLUMN dp.descriptions.release IS 'The release, as in dp.releases';
COMMENT ON COLUMN dp.descriptions.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.descriptions.column_name IS 'The column; NULL: all columns of the request together';
COMMENT ON COLUMN dp.descriptions.statistic IS 'usable_share, mean, quartile_1, median, quartile_3, true_share, share of a level, or complete_share';
COMMENT ON COLUMN dp.descriptions.value IS 'Over the values that are not missing; NULL: see why_null';
COMMENT ON COLUMN dp.descriptions.ci_low IS 'Lower end of a 95 % confidence interval, of sampling and noise; NULL: see why_null';
COMMENT ON COLUMN dp.descriptions.ci_high IS 'Its upper end';
COMMENT ON COLUMN dp.descriptions.why_null IS 'Why there is no value or no interval; NULL where there are both';
COMMENT ON COLUMN dp.descriptions.eps IS 'The epsilon that was asked for';
COMMENT ON COLUMN dp.descriptions.delta IS 'The delta that was asked for, or chosen where none was';
COMMENT ON COLUMN dp.descriptions.described_at IS 'When it was published; the rows are those of shortly before';
COMMENT ON COLUMN dp.descriptions.where_level IS 'The levels whose rows are described; NULL: all';
COMMENT ON COLUMN dp.suggested_scales.release IS 'The release, as in dp.releases';
COMMENT ON COLUMN dp.suggested_scales.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.suggested_scales.column_name IS 'The column';
COMMENT ON COLUMN dp.suggested_scales.suggested_scale IS 'A typical magnitude, 1, 2 or 5 times a power of ten; NULL: noise hides it, see note';
COMMENT ON COLUMN dp.suggested_scales.suggested_center IS 'Where the values lie, if that is far from 0; else 0';
COMMENT ON COLUMN dp.suggested_scales.note IS 'What was seen';
COMMENT ON COLUMN dp.suggested_scales.eps IS 'The epsilon that was asked for';
COMMENT ON COLUMN dp.suggested_scales.delta IS 'The delta that was asked for, or chosen where none was';
COMMENT ON COLUMN dp.suggested_scales.suggested_at IS 'When it was published; the rows are those of shortly before';
COMMENT ON COLUMN dp.moments.release IS 'The release, as in dp.releases';
COMMENT ON COLUMN dp.moments.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.moments.over IS 'The window whose rows were summed; NULL without blocks';
COMMENT ON COLUMN dp.moments.terms IS '(intercept), which is 1 in every row, and the columns, or column=level for a level of a category but its first';
COMMENT ON COLUMN dp.moments.sums IS 'Sums over rows of the products of two terms, with noise: of the first with each, of the second with itself and those after it, and so on. Columns are counted from their centers in their scales';
COMMENT ON COLUMN dp.moments.noise IS 'The standard deviation that noise gives the sum of the squares of a term; of the products of two terms, this over the root of 2';
COMMENT ON COLUMN dp.moments.lost_weight IS 'A shortened row counts with a weight below 1: what all rows lose, with noise; NULL for releases from before this was released';
COMMENT ON COLUMN dp.moments.lost_weight_noise IS 'Standard deviation of the noise in lost_weight';
COMMENT ON COLUMN dp.moments.row_length IS 'Longer rows, in scaled units, were shortened to this length';
COMMENT ON COLUMN dp.moments.rows IS 'How many rows there were, of persons where there is a unit; those that lack a value count for nothing';
COMMENT ON COLUMN dp.moments.scales IS 'Scales and centers of the columns; a column that is not named has scale 1';
COMMENT ON COLUMN dp.moments.eps IS 'The epsilon that was asked for';
COMMENT ON COLUMN dp.moments.delta IS 'The delta that was asked for, or chosen where none was';
COMMENT ON COLUMN dp.moments.released_at IS 'When it was published; the rows are those of shortly before';
COMMENT ON COLUMN dp.ledger.id IS 'The entry';
COMMENT ON COLUMN dp.ledger.at IS 'When it was appended';
COMMENT ON COLUMN dp.ledger.account IS 'The account: the people whose budget it is';
COMMENT ON COLUMN dp.ledger.seq IS 'The number of the entry in its account, from 1';
COMMENT ON COLUMN dp.ledger.kind IS 'charge, refund, which gives a charge back, or budget, which is what else stewards did';
COMMENT ON COLUMN dp.ledger.dataset IS 'The name under which it was asked or done';
COMMENT ON COLUMN dp.ledger.caller IS 'Who asked, or the steward';
COMMENT ON COLUMN dp.ledger.job IS 'The job that is charged; NULL for kind budget';
COMMENT ON COLUMN dp.ledger.event IS 'The mechanisms of a charge and how often each ran, as a JSON object; for kind budget what was done';
COMMENT ON COLUMN dp.ledger.epsilon IS 'Its cost in pure epsilon; NULL: it has none. Negative for a refund, as the other costs';
COMMENT ON COLUMN dp.ledger.rho IS 'Its cost in rho of zero-concentrated differential privacy; NULL: it has none';
COMMENT ON COLUMN dp.ledger.renyi IS 'Its Renyi divergences at the orders of renyi_grid; NULL: it has none';
COMMENT ON COLUMN dp.ledger.renyi_grid IS 'The number of the list of orders';
COMMENT ON COLUMN dp.ledger.delta IS 'The delta that its mechanisms spend themselves';
COMMENT ON COLUMN dp.ledger.arithmetic IS 'Whether the guarantee depends on floating-point arithmetic: exact if it does not';
COMMENT ON COLUMN dp.ledger.refunds IS 'The id of the charge that it gives back; NULL for other kinds';
COMMENT ON COLUMN dp.ledger.previous IS 'The hash of the entry before, in hex';
COMMENT ON COLUMN dp.ledger.hash IS 'SHA-256 of previous and all other columns but id, in hex';
COMMENT ON COLUMN dp.ledger.blocks IS 'The blocks that it is of, from 0 at block_origin; NULL: there are none';
