package sql_test

import (
	"math/rand/v2"
	"testing"
	"time"
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
