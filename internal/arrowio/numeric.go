package arrowio

import (
	"encoding/binary"
	"math"
	"strconv"
)

// A numeric travels as four words of 16 bits, the number of digits, the weight
// of the first (a power of 10000, int16), the sign and the display scale, and
// then its digits in base 10000. There can be 32768 before the point and 4096
// behind it: their number has no sign. NaN and the infinities (Postgres 14 on)
// are signs of their own.
const (
	numericHeader = 8
	positive      = 0x0000
	negative      = 0x4000
	base          = 10_000
)

// numeric returns the float64 nearest to a numeric, ties to even.
func numeric(b []byte) float64 {
	digits := b[numericHeader:]
	count := int(binary.BigEndian.Uint16(b))
	weight := int(int16(binary.BigEndian.Uint16(b[2:])))
	sign := binary.BigEndian.Uint16(b[4:])
	if len(digits) != 2*count || (sign != positive && sign != negative) {
		return math.NaN()
	}
	x, exact := short(digits, weight-count+1)
	if !exact {
		x = long(digits, weight)
	}
	if sign == negative {
		x = -x
	}
	return x
}

// short evaluates digits * base^power, where power is that of the last digit, if
// it takes no more than one rounding: an integer up to 2^53 and a power of ten up
// to 10^22 are exact in float64, and their product or quotient is rounded once.
//
// Source: Clinger 1990, section 3.
func short(digits []byte, power int) (x float64, exact bool) {
	if len(digits) > 2*4 || power < -5 || power > 5 {
		return 0, false
	}
	var m uint64
	for i := 0; i < len(digits); i += 2 {
		m = m*base + uint64(binary.BigEndian.Uint16(digits[i:]))
	}
	if m > 1<<53 {
		return 0, false
	}
	if power < 0 {
		return float64(m) / powers[-power], true
	}
	return float64(m) * powers[power], true
}

var powers = [...]float64{1e0, 1e4, 1e8, 1e12, 1e16, 1e20} // of base

// enough is how many digits long reads: a number halfway between two float64 has
// 768 decimal ones at most. Those behind only tell on which side of it one is.
const enough = 200

// long leaves 0.digits * base^(weight+1) to strconv, which rounds correctly.
// Beyond the range of float64, and for what are no digits, it is NaN.
//
// The text is a fraction because strconv (of Go 1.26) misplaces the end of an
// integer of more than 800 digits.
func long(digits []byte, weight int) float64 {
	var space [4*enough + 16]byte
	text := append(space[:0], '.')
	for i := 0; i < min(len(digits), 2*enough); i += 2 {
		d := binary.BigEndian.Uint16(digits[i:])
		text = append(text, '0'+byte(d/1000), '0'+byte(d/100%10), '0'+byte(d/10%10), '0'+byte(d%10))
	}
	if len(digits) > 2*enough {
		text = append(text, '1') // for the rest: the last digit is not 0
	}
	text = append(text, 'e')
	text = strconv.AppendInt(text, int64(4*(weight+1)), 10)
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}
