package expmech
import ("testing";"math")
func TestTune(t *testing.T) {
	for _, c := range []struct{ n, d int }{{1e3, 4}, {1e4, 4}, {1e5, 4},  {1e4, 6}, {1e5, 6}, {1e6, 4}, {1e3, 8},{1e4, 8}} {
			x, y := lognormal(1, c.n, c.d)
			iota := 0.1
			if c.n <= 1000 {
				iota = 0.3
			}
			p := Params{Epsilon: 1, Theta: 2, Iota: iota, Radius: 10, Pitch: 10 / math.Sqrt(float64(c.n)) / 16, Intercept: true}
			stats(t,p,x,y)
			stats(t,p,x,y)
	}
}
