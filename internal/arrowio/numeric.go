package arrowio

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The binary form of a numeric is a header of four 16-bit words and its digits in base 10000. The words are
// the number of digits (unsigned: there can be 32768 before the point and 4096 after it), the weight of the
// first digit (a power of 10000, signed), the sign and the display scale. NaN and, from Postgres 14 on, the
// infinities have signs of their own.
const (
	numericHeader   = 8
	numericPositive = 0x0000
	numericNegative = 0x4000
	numericBase     = 10_000
)

// numeric returns the float64 nearest to a numeric, ties to even.
func numeric(b []byte) float64 {
	digits := b[numericHeader:]
	count := int(binary.BigEndian.Uint16(b))
	weight := int(int16(binary.BigEndian.Uint16(b[2:])))
	sign := binary.BigEndian.Uint16(b[4:])
	if len(digits) != 2*count || (sign != numericPositive && sign != numericNegative) {
		return math.NaN()
	}
	x, ok := parseShort(digits, weight-count+1)
	if !ok {
		x = parseLong(digits, weight)
	}
	if sign == numericNegative {
		x = -x
	}
	return x
}

// parseShort returns the float64 nearest to digits * numericBase^power, where power is that of the last
// digit, if float64 arithmetic gives it: an integer up to 2^53 and a power of ten up to 10^22 are exact in
// float64, and their product or quotient is rounded once.
//
// Source: Clinger 1990, section 3.
func parseShort(digits []byte, power int) (x float64, ok bool) {
	if len(digits) > 2*4 || power < -5 || power > 5 {
		return 0, false
	}
	var m uint64
	for i := 0; i < len(digits); i += 2 {
		m = m*numericBase + uint64(binary.BigEndian.Uint16(digits[i:]))
	}
	if m > 1<<53 {
		return 0, false
	}
	if power < 0 {
		return float64(m) / basePowers[-power], true
	}
	return float64(m) * basePowers[power], true
}

// basePowers holds the powers of numericBase.
var basePowers = [...]float64{1e0, 1e4, 1e8, 1e12, 1e16, 1e20}

// maxDigits is the number of digits that parseLong reads one by one. A number halfway between two float64
// has at most 768 decimal digits, so of later digits it matters only whether all are 0: they determine the
// side of a tie.
const maxDigits = 200

// parseLong returns the float64 nearest to 0.digits * numericBase^(weight+1), which
// strconv computes. Beyond the range of float64, and for digits that are out of
// range, it is NaN.
//
// The text is a fraction because strconv (of Go 1.26) gets the magnitude of an integer
// of more than 800 digits wrong.
func parseLong(digits []byte, weight int) float64 {
	var space [4*maxDigits + 16]byte
	text := append(space[:0], '.')
	for i := 0; i < min(len(digits), 2*maxDigits); i += 2 {
		d := binary.BigEndian.Uint16(digits[i:])
		text = append(text, '0'+byte(d/1000), '0'+byte(d/100%10), '0'+byte(d/10%10), '0'+byte(d%10))
	}
	if len(digits) > 2*maxDigits {
		text = append(text, '1') // for the remaining digits, the last of which is not 0
	}
	text = append(text, 'e')
	text = strconv.AppendInt(text, int64(4*(weight+1)), 10)
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}
