package fileops_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/confine/fileops"
)

// disk is the disk of this machine, as far as the tests need it.
type disk struct{}

func (disk) OpenDir(path string) (fileops.Dir, error)   { return openDir(path) }
func (disk) OpenFile(path string) (fileops.File, error) { return openFile(path) }

type dir string

func openDir(path string) (fileops.Dir, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("not a directory")
	}
	return dir(path), nil
}

func (d dir) OpenDir(name string) (fileops.Dir, error) {
	return openDir(filepath.Join(string(d), name))
}
func (d dir) OpenFile(name string) (fileops.File, error) {
	return openFile(filepath.Join(string(d), name))
}
func (d dir) Close() error { return nil }

func (d dir) Size(name string) int64 {
	info, err := os.Lstat(filepath.Join(string(d), name))
	if err != nil {
		return 0
	}
	return info.Size()
}

func (d dir) Entries(limit int) ([]fileops.Node, bool, error) {
	list, err := os.ReadDir(string(d))
	if err != nil {
		return nil, false, err
	}
	var nodes []fileops.Node
	for _, e := range list {
		kind := "device"
		switch e.Type() & fs.ModeType {
		case 0:
			kind = fileops.TypeFile
		case fs.ModeDir:
			kind = fileops.TypeDir
		case fs.ModeSymlink:
			kind = fileops.TypeLink
		}
		nodes = append(nodes, fileops.Node{Name: e.Name(), Type: kind})
	}
	return nodes[:min(len(nodes), limit)], len(nodes) > limit, nil
}

type file struct {
	*os.File
	size int64
}

func (f file) Size() int64 { return f.size }

func openFile(path string) (fileops.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	return file{f, info.Size()}, err
}

// tree writes files below a new directory, by their paths, and gives its path.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
