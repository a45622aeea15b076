package approval

// Steps lists the steps of the order of a decision, first to last. The last one
// is that somebody is asked.
func Steps() []Source {
	steps := make([]Source, 0, len(order)+1)
	for _, s := range order {
		steps = append(steps, s.source)
	}
	return append(steps, SourceAsk)
}
