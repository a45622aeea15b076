package seccomp

import _ "embed"

//go:embed shipped/amd64.bpf
var shipped string

//go:embed shipped/ceiling-amd64.bpf
var shippedCeiling string

//go:embed shipped/served-amd64.bpf
var shippedServed string

//go:embed shipped/broker-amd64.bpf
var shippedBroker string
