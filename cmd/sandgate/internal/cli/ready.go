package cli

// ReadyText is the last line that is said before the first call can be made.
const ReadyText = "sandgate: ready"
