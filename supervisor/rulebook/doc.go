// Package rulebook keeps the standing rules of an operator: what `sandgate rules`
// and the operator socket list, add and remove.
//
// They lie in rules.yaml in the user's configuration directory, which is edited
// here or by hand, and in the administrator's, which is only read. A Book reads
// them, holds them against the configuration, and gives them to the two who
// apply them: package approval those about tools and connectors, and the tool
// shell those about commands.
//
//	book, err := rulebook.Open(files, bounds, shellTool, controller)
//	rule, err := book.Add(config.StandingRule{Effect: config.Deny, Tool: "github_*"}, change)
//
// Standing rules tighten anything. They loosen only what the configuration leaves
// to its default: no rule of the configuration, no other rule that denies, and no
// tool that approval.dangerous_tools names can be loosened here. A rule that would
// is refused when it is added, by the name of what it would loosen, and has no
// effect if it stands in a file.
//
// The package does not decide about calls, and asks nobody.
package rulebook
