package sql_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"dpsidecar/internal/privacy"
)

// start is the first day of a block of so many days or months, as package time has it.
func start(origin time.Time, months, days, block int) time.Time {
	return origin.AddDate(0, months*block, days*block)
}

// Every day is in one block: that which begins on it or before, the next one after it; whatever the time
// zone and the DateStyle of the session.
func TestBordersOfBlocks(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	rng := rand.New(rand.NewPCG(43, 1))
	const text = "2006-01-02"
	for k := range 600 {
		if k%50 == 0 {
			script(t, conn, "settings of a session", []string{"SET TimeZone = 'Pacific/Kiritimati'; SET DateStyle = 'SQL, DMY'", "SET TimeZone = 'America/New_York'; SET DateStyle = 'German'", "RESET ALL"}[k/50%3])
		}
		origin := time.Date(1990+rng.IntN(40), time.Month(1+rng.IntN(12)), 1+rng.IntN(28), 0, 0, 0, 0, time.UTC)
		months, days := 1+rng.IntN(14), 0
		if k%3 > 0 {
			months, days = 0, 1+rng.IntN(1+rng.IntN(40))
		}
		block := rng.IntN(2000)
		at, next := start(origin, months, days, block), start(origin, months, days, block+1)
		day := at.AddDate(0, 0, rng.IntN(int(next.Sub(at).Hours())/24))
		got := query[string](t, conn, `
			SELECT concat_ws(' ', dp_int.block_of(o, w, $5::text::date), dp_int.block_of(o, w, $6::text::date - 1), dp_int.block_of(o, w, o - 1), dp_int.day_text(dp_int.block_start(o, w, $4)))
			  FROM (SELECT $1::text::date AS o, make_interval(months => $2, days => $3) AS w) AS v`, origin.Format(text), months, days, block, day.Format(text), next.Format(text))[0]
		if want := query[string](t, conn, `SELECT concat_ws(' ', $1::int, $1::int, -1, $2::text)`, block, at.Format(text))[0]; got != want {
			t.Fatalf("%d months or %d days from %s, %s: %s, want %s", months, days, origin.Format(text), day.Format(text), got, want)
		}
	}
}

// blockSums are the sums of a block, or of one charge more.
type blockSums struct {
	rho, pure float64 // of those that have a pure epsilon
	rest      int
	restRho   float64
	delta     float64
}

// What the filters and the reserve admit in the fullest blocks of a window they admit in all of them.
func TestTheFullestBlocksDecideForAll(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	account := func(epsilon float64, blocks []blockSums) (id int64) {
		id = query[int64](t, conn, `INSERT INTO dp_int.account (accounting, epsilon, delta, cap, block_width, block_origin)
			VALUES ('zcdp', $1::text::numeric, 1e-6, dp_int.cap('zcdp', NULL, $1::text::numeric, 1e-6), '1 day', '2026-01-01') RETURNING id`, strconv.FormatFloat(epsilon, 'g', -1, 64))[0]
		for k, b := range blocks {
			query[int64](t, conn, `INSERT INTO dp_int.account_block VALUES ($1, $2, $3::float8::numeric + $6::float8::numeric, $4::float8::numeric, $5, $6::float8::numeric, $7::float8::numeric) RETURNING block`,
				id, 2*k, b.rho, b.pure, b.rest, b.restRho, b.delta)
		}
		return id
	}
	admitted := func(id int64, lo, hi int, c blockSums) (all, fullest bool) {
		both := query[bool](t, conn, `
			WITH a AS (SELECT n FROM dp_int.account n WHERE id = $1)
			SELECT bool_and(b.spent_delta + $8::float8::numeric <= dp_int.reserve((a.n).delta)
			           AND dp_int.admits('zcdp', (a.n).epsilon, (a.n).delta, (a.n).cap,
			                 ROW(b.spent + $4::float8::numeric + $7::float8::numeric, b.spent_epsilon + $5::float8::numeric, b.rest + $6, b.rest_rho + $7::float8::numeric)::dp_int.tally))
			  FROM a, LATERAL (SELECT true AS fullest, f.* FROM dp_int.not_exceeded(ARRAY(SELECT o FROM dp_int.sums_of(a.n, int8range($2, $3)) o)) f
			                   UNION ALL
			                   SELECT false, o.* FROM dp_int.account_block o WHERE o.account = $1 AND o.block BETWEEN $2 AND $3 - 1
			                   UNION ALL
			                   SELECT false, $1, 0, 0, 0, 0, 0, 0) AS b
			 GROUP BY b.fullest ORDER BY b.fullest`, id, lo, hi, c.rho, c.pure, c.rest, c.restRho, c.delta)
		return both[0], both[1]
	}

	// The first block has the larger sums, but for one, by which the second is fuller.
	pure := func(epsilon float64) blockSums { return blockSums{rho: epsilon * math.Tanh(epsilon/2), pure: epsilon} }
	besides := func(b blockSums, rest int, restRho, delta float64) blockSums {
		b.rest, b.restRho, b.delta = rest, restRho, delta
		return b
	}
	cap, order := privacy.ZCDPRho(2, .9e-6), privacy.ZCDPOrder(2, .9e-6)
	for name, c := range map[string]struct {
		first, second, charge blockSums
	}{
		"the rest":         {pure(1.9), besides(pure(1.8), 1, 0, 0), pure(.05)},
		"rho of the rest":  {besides(pure(.6*order*cap), 1, .05*cap, 0), besides(pure(.5*order*cap), 1, .6*cap, 0), besides(blockSums{}, 1, 0, 0)},
		"the deltas":       {pure(1), besides(pure(.5), 0, 0, 9e-8), besides(blockSums{}, 1, 0, 2e-8)},
		"the pure epsilon": {pure(1), blockSums{rho: 2 * cap, pure: 1.8}, pure(.3)},
	} {
		id := account(2, []blockSums{c.first, c.second})
		first, _ := admitted(id, 0, 1, c.charge)
		if all, fullest := admitted(id, 0, 3, c.charge); fullest || all || !first {
			t.Errorf("%s: in the first block %v, in all %v, in the fullest %v", name, first, all, fullest)
		}
	}

	rng := rand.New(rand.NewPCG(44, 1))
	refused := 0
	for range 60 {
		epsilon := []float64{.5, 2, 6}[rng.IntN(3)]
		cap := privacy.ZCDPRho(epsilon, .9e-6)
		blocks := make([]blockSums, 8)
		for k := range blocks {
			if rng.IntN(4) > 0 {
				blocks[k].pure = epsilon * rng.Float64()
				blocks[k].rho = blocks[k].pure * math.Tanh(blocks[k].pure/float64(2+18*rng.IntN(2)))
			}
			if rng.IntN(3) > 0 {
				blocks[k].rest, blocks[k].restRho = 1+rng.IntN(2), cap*rng.Float64()*rng.Float64()*1.2
			}
			if rng.IntN(4) == 0 {
				blocks[k].delta = 1e-7 * rng.Float64()
			}
		}
		id := account(epsilon, blocks)
		for range 20 {
			lo := rng.IntN(16)
			hi := lo + 1 + rng.IntN(16-lo)
			charge := pure(epsilon * rng.Float64() * rng.Float64() * rng.Float64())
			if rng.IntN(2) == 0 {
				charge = blockSums{rest: 1, restRho: cap * rng.Float64() * rng.Float64() * .5, delta: 1e-7 * rng.Float64() * rng.Float64() * float64(rng.IntN(2))}
			}
			all, fullest := admitted(id, lo, hi, charge)
			if all != fullest {
				t.Fatalf("of %+v in [%d,%d): all %v, the fullest %v, of a charge of %+v", blocks, lo, hi, all, fullest, charge)
			}
			if !all {
				refused++
			}
		}
	}
	if refused < 200 || refused > 1000 {
		t.Errorf("%d of 1200 charges are refused: the test says little", refused)
	}
}

// byAll is what blocks were asked before there were many different ones: every sum that no other exceeds is found by looking
// at all others, and each of these is converted and held against the filters.
const byAll = `
	CREATE FUNCTION pg_temp.lower_limit(a dp_int.account) RETURNS dp_int.dataset LANGUAGE sql STABLE AS $$
	  SELECT jsonb_populate_record(NULL::dp_int.dataset, jsonb_build_object('epsilon', a.epsilon * 0.7, 'cap', dp_int.cap(a.accounting, a.renyi_order, a.epsilon * 0.7, a.delta)))
	$$;
	CREATE FUNCTION pg_temp.fullest(a dp_int.account, p_blocks int8range) RETURNS SETOF dp_int.account_block
	LANGUAGE sql STABLE AS $$
	  WITH w AS (SELECT t.* FROM dp_int.account_block t WHERE t.account = a.id AND t.block >= lower(p_blocks) AND t.block < upper(p_blocks)
	             UNION ALL
	             SELECT a.id, lower(p_blocks), 0, 0, 0, 0, 0 WHERE NOT EXISTS (SELECT FROM dp_int.account_block t WHERE t.account = a.id AND t.block >= lower(p_blocks) AND t.block < upper(p_blocks)))
	  SELECT t.* FROM w t
	   WHERE NOT EXISTS (SELECT FROM w f
	                      WHERE t.spent <= f.spent AND t.spent_epsilon <= f.spent_epsilon AND t.rest_rho <= f.rest_rho AND t.spent_delta <= f.spent_delta AND (t.rest <= f.rest OR f.rest > 1)
	                        AND ((t.spent, t.spent_epsilon, t.rest_rho, t.spent_delta, least(t.rest, 2)) <> (f.spent, f.spent_epsilon, f.rest_rho, f.spent_delta, least(f.rest, 2)) OR f.block < t.block))
	   ORDER BY t.spent DESC, t.spent_epsilon DESC, t.rest_rho DESC, t.spent_delta DESC, least(t.rest, 2) DESC, t.block
	$$;
	CREATE FUNCTION pg_temp.by_all(a dp_int.account, w int8range, x dp_int.tally, p_delta numeric, OUT proven numeric, OUT afterwards numeric, OUT refusing bigint, OUT eps numeric)
	LANGUAGE sql STABLE AS $$
	  SELECT (SELECT max(n.proven_epsilon) FROM pg_temp.fullest(a, w) AS b, dp_int.at_block(a, b) AS n),
	         (SELECT max(dp_int.least_epsilon(a, ROW(b.spent + x.spent, b.spent_epsilon + x.epsilon, b.rest + x.rest, b.rest_rho + x.rest_rho)::dp_int.tally, b.spent_delta + p_delta)) FROM pg_temp.fullest(a, w) AS b),
	         (SELECT b.block FROM pg_temp.fullest(a, w) AS b
	           WHERE NOT (b.spent_delta + p_delta <= dp_int.reserve(a.delta)
	                      AND dp_int.admits(a.accounting, a.epsilon, a.delta, a.cap, ROW(b.spent + x.spent, b.spent_epsilon + x.epsilon, b.rest + x.rest, b.rest_rho + x.rest_rho)::dp_int.tally)
	                      AND dp_int.admits(a.accounting, d.epsilon, a.delta, d.cap, ROW(b.spent + x.spent, b.spent_epsilon + x.epsilon, b.rest + x.rest, b.rest_rho + x.rest_rho)::dp_int.tally))
	           ORDER BY b.spent DESC, b.spent_epsilon DESC, b.rest_rho DESC, b.spent_delta DESC, least(b.rest, 2) DESC, b.block LIMIT 1),
	         (SELECT CASE WHEN bool_and(v.eps IS NOT NULL AND w.eps IS NOT NULL) THEN min(least(v.eps, w.eps)) END
	            FROM pg_temp.fullest(a, w) AS b, jsonb_populate_record(NULL::dp_int.ledger, jsonb_build_object('event', '{}'::jsonb, 'epsilon', 1)) AS e,
	                 dp_int.affordable(a, a.epsilon, a.cap, ARRAY[ROW(b.spent, b.spent_epsilon, b.rest, b.rest_rho)::dp_int.tally], e, 1e-6) AS v(eps),
	                 dp_int.affordable(a, d.epsilon, d.cap, ARRAY[ROW(b.spent, b.spent_epsilon, b.rest, b.rest_rho)::dp_int.tally], e, 1e-6) AS w(eps))
	    FROM pg_temp.lower_limit(a) AS d
	$$;
	CREATE FUNCTION pg_temp.by_few(a dp_int.account, w int8range, x dp_int.tally, p_delta numeric, OUT proven numeric, OUT afterwards numeric, OUT refusing bigint, OUT eps numeric)
	LANGUAGE sql STABLE AS $$
	  SELECT dp_int.fullest_epsilon(a, w),
	         (SELECT dp_int.least_epsilon(a, ROW(n.spent + x.spent, n.spent_epsilon + x.epsilon, n.rest + x.rest, n.rest_rho + x.rest_rho)::dp_int.tally, n.spent_delta + p_delta) FROM dp_int.fullest_block(a, w, x, p_delta) AS n),
	         (SELECT b.block FROM dp_int.refusing(a, d, w, x, p_delta) AS b LIMIT 1),
	         dp_int.affordable_everywhere(a, d, NULL, NULL,
	                                      jsonb_populate_record(NULL::dp_int.ledger, jsonb_build_object('event', '{}'::jsonb, 'epsilon', 1, 'blocks', w)), 1e-6)
	    FROM pg_temp.lower_limit(a) AS d
	$$`

// However different blocks are, what is proven of them, what is refused, for which block, and which eps would do is what
// looking at all of them finds, to the last digit.
func TestFewBlocksDecideWhatAllDecide(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	script(t, conn, "by all", byAll)
	rng := rand.New(rand.NewPCG(47, 1))
	refused, left, asked := 0, 0, 0
	for k := range 60 {
		accounting := []string{"zcdp", "zcdp", "zcdp", "rdp", "pure"}[k%5]
		epsilon, delta := []float64{.01, .5, 4}[rng.IntN(3)], math.Pow(10, -2-8*rng.Float64())
		if accounting == "pure" {
			delta = 0
		}
		if accounting == "rdp" {
			epsilon = 4
		}
		exact := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
		id := query[int64](t, conn, `INSERT INTO dp_int.account (accounting, renyi_order, epsilon, delta, cap, block_width, block_origin)
			SELECT $1, o, e, d, dp_int.cap($1, o, e, d), '1 day', '2026-01-01' FROM (SELECT CASE WHEN $1 = 'rdp' THEN 7.75 END, $2::text::numeric, $3::text::numeric) AS v(o, e, d) RETURNING id`,
			accounting, exact(epsilon), exact(delta))[0]
		scale := epsilon * math.Pow(10, -6*rng.Float64()*float64(rng.IntN(2)))
		cap := query[float64](t, conn, `SELECT cap::float8 FROM dp_int.account WHERE id = $1`, id)[0]
		// Of rising pure epsilons and falling rho, as one who wants them all looked at would ask, or of any.
		const blocks = 40
		for b := range blocks {
			at := float64(b) / blocks
			var s blockSums
			switch k % 4 {
			case 0, 1:
				s.pure, s.restRho, s.rest = scale*at, cap*(scale/epsilon)*math.Pow(1-at, 1+rng.Float64()*float64(k%3)), 1
			case 2:
				s.pure, s.restRho, s.rest = scale*rng.Float64(), cap*(scale/epsilon)*rng.Float64(), 1+rng.IntN(2)
				switch rng.IntN(4) {
				case 0:
					s.restRho, s.rest = 0, 0
				case 1:
					s.pure, s.restRho = 0, s.restRho*1.2 // where rest is 1, normal noise alone
				}
			case 3:
				s.pure, s.restRho, s.rest = scale*float64(rng.IntN(3)), cap*(scale/epsilon)*float64(rng.IntN(3)*(k/4%2))/2, 1 // some alike, but that one has a rest
				if s.restRho == 0 {
					s.rest = rng.IntN(2)
				}
			}
			if s.rest > 0 && k%4 != 3 && rng.IntN(3) == 0 {
				s.delta = delta * rng.Float64() * []float64{.1, .1, 1.1}[k%3]
			}
			s.rho = s.pure * math.Tanh(s.pure/2)
			if accounting == "pure" {
				s = blockSums{rho: s.pure, pure: s.pure}
			}
			query[int64](t, conn, `INSERT INTO dp_int.account_block VALUES ($1, $2, $3::text::numeric + $6::text::numeric, $4::text::numeric, $5, $6::text::numeric, $7::text::numeric) RETURNING block`,
				id, 2*b, exact(s.rho), exact(s.pure), s.rest, exact(s.restRho), exact(s.delta))
		}
		for range 2 {
			lo := rng.IntN(2 * blocks)
			hi := lo + 1 + rng.IntN(2*blocks-lo)
			if rng.IntN(3) == 0 {
				lo, hi = 0, 2*blocks
			}
			eps := scale * rng.Float64() * float64(rng.IntN(2))
			x, dx := "ROW("+exact(eps*math.Tanh(eps/2))+","+exact(eps)+",0,0)", "0"
			if accounting == "pure" {
				x = "ROW(" + exact(eps) + "," + exact(eps) + ",0,0)"
			} else if rng.IntN(2) == 0 {
				rho := exact(cap * (scale / epsilon) * rng.Float64() * .3)
				x, dx = "ROW("+rho+",0,1,"+rho+")", exact(delta*.05*rng.Float64()*float64(rng.IntN(2)))
			}
			asked++
			difference := query[string](t, conn, `
				SELECT concat_ws('; ', CASE WHEN o.proven IS DISTINCT FROM n.proven THEN format('proven %s, was %s', n.proven, o.proven) END,
				                       CASE WHEN o.afterwards IS DISTINCT FROM n.afterwards THEN format('afterwards %s, was %s', n.afterwards, o.afterwards) END,
				                       CASE WHEN o.refusing IS DISTINCT FROM n.refusing THEN format('refused by %s, was %s', n.refusing, o.refusing) END,
				                       CASE WHEN o.eps IS DISTINCT FROM n.eps AND (abs(o.eps - n.eps) <= 1e-9 * o.eps) IS NOT TRUE THEN format('eps %s, was %s', n.eps, o.eps) END)
				  FROM (SELECT a, int8range($2, $3) AS w, `+x+`::dp_int.tally AS x, `+dx+`::numeric AS dx FROM dp_int.account a WHERE a.id = $1) AS v,
				       pg_temp.by_all(v.a, v.w, v.x, v.dx) AS o, pg_temp.by_few(v.a, v.w, v.x, v.dx) AS n`, id, lo, hi)[0]
			if difference != "" {
				t.Errorf("%d, %s at (%v, %v), blocks [%d,%d), %s and a delta of %s: %s", k, accounting, epsilon, delta, lo, hi, x, dx, difference)
			}
			if query[bool](t, conn, `SELECT EXISTS (SELECT FROM dp_int.account a, pg_temp.by_few(a, int8range($2, $3), `+x+`::dp_int.tally, `+dx+`) AS n WHERE a.id = $1 AND n.refusing IS NOT NULL)`, id, lo, hi)[0] {
				refused++
			}
			left += query[int](t, conn, `SELECT cardinality(dp_int.near_the_fullest(a, ARRAY(SELECT s FROM dp_int.sums_of(a, int8range($2, $3)) AS s), `+x+`::dp_int.tally, `+dx+`)) FROM dp_int.account a WHERE a.id = $1`, id, lo, hi)[0]
		}
	}
	t.Logf("%d of %d refused, %.1f sums left on average", refused, asked, float64(left)/float64(asked))
	if refused < asked/10 || refused > 9*asked/10 {
		t.Errorf("%d of %d are refused: the test says little", refused, asked)
	}
}

// A mixture of pure epsilon and rho is held against each limit by the order of that limit: at 98 % of what filter 3 admits it
// is admitted, at 102 % it is not, whichever of the two limits is the lower one.
func TestEachLimitHasItsOrder(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	script(t, conn, "by all", byAll)
	for _, part := range []float64{0.1, 0.5, 0.9} {
		for _, at := range []float64{0.98, 1.02} {
			id := query[int64](t, conn, `INSERT INTO dp_int.account (accounting, epsilon, delta, cap, block_width, block_origin) VALUES ('zcdp', 4, 1e-6, dp_int.cap('zcdp', NULL, 4, 1e-6), '1 day', '2026-01-01') RETURNING id`)[0]
			query[int64](t, conn, `INSERT INTO dp_int.account_block
				SELECT a.id, 0, 10, o * d.cap * (1 - $2::float8::numeric) * $3::float8::numeric, 1, d.cap * $2::float8::numeric * $3::float8::numeric, 0
				  FROM dp_int.account a, pg_temp.lower_limit(a) AS d, dp_int.order_of_limit('zcdp', d.epsilon, a.delta) AS o WHERE a.id = $1 RETURNING block`, id, part, at)
			refused := query[bool](t, conn, `SELECT EXISTS (SELECT FROM dp_int.account a, pg_temp.lower_limit(a) AS d, dp_int.refusing(a, d, '[0,1)', ROW(0, 0, 0, 0)::dp_int.tally, 0) WHERE a.id = $1)`, id)[0]
			if refused != (at > 1) {
				t.Errorf("%v of the rho, at %v of the limit: refused is %v", part, at, refused)
			}
		}
	}
}

// A data set whose 450 blocks all differ, none of which exceeds another, answers at once.
func TestManyDifferentBlocksAreQuick(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	id := query[int64](t, conn, `INSERT INTO dp_int.account (accounting, epsilon, delta, cap, block_width, block_origin) VALUES ('zcdp', 4, 1e-6, dp_int.cap('zcdp', NULL, 4, 1e-6), '1 day', '2026-01-01') RETURNING id`)[0]
	query[int64](t, conn, `INSERT INTO dp_int.account_block SELECT $1, i, power(i * 1e-6, 2) / 2 + power((451 - i) * 1e-4, 2) / 50, i * 1e-6, 1, power((451 - i) * 1e-4, 2) / 50, 0 FROM generate_series(1, 450) AS i RETURNING block`, id)
	script(t, conn, "a limit of time", "SET statement_timeout = '2 s'") // it took 7
	query[float64](t, conn, `SELECT dp_int.fullest_epsilon(a)::float8 FROM dp_int.account a WHERE id = $1`, id)
}

// A window of 10,000 blocks is the longest, in the database and for who follows its ledger.
func TestTheLongestWindow(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	account := query[int64](t, conn, `INSERT INTO dp_int.account (accounting, epsilon, delta, cap, block_width, block_origin) VALUES ('pure', 1, 0, 1, '1 day', '1980-01-01') RETURNING id`)[0]
	const window = `SELECT count(*) FROM dp_int.canonical_over(jsonb_populate_record(NULL::dp_int.dataset, jsonb_build_object('account', $1::bigint, 'name', 'days', 'block', 'day')),
		jsonb_build_array('1980-02-01', dp_int.day_text('1980-02-01'::date + $2::int)))`
	query[int64](t, conn, window, account, 10_000)
	var n int64
	if err := conn.QueryRow(t.Context(), window, account, 10_001).Scan(&n); err == nil || !strings.Contains(err.Error(), "the window has 10001 blocks, and may have 10000") {
		t.Errorf("10,001 blocks: %v", err)
	}
}
