// Package config loads sandgate.yaml: which paths, commands and limits there
// are, and when a person is asked.
//
// Resolve finds, loads and merges the files that apply; Load reads a named one, and
// Default is what applies without any. All three give a Config of plain values,
// with defaults filled in, paths absolute and their symbolic links resolved,
// and the position of every value that a file sets.
//
// Merge is pure, and rows says of each key how files are merged: the administrator's
// bounds the others, and one of a workspace that is not trusted does nothing else.
//
// The loader is strict. An unknown key, a wrong type, a path that does not
// exist or a rule that can never match is a Problem with file, line and column,
// and an Error carries all of them at once. YAML is taken in its plain form
// only: one document, no aliases, anchors, merge keys or tags, so that a file
// says the same to a reader as to the loader, and none can grow by expansion.
//
// One set of struct types drives everything: decoding, unknown-key detection,
// Marshal, and the JSON Schema that Schema returns for editors.
//
// The package decides nothing. It knows neither tools nor approval, and does not
// check a rule's match examples: that takes the shell's parser.
package config
