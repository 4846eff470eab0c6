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
			  FROM a, LATERAL (SELECT true AS fullest, f.* FROM dp_int.fullest(a.n, int8range($2, $3)) f
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
				blocks[k].rest, blocks[k].restRho = 1+rng.IntN(2), cap*rng.Float64()*rng.Float64()
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
