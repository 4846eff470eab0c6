package mech

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func TestNormalHasItsLaw(t *testing.T) {
	src := testSource(t, 1)
	normals := make([]float64, 100_000)
	for i := range normals {
		normals[i], _ = src.Normal().Value(1).Float64()
	}
	if !fitsLaw(normals, distuv.UnitNormal.CDF) {
		t.Error("wrong law")
	}
	if fitsLaw(normals, distuv.Normal{Sigma: 1.03}.CDF) {
		t.Error("the test has no power against 3% more spread")
	}
}

func TestNormalDigitsContinue(t *testing.T) {
	z := testSource(t, 2).Normal()
	near, _ := z.Value(1).Float64()
	far := z.Value(3)
	if v, _ := far.Float64(); math.Abs(v-near) > 0x1p-50 || far.Cmp(z.Value(3)) != 0 {
		t.Errorf("%v, then %v", near, v)
	}
}

func TestFractionsCompareBeyondEqualDigits(t *testing.T) {
	src := testSource(t, 5)
	a, b := newFraction(src), newFraction(src)
	a.digits, b.digits = []uint64{7, 9}, []uint64{7, 9}
	if a.less(b) == b.less(a) || len(a.digits) < 3 {
		t.Error("equal digits must be continued until they differ")
	}
	if (a.digits[2] < b.digits[2]) != a.less(b) {
		t.Error("the first digit that differs decides")
	}
}
