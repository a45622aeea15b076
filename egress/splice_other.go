//go:build !linux

package egress

// splice moves nothing: only Linux can.
func (s *Server) splice(_, _ *stream) (moved bool, err error) { return false, nil }
