package seccomp

import _ "embed"

//go:embed shipped/arm64.bpf
var shipped string

//go:embed shipped/ceiling-arm64.bpf
var shippedCeiling string

//go:embed shipped/served-arm64.bpf
var shippedServed string

//go:embed shipped/broker-arm64.bpf
var shippedBroker string
