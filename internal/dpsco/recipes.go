package dpsco

import (
	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
)

// methods maps every method of a Regression to its estimator of the mean gradient and its solver, with the
// source.
var methods = map[string]func(p *problem) (fit, error){
	// Ours.
	catalogue.MethodAuto:         (*problem).auto,
	catalogue.MethodJointMoments: (*problem).jointMoments,
	catalogue.MethodNewton:       (*problem).newton,
	// Wang, Xiao, Devadas & Xu, ICML 2020: Algorithms 1, 3 and 4.
	catalogue.MethodSampleAggregate: (*problem).aggregate,
	"trimmed":                       func(p *problem) (fit, error) { return p.descent(p.trimmed(), p.gd()) },
	"catoni":                        func(p *problem) (fit, error) { return p.descent(p.catoni(p.N), p.gd()) },
	// Kamath, Liu & Zhang 2021: Algorithm 4 and Appendix B.
	"ksu":      func(p *problem) (fit, error) { return p.descent(p.ksu(false), p.gd()) },
	"ksu_axis": func(p *problem) (fit, error) { return p.descent(p.ksu(true), p.gd()) },
	// Xie, Pietrosanu, Liu, Tu, Jiang & Kong, Statistica Sinica: Algorithms 1, 2 and 4.
	"spgd_clip":    func(p *problem) (fit, error) { return p.descent(p.clip(), p.spgd()) },
	"spgd_kamath":  func(p *problem) (fit, error) { return p.descent(p.kamath(), p.spgd()) },
	"spgd_holland": func(p *problem) (fit, error) { return p.descent(p.holland(), p.spgd()) },
	// Wang, Ye & Xu, NIPS 2017: Algorithms 1 to 4.
	"svrg":    func(p *problem) (fit, error) { return p.descent(p.differences(), p.svrg(1)) },
	"svrg_pp": func(p *problem) (fit, error) { return p.descent(p.differences(), p.svrg(2)) },
	"accmd":   func(p *problem) (fit, error) { return p.descent(p.clip(), p.accmd()) },
	"gd":      func(p *problem) (fit, error) { return p.descent(p.clip(), p.gd()) },
}

// losses are the losses of the models that are fitted by private gradients.
var losses = map[string]loss.Loss{
	"linear":   loss.Squared{},
	"logistic": loss.Logistic{},
	"huber":    loss.Huber{},
	"poisson":  loss.Poisson{},
}

// Recipe returns the algorithm of a model with its options, each of them a public parameter; an option that
// is not given has its default. features are the request's, by which options name them.
//
// Errors: ErrParameter for an unknown model or option, a value of the wrong type or out of range, or an
// option that the method of a Regression does not use; the text names it and the allowed values.
func Recipe(model string, given map[string]any, features []string) (plan.Algorithm, error) {
	m, err := catalogue.Find(model)
	if err == nil {
		err = m.Check(given)
	}
	if err != nil {
		return nil, err
	}
	if m.Delta == 0 {
		var a L1
		err := l1Fields.set(&a, given, features)
		return a, err
	}
	a := regression(m)
	err = regressionFields.set(&a, given, features)
	return a, err
}

// regression is a model before any option is given. Its labels are those of the catalogue: the database
// omits options that have their default value, possibly one of the two labels.
func regression(m catalogue.Model) Regression {
	a := Regression{Loss: losses[m.Name], Labels: m.Labels}
	for name, label := range map[string]*float64{"negative_label": &a.Negative, "positive_label": &a.Positive} {
		if o, ok := m.Option(name); ok {
			*label = o.Default.(float64)
		}
	}
	return a
}
