// Package profiles holds what is shipped as data: presets (what a toolchain
// reads), the default protect and hide patterns, and operator profiles. Every
// entry carries its reason, and every pattern examples that it must and must not
// match, which loading checks.
//
// An operator profile is a ceiling: it is intersected with what a tool needs and
// can only narrow that. It says something about every axis. A section that is
// left out is an error and not a silent "anything goes"; to leave an axis alone,
// write "any". The sections that can only take away (protect, hide, scratch,
// fresh) may be left out. README.md beside this file shows the format, which package
// config reads as it reads sandgate.yaml.
package profiles
