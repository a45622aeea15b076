package confine

// New makes the backend of macOS. It fails with an *Unenforceable.
func New(Options) (*Backend, error) {
	s, err := NewSeatbelt()
	if err != nil {
		return nil, err
	}
	return &Backend{s}, nil
}
