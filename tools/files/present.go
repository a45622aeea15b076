package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

// maxDiff is up to how many bytes two versions of a file are compared. Nobody reads a
// longer diff, and computing one would keep the prompt waiting.
const maxDiff = 1 << 20

// presentWrite shows the effect of a write: the difference to the present content, or
// the new content where there is none to compare with. Escaping and cutting for the
// display is the Controller's part; only the path is escaped here, since a line break
// in it could pass for a line of the diff.
//
// The difference is to what the pins hold: if the file changes, the call fails.
func presentWrite(ctx context.Context, path, name string, content []byte, pins []tools.Pin) (*approval.Presentation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	old, err := readOld(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return newContent(name, content, map[string]any{"replaces": "cannot be read: " + reason(err)}), nil
	}
	for _, pin := range pins {
		if pin.Verify() != nil {
			return newContent(name, content, map[string]any{"note": "will fail: the file changed after the call was made"}), nil
		}
	}
	if err != nil {
		return newContent(name, content, nil), nil
	}
	if was, special := describe(old.content, old.size); special || isBinary(content) || tooLarge(string(old.content), string(content)) {
		return newContent(name, content, map[string]any{"replaces": was}), nil
	}
	return difference(name, old.content, content), nil
}

// maxLines are how many lines are compared: a comparison takes 200 times the size of a text
// of empty ones.
const maxLines = 200_000

func tooLarge(old, fresh string) bool {
	return len(old) > maxDiff || len(fresh) > maxDiff || strings.Count(old, "\n")+strings.Count(fresh, "\n") > maxLines
}

// difference shows two contents that can be compared.
func difference(name string, old, content []byte) *approval.Presentation {
	label := approval.EscapeName(name)
	diff := udiff.Unified("a/"+label, "b/"+label, string(old), string(content))
	if diff == "" {
		return &approval.Presentation{Type: approval.Text, Content: label + ": the content stays the same"}
	}
	return &approval.Presentation{Type: approval.Diff, Content: diff, Language: "diff"}
}

func newContent(name string, content []byte, metadata map[string]any) *approval.Presentation {
	return &approval.Presentation{
		Type:     approval.FileContent,
		Content:  string(content),
		Language: language(name),
		Metadata: metadata,
	}
}

// describe names content that no line diff can be made of, and plain text by its size.
func describe(content []byte, size int64) (text string, special bool) {
	if text, binary := approval.DescribeBinary(content); binary && size <= maxDiff {
		return text, true
	}
	return fmt.Sprintf("a file of %d bytes", size), size > maxDiff
}

func isBinary(content []byte) bool {
	_, binary := approval.DescribeBinary(content)
	return binary
}

// reason drops the operation and the path of a file error: the prompt names them.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

type oldFile struct {
	content []byte // at most maxDiff bytes
	size    int64
}

// readOld reads the file that a write would replace, outside the sandbox and
// with the supervisor's rights. openRegular follows no link, so a tool cannot
// have another file shown by swapping one in, and never blocks on a FIFO.
func readOld(path string) (oldFile, error) {
	f, err := openRegular(path)
	if err != nil {
		return oldFile{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return oldFile{}, err
	}
	if !info.Mode().IsRegular() {
		return oldFile{}, errors.New("not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxDiff+1))
	if err != nil {
		return oldFile{}, err
	}
	return oldFile{content, max(info.Size(), int64(len(content)))}, nil
}

// language names the language of a file for a highlighter, by its extension.
func language(name string) string {
	ext := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
	switch ext {
	case "py":
		return "python"
	case "js", "mjs", "cjs":
		return "javascript"
	case "ts":
		return "typescript"
	case "rs":
		return "rust"
	case "sh":
		return "bash"
	case "yml":
		return "yaml"
	case "md":
		return "markdown"
	case "h":
		return "c"
	case "go", "c", "java", "json", "yaml", "html", "css", "toml", "sql", "bash", "xml", "diff":
		return ext
	}
	return ""
}

// opened wraps a descriptor from a system call as os.Open would.
func opened(fd int, path string, err error) (*os.File, error) {
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
