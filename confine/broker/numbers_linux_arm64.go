package broker

// nativeArch is AUDIT_ARCH_AARCH64. It has none of the older calls.
const nativeArch = 0xc00000b7

var (
	older      map[int]handler
	olderNames map[int]string
)
