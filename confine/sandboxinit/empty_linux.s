// This file lets the package declare functions without a body (see start_linux.go).
