package sandgate_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What our vfork relies on in Go: the code of these functions, without comments, as it was when
// we last read it (docs/decisions/0330). The assembly is what ours was copied from.
var forkCode = map[string]string{
	"runtime/proc.go syscall_runtime_BeforeFork":       "32c69351aa9d0164",
	"runtime/proc.go syscall_runtime_AfterFork":        "e06ed6a9e0051f4d",
	"runtime/proc.go syscall_runtime_AfterForkInChild": "1a52ecb6260a9b38",
	"runtime/signal_unix.go clearSignalHandlers":       "14fa699390fab193",
	"syscall/exec_linux.go forkAndExecInChild1":        "06a9ad7c26181e6b",
	"syscall/asm_linux_amd64.s rawVforkSyscall":        "06deb693efd7903d",
	"syscall/asm_linux_arm64.s rawVforkSyscall":        "9fa13841c13f8371",
}

// TestForkIsAsWeReadIt fails under a Go release that changed one of these functions. Read the change, and
// compare fork and inChild of confine/sandboxinit and forkVisit of confine/linux with it. Then write the new digest here.
func TestForkIsAsWeReadIt(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range forkCode {
		file, function, _ := strings.Cut(name, " ")
		src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := codeDigest(file, src, function)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got != want {
			t.Errorf("%s: this Go release has other code than we read: digest %s, want %s", name, got, want)
		}
	}
}

// TestForkChangesAreSeen: a changed statement changes the digest, a comment does not.
func TestForkChangesAreSeen(t *testing.T) {
	const asm = "TEXT ·f(SB),NOSPLIT,$0\n\tSYSCALL\n\tRET\n"
	for name, c := range map[string]struct {
		file, a, b string
		same       bool
	}{
		"Go: a comment":         {"f.go", "package p\nfunc f() { g() }", "package p\n// f\nfunc f() {\n\t// why\n\tg()\n}", true},
		"Go: a statement":       {"f.go", "package p\nfunc f() { g() }", "package p\nfunc f() { g(); h() }", false},
		"Go: another function":  {"f.go", "package p\nfunc f() { g() }", "package p\nfunc f() { g() }\nfunc h() {}", true},
		"assembly: a comment":   {"f.s", asm, "// f\n" + strings.Replace(asm, "SYSCALL", "SYSCALL // enter", 1), true},
		"assembly: a statement": {"f.s", asm, strings.Replace(asm, "SYSCALL", "NOP\n\tSYSCALL", 1), false},
		"assembly: another one": {"f.s", asm, asm + "TEXT ·g(SB),NOSPLIT,$0\n\tRET\n", true},
	} {
		a, errA := codeDigest(c.file, []byte(c.a), "f")
		b, errB := codeDigest(c.file, []byte(c.b), "f")
		if errA != nil || errB != nil || (a == b) != c.same {
			t.Errorf("%s: %s, %s; %v, %v", name, a, b, errA, errB)
		}
	}
	if _, err := codeDigest("f.s", []byte(asm), "gone"); err == nil {
		t.Error("a function that is gone is not missed")
	}
}

// codeDigest is a digest of one function of a source file, without its comments.
func codeDigest(file string, src []byte, function string) (string, error) {
	var code bytes.Buffer
	if strings.HasSuffix(file, ".s") {
		text := regexp.MustCompile(`(?ms)^TEXT ·` + function + `\(SB\).*?(^TEXT|\z)`).FindSubmatch(src)
		if text == nil {
			return "", fmt.Errorf("no %s in %s", function, file)
		}
		for _, line := range strings.Split(strings.TrimSuffix(string(text[0]), "TEXT"), "\n") {
			line, _, _ = strings.Cut(line, "//")
			if words := strings.Fields(line); len(words) > 0 {
				fmt.Fprintln(&code, strings.Join(words, " "))
			}
		}
	} else {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Name.Name == function && d.Recv == nil {
				// One line for each token run: positions would keep what comments left between.
				var printed bytes.Buffer
				if err := printer.Fprint(&printed, files, d); err != nil {
					return "", err
				}
				for _, word := range strings.Fields(strings.NewReplacer("{", " { ", "}", " } ").Replace(printed.String())) {
					fmt.Fprintln(&code, word)
				}
			}
		}
		if code.Len() == 0 {
			return "", fmt.Errorf("no %s in %s", function, file)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(code.Bytes()))[:16], nil
}
