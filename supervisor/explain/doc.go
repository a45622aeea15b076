// Package explain says what rules make of a call and why, what would change that, which past
// decisions would come out otherwise, and which rules answers suggest; and it changes standing
// rules for an operator. It judges calls by an interface of its own, and can make none.
package explain
