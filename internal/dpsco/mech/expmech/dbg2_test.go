package expmech
import ("testing";"math";"sort")
func TestDbg2(t *testing.T) {
	n,d:=10000,4
	x, y := lognormal(1, n,d)
	for _,iota:=range []float64{.02,.1} {
	p := Params{Epsilon: 1, Theta: 2, Iota: iota, Radius: 10, Pitch: 10 / math.Sqrt(float64(n)) / 16/16, Intercept: true}
	s:=newSampler(newTarget(p,n,d),x,y)
	hist:=map[[2]int]int{}
	rows:=map[[2]int]int{}
	for step:=0;;step++ {
		b:=s.boxes[s.heaviest()]
		c,h:=make([]float64,d),make([]float64,d)
		s.span(c,h,b.low,b.size)
		hm,dist:=0.,0.
		for j:=range d { hm=max(hm,h[j]); v:=max(0,math.Abs(c[j])-h[j]); dist+=v*v }
		key:=[2]int{int(math.Round(math.Log2(hm))),int(math.Round(math.Log2(1+math.Sqrt(dist))))}
		hist[key]++
		rows[key]+=len(b.heir.plain)
		s.split()
		if step%200==0 { t.Log(step, len(s.boxes), s.logSum()-s.logTarget, hm, math.Sqrt(dist)) }
		if s.logSum()-s.logTarget<4 || step>3000 {break}
	}
	var keys [][2]int
	for k:=range hist {keys=append(keys,k)}
	sort.Slice(keys,func(i,j int)bool{return hist[keys[i]]>hist[keys[j]]})
	for _,k:=range keys[:min(12,len(keys))] { t.Log(math.Exp2(float64(k[0])), math.Exp2(float64(k[1]))-1, hist[k], rows[k]/hist[k]) }
	}
}
