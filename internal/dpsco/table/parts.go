package table

// Parts collects what the visitors of a pass fill: a part each, of the kind of Total, to which they are added in the
// end. T is an accumulator of package mech.
type Parts[T interface {
	Fork() T
	Merge(T)
}] struct {
	Total T
	parts []T
}

// Fork returns an empty part, for one visitor.
func (m *Parts[T]) Fork() T {
	part := m.Total.Fork()
	m.parts = append(m.parts, part)
	return part
}

// Merged adds all parts to Total and returns it.
func (m *Parts[T]) Merged() T {
	for _, part := range m.parts {
		m.Total.Merge(part)
	}
	return m.Total
}
