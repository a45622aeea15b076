package approval

// Steps lists the steps of a decision in order. The last step asks a person.
func Steps() []Source {
	steps := make([]Source, 0, len(order)+1)
	for _, s := range order {
		steps = append(steps, s.source)
	}
	return append(steps, SourceAsk)
}
