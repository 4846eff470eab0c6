package expmech
import ("testing";"math")
func TestDbg(t *testing.T) {
	n,d:=10000,4
	x, y := lognormal(1, n,d)
	p := Params{Epsilon: 1, Theta: 2, Iota: .1, Radius: 10, Pitch: 10 / math.Sqrt(float64(n)) / 16/64, Intercept: true}
	sc := &score{target: newTarget(p,n,d), table: newTable(x, y)}
	k, l := centre(sc)
	t.Log(sc.coefficients(k)); t.Log(l)
	g := newLattice(sc.target, l, k)
	t.Log(g.scale, g.shear, g.extent)
	base:=sc.estimate(k)
	for j:=range d { for _,h:=range []float64{-4,-2,-1,1,2,4} {
		s:=append([]int64(nil),g.origin...)
		s[j]+=int64(h/g.scale[j])
		kk:=make([]int64,d)
		g.point(kk,s,make([]int64,d))
		z:=make([]float64,d)
		g.whitened(z,kk)
		t.Log(j,h,z,sc.gain*(sc.estimate(kk)-base))
	}}
	lo,si:=g.root(sc.target)
	t.Log(lo,si)
	s:=newSampler(sc.target,x,y)
	b:=s.boxes[0]
	for i:=0;i<60;i++ {
		c,h:=make([]float64,d),make([]float64,d)
		g.span(c,h,b.low,b.size)
		t.Logf("c %.2f h %.2f axis %d at %d of %d log %.2f rows %d wild %d shift %.2f",c,h,b.axis,b.at,b.size[b.axis],b.logMass-s.logTarget,len(b.heir.plain),len(b.heir.wild),b.shift)
		ch:=s.refine([]*box{b})
		b=ch[0]
		if len(ch)>1 { if ch[1].logMass>b.logMass {b=ch[1]} }
		if b.axis<0 {break}
	}
}
