package arrowio

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// arrival is a row as it arrives.
type arrival struct {
	key string
	row []float64
}

// arrivals are rows of some persons, at most most of each, in the order of the persons.
func arrivalsOf(r *rand.Rand, persons, most int) (all []arrival) {
	for u := range persons {
		for range 1 + r.IntN(most) {
			row := []float64{float64(r.IntN(3)), math.Copysign(float64(r.IntN(2)), float64(r.IntN(2))-.5), float64(r.IntN(2))}
			if r.IntN(10) == 0 {
				row[r.IntN(3)] = math.NaN()
			}
			all = append(all, arrival{fmt.Sprintf("person %d of many", u), row})
		}
	}
	return all
}

// recordsOf returns the rows of every record, in their order, by the draws of a seed.
func recordsOf(t *testing.T, all []arrival, most int64, maxRows int, seed maphash.Seed) (records [][][]float64) {
	s := newUnits(3, most, maxRows, mechtest.Source(t, 1))
	s.seed = seed
	for _, a := range all {
		s.add([]byte(a.key), a.row)
	}
	columns, first := s.finish()
	for u := range most {
		var rows [][]float64
		for i := first[u]; i < first[u+1]; i++ {
			rows = append(rows, []float64{columns[0][i], columns[1][i], columns[2][i]})
		}
		records = append(records, rows)
	}
	return records
}

func sameRecord(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(v, w []float64) bool { return slices.EqualFunc(v, w, sameBits) })
}

func sameBits(v, w float64) bool {
	return math.Float64bits(v) == math.Float64bits(w) || math.IsNaN(v) && math.IsNaN(w)
}

// The order in which a person's rows arrive makes no difference to any bit of a record: it
// depends on other rows, and floating sums depend on it.
func TestOrderOfArrivalWithinAPersonIsForgotten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		all := arrivalsOf(r, 20, 6)
		first := slices.Clone(all)
		order := r.Perm(len(all))
		shuffled := slices.Clone(all)
		for i, at := range order { // any order, but persons appear in their own
			shuffled[i] = all[at]
		}
		slices.SortStableFunc(shuffled, func(a, b arrival) int { return slices.IndexFunc(first, is(a.key)) - slices.IndexFunc(first, is(b.key)) })
		seed := maphash.MakeSeed()
		a, b := recordsOf(t, all, 20, 6, seed), recordsOf(t, shuffled, 20, 6, seed)
		if !slices.EqualFunc(a, b, sameRecord) {
			t.Fatal("another order of arrival made other records")
		}
	}
}

func is(key string) func(arrival) bool { return func(a arrival) bool { return a.key == key } }

// Whatever a person's rows become, and under whatever key, at most one record differs, by its
// rows: also where there are more persons than records.
func TestReplacingAPersonReplacesOneRecord(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for k := range 400 {
		persons, most := 12, []int64{12, 15, 7, 1}[k%4]
		all := arrivalsOf(r, persons, 6)
		gone := fmt.Sprintf("person %d of many", r.IntN(persons))
		others := slices.DeleteFunc(slices.Clone(all), is(gone))
		for range 1 + r.IntN(6) {
			at, key := r.IntN(len(others)+1), gone
			if k%3 == 0 {
				key = "somebody else"
			}
			others = slices.Insert(others, at, arrival{key, []float64{1e300, math.Copysign(0, -1), float64(r.IntN(9))}})
		}
		seed := maphash.MakeSeed()
		a, b := recordsOf(t, all, most, 6, seed), recordsOf(t, others, most, 6, seed)
		for _, record := range a {
			sortRows(record)
		}
		left := 0
		for _, record := range b {
			sortRows(record)
			if i := slices.IndexFunc(a, func(other [][]float64) bool { return sameRecord(record, other) }); i >= 0 {
				a = slices.Delete(a, i, i+1)
			} else {
				left++
			}
		}
		if left > 1 || len(a) > 1 {
			t.Fatalf("%d records for %d persons: %d of them changed with one person", most, persons, left)
		}
	}
}

func sortRows(rows [][]float64) { slices.SortFunc(rows, compareBits) }

// Keys that agree in all but one byte are two persons', the empty one is a person's, NULL nobody's.
func TestKeysAreComparedByteByByte(t *testing.T) {
	key := func(length int, last byte) []byte { return append(make([]byte, length), last) }
	for length := range 100 {
		s := newUnits(1, 4, 4, mech.NewSource())
		s.add(key(length, 1), []float64{1})
		s.add(key(length, 2), []float64{2})
		s.add([]byte{}, []float64{3})
		s.add(nil, []float64{4})
		s.add(nil, []float64{5})
		a, b := s.newPerson(key(length, 1)), s.newPerson(key(length, 2))
		b.hash = a.hash
		if a.is(&b) {
			t.Fatalf("keys of %d bytes and of one hash are taken for the same", length+1)
		}
		columns, first := s.finish()
		if !slices.EqualFunc(columns[0], []float64{1, 2, 3, math.NaN()}, sameBits) || first[4] != 4 {
			t.Fatalf("keys of %d bytes: %v of %v", length+1, columns[0], first)
		}
	}
}

// A person has complete rows, or one of NaN; who has more than fit keeps a random subset, and any
// of the kept is first as often as others. Each of 6 rows is kept 20000/2 times and first 20000/6 times on
// average; by Bernstein's inequality a Binomial(20000, p) is more than 500 off with
// probability at most 2 exp(-500^2/(2·5000 + 2·500/3)) < 7e-11, so a false failure is one of below 1e-9.
func TestRowsOfAPersonAreDrawn(t *testing.T) {
	const draws, slack = 20_000, 500
	src := mech.NewSource()
	var kept, firsts [6]int
	for range draws {
		s := newUnits(1, 2, 3, src)
		for v := range 6 {
			s.add([]byte("a"), []float64{float64(v)})
			s.add([]byte("b"), []float64{math.NaN()})
		}
		columns, first := s.finish()
		if !slices.Equal(first, []int{0, 3, 4}) || !math.IsNaN(columns[0][3]) {
			t.Fatalf("%v of %v", columns, first)
		}
		for _, v := range columns[0][:3] {
			kept[int(v)]++
		}
		firsts[int(columns[0][0])]++
	}
	for v := range 6 {
		if math.Abs(float64(kept[v])-draws/2) > slack || math.Abs(float64(firsts[v])-draws/6) > slack {
			t.Errorf("row %d is kept %d times and first %d times of %d", v, kept[v], firsts[v], draws)
		}
	}
}

// Of more persons than records those who are kept have all of their rows, whenever they came.
func TestKeptPersonsAreWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		s := newUnits(1, 10, 5, mech.NewSource())
		var all []arrival
		for u := range 40 {
			for range 5 {
				all = append(all, arrival{fmt.Sprint(u), []float64{float64(u)}})
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, a := range all {
			s.add([]byte(a.key), a.row)
		}
		columns, first := s.finish()
		if first[10] != 50 || len(s.next) > 50 {
			t.Fatalf("%d rows in place of 50, %d stored", first[10], len(s.next))
		}
		for u := range 10 {
			if rows := columns[0][first[u]:first[u+1]]; slices.Min(rows) != slices.Max(rows) {
				t.Fatalf("a record has rows of %v", rows)
			}
		}
	}
}

// However a stream with keys is cut, the same rows come out under the same keys.
func TestKeysTravelBesideTheColumns(t *testing.T) {
	number := func(v float64) []byte { return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)) }
	b := stream(tuple([]byte("anna"), number(1)), tuple(nil, number(2)), tuple([]byte{}, number(3)), tuple([]byte("a longer key"), nil))
	for size := 1; size <= len(b); size++ {
		var got []string
		d := newDecoder([]columnType{supportedTypes[pgtype.Float8OID]}, nil)
		d.keyed, d.buffer = true, make([]byte, 0, 8)
		d.emit = func(row []float64) { got = append(got, fmt.Sprintf("%q %t %v", d.key, d.key == nil, row[0])) }
		for part := range slices.Chunk(b, size) {
			if _, err := d.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{`"anna" false 1`, `"" true 2`, `"" false 3`, `"a longer key" false NaN`}
		if err := d.close(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("in parts of %d bytes: %q, %v", size, got, err)
		}
	}
}

// What is described has rows with missing values too.
func TestIncompleteRowsAreKeptWhereTheyAreAskedFor(t *testing.T) {
	src, missing := mech.NewSource(), 0
	for range 1000 {
		s := newUnits(1, 1, 1, src)
		s.needed = Unit{Incomplete: true}.needed(Request{Columns: []string{"age"}})
		s.add([]byte("a"), []float64{math.NaN()})
		s.add([]byte("a"), []float64{1})
		if columns, _ := s.finish(); math.IsNaN(columns[0][0]) {
			missing++
		}
	}
	// A Binomial(1000, 1/2) is outside with probability below 1e-9.
	if missing < 400 || missing > 600 {
		t.Errorf("%d of 1000 are the missing one", missing)
	}
}

// Which levels count decides of every row alone whether it is kept, whatever else is missing.
func TestRowsOfLevelsThatDoNotCountAreNotKept(t *testing.T) {
	unit, req := Unit{MaxRows: 1, Incomplete: true}, Request{Columns: []string{"age", "region"}, Only: map[string][]string{"region": {"south"}}}
	for _, c := range []struct{ age, region, kept float64 }{{1, math.NaN(), math.NaN()}, {1, math.NaN(), 7}, {2, 0, 2}, {math.NaN(), 0, math.NaN()}} {
		s := newUnits(2, 2, 1, mech.NewSource())
		s.needed = unit.needed(req)
		s.add([]byte("a"), []float64{c.age, c.region})
		if c.kept == 7 { // a row that counts is the only one
			s.add([]byte("a"), []float64{7, 0})
		}
		if columns, _ := s.finish(); math.Float64bits(columns[0][0]) != math.Float64bits(c.kept) {
			t.Errorf("%+v: %v is kept", c, columns[0][0])
		}
	}
}
