// Package sbpl compiles a profile to the language of macOS's Seatbelt, the text
// that sandbox-exec(1) takes. [Compile] is pure, and so is [Parse], which reads the
// text back and says what it allows; the tests hold the two against
// [sandboxprofile.Profile.Rights].
//
// Nothing of this has run on macOS: the text is generated and evaluated, not
// enforced. Apple documents the language nowhere. This relies on what the profiles
// in /System/Library/Sandbox/Profiles and the open profiles of Chromium, Firefox
// and Homebrew show:
//
//   - the last rule that matches decides, so that parents come before what lies in
//     them, and denials after what they take from;
//   - paths are the kernel's, with every link followed ([Resolve]);
//   - a rename asks for file-write-unlink at the old and file-write-create at the
//     new path, and for nothing below them. So a directory that holds something
//     denied, or could come to hold it under a new name, is pinned: it can be
//     neither moved, removed nor put in place;
//   - file-link and file-clone are not part of file-write*, and a second name or a
//     copy would have the rights of another path. Both stay denied;
//   - (deny default) leaves out process-info*, nvram*, iokit-get-properties and
//     file-map-executable, which therefore have a denial of their own.
//
// Files have one more spelling than a profile gives them: the usual file system
// ignores case. What takes rights away, patterns and paths alike, is therefore
// matched without regard to the case of ASCII letters, including the two other
// characters that fold to one (U+017F and U+212A). Other characters that a file
// system may take for ASCII are not found: ligatures, and on HFS+ ignored ones.
//
// In these points a sandbox gets less than the profile says, never more:
//
//   - patterns hold in scratch directories too, and in a system tree of which the
//     profile lets a part be written: a directory could be moved there together
//     with a hidden file in it;
//   - a pattern of several components such as .git/hooks pins its first ones, so
//     that no directory .git can be made, removed or moved (git init and git clone
//     fail);
//   - ? and a negated class stand for any character.
//
// And in these it is not what it is on Linux. There are no namespaces: programs
// share the machine's process list, loopback and System V IPC. A scratch directory
// is a real one that the launcher makes and removes ([Vars]). The text does not
// cover the environment, limits (the size of scratch among them) and the terminal;
// the launcher enforces or refuses them.
//
// What the language cannot say is an [Error] that names the part.
package sbpl
