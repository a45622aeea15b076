package broker

// nativeArch is AUDIT_ARCH_AARCH64. It does not have the older
// calls.
const nativeArch = 0xc00000b7

var (
	older      map[int]handler
	olderNames map[int]string
)
