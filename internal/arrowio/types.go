package arrowio

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// columnType describes the binary form of the values of one SQL type and their conversion to numbers.
type columnType struct {
	name             string                 // as format_type spells it
	minSize, maxSize int                    // bytes of a value that is not NULL
	value            func(b []byte) float64 // total: NaN unless it is a finite number
	isFloat8         bool
	category         *category // nil: a number
}

// supportedTypes holds every type that has a conversion, by OID; TypeNames lists them.
var supportedTypes = map[uint32]columnType{
	pgtype.BoolOID:        {"boolean", 1, 1, boolean, false, nil},
	pgtype.Int2OID:        {"smallint", 2, 2, smallint, false, nil},
	pgtype.Int4OID:        {"integer", 4, 4, integer, false, nil},
	pgtype.Int8OID:        {"bigint", 8, 8, bigint, false, nil},
	pgtype.Float4OID:      {"real", 4, 4, float4, false, nil},
	pgtype.Float8OID:      {"double precision", 8, 8, float8, true, nil},
	pgtype.NumericOID:     {"numeric", numericHeader, numericHeader + 2*math.MaxUint16, numeric, false, nil},
	pgtype.DateOID:        {"date", 4, 4, date, false, nil},
	pgtype.TimestampOID:   {"timestamp without time zone", 8, 8, timestamp, false, nil},
	pgtype.TimestamptzOID: {"timestamp with time zone", 8, 8, timestamp, false, nil},
}

// TypeNames returns the types whose columns can be pulled, as SQL spells them, sorted. A domain is
// supported if its base type is.
//
// Each value becomes the float64 nearest to it (ties to even), so integers are exact up to 2^53 and
// numerics to 15 digits. A boolean is 0 or 1. Dates and timestamps are seconds since 1970-01-01 00:00 UTC
// (without time zone: as if in UTC): dates are exact, timestamps near the present to 0.24 µs. NULL, NaN,
// both infinities and numerics beyond the range of float64 become NaN.
//
// The type money is refused although it looks like a number: its binary form is an integer whose unit
// depends on the server's locale. Cast it to numeric.
func TypeNames() []string {
	var names []string
	for _, t := range supportedTypes {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return names
}

func boolean(b []byte) float64 {
	if b[0] == 0 {
		return 0
	}
	return 1
}

func smallint(b []byte) float64 { return float64(int16(binary.BigEndian.Uint16(b))) }
func integer(b []byte) float64  { return float64(int32(binary.BigEndian.Uint32(b))) }
func bigint(b []byte) float64   { return float64(int64(binary.BigEndian.Uint64(b))) }
func float8(b []byte) float64   { return finite(binary.BigEndian.Uint64(b)) }

func float4(b []byte) float64 {
	x := math.Float32frombits(binary.BigEndian.Uint32(b))
	return finite(math.Float64bits(float64(x)))
}

// finite returns the float64 with the given bits, and NaN for an infinite one.
func finite(bits uint64) float64 {
	const exponent = 0x7ff << 52
	if bits&exponent == exponent {
		return math.NaN()
	}
	return math.Float64frombits(bits)
}

// Postgres counts time from 2000-01-01.
const (
	secondsTo2000 = 946_684_800
	daysTo2000    = 10_957
	secondsADay   = 86_400
)

// date converts days; the extremes of int32 are the infinite dates.
func date(b []byte) float64 {
	days := int32(binary.BigEndian.Uint32(b))
	if days == math.MinInt32 || days == math.MaxInt32 {
		return math.NaN()
	}
	return float64((int64(days) + daysTo2000) * secondsADay)
}

// timestamp converts microseconds; the extremes of int64 are the infinite ones.
//
// The sum is the float64 nearest to the time if that is 2^13 s or more away from
// 1970, and within one unit in the last place otherwise. Proof: the second term
// is in (-1, 1), so its rounding error is at most 2^-54. A time in [2^e, 2^(e+1)) s is
// a multiple of 10^-6 = 2^-6/15625 and points halfway between floats there are
// multiples of 2^(e-53), e < 47, so they are equal or 2^(e-53)/15625 apart: more
// than 2^-54 once 2^e > 15625/2. If equal, the fraction is a multiple of 2^-6
// and the second term has no error.
func timestamp(b []byte) float64 {
	µs := int64(binary.BigEndian.Uint64(b))
	if µs == math.MinInt64 || µs == math.MaxInt64 {
		return math.NaN()
	}
	return float64(µs/1e6+secondsTo2000) + float64(µs%1e6)/1e6
}
